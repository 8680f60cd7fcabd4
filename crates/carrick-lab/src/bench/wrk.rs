//! wrk as the load generator: started, read, and judged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::bench::measured::Measured;
use crate::bench::plan::{Does, Target, Work};
use crate::peers::template::render;
use crate::testbed::Testbed;
use crate::testbed::cores;

/// wrk counts a response that takes longer as an error.
const RESPONSE_TIMEOUT_SECONDS: u64 = 5;
/// How much longer than asked wrk may take before it is given up.
const GRACE: Duration = Duration::from_secs(20);

/// Runs wrk once in the client's namespace.
///
/// # Errors
/// When wrk cannot be run or does not report; errors of responses are in the result.
pub async fn run(
    testbed: &Testbed,
    wrk: &Path,
    work: &Work,
    target: &Target,
    seconds: f64,
) -> Result<Measured> {
    // It takes whole seconds.
    let whole_seconds = seconds.ceil().max(1.0) as u64;
    let script = write_script(testbed.directory(), work, target)?;
    let mut command = testbed
        .client
        .command(wrk, &cores::list(&testbed.placement().other_cores()));
    command
        .args([
            "-t1",
            &format!("-c{}", work.connections),
            &format!("-d{whole_seconds}s"),
        ])
        .arg(format!("--timeout={RESPONSE_TIMEOUT_SECONDS}s"))
        .arg("-s")
        .arg(script)
        .arg(format!("{}/", target.base()))
        .stdin(std::process::Stdio::null());
    let output = tokio::time::timeout(Duration::from_secs(whole_seconds) + GRACE, command.output())
        .await
        .context("wrk did not end in time")?
        .context("cannot run wrk")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!(
            "wrk failed ({}): {}{}",
            output.status,
            said,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    parse(&said)
}

fn parse(said: &str) -> Result<Measured> {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("RESULT "))
        .with_context(|| format!("wrk printed no result but: {said}"))?;
    serde_json::from_str(line).with_context(|| format!("wrk's result cannot be read: {line}"))
}

fn write_script(directory: &Path, work: &Work, target: &Target) -> Result<PathBuf> {
    let close = if work.close {
        "wrk.headers[\"Connection\"] = \"close\""
    } else {
        ""
    };
    let numbered = match work.does {
        Does::Cache(asks) => asks.wrk_script(work.body_bytes),
        Does::Get | Does::Talk(_) | Does::Memory(_) => String::new(),
    };
    let values = [
        ("request_target", target.request_target.as_str()),
        ("host", &target.host),
        ("close", close),
        ("numbered", &numbered),
    ];
    let script = directory.join("wrk.lua");
    fs::write(&script, render(include_str!("wrk.lua"), &values)?)
        .context("cannot write wrk's script")?;
    Ok(script)
}

#[cfg(test)]
mod tests;
