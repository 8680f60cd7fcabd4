//! `carrick lab origin`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

/// `carrick lab origin`
#[derive(Debug, Args)]
pub struct Origin {}

/// Not yet.
///
/// # Errors
/// Always.
pub fn run(_arguments: &Origin) -> Result<ExitCode> {
    bail!("not built yet")
}
