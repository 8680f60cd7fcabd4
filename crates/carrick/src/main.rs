//! The carrick program.
use std::process::ExitCode;

fn main() -> ExitCode {
    carrick::cli::main()
}
