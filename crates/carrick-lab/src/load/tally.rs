//! Counts and histograms of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use hdrhistogram::Histogram;

use crate::load::fault::{Fault, Kind};
use crate::load::outcome::{ClassOutcome, Latency, LoadOutcome};
use crate::load::plan::LoadPlan;
use crate::load::target::Targets;
use crate::load::work::Request;

/// Longest latency that is told from longer ones: an hour, in nanoseconds.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Of the histograms: a value is off by a thousandth at most.
const SIGNIFICANT_DIGITS: u8 = 3;

/// What happened within the measured interval.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Whether the measured interval is on: otherwise nothing is counted.
    pub is_measuring: bool,
    /// Connections opened.
    pub connections: u64,
    /// Requests of an open loop that were due in the interval and were not sent by its end.
    pub late: u64,
    classes: Vec<ClassTally>,
    targets: Arc<Targets>,
}

#[derive(Clone, Debug)]
struct ClassTally {
    name: String,
    completed: u64,
    aborted: u64,
    failed: BTreeMap<Kind, u64>,
    first_failure: Option<String>,
    body_bytes: u64,
    latency: Histogram<u64>,
    first_byte: Histogram<u64>,
}

/// How a request (or a page) ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// When the first byte of the response came.
    pub first_byte_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// How.
    pub result: Result<Finish, Fault>,
}

/// An end that is as it was meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The whole response.
    Completed,
    /// The client gave up on purpose.
    Aborted,
}

impl Tally {
    /// Nothing yet.
    ///
    /// # Errors
    /// When a histogram cannot be made (the library's own limits, which the constants here keep).
    pub fn new(plan: &LoadPlan, targets: Arc<Targets>) -> Result<Self> {
        let histogram = || {
            Histogram::new_with_max(LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
                .context("cannot make a histogram")
        };
        let classes = plan.classes.iter().map(|class| {
            Ok(ClassTally {
                name: class.name.clone(),
                completed: 0,
                aborted: 0,
                failed: BTreeMap::new(),
                first_failure: None,
                body_bytes: 0,
                latency: histogram()?,
                first_byte: histogram()?,
            })
        });
        Ok(Self {
            is_measuring: false,
            connections: 0,
            late: 0,
            classes: classes.collect::<Result<_>>()?,
            targets,
        })
    }

    /// A request or page ended.
    pub fn ended(&mut self, request: &Request, ending: &Ending) {
        if !self.is_measuring {
            return;
        }
        match &ending.result {
            Ok(Finish::Completed) => {
                let class = &mut self.classes[request.class];
                class.completed += 1;
                class
                    .latency
                    .saturating_record(ending.ended_ns.saturating_sub(request.begun_ns));
                class
                    .first_byte
                    .saturating_record(ending.first_byte_ns.saturating_sub(request.begun_ns));
            }
            Ok(Finish::Aborted) => self.classes[request.class].aborted += 1,
            Err(fault) => self.failed(request, fault),
        }
    }

    /// Something went wrong, in a request or after it.
    pub fn failed(&mut self, request: &Request, fault: &Fault) {
        if !self.is_measuring {
            return;
        }
        let class = &mut self.classes[request.class];
        *class.failed.entry(fault.kind()).or_default() += 1;
        if class.first_failure.is_none() {
            class.first_failure = Some(format!("{}: {fault}", self.targets.describe(request)));
        }
    }

    /// Bytes of a body came.
    pub fn received(&mut self, class: usize, bytes: u64) {
        if self.is_measuring {
            self.classes[class].body_bytes += bytes;
        }
    }

    /// A connection was opened.
    pub fn opened(&mut self) {
        self.connections += u64::from(self.is_measuring);
    }

    /// Takes in what another thread saw.
    ///
    /// # Errors
    /// When the histograms do not fit together (they are made alike here).
    pub fn add(&mut self, other: &Self) -> Result<()> {
        self.connections += other.connections;
        self.late += other.late;
        for (class, other) in self.classes.iter_mut().zip(&other.classes) {
            class.completed += other.completed;
            class.aborted += other.aborted;
            class.body_bytes += other.body_bytes;
            for (kind, count) in &other.failed {
                *class.failed.entry(*kind).or_default() += count;
            }
            if class.first_failure.is_none() {
                class.first_failure.clone_from(&other.first_failure);
            }
            class
                .latency
                .add(&other.latency)
                .and_then(|()| class.first_byte.add(&other.first_byte))
                .context("cannot join the histograms of two threads")?;
        }
        Ok(())
    }

    /// Failures of all classes until now, and the first in words.
    #[must_use]
    pub fn failures(&self) -> (u64, Option<&str>) {
        let failures = self.classes.iter().flat_map(|class| class.failed.values());
        let first = self
            .classes
            .iter()
            .find_map(|class| class.first_failure.as_deref());
        (failures.sum(), first)
    }

    /// For the world.
    #[must_use]
    pub fn outcome(&self, measured_seconds: f64) -> LoadOutcome {
        let classes = self.classes.iter().map(|class| ClassOutcome {
            name: class.name.clone(),
            completed: class.completed,
            aborted: class.aborted,
            failed: class
                .failed
                .iter()
                .map(|(kind, count)| (kind.to_string(), *count))
                .collect(),
            first_failure: class.first_failure.clone(),
            body_bytes: class.body_bytes,
            latency: latency(&class.latency),
            first_byte: latency(&class.first_byte),
        });
        LoadOutcome {
            measured_seconds,
            classes: classes.collect(),
            connections: self.connections,
            late: self.late,
        }
    }
}

/// A histogram of nanoseconds, in milliseconds.
fn latency(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    let ms = |ns: u64| ns as f64 / 1e6;
    let at = |quantile| ms(histogram.value_at_quantile(quantile));
    let mut histogram_us: Vec<(u64, u64)> = Vec::new();
    for bucket in histogram.iter_recorded() {
        let us = bucket.value_iterated_to() / 1000;
        match histogram_us.last_mut() {
            Some((last, count)) if *last == us => *count += bucket.count_at_value(),
            _ => histogram_us.push((us, bucket.count_at_value())),
        }
    }
    Latency {
        count: histogram.len(),
        mean_ms: histogram.mean() / 1e6,
        deviation_ms: histogram.stdev() / 1e6,
        min_ms: ms(histogram.min()),
        p50_ms: at(0.5),
        p90_ms: at(0.9),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
        max_ms: ms(histogram.max()),
        histogram_us,
    }
}

#[cfg(test)]
pub(in crate::load) mod tests;
