//! `carrick lab wan`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

/// `carrick lab wan`
#[derive(Debug, Args)]
pub struct Wan {}

/// Not yet.
///
/// # Errors
/// Always.
pub fn run(_arguments: &Wan) -> Result<ExitCode> {
    bail!("not built yet")
}
