//! `carrick-lab talk-server`, `carrick-lab talk-client`: parts of the benchmark, this program again inside a namespace.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::bench::plan::Talk;
use crate::bench::talk;

/// `carrick-lab talk-server`
#[derive(Debug, Args)]
pub struct TalkServer {
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long, value_enum)]
    talk: Talk,
}

/// `carrick-lab talk-client`
#[derive(Debug, Args)]
pub struct TalkClient {
    #[arg(long)]
    connect: SocketAddr,
    #[arg(long, value_enum)]
    talk: Talk,
    #[arg(long)]
    connections: usize,
    #[arg(long)]
    message_bytes: usize,
    #[arg(long)]
    milliseconds: u64,
    #[arg(long)]
    through: Option<String>,
}

/// Serves until the process ends.
///
/// # Errors
/// When the address cannot be bound.
pub fn serve(options: &TalkServer) -> Result<()> {
    talk::server::serve(options.listen, options.talk)
}

/// Talks, and prints what it measured as JSON.
///
/// # Errors
/// When a connection fails.
pub fn run(options: &TalkClient) -> Result<()> {
    let measured = talk::client::run(
        (options.connect, options.through.as_deref()),
        options.talk,
        options.connections,
        options.message_bytes,
        Duration::from_millis(options.milliseconds),
    )?;
    let text = serde_json::to_string(&measured).context("no JSON")?;
    writeln!(super::output(), "{text}").context("cannot report")
}
