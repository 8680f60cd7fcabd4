//! Several samples of one load: means with confidence intervals.

use serde::Serialize;

use crate::load::outcome::LoadOutcome;
use crate::statistics::{Mean, mean_with_confidence};

/// Samples, and what they have in common.
#[derive(Clone, Debug, Serialize)]
pub struct Samples {
    /// In order.
    pub samples: Vec<LoadOutcome>,
    /// Of the intervals, such as 0.95.
    pub confidence: f64,
    /// Requests (or pages) answered per second, over all classes.
    pub requests_per_second: Option<Mean>,
    /// By class.
    pub classes: Vec<ClassSummary>,
}

/// A class, over the samples.
#[derive(Clone, Debug, Serialize)]
pub struct ClassSummary {
    /// Its name.
    pub name: String,
    /// Requests (or pages) answered per second.
    pub requests_per_second: Option<Mean>,
    /// Mean latencies of the samples, in milliseconds.
    pub latency_mean_ms: Option<Mean>,
    /// Percentiles 99 of the samples, in milliseconds.
    pub latency_p99_ms: Option<Mean>,
}

impl Samples {
    /// Sums up.
    #[must_use]
    pub fn new(samples: Vec<LoadOutcome>, confidence: f64) -> Self {
        let mean = |value: &dyn Fn(&LoadOutcome) -> f64| {
            let values: Vec<f64> = samples.iter().map(value).collect();
            mean_with_confidence(&values, confidence)
        };
        let names = samples.first().map_or(&[][..], |first| &first.classes);
        let classes = names
            .iter()
            .enumerate()
            .map(|(index, class)| ClassSummary {
                name: class.name.clone(),
                requests_per_second: mean(&|sample| {
                    sample.classes[index].completed as f64 / sample.measured_seconds
                }),
                // Without one response there is no latency: such a sample is left out of the mean.
                latency_mean_ms: mean(&|sample| some(sample, index, |latency| latency.mean_ms)),
                latency_p99_ms: mean(&|sample| some(sample, index, |latency| latency.p99_ms)),
            })
            .collect();
        Self {
            requests_per_second: mean(&LoadOutcome::requests_per_second),
            classes,
            confidence,
            samples,
        }
    }
}

fn some(
    sample: &LoadOutcome,
    class: usize,
    value: impl Fn(&crate::load::outcome::Latency) -> f64,
) -> f64 {
    let latency = &sample.classes[class].latency;
    if latency.count == 0 {
        f64::NAN
    } else {
        value(latency)
    }
}
