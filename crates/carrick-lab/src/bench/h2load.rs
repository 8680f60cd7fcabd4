//! h2load as the load generator, for HTTP/2: started, and read.

use anyhow::{Context as _, Result};

use crate::bench::generator;
use crate::bench::measured::{Errors, Latency, Measured};
use crate::bench::plan::{Target, Work};
use crate::command::require;
use crate::testbed::Testbed;

/// Runs h2load once in the client's namespace.
///
/// # Errors
/// When h2load cannot be run or does not report; errors of responses are in the result.
pub async fn run(
    testbed: &Testbed,
    work: &Work,
    target: &Target,
    seconds: f64,
) -> Result<Measured> {
    let (said, seconds) =
        generator::run(testbed, &require("h2load")?, seconds, |command, seconds| {
            command
                .arg("-t1")
                .arg(format!("-c{}", work.connections))
                .arg(format!("-m{}", work.streams))
                .arg(format!("-D{seconds}"))
                .arg(format!("{}{}", target.base(), target.request_target));
        })
        .await?;
    parse(&said, seconds).with_context(|| format!("h2load's report cannot be read: {said}"))
}

/// Requests that succeeded in the time; what was under way at its end is in none of the counts.
fn parse(said: &str, seconds: u64) -> Option<Measured> {
    let requests = line(said, "requests: ")?;
    let statuses = line(said, "status codes: ")?;
    let bytes = line(said, "traffic: ")?.split_once('(')?.1;
    let bytes = bytes.split_once(')')?.0.parse().ok()?;
    let times: Vec<f64> = line(said, "time for request:")?
        .split_whitespace()
        .map_while(microseconds)
        .collect();
    // It has no percentiles.
    let (max, mean) = (*times.get(1)?, *times.get(2)?);
    Some(Measured {
        duration_us: seconds * 1_000_000,
        requests: count(requests, "succeeded")?,
        bytes,
        errors: Errors {
            connect: 0,
            read: count(requests, "failed")?,
            write: 0,
            timeout: count(requests, "timeout")?,
            status: count(statuses, "4xx")? + count(statuses, "5xx")?,
        },
        latency_us: Latency {
            p50: mean,
            max,
            ..Latency::default()
        },
    })
}

/// What follows these words at the start of a line.
fn line<'s>(said: &'s str, words: &str) -> Option<&'s str> {
    said.lines()
        .find_map(|line| line.trim().strip_prefix(words))
}

/// The number before a word: `12 succeeded`.
fn count(list: &str, word: &str) -> Option<u64> {
    let mut parts = list.split(',').map(str::trim);
    parts
        .find_map(|part| part.strip_suffix(word))?
        .trim()
        .parse()
        .ok()
}

/// A time as h2load writes it: `735us`, `1.20ms`, `2.01s`.
fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, unit) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    number.parse::<f64>().ok().map(|number| number * unit)
}

#[cfg(test)]
mod tests;
