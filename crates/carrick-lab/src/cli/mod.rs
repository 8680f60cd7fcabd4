//! The command line of the laboratory, `carrick-lab …`; one module per subcommand.

pub mod bench;
pub mod experiment;
pub mod fetch;
pub mod hold;
pub mod load;
pub mod origin;
mod output;
pub mod resume;
pub mod talk;
pub mod testbed;
pub mod torture;
pub mod wan;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use output::{is_unread, output};

use crate::origin::echo;
use crate::program::{note, runtime};
use crate::testbed::cores;

/// What the laboratory can do.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// List the experiments, what each draws, and what it waits for
    List(experiment::List),
    /// Run an experiment (needs root)
    Run(experiment::Run),
    /// Draw the report of runs that are done
    Report(experiment::Report),
    /// Benchmark carrick against HAProxy, nginx, Squid, Varnish, Traffic Server and plain routing (needs root)
    Bench(bench::Bench),
    /// Torture carrick's engines, HAProxy, nginx and others as relays of TCP, and check every byte (needs root)
    Torture(torture::Torture),
    /// Run a command inside a test bed of network namespaces (needs root)
    Testbed(testbed::Testbed),
    /// Emulate a wide-area network between the devices of a namespace (needs root)
    Wan(wan::Wan),
    /// Serve: bodies of any length, caching fields, pages, faults on demand
    Origin(origin::Origin),
    /// Make load, check every byte that comes back, and report latencies
    Load(load::Load),
    /// Part of the benchmark: hold idle connections
    #[command(hide = true)]
    Hold(hold::Hold),
    /// Part of the benchmark: ask for numbered objects
    #[command(hide = true)]
    Fetch(fetch::Fetch),
    /// Part of the benchmark: resume TLS sessions
    #[command(hide = true)]
    Resume(resume::Resume),
    /// Part of the benchmark: send back what comes
    #[command(hide = true)]
    Echo {
        /// The address
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Part of the benchmark: the far end of tunnels
    #[command(hide = true)]
    TalkServer(talk::TalkServer),
    /// Part of the benchmark: the near end of tunnels
    #[command(hide = true)]
    TalkClient(talk::TalkClient),
}

/// Does what the command line says; says on standard error what went wrong.
#[must_use]
pub fn main(lab: Lab) -> ExitCode {
    // Before anything moves: which cores this process was given.
    let _ = cores::online();
    raise_descriptor_limit();
    let done = match lab {
        Lab::List(arguments) => experiment::list(&arguments),
        Lab::Run(arguments) => experiment::run(&arguments),
        Lab::Report(arguments) => experiment::report(&arguments),
        Lab::Bench(arguments) => bench::run(arguments),
        Lab::Torture(arguments) => torture::run(arguments),
        Lab::Testbed(arguments) => testbed::run(&arguments),
        Lab::Wan(arguments) => wan::run(&arguments),
        Lab::Origin(arguments) => origin::run(&arguments),
        Lab::Load(arguments) => load::run(&arguments),
        Lab::Hold(arguments) => runtime()
            .and_then(|runtime| runtime.block_on(hold::run(arguments)))
            .map(|()| ExitCode::SUCCESS),
        Lab::Fetch(arguments) => runtime()
            .and_then(|runtime| runtime.block_on(fetch::run(arguments)))
            .map(|()| ExitCode::SUCCESS),
        Lab::Resume(arguments) => runtime()
            .and_then(|runtime| runtime.block_on(resume::run(arguments)))
            .map(|()| ExitCode::SUCCESS),
        Lab::Echo { listen } => runtime()
            .and_then(|runtime| runtime.block_on(echo::serve(listen)))
            .map(|()| ExitCode::SUCCESS),
        Lab::TalkServer(arguments) => talk::serve(&arguments).map(|()| ExitCode::SUCCESS),
        Lab::TalkClient(arguments) => talk::run(&arguments).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        if is_unread(&error) {
            return ExitCode::SUCCESS;
        }
        note(format_args!("carrick-lab: {error:#}"));
        ExitCode::FAILURE
    })
}

/// Waits for a signal that asks to end; its name.
///
/// # Errors
/// When the signals cannot be listened for.
pub async fn interruption() -> Result<&'static str> {
    let listen = |kind, name| signal(kind).with_context(|| format!("cannot listen for {name}"));
    let mut interrupt = listen(SignalKind::interrupt(), "SIGINT")?;
    let mut terminate = listen(SignalKind::terminate(), "SIGTERM")?;
    let mut hang_up = listen(SignalKind::hangup(), "SIGHUP")?;
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
        _ = hang_up.recv() => "SIGHUP",
    })
}

/// Thousands of connections need descriptors; children inherit the limit. What is missing shows when it is reached.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}
