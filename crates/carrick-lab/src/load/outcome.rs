//! What a load generator saw. `carrick-lab load --json` prints it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Of one run, within its measured interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// Length of the measured interval.
    pub measured_seconds: f64,
    /// By class, in the order of the plan.
    pub classes: Vec<ClassOutcome>,
    /// Connections opened.
    pub connections: u64,
    /// Requests that should have been sent but could not be, as too many were under way (open loop).
    pub late: u64,
}

/// Of one class of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassOutcome {
    /// The class's name.
    pub name: String,
    /// Requests (or pages, with `pages`) that were answered, wholly and rightly.
    pub completed: u64,
    /// Requests that the client gave up on purpose (`abort_share`).
    pub aborted: u64,
    /// Failures by kind: `connect`, `reset`, `closed_early`, `timeout`, `status_503`, `garbled`, `wrong_length`, `wrong_byte`.
    pub failed: BTreeMap<String, u64>,
    /// The first failure, in words, with the place of the first wrong byte.
    pub first_failure: Option<String>,
    /// Bytes of bodies that were received.
    pub body_bytes: u64,
    /// From opening the connection, or from the request on an open one, to the last byte.
    pub latency: Latency,
    /// To the first byte of the response.
    pub first_byte: Latency,
}

/// A distribution of times, in milliseconds; zero everywhere if `count` is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean_ms: f64,
    /// The standard deviation.
    pub deviation_ms: f64,
    /// The shortest.
    pub min_ms: f64,
    /// Percentile 50.
    pub p50_ms: f64,
    /// Percentile 90.
    pub p90_ms: f64,
    /// Percentile 99.
    pub p99_ms: f64,
    /// Percentile 99.9.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// The whole histogram: value in microseconds and count, for plots of the distribution.
    pub histogram_us: Vec<(u64, u64)>,
}

impl LoadOutcome {
    /// Requests (or pages) answered per second, over all classes.
    #[must_use]
    pub fn requests_per_second(&self) -> f64 {
        self.classes
            .iter()
            .map(|class| class.completed as f64)
            .sum::<f64>()
            / self.measured_seconds
    }

    /// Failures of all kinds and classes.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.classes
            .iter()
            .flat_map(|class| class.failed.values())
            .sum()
    }
}
