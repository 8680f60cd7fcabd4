//! The command line: its syntax (`args`), and a file for each subcommand. Exit codes: 0 success, 1 a failure at run
//! time, 2 wrong usage or configuration.
pub mod admin;
pub mod args;
pub mod cache;
pub mod check;
pub mod clean;
pub mod doctor;
pub mod generate;
pub mod lab;
pub mod pace;
pub mod reload;
pub mod run;
pub mod status;
pub mod top;

use args::{Cli, Command, WRONG};
use clap::Parser;
use std::process::ExitCode;

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => match cli.command {
            Command::Run(arguments) => run::run(&arguments),
            Command::Check(arguments) => check::run(&arguments),
            Command::Doctor(arguments) => doctor::run(&arguments),
            Command::Reload(arguments) => reload::run(&arguments),
            Command::Clean(arguments) => clean::run(&arguments),
            Command::Cache(command) => cache::run(&command),
            Command::Purge(arguments) => cache::purge(&arguments),
            Command::Pace(arguments) => pace::run(&arguments),
            Command::Status(arguments) => status::run(&arguments),
            Command::Top(arguments) => top::run(&arguments),
            Command::KeepRules => clean::keep_rules(),
            Command::Lab(lab) => lab::run(&lab),
            Command::Generate(what) => generate::run(&what),
        },
        Err(error) => {
            // `--help` and `--version` arrive as errors, too, with exit code 0.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(WRONG))
        }
    }
}
