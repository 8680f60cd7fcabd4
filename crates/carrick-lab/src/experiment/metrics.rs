//! The metrics of a sample: what the load generator saw, what the proxy's core did, what the server's TCP counted.

use crate::load::outcome::{ClassOutcome, Latency, LoadOutcome};

use super::results::Sample;

/// Metrics that every sample has. The last two come from the TCP counters of the server's namespace.
pub const ALWAYS: [&str; 12] = [
    "requests_per_second",
    "connections_per_second",
    "throughput_bytes_per_second",
    "download_bytes_per_second",
    "latency_mean_ms",
    "latency_p50_ms",
    "latency_p90_ms",
    "latency_p99_ms",
    "first_byte_mean_ms",
    "failures",
    "data_per_ack",
    "timeouts_per_1000_packets",
];

/// Metrics of the proxy's core; and how many cores programs outside the test bed kept busy meanwhile.
pub const OF_METER: [&str; 6] = [
    "cpu_us_per_request",
    "bits_per_core_second",
    "utilization_percent",
    "cpu_percent_per_request",
    "proxy_core_percent",
    "foreign_cores",
];

/// Metrics of packets seen at the proxy's devices.
pub const OF_CAPTURE: [&str; 2] = ["request_forwarding_us", "response_forwarding_us"];

/// Metrics of the cells of a distribution.
pub const OF_DISTRIBUTION: [&str; 2] = ["latency_ms", "download_bytes_per_second"];

/// Metrics of the cells of classes.
pub const OF_CLASS: [&str; 3] = [
    "latency_mean_ms",
    "download_bytes_per_second",
    "requests_per_second",
];

/// The metrics of a class: its mean latency, the 99th percentile, and requests per second.
#[must_use]
pub fn of_class(class: &str) -> [String; 3] {
    let class = class.replace('-', "_");
    [
        format!("latency_{class}_mean_ms"),
        format!("latency_{class}_p99_ms"),
        format!("requests_{class}_per_second"),
    ]
}

/// The metrics of the load, given the length of a body (or page) of each class; latencies only if anything was completed.
#[must_use]
pub fn of_load(outcome: &LoadOutcome, class_bytes: &[u64]) -> Sample {
    let mut sample = Sample::new();
    let seconds = outcome.measured_seconds;
    // What was received, also of bodies that were not complete at the end.
    let received: f64 = outcome
        .classes
        .iter()
        .map(|class| class.body_bytes as f64)
        .sum();
    sample.insert("requests_per_second".into(), outcome.requests_per_second());
    sample.insert(
        "connections_per_second".into(),
        outcome.connections as f64 / seconds,
    );
    sample.insert("throughput_bytes_per_second".into(), received / seconds);
    sample.insert("failures".into(), outcome.failures() as f64);
    let latency = merged(outcome.classes.iter().map(|class| &class.latency));
    if latency.count > 0 {
        for (name, value) in [
            ("latency_mean_ms", latency.mean_ms),
            ("latency_p50_ms", latency.percentile_ms(50.0)),
            ("latency_p90_ms", latency.percentile_ms(90.0)),
            ("latency_p99_ms", latency.percentile_ms(99.0)),
            (
                "first_byte_mean_ms",
                merged(outcome.classes.iter().map(|class| &class.first_byte)).mean_ms,
            ),
            (
                "download_bytes_per_second",
                completed_bytes(outcome, class_bytes)
                    / (latency.count as f64 * latency.mean_ms / 1000.0),
            ),
        ] {
            sample.insert(name.into(), value);
        }
    }
    if outcome.classes.len() > 1 || outcome.classes.iter().any(|class| !class.name.is_empty()) {
        for class in outcome
            .classes
            .iter()
            .filter(|class| class.latency.count > 0)
        {
            let values = [
                class.latency.mean_ms,
                merged(std::iter::once(&class.latency)).percentile_ms(99.0),
                class.completed as f64 / seconds,
            ];
            sample.extend(of_class(&class.name).into_iter().zip(values));
        }
    }
    sample
}

/// Bytes of the bodies (or pages) that were completed: downloads are measured by their own length, not by what happened to
/// arrive while it was measured.
#[must_use]
pub fn completed_bytes(outcome: &LoadOutcome, class_bytes: &[u64]) -> f64 {
    outcome
        .classes
        .iter()
        .zip(class_bytes)
        .map(|(class, bytes)| class.latency.count as f64 * *bytes as f64)
        .sum()
}

/// The metrics of one class alone, with bodies of so many bytes.
#[must_use]
pub fn of_one_class(class: &ClassOutcome, class_bytes: u64, measured_seconds: f64) -> Sample {
    let mut sample = Sample::new();
    if class.latency.count > 0 {
        let rate = class_bytes as f64 / (class.latency.mean_ms / 1000.0);
        sample.insert("latency_mean_ms".into(), class.latency.mean_ms);
        sample.insert("download_bytes_per_second".into(), rate);
        sample.insert(
            "requests_per_second".into(),
            class.completed as f64 / measured_seconds,
        );
    }
    sample
}

/// The metrics of the proxy's core, from what the proxy had of it, which share of that was busy (0 to 1), and the rate of requests.
/// `cpu_percent_per_request` is Rosu's unit: utilization in percent divided by requests per second.
pub fn add_busy(sample: &mut Sample, core_share: f64, busy_share: f64) {
    sample.insert("proxy_core_percent".into(), core_share * 100.0);
    sample.insert("utilization_percent".into(), busy_share * 100.0);
    let core_seconds = core_share * busy_share;
    if let Some(rate) = sample.get("throughput_bytes_per_second").copied()
        && core_seconds > 0.0
    {
        sample.insert("bits_per_core_second".into(), rate * 8.0 / core_seconds);
    }
    if let Some(rate) = sample
        .get("requests_per_second")
        .copied()
        .filter(|rate| *rate > 0.0)
    {
        let core_seconds = core_share * busy_share / rate;
        sample.insert("cpu_us_per_request".into(), core_seconds * 1e6);
        sample.insert("cpu_percent_per_request".into(), busy_share * 100.0 / rate);
    }
}

/// Several distributions as one.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean_ms: f64,
    /// Microseconds and count, ascending.
    histogram_us: Vec<(u64, u64)>,
}

/// Joins distributions.
pub fn merged<'a>(latencies: impl Iterator<Item = &'a Latency>) -> Merged {
    let mut merged = Merged::default();
    let mut sum_ms = 0.0;
    for latency in latencies {
        merged.count += latency.count;
        sum_ms += latency.mean_ms * latency.count as f64;
        merged.histogram_us.extend(&latency.histogram_us);
    }
    merged.histogram_us.sort_unstable();
    if merged.count > 0 {
        merged.mean_ms = sum_ms / merged.count as f64;
    }
    merged
}

impl Merged {
    /// The smallest value that so many percent of the values do not exceed, in milliseconds; 0 if there are none.
    #[must_use]
    pub fn percentile_ms(&self, percentile: f64) -> f64 {
        let total: u64 = self.histogram_us.iter().map(|(_, count)| count).sum();
        let wanted = (percentile / 100.0 * total as f64).max(1.0);
        let mut seen = 0.0;
        for (value, count) in &self.histogram_us {
            seen += *count as f64;
            if seen >= wanted {
                return *value as f64 / 1000.0;
            }
        }
        self.histogram_us
            .last()
            .map_or(0.0, |(value, _)| *value as f64 / 1000.0)
    }

    /// How probable it is, in percent, that one of these is greater than one of the others; equal ones count half.
    /// `None` if either has none. (The probability of superiority, the effect size of Mann and Whitney's test.)
    #[must_use]
    pub fn greater_percent(&self, other: &Self) -> Option<f64> {
        let total = |merged: &Self| -> f64 {
            merged
                .histogram_us
                .iter()
                .map(|(_, count)| *count as f64)
                .sum()
        };
        let pairs = total(self) * total(other);
        if pairs == 0.0 {
            return None;
        }
        let mut below = 0.0;
        let mut greater = 0.0;
        let mut others = other.histogram_us.iter().peekable();
        for (value, count) in &self.histogram_us {
            while let Some((_, smaller)) = others.next_if(|(theirs, _)| theirs < value) {
                below += *smaller as f64;
            }
            let equal: f64 = other
                .histogram_us
                .iter()
                .filter(|(theirs, _)| theirs == value)
                .map(|(_, count)| *count as f64)
                .sum();
            greater += *count as f64 * (below + equal / 2.0);
        }
        Some(greater / pairs * 100.0)
    }
}

#[cfg(test)]
mod tests;
