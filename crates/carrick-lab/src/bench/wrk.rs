//! wrk as the load generator: started, read, and judged.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::bench::generator;
use crate::bench::measured::Measured;
use crate::bench::plan::{Does, Target, Work};
use crate::peers::template::render;
use crate::testbed::Testbed;

/// wrk counts a response that takes longer as an error.
const RESPONSE_TIMEOUT_SECONDS: u64 = 5;

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
    let script = write_script(testbed.directory(), work, target)?;
    let (said, _) = generator::run(testbed, wrk, seconds, |command, seconds| {
        command
            .args([
                "-t1",
                &format!("-c{}", work.connections),
                &format!("-d{seconds}s"),
            ])
            .arg(format!("--timeout={RESPONSE_TIMEOUT_SECONDS}s"))
            .arg("-s")
            .arg(script)
            .arg(format!("{}/", target.base()));
    })
    .await?;
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
        Does::Get | Does::Talk(_) | Does::Call(_) | Does::Memory(_) => String::new(),
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
