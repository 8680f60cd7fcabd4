//! Cells that follow from what was measured: comparisons of series sample by sample, percentiles, classes.

use std::collections::BTreeMap;

use super::expression::Point;
use super::metrics::{Merged, completed_bytes, merged, of_one_class};
use super::results::{Cell, Sample};
use super::spec::{Derived, How, Workload};
use super::value::Value;
use crate::load::outcome::LoadOutcome;

/// The outcomes of the load, by series and point, in the order of the samples.
#[derive(Debug, Default)]
pub struct Outcomes {
    by_cell: Vec<(String, Point, Vec<Outcome>)>,
}

/// An outcome, and the length of a body (or page) of each of its classes.
#[derive(Debug)]
struct Outcome {
    of: LoadOutcome,
    class_bytes: Vec<u64>,
}

impl Outcomes {
    /// Keeps one more.
    pub fn add(&mut self, series: &str, point: &Point, of: LoadOutcome, class_bytes: Vec<u64>) {
        let outcome = Outcome { of, class_bytes };
        let known = self
            .by_cell
            .iter_mut()
            .find(|(of, at, _)| of == series && at == point);
        match known {
            Some((_, _, outcomes)) => outcomes.push(outcome),
            None => self
                .by_cell
                .push((series.to_owned(), point.clone(), vec![outcome])),
        }
    }

    fn latency(&self, series: &str, point: &Point, sample: usize) -> Option<Merged> {
        let (_, _, outcomes) = self
            .by_cell
            .iter()
            .find(|(of, at, _)| of == series && at == point)?;
        let classes = &outcomes.get(sample)?.of.classes;
        Some(merged(classes.iter().map(|class| &class.latency)))
    }
}

/// Adds the derived metrics of a workload to its cells. A sample is compared with the sample that was taken in the same
/// round.
pub fn compare(workload: &Workload, cells: &mut [Cell], outcomes: &Outcomes) {
    for derived in &workload.derived {
        for index in 0..cells.len() {
            let cell = &cells[index];
            if cell.workload != workload.id || cell.series != derived.of {
                continue;
            }
            let Some(other) = cells.iter().find(|other| {
                other.workload == workload.id
                    && other.series == derived.against
                    && other.parameters == cell.parameters
            }) else {
                continue;
            };
            let values: Vec<Option<f64>> = (0..cell.samples.len())
                .map(|sample| one(derived, cell, other, sample, outcomes))
                .collect();
            for (sample, value) in cells[index].samples.iter_mut().zip(values) {
                if let Some(value) = value {
                    sample.insert(derived.name.clone(), value);
                }
            }
        }
    }
}

fn one(
    derived: &Derived,
    cell: &Cell,
    other: &Cell,
    sample: usize,
    outcomes: &Outcomes,
) -> Option<f64> {
    match derived.how {
        How::Gain => {
            let ours = cell.samples.get(sample)?.get(&derived.metric)?;
            let theirs = other.samples.get(sample)?.get(&derived.metric)?;
            (*theirs != 0.0).then(|| (ours - theirs) / theirs)
        }
        How::SlowerPercent => {
            let ours = outcomes.latency(&derived.of, &cell.parameters, sample)?;
            let theirs = outcomes.latency(&derived.against, &cell.parameters, sample)?;
            ours.greater_percent(&theirs)
        }
    }
}

/// The cells of percentiles and classes that a workload asks for; cells that wait or failed give such as do so, too.
#[must_use]
pub fn further_cells(workload: &Workload, cells: &[Cell], outcomes: &Outcomes) -> Vec<Cell> {
    let mut further = Vec::new();
    for cell in cells.iter().filter(|cell| cell.workload == workload.id) {
        // A cell whose samples were taken back has nothing to derive from.
        let mut kept = outcomes.by_cell.iter().filter(|_| !cell.samples.is_empty());
        let own: &[Outcome] = kept
            .find(|(of, at, _)| *of == cell.series && *at == cell.parameters)
            .map_or(&[], |(_, _, outcomes)| outcomes.as_slice());
        if let Some(distribution) = &workload.distribution {
            for percentile in &distribution.percentiles {
                let samples = own
                    .iter()
                    .filter_map(|outcome| at_percentile(outcome, *percentile));
                further.push(with(
                    cell,
                    &distribution.id,
                    "percentile",
                    *percentile,
                    samples.collect(),
                ));
            }
        }
        if let Some(by_class) = &workload.by_class {
            for (bytes, samples) in classes(own) {
                further.push(with(
                    cell,
                    &by_class.id,
                    "class_bytes",
                    bytes as f64,
                    samples,
                ));
            }
            if own.is_empty() {
                further.push(Cell {
                    workload: by_class.id.clone(),
                    ..cell.clone()
                });
            }
        }
    }
    further
}

fn with(cell: &Cell, workload: &str, parameter: &str, value: f64, samples: Vec<Sample>) -> Cell {
    let mut parameters = cell.parameters.clone();
    parameters.insert(parameter.to_owned(), Value::Number(value));
    Cell {
        workload: workload.to_owned(),
        parameters,
        samples,
        ..cell.clone()
    }
}

fn at_percentile(outcome: &Outcome, percentile: f64) -> Option<Sample> {
    let latency = merged(outcome.of.classes.iter().map(|class| &class.latency));
    if latency.count == 0 {
        return None;
    }
    let latency_ms = latency.percentile_ms(percentile);
    let each = completed_bytes(&outcome.of, &outcome.class_bytes) / latency.count as f64;
    Some(BTreeMap::from([
        (String::from("latency_ms"), latency_ms),
        (
            String::from("download_bytes_per_second"),
            each / (latency_ms / 1000.0),
        ),
    ]))
}

/// By the length of a body, ascending: one sample for each outcome that has one.
fn classes(outcomes: &[Outcome]) -> BTreeMap<u64, Vec<Sample>> {
    let mut by_bytes: BTreeMap<u64, Vec<Sample>> = BTreeMap::new();
    for outcome in outcomes {
        for (class, bytes) in outcome.of.classes.iter().zip(&outcome.class_bytes) {
            let sample = of_one_class(class, *bytes, outcome.of.measured_seconds);
            if !sample.is_empty() {
                by_bytes.entry(*bytes).or_default().push(sample);
            }
        }
    }
    by_bytes
}

#[cfg(test)]
mod tests;
