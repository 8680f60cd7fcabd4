//! `carrick-lab resume`: a part of the benchmark, this program again inside a namespace, with a new connection for each
//! request.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::bench::resume::client;

/// `carrick-lab resume`
#[derive(Debug, Args)]
pub struct Resume {
    #[arg(long)]
    connect: SocketAddr,
    #[arg(long)]
    host: String,
    #[arg(long)]
    target: String,
    #[arg(long)]
    connections: usize,
    #[arg(long)]
    body_bytes: usize,
    #[arg(long)]
    milliseconds: u64,
}

/// Asks, and prints what it measured as JSON.
///
/// # Errors
/// When a connection fails, or an answer is not as it should be.
pub async fn run(options: Resume) -> Result<()> {
    let wish = client::Wish {
        connect: options.connect,
        host: options.host,
        target: options.target,
        body_bytes: options.body_bytes,
    };
    let time = Duration::from_millis(options.milliseconds);
    let measured = client::run(wish, options.connections, time).await?;
    let text = serde_json::to_string(&measured).context("no JSON")?;
    writeln!(super::output(), "{text}").context("cannot report")
}
