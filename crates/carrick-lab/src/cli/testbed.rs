//! `carrick lab testbed`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

/// `carrick lab testbed`
#[derive(Debug, Args)]
pub struct Testbed {}

/// Not yet.
///
/// # Errors
/// Always.
pub fn run(_arguments: &Testbed) -> Result<ExitCode> {
    bail!("not built yet")
}
