//! Load generators: those that others wrote, run for a time in the client's namespace, and this program again.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;
use tokio::process::Command;

use crate::testbed::{Testbed, cores};

/// How much longer than asked one may take before it is given up.
pub const GRACE: Duration = Duration::from_secs(20);

/// Runs a program for so many seconds, rounded up since they take whole ones, which `arguments` is given. Returns what it
/// said, and the seconds.
///
/// # Errors
/// When it cannot be run, fails, or does not end.
pub async fn run(
    testbed: &Testbed,
    program: &Path,
    seconds: f64,
    arguments: impl FnOnce(&mut Command, u64),
) -> Result<(String, u64)> {
    let whole_seconds = seconds.ceil().max(1.0) as u64;
    let name = program.display();
    let on = cores::list(&testbed.placement().other_cores());
    let mut command = testbed.client.command(program, &on);
    arguments(&mut command, whole_seconds);
    command.stdin(Stdio::null());
    let output = tokio::time::timeout(Duration::from_secs(whole_seconds) + GRACE, command.output())
        .await
        .with_context(|| format!("{name} did not end in time"))?
        .with_context(|| format!("cannot run {name}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed ({}): {said}{errors}", output.status);
    }
    Ok((said, whole_seconds))
}

/// Runs a part of this program, called `name`, which prints its result as JSON.
///
/// # Errors
/// When it cannot be run, fails, or does not end in time.
pub async fn run_own<T: DeserializeOwned>(
    mut command: Command,
    name: &str,
    limit: Duration,
) -> Result<T> {
    command.stdin(Stdio::null());
    let output = tokio::time::timeout(limit, command.output())
        .await
        .with_context(|| format!("the {name} did not end in time"))?
        .with_context(|| format!("cannot run the {name}"))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the result of the {name} cannot be read"))
}
