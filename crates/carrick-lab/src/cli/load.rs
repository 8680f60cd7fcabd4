//! `carrick lab load`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

/// `carrick lab load`
#[derive(Debug, Args)]
pub struct Load {}

/// Not yet.
///
/// # Errors
/// Always.
pub fn run(_arguments: &Load) -> Result<ExitCode> {
    bail!("not built yet")
}
