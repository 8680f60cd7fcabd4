//! What an experiment measured: cells of samples, and all that is needed to judge and repeat them. `results.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figure::Figure;
use super::target::Target;
use super::value::Value;
use crate::bench::plan::Work;
use crate::testbed::machine::Machine;

/// Results of one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResults {
    /// The experiment's name, such as `rosu-2002`.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// Authors, title, venue and year of the paper; empty: none.
    pub paper: String,
    /// What it does, in some sentences.
    pub about: String,
    /// Quick or full.
    pub scale: Scale,
    /// What the command line replaced of the experiment's own grid, in words; none: nothing.
    #[serde(default)]
    pub selection: Option<String>,
    /// The command that repeats it.
    pub command: String,
    /// When it began, in seconds since 1970.
    pub started_unix_seconds: u64,
    /// How long it took, in seconds.
    pub took_seconds: f64,
    /// For all random choices.
    pub seed: u64,
    /// Congestion control on all routes of the test bed.
    pub congestion_control: String,
    /// Where it ran.
    pub machine: Machine,
    /// Versions of the programs.
    pub versions: BTreeMap<String, String>,
    /// How the proxy's CPU was measured, its resolution, and the outcome of its check.
    pub meter: String,
    /// Why it ended early, if it did: then cells are missing.
    pub ended_early: Option<String>,
    /// What a reader must know: noise, things left out.
    pub notes: Vec<String>,
    /// What was run, in its order; empty in results of earlier versions.
    #[serde(default)]
    pub workloads: Vec<Described>,
    /// What was measured.
    pub cells: Vec<Cell>,
    /// What is drawn from it.
    pub figures: Vec<Figure>,
    /// What the series are called in legends, by name.
    pub series_labels: BTreeMap<String, String>,
}

/// A workload, as a reader of the results must know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// The workload's id.
    pub id: String,
    /// What it is.
    pub about: String,
    /// Samples of each cell.
    pub samples: u32,
    /// The load, if it is one of those that are run side by side.
    #[serde(default)]
    pub work: Option<Work>,
    /// What has to be reached.
    #[serde(default)]
    pub targets: Vec<Target>,
}

impl ExperimentResults {
    /// A workload by its id.
    #[must_use]
    pub fn workload(&self, id: &str) -> Option<&Described> {
        self.workloads.iter().find(|workload| workload.id == id)
    }

    /// The samples' values of a metric, of one series in one workload, with cores placed so if it was varied. `None` if anything of it failed.
    #[must_use]
    pub fn values(
        &self,
        workload: &str,
        series: &str,
        cores: &str,
        metric: &str,
    ) -> Option<Vec<f64>> {
        let cells = || self.cells_of(workload, series, cores);
        if cells().any(|cell| cell.failure.is_some()) {
            return None;
        }
        let samples = cells().flat_map(|cell| &cell.samples);
        Some(
            samples
                .filter_map(|sample| sample.get(metric).copied())
                .collect(),
        )
    }

    /// The cells of one series in one workload, with cores placed so if it was varied.
    pub fn cells_of<'a>(
        &'a self,
        workload: &'a str,
        series: &'a str,
        cores: &'a str,
    ) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| {
            let placed = cell.parameters.get(CORES);
            cell.workload == workload
                && cell.series == series
                && placed.is_none_or(|placed| matches!(placed, Value::Word(word) if word == cores))
        })
    }
}

/// The parameter that varies where work is done: `shared` or `separate`.
pub const CORES: &str = "cores";

/// How thorough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Few points, one or few short samples: a look.
    #[default]
    Quick,
    /// As in the paper, or more.
    Full,
}

/// One point of a workload for one series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The workload's id.
    pub workload: String,
    /// Who or what was measured: `carrick-copy`, `haproxy`, `routed`, …
    pub series: String,
    /// What was varied.
    pub parameters: BTreeMap<String, Value>,
    /// The samples; none if it waits or failed.
    pub samples: Vec<Sample>,
    /// What has to be built before this can be measured, such as `the socket engine`.
    pub waiting_for: Option<String>,
    /// Why there are no samples, or fewer than wanted.
    pub failure: Option<String>,
}

/// One sample: metrics by name. A name ends in its unit: `requests_per_second`, `latency_mean_ms`, `cpu_us_per_request`,
/// `utilization_percent`, `data_per_ack`, `timeouts_per_1000_packets`, `throughput_bytes_per_second`, …
pub type Sample = BTreeMap<String, f64>;
