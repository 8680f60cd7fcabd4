//! Runs an experiment: sample after sample every series takes its turn at every point, so that slow changes of the machine
//! hit all alike; the results are on disk after each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};

use super::bed::{self, Bed};
use super::derived::{self, Outcomes};
use super::expression::{Point, interpolate, show_point};
use super::forwarding::Ends;
use super::members::{self, Filter, Member, State, Tools};
use super::metered::Metered;
use super::progress::Progress;
use super::results::{Cell, Described, ExperimentResults, Sample, Scale};
use super::sample;
use super::schedule;
use super::spec::{Amount, Cores, Effort, Experiment, Thoroughness, Workload};
use super::store::Store;
use crate::bench::plan::Work;
use crate::bench::run::Run;
use crate::command::require;
use crate::content::mix;
use crate::peers::Programs;
use crate::testbed::TestbedPlan;
use crate::testbed::cores::{CorePair, Placement};
use crate::testbed::machine::Machine;

/// One packet in so many that the emulated network may refuse before a reader is told.
const REFUSED_SHARE_INVERSE: u64 = 1000;
/// Measured again in the shortest of runs, where nothing was completed.
const SMOKE_SECONDS_MAX: f64 = 10.0;
/// Cores kept busy by programs outside the test bed, from which on a reader is told.
const FOREIGN_CORES_NOISY: f64 = 0.1;
/// What the reader is told.
const NOISY: &str = "noisy: at times, programs outside the test bed kept more than a tenth of a core busy (see `foreign_cores` in the samples)";

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How thorough.
    pub thoroughness: Thoroughness,
    /// For all random choices.
    pub seed: u64,
    /// Where results go: a folder for each experiment.
    pub out: PathBuf,
    /// No folder for each: into `out` itself.
    pub is_flat: bool,
    /// The cores to use; none: this machine has only one, so the proxy's CPU cannot be metered.
    pub cores: Option<CorePair>,
    /// What is left out.
    pub filter: Filter,
    /// What was replaced of the experiment's own grid, for the report.
    pub selection: Option<String>,
    /// The command line, for the report.
    pub command: String,
}

/// An experiment under way. Its results are whole at any moment, so that a run can be ended at any moment.
#[derive(Debug)]
pub struct Session {
    experiment: Experiment,
    options: Options,
    members: Vec<Vec<Member>>,
    programs: Programs,
    /// If a workload needs it.
    wrk: PathBuf,
    store: Store,
    started: Instant,
    outcomes: Outcomes,
    /// The workload that is being measured: what follows from its cells is still to be added.
    current: Option<usize>,
    /// What was measured until now.
    pub results: ExperimentResults,
}

impl Session {
    /// Prepares: asks carrick what it can do.
    ///
    /// # Errors
    /// When carrick cannot be asked.
    pub fn prepare(experiment: Experiment, options: &Options, tools: &mut Tools) -> Result<Self> {
        let mut members = experiment
            .workloads
            .iter()
            .map(|workload| tools.members(&experiment, workload, &options.filter))
            .collect::<Result<Vec<_>>>()?;
        if options.thoroughness == Thoroughness::Smoke {
            members::keep_new(&mut members);
        }
        let plan: TestbedPlan = experiment
            .testbed
            .clone()
            .try_into()
            .context("the test bed")?;
        let folder = match options.is_flat {
            true => options.out.clone(),
            false => options.out.join(&experiment.name),
        };
        let wrk = match experiment.workloads.iter().any(|one| one.work().is_some()) {
            true => require("wrk")?,
            false => PathBuf::new(),
        };
        let described = experiment.workloads.iter().map(|workload| Described {
            id: workload.id.clone(),
            about: workload.about.clone(),
            samples: workload.effort(options.thoroughness).samples,
            work: workload.work(),
            targets: workload.targets.clone(),
        });
        let results = ExperimentResults {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            paper: experiment.paper.clone(),
            about: experiment.about.clone(),
            scale: match options.thoroughness {
                Thoroughness::Scale(scale) => scale,
                Thoroughness::Smoke => Scale::Quick,
            },
            selection: options.selection.clone(),
            command: options.command.clone(),
            started_unix_seconds: now_unix_seconds(),
            took_seconds: 0.0,
            seed: options.seed,
            congestion_control: plan.congestion,
            machine: Machine::read(),
            versions: tools.programs.versions(),
            meter: String::new(),
            // Until it has.
            ended_early: Some(String::from("it did not come to its end")),
            notes: Vec::new(),
            workloads: described.collect(),
            cells: Vec::new(),
            figures: experiment.figures.clone(),
            series_labels: experiment.labels(),
        };
        Ok(Self {
            experiment,
            options: options.clone(),
            members,
            programs: tools.programs.clone(),
            wrk,
            store: Store::new(folder),
            started: Instant::now(),
            outcomes: Outcomes::default(),
            current: None,
            results,
        })
    }

    /// How long it will take.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        self.experiment
            .workloads
            .iter()
            .zip(&self.members)
            .map(|(workload, members)| {
                let ready = members
                    .iter()
                    .filter(|member| member.state == State::Ready)
                    .count();
                schedule::workload_time(workload, ready, self.options.thoroughness)
            })
            .sum()
    }

    /// Why a series cannot be measured on this machine, if one cannot.
    #[must_use]
    pub fn impossible(&self) -> Option<String> {
        let mut members = self.members.iter().flatten();
        members.find_map(|member| match &member.state {
            State::Impossible(why) => Some(format!("{}: {why}", member.name)),
            State::Ready | State::WaitingFor(_) => None,
        })
    }

    /// What it waits for: each once, with the series that do.
    #[must_use]
    pub fn waiting(&self) -> BTreeMap<String, Vec<String>> {
        let mut waiting: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for member in self.members.iter().flatten() {
            if let State::WaitingFor(what) = &member.state {
                let series = waiting.entry(what.clone()).or_default();
                if !series.contains(&member.name) {
                    series.push(member.name.clone());
                }
            }
        }
        waiting
    }

    /// Measures everything. Dropping the future ends it at once; [`Self::end`] is to be called in any case.
    ///
    /// # Errors
    /// When the test bed, a server or the disk fails. A proxy that fails is no error: its cell says so.
    pub async fn measure(&mut self, progress: &mut Progress) -> Result<()> {
        self.started = Instant::now();
        self.results.started_unix_seconds = now_unix_seconds();
        self.store.begin()?;
        let mut beds: Vec<Bed> = Vec::new();
        for index in 0..self.experiment.workloads.len() {
            Box::pin(self.measure_workload(index, &mut beds, progress)).await?;
            self.save()?;
        }
        for bed in &mut beds {
            let counts = bed.connect(None).await?;
            self.note_network(counts);
        }
        Ok(())
    }

    /// Brings the results into their final state and saves them. `early`: why it ended before everything was measured.
    ///
    /// # Errors
    /// When they cannot be saved.
    pub fn end(&mut self, early: Option<String>) -> Result<()> {
        self.results.ended_early = early;
        self.derive();
        self.save()?;
        self.store.save_samples(&self.results)
    }

    /// Cells that failed, with why.
    pub fn failures(&self) -> impl Iterator<Item = (&Cell, &str)> {
        let cells = self.results.cells.iter();
        cells.filter_map(|cell| Some((cell, cell.failure.as_deref()?)))
    }

    /// Where the results are.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.store.folder()
    }

    async fn measure_workload(
        &mut self,
        index: usize,
        beds: &mut Vec<Bed>,
        progress: &mut Progress,
    ) -> Result<()> {
        let workload = self.experiment.workloads[index].clone();
        let members = self.members[index].clone();
        let effort = workload.effort(self.options.thoroughness);
        let points = self.points(&workload)?;
        self.outcomes = Outcomes::default();
        self.current = Some(index);
        let first = self.results.cells.len();
        for point in &points {
            for member in &members {
                self.results
                    .cells
                    .push(empty_cell(&workload, member, point));
            }
        }
        for round in 0..effort.samples {
            for (row, point) in points.iter().enumerate() {
                for (column, member) in members.iter().enumerate() {
                    let index = first + row * members.len() + column;
                    if member.state != State::Ready {
                        continue;
                    }
                    let time = schedule::sample_time(&effort, point);
                    let mut what = format!("{} {}", self.experiment.name, workload.id);
                    for part in [show_point(point), member.name.clone()] {
                        if !part.is_empty() {
                            what += &format!(", {part}");
                        }
                    }
                    progress.at_work(&what);
                    let said = if self.results.cells[index].waiting_for.is_some() {
                        String::from("waits")
                    } else if self.results.cells[index].failure.is_some() {
                        // It has failed for good: another sample would not mend it.
                        String::from("failed before")
                    } else {
                        let bed = self.bed(beds, member, &workload, point, progress).await?;
                        Box::pin(self.one(bed, &workload, member, point, &effort, round, index))
                            .await?
                    };
                    progress.step(time, &format!("{what}: {said}"));
                }
            }
        }
        self.derive();
        Ok(())
    }

    /// Points with the same network stand together, so that it is not built anew for each.
    fn points(&self, workload: &Workload) -> Result<Vec<Point>> {
        let mut points = schedule::points(workload, self.options.thoroughness);
        if let Some(network) = &workload.wan {
            for point in &points {
                interpolate(network, point)?;
            }
            points.sort_by_cached_key(|point| interpolate(network, point).unwrap_or_default());
        }
        Ok(points)
    }

    /// The test bed of a member, with servers and placement: the one that is there, or a new one.
    async fn bed<'a>(
        &mut self,
        beds: &'a mut Vec<Bed>,
        member: &Member,
        workload: &Workload,
        point: &Point,
        progress: &Progress,
    ) -> Result<&'a mut Bed> {
        let known = beds
            .iter()
            .position(|bed| *bed.testbed.plan() == member.testbed);
        let index = match known {
            Some(index) => index,
            None => {
                let bed = Bed::build(&member.testbed)?;
                if let Some(why) = bed.testbed.without_congestion() {
                    progress.say(why);
                    self.note(why);
                }
                beds.push(bed);
                beds.len() - 1
            }
        };
        let bed = &mut beds[index];
        let placement = match (workload.cores_at(point), self.options.cores) {
            (Cores::Separate, Some(pair)) => Placement::Separate(pair),
            _ => Placement::Shared,
        };
        let calibration = match self.options.thoroughness {
            Thoroughness::Smoke => None,
            Thoroughness::Scale(Scale::Quick) => Some(Duration::from_millis(400)),
            Thoroughness::Scale(Scale::Full) => Some(Duration::from_secs(2)),
        };
        let was_checked = bed.calibration.is_some();
        bed.place(placement, calibration).await?;
        if let (Some(checked), false) = (&bed.calibration, was_checked) {
            let background = match workload.work() {
                Some(_) => "not subtracted",
                None => "taken off",
            };
            let text = format!(
                "{}; the proxy's core with nothing to do is busy for {:.1} % ({background}); off by {:.1} points at most with spinners of 5, 30 and 90 %",
                checked.source.describe(),
                100.0 * checked.idle_busy_share,
                checked.worst_error_percent()
            );
            progress.say(&format!("the meter: {text}"));
            if let Some(check) = checked.slowdown {
                let text = format!(
                    "{}: the proxy has {:.1} % of its core; waking the spinner that takes the rest, and what else the core does without a proxy, is {:.1} % of the core (taken off)",
                    workload.id,
                    100.0 * (1.0 - check.taken_share),
                    100.0 * check.other_busy_share
                );
                progress.say(&text);
                self.note(&text);
            }
            if checked.idle_busy_share >= bed::QUIET_SHARE {
                let text = "the proxy's core was busy with something else when its background was measured: there are no figures of CPU, or none to be trusted";
                progress.say(text);
                self.note(text);
            }
            self.results.meter = text;
        } else if self.results.meter.is_empty()
            && workload.cores != Cores::Varied
            && placement == Placement::Shared
        {
            self.results.meter = String::from("not used: everything shared the cores");
        }
        bed.serve(&self.experiment, workload, &self.programs)
            .await?;
        Ok(bed)
    }

    /// One sample of one cell: kept in the results, and in a few words.
    #[expect(clippy::too_many_arguments, reason = "what one sample is of")]
    async fn one(
        &mut self,
        bed: &mut Bed,
        workload: &Workload,
        member: &Member,
        point: &Point,
        effort: &Effort,
        round: u32,
        index: usize,
    ) -> Result<String> {
        let seed = mix(self.options.seed.wrapping_add(u64::from(round)));
        if let Some(work) = workload.work() {
            return self
                .one_side_by_side(bed, &work, member, point, effort, index)
                .await;
        }
        let addresses = bed.testbed.addresses();
        let network = bed::network(&self.experiment, workload, point, &addresses, seed)?;
        let counts = bed.connect(network).await?;
        self.note_network(counts);
        let mut measured =
            Box::pin(sample::measure(bed, workload, member, point, effort, seed)).await;
        if self.options.thoroughness == Thoroughness::Smoke && sample::is_too_short(&measured) {
            // Busy machines are slow: what a test wants to know is whether it works, not how fast.
            let longer = Effort {
                measured_seconds: Amount::Number(SMOKE_SECONDS_MAX),
                ..effort.clone()
            };
            measured = Box::pin(sample::measure(bed, workload, member, point, &longer, seed)).await;
        }
        bed.check()?;
        let said = match measured {
            Ok(metered) => self.keep(metered, bed, workload, member, point, index),
            Err(error) => self.fail(index, &error),
        };
        self.save()?;
        Ok(said)
    }

    /// The same of a load that is run side by side.
    async fn one_side_by_side(
        &mut self,
        bed: &mut Bed,
        work: &Work,
        member: &Member,
        point: &Point,
        effort: &Effort,
        index: usize,
    ) -> Result<String> {
        let run = Run {
            testbed: &bed.testbed,
            origin: bed.origin()?,
            programs: &member.programs,
            wrk: &self.wrk,
            peer: &member.peer,
            job: member.job,
            work,
            warm_up_seconds: effort.warm_up_seconds,
            seconds: schedule::measured_seconds(effort, point)?,
        };
        let measured = Box::pin(run.measure()).await;
        // A fault of the origin would be taken for one of the proxies.
        bed.check()?;
        let said = match measured {
            Ok(sample) => {
                if sample
                    .get("foreign_cores")
                    .is_some_and(|cores| *cores > FOREIGN_CORES_NOISY)
                {
                    self.note(NOISY);
                }
                let said = show_sample(&sample);
                self.results.cells[index].samples.push(sample);
                said
            }
            Err(error) => self.fail(index, &error),
        };
        self.save()?;
        Ok(said)
    }

    fn fail(&mut self, index: usize, error: &anyhow::Error) -> String {
        let failure = format!("{error:#}");
        self.results.cells[index].failure = Some(failure.clone());
        format!("FAILED: {failure}")
    }

    fn keep(
        &mut self,
        metered: Metered,
        bed: &Bed,
        workload: &Workload,
        member: &Member,
        point: &Point,
        index: usize,
    ) -> String {
        let addresses = bed.testbed.addresses();
        let ends = Ends {
            client: addresses.client,
            server: addresses.server,
        };
        let sample = sample::metrics_of(&metered, workload, ends);
        if let Some(cpu) = &metered.cpu {
            if cpu.foreign_cores > FOREIGN_CORES_NOISY {
                self.note(NOISY);
            }
            if cpu.backlog_dropped > 0 {
                self.note("the kernel dropped packets because a core's queue was full (net.core.netdev_max_backlog)");
            }
        }
        let cell = &mut self.results.cells[index];
        if let Some(failure) = sample::failure(&metered.outcome) {
            cell.failure = Some(failure.clone());
            return format!("FAILED: {failure}");
        }
        if !metered.is_its_work {
            let what = format!(
                "the {} engine for such traffic: another one carried it",
                member.peer.engine().unwrap_or_default()
            );
            // Other points may fare otherwise: a large body does not fit into the process' first burst.
            cell.waiting_for = Some(what.clone());
            cell.samples.clear();
            return format!("waits for {what}");
        }
        let rate = metered.outcome.requests_per_second();
        let latency = sample.get("latency_mean_ms").copied().unwrap_or_default();
        cell.samples.push(sample);
        self.outcomes
            .add(&member.name, point, metered.outcome, metered.class_bytes);
        format!("{rate:.1} requests/s, {latency:.1} ms")
    }

    /// Adds what follows from the cells of the current workload, which is measured as far as it will be.
    fn derive(&mut self) {
        let Some(index) = self.current.take() else {
            return;
        };
        let workload = &self.experiment.workloads[index];
        derived::compare(workload, &mut self.results.cells, &self.outcomes);
        let further = derived::further_cells(workload, &self.results.cells, &self.outcomes);
        self.results.cells.extend(further);
    }

    fn note_network(&mut self, counts: Option<crate::wan::spec::WanCounts>) {
        let Some(counts) = counts else { return };
        if counts.overruns > 0 {
            self.note(&format!(
                "the emulated network lost {} packets that it should not have lost: the machine was too slow for it",
                counts.overruns
            ));
        }
        let packets = counts.unmatched + counts.rules.iter().map(|rule| rule.packets).sum::<u64>();
        // A few are always refused: what devices send by themselves when they come up.
        if counts.refused * REFUSED_SHARE_INVERSE > packets {
            self.note(&format!(
                "the emulated network could not send {} of {packets} packets on",
                counts.refused
            ));
        }
    }

    fn note(&mut self, text: &str) {
        if !self.results.notes.iter().any(|known| known == text) {
            self.results.notes.push(text.to_owned());
        }
    }

    fn save(&mut self) -> Result<()> {
        self.results.took_seconds = self.started.elapsed().as_secs_f64();
        self.store.save(&self.results)
    }
}

/// The metrics of a sample that matter most, for the progress.
fn show_sample(sample: &Sample) -> String {
    let of = |(name, unit, divide_by): &(&str, &str, f64)| {
        let value = sample.get(*name)?;
        Some(format!("{:.1} {unit}", value / divide_by))
    };
    let parts: Vec<String> = [
        ("requests_per_second", "requests/s", 1.0),
        ("throughput_bytes_per_second", "Gbit/s", 125e6),
        ("cpu_us_per_request", "us of CPU each", 1.0),
        ("cpu_ms_per_gigabyte", "ms of CPU per GB", 1.0),
        ("process_bytes_each", "bytes each", 1.0),
    ]
    .iter()
    .filter_map(of)
    .collect();
    parts.join(", ")
}

fn now_unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn empty_cell(workload: &Workload, member: &Member, point: &Point) -> Cell {
    let (waiting_for, failure) = match &member.state {
        State::Ready => (None, None),
        State::WaitingFor(what) => (Some(what.clone()), None),
        State::Impossible(why) => (None, Some(why.clone())),
    };
    Cell {
        workload: workload.id.clone(),
        series: member.name.clone(),
        parameters: point.clone(),
        samples: Vec::new(),
        waiting_for,
        failure,
    }
}
