//! wrk as the load generator: started, read, and judged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::bench::works::{Load, Target, Work};
use crate::peers::template::render;
use crate::testbed::Testbed;
use crate::testbed::cores;

/// wrk counts a response that takes longer as an error.
const RESPONSE_TIMEOUT_SECONDS: u64 = 5;
/// How much longer than asked wrk may take before it is given up.
const GRACE: Duration = Duration::from_secs(20);

/// What wrk measured, or the client of a [`Talk`](crate::bench::talk::Talk).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// From the first request to the last response.
    pub duration_us: u64,
    /// Responses received; messages that came back; whole megabytes of streams.
    pub requests: u64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Of each response, in microseconds.
    pub latency_us: Latency,
}

/// What went wrong, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Connections that could not be opened.
    pub connect: u64,
    /// Connections that broke, or responses that could not be parsed.
    pub read: u64,
    /// Requests that could not be sent.
    pub write: u64,
    /// Responses that came too late.
    pub timeout: u64,
    /// Responses with a status of 400 and above.
    pub status: u64,
}

/// Of a closed loop, so with "coordinated omission": for comparison between peers only.
/// All are 0 for streams, which have none.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

impl Measured {
    /// Requests per second.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a run has far fewer than 2^52 requests"
    )]
    pub fn requests_per_second(&self) -> f64 {
        if self.duration_us == 0 {
            0.0
        } else {
            self.requests as f64 * 1e6 / self.duration_us as f64
        }
    }

    /// Bytes per second, in billions of bits.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a run has far fewer than 2^52 bytes"
    )]
    pub fn gigabits_per_second(&self) -> f64 {
        if self.duration_us == 0 {
            0.0
        } else {
            self.bytes as f64 * 8.0 / (self.duration_us as f64 * 1e3)
        }
    }

    /// Why this run must not be used, if so.
    #[must_use]
    pub fn fault(&self, work: &Work) -> Option<String> {
        let Errors {
            connect,
            read,
            write,
            timeout,
            status,
        } = self.errors;
        if self.errors != Errors::default() {
            return Some(format!(
                "the load saw errors: {connect} connect, {read} read, {write} write, {timeout} time-outs, {status} responses >= 400"
            ));
        }
        if work.is_stream() {
            // However slow it was, that is a figure.
            return (self.bytes == 0).then(|| String::from("not one byte"));
        }
        if self.requests == 0 {
            return Some(String::from("not one response"));
        }
        // A redirect or an empty answer would be fast, and wrong.
        let bytes_each = self.bytes / self.requests;
        (bytes_each < work.body_bytes as u64).then(|| {
            format!(
                "responses have {bytes_each} bytes each, fewer than the body's {}",
                work.body_bytes
            )
        })
    }
}

/// Runs wrk once in the client's namespace.
///
/// # Errors
/// When wrk cannot be run or does not report; errors of responses are in the result.
pub async fn run(
    testbed: &Testbed,
    wrk: &Path,
    work: &Work,
    target: &Target,
    seconds: u64,
) -> Result<Measured> {
    let script = write_script(testbed.directory(), work, target)?;
    let mut command = testbed
        .client
        .command(wrk, &cores::list(&testbed.placement().other_cores()));
    command
        .args([
            "-t1",
            &format!("-c{}", work.connections),
            &format!("-d{seconds}s"),
        ])
        .arg(format!("--timeout={RESPONSE_TIMEOUT_SECONDS}s"))
        .arg("-s")
        .arg(script)
        .arg(format!("http://{}/", target.connect))
        .stdin(std::process::Stdio::null());
    let output = tokio::time::timeout(Duration::from_secs(seconds) + GRACE, command.output())
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
    let numbered = match work.load {
        Load::Cache(asks) => asks.wrk_script(work.body_bytes),
        Load::Get | Load::Talk(_) => String::new(),
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
