//! `carrick-lab origin`: an HTTP server whose answers the request decides.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::origin::quota;
use crate::origin::quota::RequestsPerConnection;
use crate::origin::server::{Running, Settings};

use super::interruption;
use crate::program::runtime;

/// `carrick-lab origin`
#[derive(Debug, Args)]
pub struct Origin {
    /// Address to listen on, such as 127.0.0.1:8080; port 0 is any that is free; may be given several times
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    /// Threads, each with listening sockets of its own
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// For random choices; bodies do not depend on it
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Requests that a connection carries before it is closed: N, zipf:ALPHA:MAX or unlimited
    #[arg(long, default_value = "unlimited", value_name = "N", value_parser = quota::parse)]
    requests_per_connection: RequestsPerConnection,
    /// Connections that wait to be accepted, for each thread and address; the kernel allows net.core.somaxconn
    #[arg(long, default_value_t = 4096, value_name = "N")]
    backlog: u16,
}

/// Serves until SIGTERM, SIGINT or SIGHUP, and says then what it did.
///
/// # Errors
/// When an address cannot be listened on, or standard output is gone.
pub fn run(arguments: &Origin) -> Result<ExitCode> {
    let running = Running::start(&Settings {
        listen: arguments.listen.clone(),
        threads: arguments.threads,
        seed: arguments.seed,
        requests_per_connection: arguments.requests_per_connection,
        backlog: arguments.backlog,
    })?;
    runtime()?.block_on(async {
        let say_ready = async {
            say_ready(&running)?;
            std::future::pending::<Result<()>>().await
        };
        tokio::select! {
            // First, so that a signal that answers "ready" finds its listener.
            biased;
            interrupted = interruption() => interrupted.map(|_| ()),
            failed = say_ready => failed,
        }
    })?;
    let summary = running.stop()?;
    let text = serde_json::to_string_pretty(&summary).context("cannot write the summary")?;
    writeln!(super::output(), "{text}").context("cannot write the summary to standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn say_ready(running: &Running) -> Result<()> {
    let mut output = super::output();
    for address in running.addresses() {
        writeln!(output, "ready {address}").context("cannot write to standard output")?;
    }
    output.flush().context("cannot write to standard output")
}
