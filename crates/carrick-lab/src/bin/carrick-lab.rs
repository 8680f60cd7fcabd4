//! The laboratory as a program of its own: everything behind `carrick-lab`.
use clap::Parser;
use std::process::ExitCode;

/// The laboratory of carrick: test bed, emulators, load, experiments, report.
#[derive(Debug, Parser)]
#[command(name = "carrick-lab", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    lab: carrick_lab::cli::Lab,
}

fn main() -> ExitCode {
    carrick_lab::cli::main(Cli::parse().lab)
}
