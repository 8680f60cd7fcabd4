//! Everything that was measured, as it is written to `results.json`: raw runs, from which tables and plots are drawn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bench::memory::{MemoryKind, MemoryRun};
use crate::bench::works;
use crate::bench::wrk::Measured;
use crate::statistics::Summary;
use crate::testbed::busy::Busy;
use crate::testbed::calibration::Calibration;
use crate::testbed::cores::CorePair;
use crate::testbed::machine::Machine;
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
    /// CPU seconds of the proxy's processes alone, user and system.
    pub process_seconds: Option<f64>,
    /// Of an engine that has to be asked for: its share of the bytes that carrick moved, from 0 to 1.
    #[serde(default)]
    pub engine_share: Option<f64>,
    /// Cores that programs outside the benchmark kept busy meanwhile: their CPU time divided by the run's.
    pub foreign_cores: Option<f64>,
    /// Connections accepted and opened in the proxy's namespace (in the server's, when routed).
    pub connections: Option<Connections>,
    /// Requests that reached the origin meanwhile; only where the proxy has a cache.
    #[serde(default)]
    pub origin_requests: Option<u64>,
    /// When the clients of a crowd had what they came for.
    #[serde(default)]
    pub crowd: Option<Crowd>,
    /// Why the run must not be used.
    pub fault: Option<String>,
}

/// When the first and the last of many clients that asked at once had it all, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowd {
    /// The first one.
    pub first_us: u64,
    /// The last one.
    pub last_us: u64,
}

impl Run {
    /// The run's value for its figure: requests/s, or microseconds per request; of a stream Gbit/s, or milliseconds per
    /// gigabyte (10^9 bytes).
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self.figure {
            Figure::Rate => {
                let measured = self.usable()?;
                Some(if self.is_stream() {
                    measured.gigabits_per_second()
                } else {
                    measured.requests_per_second()
                })
            }
            Figure::Cpu => self.cpu_each(self.busy?.busy_seconds),
        }
    }

    /// CPU of the proxy's processes alone, in the unit of [`Self::value`]; only from runs in which the proxy had a core to
    /// itself.
    #[must_use]
    pub fn process_value(&self) -> Option<f64> {
        (self.figure == Figure::Cpu)
            .then(|| self.cpu_each(self.process_seconds?))
            .flatten()
    }

    fn usable(&self) -> Option<&Measured> {
        self.measured.as_ref().filter(|_| self.fault.is_none())
    }

    fn is_stream(&self) -> bool {
        works::named(&self.work).is_some_and(|work| work.is_stream())
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a run has far fewer than 2^52 requests or bytes"
    )]
    fn cpu_each(&self, seconds: f64) -> Option<f64> {
        let measured = self.usable()?;
        Some(if self.is_stream() {
            seconds * 1e3 / (measured.bytes as f64 / 1e9)
        } else {
            seconds * 1e6 / measured.requests as f64
        })
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

    /// CPU of the proxy's processes alone, of one work on one peer.
    #[must_use]
    pub fn process_cell(&self, work: &str, peer: &str) -> Cell {
        let values: Vec<f64> = self
            .runs
            .iter()
            .filter(|run| run.work == work && run.peer == peer)
            .filter_map(Run::process_value)
            .collect();
        Summary::of(&values).map_or(Cell::Absent, Cell::Measured)
    }

    /// Of an engine that has to be asked for: the median of its shares of the bytes.
    #[must_use]
    pub fn engine_share(&self, work: &str, peer: &str) -> Option<f64> {
        let of = |run: &&Run| run.work == work && run.peer == peer;
        let shares: Vec<f64> = self
            .runs
            .iter()
            .filter(of)
            .filter_map(|run| run.engine_share)
            .collect();
        Summary::of(&shares).map(|summary| summary.median)
    }

    /// The median of what `pick` takes from the runs that can be used.
    #[must_use]
    pub fn median_of(
        &self,
        work: &str,
        peer: &str,
        pick: impl Fn(&Run) -> Option<f64>,
    ) -> Option<f64> {
        let of = |run: &&Run| run.work == work && run.peer == peer && run.fault.is_none();
        let values: Vec<f64> = self.runs.iter().filter(of).filter_map(pick).collect();
        Summary::of(&values).map(|summary| summary.median)
    }

    /// Bytes of process memory per idle connection, or per stored object.
    #[must_use]
    pub fn memory_cell(&self, kind: MemoryKind, peer: &str) -> Cell {
        let runs = self
            .memory
            .iter()
            .filter(|run| run.kind == kind && run.peer == peer);
        Cell::of(runs.map(|run| {
            run.bytes_each()
                .ok_or_else(|| run.fault.clone().unwrap_or_default())
        }))
    }

    /// Medians of the median and of the 99 % latencies, in microseconds, of the runs with shared cores. Streams have none.
    #[must_use]
    pub fn latency_us(&self, work: &str, peer: &str) -> Option<(f64, f64)> {
        let of = |pick: fn(&Measured) -> f64| {
            let values: Vec<f64> = self
                .runs
                .iter()
                .filter(|run| {
                    run.work == work
                        && run.peer == peer
                        && run.figure == Figure::Rate
                        && run.fault.is_none()
                })
                .filter_map(|run| run.measured.as_ref().map(pick))
                .filter(|us| *us > 0.0)
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
