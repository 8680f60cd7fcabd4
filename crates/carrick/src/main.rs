//! The carrick program.
use carrick::cli::{self, FAILED, RunArgs, WRONG};
use carrick::commands::check::report;
use carrick::config::{self, summary};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(run)
}

/// Loads the configuration and says what it would do.
fn run(arguments: &RunArgs) -> ExitCode {
    match config::load(arguments.config.as_deref()) {
        Ok(loaded) => {
            report(&loaded.problems);
            let mut out = anstream::stderr().lock();
            for line in summary::lines(&loaded.plan) {
                let _ = writeln!(out, "{line}");
            }
            let _ = writeln!(out, "carrick: the workers are not part of this build");
            ExitCode::from(FAILED)
        }
        Err(rejected) => {
            report(&rejected.problems);
            ExitCode::from(WRONG)
        }
    }
}
