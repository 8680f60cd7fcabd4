//! An experiment's TOML file: what is varied, what is run, what is drawn. The files of the papers are in
//! `crates/carrick-lab/experiments`; `carrick-lab run --experiment FILE` reads any other.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::figure::Figure;
use super::results::{CORES, Scale};
use super::target::Target;
use super::value::Value;
use crate::bench::plan::Work;
use crate::peers::Job;

/// A whole experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// On the command line, and the folder of its results.
    pub name: String,
    /// What it is about, in a line.
    pub title: String,
    /// Authors, title, venue and year of the paper; empty: none.
    #[serde(default)]
    pub paper: String,
    /// What it does, and where it cannot do as the paper did, in some sentences.
    pub about: String,
    /// The test bed of all workloads: a [`crate::testbed::TestbedPlan`] as TOML.
    #[serde(default)]
    pub testbed: toml::Table,
    /// Emulated networks by name. Subnets may be written `$client`, `$proxy` and `$server`.
    #[serde(default)]
    pub wan: BTreeMap<String, toml::Table>,
    /// Who and what is measured, by name.
    pub series: BTreeMap<String, Series>,
    /// What is run.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// What is drawn.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
}

/// Who or what is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// In legends.
    pub label: String,
    /// `routed`, `carrick-copy`, `haproxy`, …; none: as the series is called.
    #[serde(default)]
    pub peer: Option<String>,
    /// The listener that the load goes to; none: the workload's.
    #[serde(default)]
    pub job: Option<Job>,
    /// Appended to carrick's configuration. The series waits until `carrick check` takes it.
    #[serde(default)]
    pub configuration: String,
    /// What has to be built before carrick takes its configuration, such as `the cache`; none: its engine, if that is what
    /// carrick does not take.
    #[serde(default)]
    pub waiting_for: Option<String>,
    /// Another engine may carry most of the bytes, and what is measured is drawn all the same: it is what an administrator gets who asks
    /// for this one.
    #[serde(default)]
    pub any_engine: bool,
    /// Laid over the workload's load.
    #[serde(default)]
    pub load: toml::Table,
    /// Laid over the workload's test bed.
    #[serde(default)]
    pub testbed: toml::Table,
    /// Other templates of peers than the usual ones, if there are such: `squid.conf` is then `squid-NAME.conf`.
    #[serde(default)]
    pub templates: Option<String>,
}

/// One kind of run, with what is varied in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// For figures and `--only`.
    pub id: String,
    /// What it is, in a sentence.
    pub about: String,
    /// The listener of the proxies that the load goes to.
    pub job: Job,
    /// The emulated network, by name; `$parameter` stands for a parameter. None: no emulator.
    #[serde(default)]
    pub wan: Option<String>,
    /// Laid over the experiment's test bed.
    #[serde(default)]
    pub testbed: toml::Table,
    /// Who and what is measured.
    pub series: Vec<String>,
    /// What is varied: each combination is a point.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// With a key `does`, a [`Work`] of those that are run side by side, which comes from other tools, to an origin of files. Else
    /// a [`crate::load::plan::LoadPlan`] without route, times and seed. A string `$parameter`, which may be followed by
    /// operators and numbers (`$cached + 40`), stands for the parameter's value.
    pub load: toml::Table,
    /// How thorough a look is.
    pub quick: Effort,
    /// How thorough the paper was, or more.
    pub full: Effort,
    /// More samples than so many are never taken.
    #[serde(default = "any_number")]
    pub samples_max: u32,
    /// Not run unless it is named.
    #[serde(default)]
    pub on_request: bool,
    /// What has to be reached.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// Measured in the shortest of runs, that of the tests.
    #[serde(default = "smoke_seconds")]
    pub smoke_seconds: f64,
    /// Where work is done.
    #[serde(default)]
    pub cores: Cores,
    /// Watch packets at the proxy's devices and tell how long it takes to forward them.
    #[serde(default)]
    pub capture: bool,
    /// Other templates of peers than the usual ones, unless a series has its own.
    #[serde(default)]
    pub templates: Option<String>,
    /// Further servers, each for an extension: templates have them as `{{origin_EXTENSION}}`.
    #[serde(default)]
    pub origins: Vec<String>,
    /// Further arguments of `carrick-lab origin`.
    #[serde(default)]
    pub origin: Vec<String>,
    /// Metrics of a series that compare it with another.
    #[serde(default)]
    pub derived: Vec<Derived>,
    /// Percentiles of the latency as cells of a workload of their own.
    #[serde(default)]
    pub distribution: Option<Distribution>,
    /// Each class of requests as cells of a workload of their own.
    #[serde(default)]
    pub by_class: Option<ByClass>,
}

/// The values of a parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// As in the paper.
    pub values: Vec<Value>,
    /// For a look; empty: the same.
    #[serde(default)]
    pub quick: Vec<Value>,
    /// By value: laid over the workload's load.
    #[serde(default)]
    pub load: BTreeMap<String, toml::Table>,
}

/// Samples and seconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effort {
    /// Runs of each point.
    pub samples: u32,
    /// Not measured, at the beginning.
    #[serde(default)]
    pub warm_up_seconds: f64,
    /// Measured: a number, or an expression of parameters.
    pub measured_seconds: Amount,
    /// Not measured, at the end.
    #[serde(default)]
    pub shutdown_seconds: f64,
}

/// A number, or an expression of parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// A number.
    Number(f64),
    /// Such as `$file_bytes / 51`.
    Expression(String),
}

/// Where work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cores {
    /// The proxy and its packets on one core, everything else on the other: its CPU can be metered.
    #[default]
    Separate,
    /// Everything everywhere: the highest rates.
    Shared,
    /// One or the other, as the parameter `cores` says.
    Varied,
}

/// A metric of one series that compares it with another, sample by sample.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// The new metric.
    pub name: String,
    /// How it is computed.
    pub how: How,
    /// The metric that is compared.
    #[serde(default = "download")]
    pub metric: String,
    /// The series that gets it.
    pub of: String,
    /// The one that it is compared with.
    pub against: String,
}

/// How a derived metric is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// `(of - against) / against`.
    Gain,
    /// How probable it is, in percent, that a request of `of` takes longer than one of `against`, by the two
    /// distributions of latency.
    SlowerPercent,
}

/// Percentiles of the latency as cells.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The id of the workload that the cells are of. They have the parameter `percentile` and the metrics `latency_ms`
    /// and `download_bytes_per_second`.
    pub id: String,
    /// From 0 to 100.
    pub percentiles: Vec<f64>,
}

/// Classes as cells.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByClass {
    /// The id of the workload that the cells are of. They have the parameter `class_bytes` and the metrics
    /// `latency_mean_ms` and `download_bytes_per_second`.
    pub id: String,
}

/// How thorough a run is: the scale of the report, or the shortest of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// As [`Scale`].
    Scale(Scale),
    /// One point, one sample, a fraction of a second: does it work at all?
    Smoke,
}

impl Experiment {
    /// A workload by its id.
    #[must_use]
    pub fn workload(&self, id: &str) -> Option<&Workload> {
        self.workloads.iter().find(|workload| workload.id == id)
    }

    /// What the series are called in legends.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.series
            .iter()
            .map(|(name, series)| (name.clone(), series.label.clone()))
            .collect()
    }
}

impl Workload {
    /// How thorough a run at this scale is.
    #[must_use]
    pub fn effort(&self, thoroughness: Thoroughness) -> Effort {
        let mut effort = match thoroughness {
            Thoroughness::Scale(Scale::Full) => self.full.clone(),
            Thoroughness::Scale(Scale::Quick) => self.quick.clone(),
            Thoroughness::Smoke => Effort {
                samples: 1,
                warm_up_seconds: 0.0,
                measured_seconds: Amount::Number(self.smoke_seconds),
                shutdown_seconds: 0.0,
            },
        };
        effort.samples = effort.samples.min(self.samples_max);
        effort
    }

    /// The load, if it is one of those that are run side by side.
    #[must_use]
    pub fn work(&self) -> Option<Work> {
        Work::of(&self.load).ok().flatten()
    }

    /// Where work is done at a point.
    #[must_use]
    pub fn cores_at(&self, point: &BTreeMap<String, Value>) -> Cores {
        match (self.cores, point.get(CORES)) {
            (Cores::Varied, Some(Value::Word(word))) if word == "shared" => Cores::Shared,
            (Cores::Varied, _) => Cores::Separate,
            (cores, _) => cores,
        }
    }

    /// Whether there are requests of HTTP/1.0.
    #[must_use]
    pub fn is_http_1_0(&self) -> bool {
        let classes = self.load.get("class").and_then(toml::Value::as_array);
        let is_old =
            |class: &toml::Value| class.get("http_1_0") == Some(&toml::Value::Boolean(true));
        classes.is_some_and(|classes| classes.iter().any(is_old))
    }

    /// The ids of workloads of which its runs give cells: its own first.
    #[must_use]
    pub fn ids(&self) -> Vec<&str> {
        let mut ids = vec![self.id.as_str()];
        ids.extend(self.distribution.as_ref().map(|more| more.id.as_str()));
        ids.extend(self.by_class.as_ref().map(|more| more.id.as_str()));
        ids
    }
}

fn any_number() -> u32 {
    u32::MAX
}

fn smoke_seconds() -> f64 {
    0.3
}

fn download() -> String {
    String::from("download_bytes_per_second")
}
