//! `carrick-lab hold`: a part of the benchmark, this program again inside a namespace, with idle connections.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::load::hold::{self, Exchange};

/// `carrick-lab hold`
#[derive(Debug, Args)]
pub struct Hold {
    #[arg(long)]
    connect: SocketAddr,
    /// Addresses to connect from, as many as the connections need
    #[arg(long, value_delimiter = ',')]
    from: Vec<IpAddr>,
    #[arg(long)]
    count: usize,
    #[arg(long)]
    concurrency: usize,
    #[arg(long)]
    patience_seconds: u64,
    /// Request target of a GET; without it, an echo is expected
    #[arg(long, requires_all = ["host", "body_bytes"])]
    target: Option<String>,
    #[arg(long)]
    host: Option<String>,
    #[arg(long)]
    body_bytes: Option<usize>,
    /// The GET is sent over TLS
    #[arg(long, requires = "target")]
    tls: bool,
    /// What comes is not read
    #[arg(long, conflicts_with = "target")]
    stalled: bool,
}

/// Opens the connections, says so, and holds them until standard input ends.
///
/// # Errors
/// When a connection or its exchange fails.
pub async fn run(options: Hold) -> Result<()> {
    let exchange = match (options.target, options.host, options.body_bytes) {
        (Some(target), Some(host), Some(body_bytes)) => Exchange::Http {
            target,
            host,
            body_bytes,
            is_tls: options.tls,
        },
        _ if options.stalled => Exchange::Stalled,
        _ => Exchange::Echo,
    };
    let patience = Duration::from_secs(options.patience_seconds);
    let held = hold::open(
        (options.connect, &options.from),
        &exchange,
        options.count,
        options.concurrency,
        patience,
    )
    .await?;
    writeln!(super::output(), "held {}", held.len()).context("cannot report")?;
    // The benchmark writes a line when it wants to know how many are left, and closes the pipe to end this.
    for line in std::io::stdin().lines() {
        line.context("cannot read standard input")?;
        // Lets the runtime learn what happened to the sockets while this thread waited for the line.
        tokio::time::sleep(Duration::from_millis(1)).await;
        writeln!(
            super::output(),
            "open {}",
            hold::count_open(&held, &exchange)
        )
        .context("cannot report")?;
    }
    Ok(())
}
