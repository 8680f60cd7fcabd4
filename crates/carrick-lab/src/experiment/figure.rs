//! How a figure or table is drawn from measurements, and what the paper says about it. Part of an experiment's TOML file,
//! and of its results, so that a report can be drawn again without the laboratory that measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::value::Value;

/// A figure or table of a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// For links and file names, such as `figure-4`.
    pub id: String,
    /// As the paper has it, such as `Figure 4`.
    pub number: String,
    /// The caption, in our words.
    pub title: String,
    /// How it is drawn.
    #[serde(default)]
    pub kind: FigureKind,
    /// The workload whose cells it shows; with the horizontal axis `workload`, all whose ids begin so, up to a hyphen.
    pub workload: String,
    /// Only cells with these parameters.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, Value>,
    /// The horizontal axis: a parameter of the workload.
    pub x: Axis,
    /// The vertical axis: a metric of the samples.
    pub y: Axis,
    /// Further metrics, as further columns of a table.
    #[serde(default)]
    pub columns: Vec<Axis>,
    /// The series shown, in this order; none: all of the workload.
    #[serde(default)]
    pub series: Vec<String>,
    /// One line for each value of this parameter (and each series).
    #[serde(default)]
    pub lines_by: Option<String>,
    /// Instead of the metric itself: what it is for these series against another.
    #[serde(default)]
    pub against: Option<Against>,
    /// What the paper published.
    #[serde(default)]
    pub published: Published,
    /// What is compared with the paper, by computation.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
}

/// As the horizontal axis of a figure: the workloads themselves.
pub const WORKLOAD: &str = "workload";

impl Figure {
    /// Whether it shows cells of this workload.
    #[must_use]
    pub fn shows(&self, workload: &str) -> bool {
        let rest = workload.strip_prefix(&self.workload);
        rest.is_some_and(|rest| {
            rest.is_empty() || (self.x.name == WORKLOAD && rest.starts_with('-'))
        })
    }
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// Lines over a numeric axis, with error bars.
    #[default]
    Lines,
    /// Bars for each value of the axis, side by side.
    Bars,
    /// A table: a row for each value of the axis, a column for each series.
    Table,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The parameter or metric.
    pub name: String,
    /// What it is called.
    pub label: String,
    /// Its unit as shown; empty: none.
    #[serde(default)]
    pub unit: String,
    /// Values are divided by this to be shown in the unit.
    #[serde(default = "one")]
    pub divide_by: f64,
    /// Logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// A comparison of series, cell by cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// The series that the others are compared with.
    pub series: String,
    /// How.
    pub how: Comparison,
}

/// How two values become one. `ours` is the figure's series, `other` is the one that it is set against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// `other - ours`: what is saved.
    Saving,
    /// `(other - ours) / other`, in percent.
    SavingPercent,
    /// `(ours - other) / other`: gain of splitting (GoS), gain of persistent connections (GoP).
    Gain,
    /// `ours / other`.
    Ratio,
}

/// What a paper published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Its statements about the figure, in our words, with figures.
    #[serde(default)]
    pub claims: Vec<String>,
    /// Its points, where it gives numbers.
    #[serde(default)]
    pub points: Vec<PublishedPoint>,
}

/// A published number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedPoint {
    /// Which line: the paper's name for it.
    pub line: String,
    /// The metric, if the figure has several.
    #[serde(default)]
    pub metric: Option<String>,
    /// On the horizontal axis, in the parameter's own unit.
    pub x: Value,
    /// In the metric's own unit.
    pub y: f64,
}

/// A point in which ours and the paper's may agree or differ. Compared are means over samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What is tested.
    #[serde(flatten)]
    pub test: Test,
    /// The sentence if it holds, with why that is plausible.
    pub agree: String,
    /// The sentence if it does not, with why that is plausible.
    pub differ: String,
}

/// A test on the figure's values, those after `against`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "test", rename_all = "snake_case", deny_unknown_fields)]
pub enum Test {
    /// The line of this series is higher at the end of the axis than at its beginning.
    Rises {
        /// The series.
        of: String,
    },
    /// The line of this series is lower at the end of the axis than at its beginning.
    Falls {
        /// The series.
        of: String,
    },
    /// At `share` of the common points at least, `of` is below `than`.
    Below {
        /// The one.
        of: String,
        /// The other.
        than: String,
        /// From 0 to 1.
        share: f64,
    },
    /// The values of this series lie within `min..=max`, at all points.
    Within {
        /// The series.
        of: String,
        /// In the metric's own unit.
        min: f64,
        /// In the metric's own unit.
        max: f64,
    },
    /// From this place of the axis on, the highest of these series is at least `min`, at every point.
    BestAtLeast {
        /// The series. One that was not measured does not count.
        of: Vec<String>,
        /// In the metric's own unit.
        min: f64,
        /// On the horizontal axis, in the parameter's own unit.
        from: f64,
    },
}

fn one() -> f64 {
    1.0
}
