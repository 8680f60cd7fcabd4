//! `carrick run`: reports what is wrong with the configuration or the system, and how the run ended.
use super::check::report;
use crate::cli::{FAILED, FINE, RunArgs, WRONG};
use crate::run::{RunError, run as run_program};
use std::io::Write;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Runs the proxy until a signal ends it.
#[must_use]
pub fn run(arguments: &RunArgs) -> ExitCode {
    start_messages();
    match run_program(arguments.config.clone()) {
        Ok(()) => ExitCode::from(FINE),
        Err(RunError::Configuration(rejected)) => {
            report(&rejected.problems);
            ExitCode::from(WRONG)
        }
        Err(error @ RunError::System(_)) => {
            let _ = writeln!(anstream::stderr().lock(), "carrick: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// Messages of the program go to standard error; `CARRICK_LOG` chooses which (`carrick=debug`).
fn start_messages() {
    let filter = EnvFilter::try_from_env("CARRICK_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .with_target(false)
        .init();
}
