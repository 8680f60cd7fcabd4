//! What the targets of an experiment come to: each bound whose two sides were measured, by medians.

use crate::experiment::results::ExperimentResults;
use crate::experiment::target::{Target, What};
use crate::peers::by_name;
use crate::statistics::Summary;

/// One bound, applied.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    /// The workload's id.
    pub workload: &'a str,
    /// What was to be reached.
    pub target: &'a Target,
    /// The series that it was compared with, and its median; none where the bound is the value itself.
    pub best: Option<(&'a str, f64)>,
    /// The median of the series that is judged, divided by that of the best one if there is one.
    pub ratio: f64,
    /// Whether it was reached.
    pub met: bool,
}

impl Verdict<'_> {
    /// The bound as a value of the metric.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.target.bound * self.best.map_or(1.0, |(_, best)| best)
    }
}

/// The metric that says it, of requests or of a stream.
#[must_use]
pub fn metric(what: What, is_stream: bool) -> &'static str {
    match (what, is_stream) {
        (What::Rate, false) => "requests_per_second",
        (What::Rate, true) => "throughput_bytes_per_second",
        (What::Cpu, false) => "cpu_us_per_request",
        (What::Cpu, true) => "cpu_ms_per_gigabyte",
        (What::Process, false) => "process_us_per_request",
        (What::Process, true) => "process_ms_per_gigabyte",
        (What::Latency, _) => "latency_p50_ms",
        (What::Fetches, _) => "origin_requests",
        (What::LastToFirst, _) => "crowd_last_ms",
        (What::Memory | What::MemoryAndKernel, _) => "process_bytes_each",
    }
}

/// What a row's samples of it come to. `None` if it was not measured, or a sample failed.
#[must_use]
pub fn summary(
    results: &ExperimentResults,
    workload: &str,
    series: &str,
    what: What,
) -> Option<Summary> {
    let work = results.workload(workload)?.work;
    let of = |metric: &str| results.values(workload, series, what.cores(), metric);
    let own = of(metric(what, work.is_some_and(|work| work.is_stream())))?;
    let with = |other: &str, join: fn(f64, f64) -> f64| -> Option<Vec<f64>> {
        let other = of(other)?;
        (other.len() == own.len())
            .then(|| own.iter().zip(other).map(|(a, b)| join(*a, b)).collect())
    };
    Summary::of(&match what {
        What::LastToFirst => with("crowd_first_ms", |last, first| last / first.max(1e-3))?,
        What::MemoryAndKernel => with("kernel_slab_bytes_each", |process, slabs| process + slabs)?,
        _ => own,
    })
}

/// Judges every bound whose two sides were measured.
#[must_use]
pub fn judge(results: &ExperimentResults) -> Vec<Verdict<'_>> {
    let mut verdicts = Vec::new();
    for workload in &results.workloads {
        for target in &workload.targets {
            let Some(own) = summary(results, &workload.id, &target.of, target.what) else {
                continue;
            };
            let best = best_of(results, &workload.id, target).filter(|(_, best)| *best > 0.0);
            if best.is_none() && !target.than.is_empty() {
                continue;
            }
            let ratio = own.median / best.map_or(1.0, |(_, best)| best);
            verdicts.push(Verdict {
                workload: &workload.id,
                target,
                best,
                ratio,
                met: match target.what {
                    What::Rate => ratio >= target.bound,
                    _ => ratio <= target.bound,
                },
            });
        }
    }
    verdicts
}

/// The series to compare with: the highest rate, the lowest of anything else.
fn best_of<'a>(
    results: &'a ExperimentResults,
    workload: &str,
    target: &Target,
) -> Option<(&'a str, f64)> {
    let is_meant = |series: &str| {
        let family = by_name(series).map(|peer| peer.family.name());
        let mut than = target.than.iter();
        than.any(|name| name == series || Some(name.as_str()) == family)
    };
    let candidates = results
        .series_labels
        .keys()
        .filter(|series| is_meant(series))
        .filter_map(|series| {
            let summary = summary(results, workload, series, target.what)?;
            Some((series.as_str(), summary.median))
        });
    match target.what {
        What::Rate => candidates.max_by(|one, other| one.1.total_cmp(&other.1)),
        _ => candidates.min_by(|one, other| one.1.total_cmp(&other.1)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
