//! The values of a figure: which cells belong to it, in which line, and what their samples come to.

mod name;

use std::collections::BTreeMap;

use crate::experiment::figure::{Against, Axis, Comparison, Figure, WORKLOAD};
use crate::experiment::results::{Cell, ExperimentResults};
use crate::experiment::value::Value;
use crate::statistics::mean_with_confidence;

pub use name::{parameter_value, spoken, value_text};

/// Of the intervals, as in Rosu 2002, section 4.
pub const CONFIDENCE: f64 = 0.9;

/// As the horizontal axis of a figure: the series themselves.
const SERIES_AXIS: &str = "series";

/// What a figure shows.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    /// Along the horizontal axis, in order.
    pub x: Vec<Value>,
    /// For the vertical axis, and for each further column.
    pub metrics: Vec<Metric<'a>>,
    /// What a reader must know.
    pub remarks: Vec<String>,
}

/// One metric.
#[derive(Clone, Debug)]
pub struct Metric<'a> {
    /// Its axis.
    pub axis: &'a Axis,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// One line of a figure, or column of a table.
#[derive(Clone, Debug)]
pub struct Line {
    /// The series' name; empty where the series are the horizontal axis.
    pub series: String,
    /// What the series is called.
    pub series_label: String,
    /// The value of the parameter by which a series has several lines.
    pub by: Option<String>,
    /// The series' number among all of the experiment's, for its colour.
    pub series_index: usize,
    /// The number of `by`.
    pub by_index: usize,
    /// One for each place of the horizontal axis.
    pub points: Vec<Outcome>,
}

/// What there is at one place of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A number.
    Measured(Measured),
    /// It waits for this to be built.
    Waiting(String),
    /// It was tried in vain.
    Failed(String),
    /// It was not tried.
    Absent,
}

/// A measured value, in the metric's own unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The mean of the samples, or of what was made of two means.
    pub value: f64,
    /// Of its confidence interval; none with one sample, and none for a comparison of two.
    pub half_width: Option<f64>,
    /// How many samples; of a comparison, the fewer of the two.
    pub samples: usize,
    /// Why there are fewer samples than wanted.
    pub remark: Option<String>,
}

impl Line {
    /// As a legend has it.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.by {
            Some(by) if self.series_label.is_empty() => by.clone(),
            Some(by) => format!("{}, {by}", self.series_label),
            None => self.series_label.clone(),
        }
    }

    /// The measured ones, with their place on the horizontal axis.
    pub fn measured(&self) -> impl Iterator<Item = (usize, &Measured)> {
        self.points
            .iter()
            .enumerate()
            .filter_map(|(index, point)| match point {
                Outcome::Measured(measured) => Some((index, measured)),
                Outcome::Waiting(_) | Outcome::Failed(_) | Outcome::Absent => None,
            })
    }
}

impl Values<'_> {
    /// All places of all lines.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.metrics
            .iter()
            .flat_map(|metric| &metric.lines)
            .flat_map(|line| &line.points)
    }
}

/// Whether a cell belongs to a figure; the series against which others are compared, too.
#[must_use]
pub fn belongs(figure: &Figure, cell: &Cell) -> bool {
    let is_shown = figure.series.is_empty()
        || figure.series.contains(&cell.series)
        || figure
            .against
            .as_ref()
            .is_some_and(|against| against.series == cell.series);
    figure.shows(&cell.workload)
        && is_shown
        && figure
            .only
            .iter()
            .all(|(name, value)| cell.parameters.get(name) == Some(value))
}

/// Works out what a figure shows.
#[must_use]
pub fn of<'a>(results: &'a ExperimentResults, figure: &'a Figure) -> Values<'a> {
    let cells: Vec<&Cell> = results
        .cells
        .iter()
        .filter(|cell| belongs(figure, cell))
        .collect();
    let grid = Grid::of(results, figure, &cells);
    let axes = std::iter::once(&figure.y).chain(&figure.columns);
    let metrics = axes
        .map(|axis| Metric {
            axis,
            lines: grid.lines(axis),
        })
        .collect();
    let remarks = grid.remarks();
    Values {
        x: grid.x,
        metrics,
        remarks,
    }
}

/// Ours and the paper's places on the horizontal axis, in order.
#[must_use]
pub fn all_places(figure: &Figure, values: &Values<'_>) -> Vec<Value> {
    let theirs = figure.published.points.iter().map(|point| &point.x);
    sorted(values.x.iter().chain(theirs))
}

/// The cells of a figure by series, line and place.
struct Grid<'a> {
    results: &'a ExperimentResults,
    figure: &'a Figure,
    cells: Vec<&'a Cell>,
    x: Vec<Value>,
    by: Vec<Option<Value>>,
    series: Vec<String>,
}

impl<'a> Grid<'a> {
    fn of(results: &'a ExperimentResults, figure: &'a Figure, cells: &[&'a Cell]) -> Self {
        let baseline = figure
            .against
            .as_ref()
            .map(|against| against.series.as_str());
        let is_by_series = figure.x.name == SERIES_AXIS;
        let mut series = figure.series.clone();
        if series.is_empty() {
            for cell in cells {
                if baseline != Some(&cell.series) && !series.contains(&cell.series) {
                    series.push(cell.series.clone());
                }
            }
        }
        let shown = || cells.iter().filter(|cell| series.contains(&cell.series));
        let x = if figure.x.name == WORKLOAD {
            let mut ids: Vec<&str> = Vec::new();
            for cell in shown() {
                if !ids.contains(&cell.workload.as_str()) {
                    ids.push(&cell.workload);
                }
            }
            let words = ids.into_iter().map(|id| Value::Word(id.to_owned()));
            words.collect()
        } else if is_by_series {
            series
                .iter()
                .map(|name| Value::Word(name.clone()))
                .collect()
        } else {
            sorted(shown().filter_map(|cell| cell.parameters.get(&figure.x.name)))
        };
        let by = match &figure.lines_by {
            None => vec![None],
            Some(name) => sorted(shown().filter_map(|cell| cell.parameters.get(name)))
                .into_iter()
                .map(Some)
                .collect(),
        };
        Self {
            results,
            figure,
            cells: cells.to_vec(),
            x,
            by,
            series,
        }
    }

    fn is_by_series(&self) -> bool {
        self.figure.x.name == SERIES_AXIS
    }

    fn lines(&self, axis: &Axis) -> Vec<Line> {
        let series: Vec<&str> = if self.is_by_series() {
            vec![""]
        } else {
            self.series.iter().map(String::as_str).collect()
        };
        let mut lines = Vec::new();
        for name in series {
            for (by_index, by) in self.by.iter().enumerate() {
                lines.push(self.line(axis, name, by.as_ref(), by_index));
            }
        }
        lines
    }

    fn line(&self, axis: &Axis, series: &str, by: Option<&Value>, by_index: usize) -> Line {
        let by_text = by.zip(self.figure.lines_by.as_deref());
        Line {
            series: series.to_owned(),
            series_label: if self.is_by_series() && by.is_none() {
                axis.label.clone()
            } else {
                self.label(series)
            },
            by: by_text.map(|(value, name)| parameter_value(name, value)),
            series_index: self.series_index(series),
            by_index,
            points: self
                .x
                .iter()
                .map(|x| match x {
                    Value::Word(name) if self.is_by_series() => {
                        self.outcome(axis, &self.at(name, None, by))
                    }
                    x => self.outcome(axis, &self.at(series, Some(x), by)),
                })
                .collect(),
        }
    }

    fn label(&self, series: &str) -> String {
        self.results
            .series_labels
            .get(series)
            .cloned()
            .unwrap_or_else(|| series.to_owned())
    }

    /// The same for a series in all figures of an experiment.
    fn series_index(&self, series: &str) -> usize {
        let mut seen: Vec<&str> = Vec::new();
        let of_figures = self
            .results
            .figures
            .iter()
            .flat_map(|figure| &figure.series);
        let of_cells = self.results.cells.iter().map(|cell| &cell.series);
        for name in of_figures.chain(of_cells) {
            if name == series {
                break;
            }
            if !seen.contains(&name.as_str()) {
                seen.push(name);
            }
        }
        seen.len()
    }

    fn at(&self, series: &str, x: Option<&Value>, by: Option<&Value>) -> Vec<&'a Cell> {
        let is_at = |cell: &Cell, name: Option<&str>, value: Option<&Value>| match (name, value) {
            (Some(WORKLOAD), Some(Value::Word(id))) => cell.workload == *id,
            (Some(name), Some(value)) => cell.parameters.get(name) == Some(value),
            _ => true,
        };
        self.cells
            .iter()
            .copied()
            .filter(|cell| {
                cell.series == series
                    && is_at(cell, Some(&self.figure.x.name), x)
                    && is_at(cell, self.figure.lines_by.as_deref(), by)
            })
            .collect()
    }

    fn outcome(&self, axis: &Axis, cells: &[&Cell]) -> Outcome {
        let ours = outcome_of(&axis.name, cells);
        let Some(Against { series, how }) = &self.figure.against else {
            return ours;
        };
        let others: Vec<&Cell> = self
            .cells
            .iter()
            .copied()
            .filter(|other| {
                other.series == *series
                    && cells.iter().any(|cell| cell.parameters == other.parameters)
            })
            .collect();
        compare(*how, ours, outcome_of(&axis.name, &others))
    }

    /// Parameters that neither an axis nor a filter tells apart, though cells differ by them.
    fn remarks(&self) -> Vec<String> {
        let known = |name: &str| {
            name == self.figure.x.name
                || self.figure.lines_by.as_deref() == Some(name)
                || self.figure.only.contains_key(name)
        };
        let mut values: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for cell in &self.cells {
            for (name, value) in cell.parameters.iter().filter(|(name, _)| !known(name)) {
                let values = values.entry(name).or_default();
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        values
            .into_iter()
            .filter(|(_, values)| values.len() > 1)
            .map(|(name, values)| {
                format!(
                    "The figure does not say which {} is shown: the means are over all {} values of it.",
                    spoken(name),
                    values.len()
                )
            })
            .collect()
    }
}

/// What the samples of cells at one place come to.
fn outcome_of(metric: &str, cells: &[&Cell]) -> Outcome {
    let samples: Vec<f64> = cells
        .iter()
        .flat_map(|cell| &cell.samples)
        .filter_map(|sample| sample.get(metric).copied())
        .filter(|value| value.is_finite())
        .collect();
    let failure = cells.iter().find_map(|cell| cell.failure.clone());
    if let Some(mean) = mean_with_confidence(&samples, CONFIDENCE) {
        return Outcome::Measured(Measured {
            value: mean.mean,
            half_width: mean.half_width.filter(|width| width.is_finite()),
            samples: samples.len(),
            remark: failure,
        });
    }
    if let Some(what) = cells.iter().find_map(|cell| cell.waiting_for.clone()) {
        return Outcome::Waiting(what);
    }
    if let Some(failure) = failure {
        return Outcome::Failed(failure);
    }
    if cells.iter().any(|cell| !cell.samples.is_empty()) {
        return Outcome::Failed(format!("the samples do not have `{metric}`"));
    }
    Outcome::Absent
}

/// Makes one value of two; whatever is missing in either is missing in the whole.
fn compare(how: Comparison, ours: Outcome, other: Outcome) -> Outcome {
    let (ours, other) = match (ours, other) {
        (Outcome::Measured(ours), Outcome::Measured(other)) => (ours, other),
        (waiting @ Outcome::Waiting(_), _) | (_, waiting @ Outcome::Waiting(_)) => return waiting,
        (failed @ Outcome::Failed(_), _) | (_, failed @ Outcome::Failed(_)) => return failed,
        (Outcome::Absent, _) | (_, Outcome::Absent) => return Outcome::Absent,
    };
    let (a, b) = (ours.value, other.value);
    let value = match how {
        Comparison::Saving => b - a,
        Comparison::SavingPercent => (b - a) / b * 100.0,
        Comparison::Gain => (a - b) / b,
        Comparison::Ratio => a / b,
    };
    if !value.is_finite() {
        return Outcome::Failed(String::from("cannot be compared: one of the two is zero"));
    }
    Outcome::Measured(Measured {
        value,
        half_width: None,
        samples: ours.samples.min(other.samples),
        remark: ours.remark.or(other.remark),
    })
}

/// Numbers by size, then words in the order in which they came; each once.
fn sorted<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<Value> {
    let (mut numbers, mut words): (Vec<f64>, Vec<String>) = (Vec::new(), Vec::new());
    for value in values {
        match value {
            Value::Number(number) if number.is_finite() => numbers.push(*number),
            Value::Number(_) => {}
            Value::Word(word) if words.contains(word) => {}
            Value::Word(word) => words.push(word.clone()),
        }
    }
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let numbers = numbers.into_iter().map(Value::Number);
    numbers.chain(words.into_iter().map(Value::Word)).collect()
}

#[cfg(test)]
mod tests;
