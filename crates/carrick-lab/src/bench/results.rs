//! Everything that was measured, as it is written to `results.json`: raw runs, from which tables and plots are drawn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bench::machine::Machine;
use crate::bench::memory::{MemoryKind, MemoryRun};
use crate::bench::statistics::Summary;
use crate::bench::wrk::Measured;
use crate::testbed::busy::Busy;
use crate::testbed::calibration::Calibration;
use crate::testbed::cores::CorePair;
use crate::testbed::service::Connections;

/// Which of the two figures a run was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Requests per second, everything sharing the cores.
    Rate,
    /// CPU of the proxy's core per request, with that core to itself.
    Cpu,
}

/// How the benchmark was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The command line.
    pub command: String,
    /// Runs of each cell.
    pub repetitions: u32,
    /// Seconds of each run.
    pub seconds: u64,
    /// The cores in use.
    pub cores: CorePair,
    /// Congestion control of both ends of every connection, as `ss` showed it.
    pub congestion_control: String,
}

/// One run of one work on one peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Counted from 1.
    pub repetition: u32,
    /// The work's name.
    pub work: String,
    /// The peer's name.
    pub peer: String,
    /// What the run was for.
    pub figure: Figure,
    /// What wrk saw.
    pub measured: Option<Measured>,
    /// The proxy's core meanwhile.
    pub busy: Option<Busy>,
    /// CPU seconds of the proxy's processes alone; resolution 10 ms.
    pub process_seconds: Option<f64>,
    /// Cores that programs outside the benchmark kept busy meanwhile: their CPU time divided by the run's.
    pub foreign_cores: Option<f64>,
    /// Connections accepted and opened in the proxy's namespace (in the server's, when routed).
    pub connections: Option<Connections>,
    /// Why the run must not be used.
    pub fault: Option<String>,
}

impl Run {
    /// The run's value for its figure: requests/s, or microseconds per request.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a run has far fewer than 2^52 requests"
    )]
    pub fn value(&self) -> Option<f64> {
        let measured = self.measured.as_ref().filter(|_| self.fault.is_none())?;
        match self.figure {
            Figure::Rate => Some(measured.requests_per_second()),
            Figure::Cpu => Some(self.busy?.busy_seconds * 1e6 / measured.requests as f64),
        }
    }
}

/// A benchmark's results, whole or in part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Whether all was measured that was asked for.
    pub complete: bool,
    /// Seconds since 1970.
    pub started_unix_seconds: u64,
    /// How it was run.
    pub settings: Settings,
    /// On what.
    pub machine: Machine,
    /// Of what.
    pub versions: BTreeMap<String, String>,
    /// How far the CPU figure can be trusted.
    pub calibration: Option<Calibration>,
    /// What could not be measured here, and why.
    pub notes: Vec<String>,
    /// All runs, in the order in which they were made.
    pub runs: Vec<Run>,
    /// All measurements of memory.
    pub memory: Vec<MemoryRun>,
}

/// What one cell of the table shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Not asked for, or not possible.
    Absent,
    /// At least one run failed: the reason of the first.
    Failed(String),
    /// The runs' summary.
    Measured(Summary),
}

impl Cell {
    /// The median, if the cell was measured.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        match self {
            Self::Measured(summary) => Some(summary.median),
            Self::Absent | Self::Failed(_) => None,
        }
    }

    fn of(values: impl Iterator<Item = Result<f64, String>>) -> Self {
        match values.collect::<Result<Vec<_>, _>>() {
            Ok(values) => Summary::of(&values).map_or(Self::Absent, Self::Measured),
            Err(fault) => Self::Failed(fault),
        }
    }
}

impl Results {
    /// One work on one peer.
    #[must_use]
    pub fn cell(&self, work: &str, peer: &str, figure: Figure) -> Cell {
        let runs = self
            .runs
            .iter()
            .filter(|run| run.work == work && run.peer == peer && run.figure == figure);
        Cell::of(runs.map(|run| {
            run.value()
                .ok_or_else(|| run.fault.clone().unwrap_or_else(|| "no value".into()))
        }))
    }

    /// Bytes of process memory per idle connection.
    #[must_use]
    pub fn memory_cell(&self, kind: MemoryKind, peer: &str) -> Cell {
        let runs = self
            .memory
            .iter()
            .filter(|run| run.kind == kind && run.peer == peer);
        Cell::of(runs.map(|run| {
            run.bytes_per_connection()
                .ok_or_else(|| run.fault.clone().unwrap_or_default())
        }))
    }

    /// Median of the median latencies, in microseconds, of the runs with shared cores.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "microseconds")]
    pub fn latency_us(&self, work: &str, peer: &str) -> Option<(f64, f64)> {
        let of = |pick: fn(&Measured) -> u64| {
            let values: Vec<f64> = self
                .runs
                .iter()
                .filter(|run| {
                    run.work == work
                        && run.peer == peer
                        && run.figure == Figure::Rate
                        && run.fault.is_none()
                })
                .filter_map(|run| run.measured.as_ref().map(|measured| pick(measured) as f64))
                .collect();
            Summary::of(&values).map(|summary| summary.median)
        };
        Some((
            of(|measured| measured.latency_us.p50)?,
            of(|measured| measured.latency_us.p99)?,
        ))
    }

    /// The runs' median of cores that other programs kept busy, and their maximum.
    #[must_use]
    pub fn foreign_cores(&self) -> Option<Summary> {
        let values: Vec<f64> = self
            .runs
            .iter()
            .filter_map(|run| run.foreign_cores)
            .collect();
        Summary::of(&values)
    }

    /// Whether any run failed.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        self.runs.iter().any(|run| run.fault.is_some())
            || self.memory.iter().any(|run| run.fault.is_some())
    }
}
