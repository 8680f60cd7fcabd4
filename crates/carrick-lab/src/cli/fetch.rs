//! `carrick-lab fetch`: a part of the benchmark, this program again inside a namespace, which asks for numbered objects.

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::bench::fetch::{Wish, client};

/// `carrick-lab fetch`
#[derive(Debug, Args)]
pub struct Fetch {
    #[arg(long)]
    connect: SocketAddr,
    #[arg(long)]
    host: String,
    #[arg(long)]
    target: String,
    #[arg(long)]
    first: u64,
    #[arg(long)]
    requests: u64,
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    objects: u64,
    #[arg(long)]
    connections: usize,
    #[arg(long)]
    body_bytes: usize,
}

/// Asks, and prints what came as JSON.
///
/// # Errors
/// When an answer is not as it should be.
pub async fn run(options: Fetch) -> Result<()> {
    let place = client::Place {
        connect: options.connect,
        host: options.host,
        target: options.target,
    };
    let wish = Wish {
        first: options.first,
        requests: options.requests,
        objects: options.objects,
        connections: options.connections,
        body_bytes: options.body_bytes,
    };
    let fetched = client::run(place, wish).await?;
    let text = serde_json::to_string(&fetched).context("no JSON")?;
    writeln!(super::output(), "{text}").context("cannot report")
}
