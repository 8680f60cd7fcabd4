//! `carrick lab list`, `carrick lab run`, `carrick lab report`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

/// `carrick lab list`
#[derive(Debug, Args)]
pub struct List {}

/// `carrick lab run`
#[derive(Debug, Args)]
pub struct Run {}

/// `carrick lab report`
#[derive(Debug, Args)]
pub struct Report {}

/// Not yet.
///
/// # Errors
/// Always.
pub fn list(_arguments: &List) -> Result<ExitCode> {
    bail!("not built yet")
}

/// Not yet.
///
/// # Errors
/// Always.
pub fn run(_arguments: &Run) -> Result<ExitCode> {
    bail!("not built yet")
}

/// Not yet.
///
/// # Errors
/// Always.
pub fn report(_arguments: &Report) -> Result<ExitCode> {
    bail!("not built yet")
}
