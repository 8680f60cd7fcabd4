//! `carrick-lab list`, `carrick-lab run`, `carrick-lab report`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};

use crate::experiment::catalogue;
use crate::experiment::file;
use crate::experiment::members::{Filter, State, Tools};
use crate::experiment::progress::Progress;
use crate::experiment::results::{ExperimentResults, Scale};
use crate::experiment::runner::{Options, Session};
use crate::experiment::schedule::{show_time, workload_time};
use crate::experiment::selection::Selection;
use crate::experiment::spec::{Experiment, Thoroughness, Workload};
use crate::peers::Family;
use crate::report;
use crate::testbed::cores::{self, CorePair};

/// `carrick-lab list`
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    source: Source,
}

/// `carrick-lab run`
#[derive(Debug, Args)]
pub struct Run {
    /// The experiment, or `all` (see `carrick-lab list`)
    #[arg(required_unless_present = "experiment", conflicts_with = "experiment")]
    name: Option<String>,
    #[command(flatten)]
    source: Source,
    /// Few points, one short sample each: a look (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The grid of the paper, which can take days: see the estimate in `carrick-lab list`
    #[arg(long)]
    full: bool,
    /// One point of each workload, as short as can be, with series that were not run before: does it work at all?
    #[arg(long, hide = true, conflicts_with_all = ["quick", "full"])]
    smoke: bool,
    /// Only these programs; may be given several times
    #[arg(long = "proxy", value_name = "PROGRAM", value_enum)]
    proxies: Vec<Program>,
    /// Of carrick, only these engines; may be given several times
    #[arg(long = "engine", value_name = "ENGINE", value_parser = ["auto", "copy", "pipe", "socket", "packet"])]
    engines: Vec<String>,
    /// Where the results go: a folder for each experiment
    #[arg(long, default_value = "lab-results", value_name = "DIR")]
    out: PathBuf,
    /// For all random choices
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Only this workload, or what this figure needs; may be given several times
    #[arg(long, value_name = "WORKLOAD-OR-FIGURE")]
    only: Vec<String>,
    /// Measured seconds of each sample, in place of the experiment's own; a longer warm-up is cut to as much
    #[arg(long, value_name = "SECONDS", conflicts_with = "smoke")]
    seconds: Option<f64>,
    /// Samples of each point, in place of the experiment's own
    #[arg(long, value_name = "N", conflicts_with = "smoke")]
    samples: Option<u32>,
    /// Only points where a parameter has this value; may be given several times
    #[arg(long = "where", value_name = "PARAMETER=VALUE")]
    wheres: Vec<String>,
    /// Two cores: OTHER,PROXY. The proxy and its packets have the second to themselves
    #[arg(long, default_value = "0,1")]
    cores: String,
}

/// Where experiments and carrick come from.
#[derive(Debug, Args)]
struct Source {
    /// An experiment's file instead of a built-in one
    #[arg(long, value_name = "FILE")]
    experiment: Option<PathBuf>,
    /// carrick's program [default: this one]
    #[arg(long, value_name = "FILE")]
    carrick: Option<PathBuf>,
    /// A folder of configurations that replace the built-in ones of the same name (crates/carrick-lab/peers has these)
    #[arg(long, value_name = "FOLDER")]
    configurations: Option<PathBuf>,
}

/// `carrick-lab report`
#[derive(Debug, Args)]
pub struct Report {
    /// The folder that `carrick-lab run --out` wrote, or that of one experiment in it
    directory: PathBuf,
}

/// The programs that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Program {
    Carrick,
    Haproxy,
    Nginx,
    Squid,
    Pepsal,
    /// No proxy: the kernel routes the packets
    Routed,
}

impl Program {
    fn family(self) -> Family {
        match self {
            Self::Carrick => Family::Carrick,
            Self::Haproxy => Family::Haproxy,
            Self::Nginx => Family::Nginx,
            Self::Squid => Family::Squid,
            Self::Pepsal => Family::Pepsal,
            Self::Routed => Family::Routed,
        }
    }
}

/// Lists the experiments with their workloads, how long they take, and what they wait for. Needs no root.
///
/// # Errors
/// When an experiment's file is wrong, or there is no carrick to ask.
pub fn list(arguments: &List) -> Result<ExitCode> {
    let experiments = arguments.source.experiments(Some("all"))?;
    let folder = scratch()?;
    let mut tools = arguments.source.tools(folder.path())?;
    let mut output = super::output();
    for experiment in &experiments {
        let text = describe(experiment, &mut tools)?;
        write!(output, "{text}").context("cannot print")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(experiment: &Experiment, tools: &mut Tools) -> Result<String> {
    let mut lines = vec![format!("{}: {}", experiment.name, experiment.title)];
    if !experiment.paper.is_empty() {
        lines.push(format!("  {}", experiment.paper));
    }
    for workload in &experiment.workloads {
        let members = tools.members(experiment, workload, &Filter::default())?;
        let ready = members
            .iter()
            .filter(|member| member.state == State::Ready)
            .count();
        let figures: Vec<&str> = experiment
            .figures
            .iter()
            .filter(|figure| workload.ids().into_iter().any(|id| figure.shows(id)))
            .map(|figure| figure.number.as_str())
            .collect();
        let time = |scale| show_time(workload_time(workload, ready, Thoroughness::Scale(scale)));
        lines.push(format!(
            "  {:<20} quick {}, full {}: {}",
            workload.id,
            time(Scale::Quick),
            time(Scale::Full),
            figures.join(", ")
        ));
        for member in members {
            match member.state {
                State::Ready => {}
                State::WaitingFor(what) => {
                    lines.push(format!("  {:<20} {} waits for {what}", "", member.name))
                }
                State::Impossible(why) => {
                    lines.push(format!("  {:<20} {} is left out: {why}", "", member.name))
                }
            }
        }
    }
    lines.push(String::new());
    Ok(lines.join("\n") + "\n")
}

/// Runs experiments.
///
/// # Errors
/// When not root; when an argument is wrong; when the test bed, a server or the disk fails; when interrupted. What was
/// measured until then is kept.
pub fn run(arguments: &Run) -> Result<ExitCode> {
    let mut experiments = arguments.source.experiments(arguments.name.as_deref())?;
    choose(&mut experiments, &arguments.only)?;
    let selection = arguments.selection()?;
    selection.apply(&mut experiments)?;
    if !rustix::process::geteuid().is_root() {
        bail!("experiments need root (network namespaces): run it with sudo");
    }
    let options = arguments.options(&selection)?;
    let folder = scratch()?;
    let mut tools = arguments.source.tools(folder.path())?;
    let mut sessions = prepare(experiments, &options, &mut tools)?;
    let failed = carry_out(&mut sessions, &options)?;
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Prepares experiments to be run.
///
/// # Errors
/// When a program that they need is missing, or carrick cannot be asked.
pub(super) fn prepare(
    experiments: Vec<Experiment>,
    options: &Options,
    tools: &mut Tools,
) -> Result<Vec<Session>> {
    experiments
        .into_iter()
        .map(|experiment| Session::prepare(experiment, options, tools))
        .collect()
}

/// Runs experiments, and says what comes. Whether anything failed.
///
/// # Errors
/// When the test bed, a server or the disk fails; when interrupted. What was measured until then is kept.
pub(super) fn carry_out(sessions: &mut [Session], options: &Options) -> Result<bool> {
    let mut progress = Progress::begin(sessions.iter().map(Session::estimate).sum());
    announce(sessions, options, &progress);

    let runtime = crate::program::runtime()?;
    let mut failed = false;
    for session in sessions {
        let ended = runtime.block_on(async {
            // Dropping the measurement removes the namespaces and everything inside.
            tokio::select! {
                // The signals are listened for before anything is made.
                biased;
                name = super::interruption() => bail!("ended by {}", name?),
                ended = session.measure(&mut progress) => ended,
            }
        });
        let early = ended.as_ref().err().map(|error| format!("{error:#}"));
        let saved = session.end(early);
        let folder = session.folder().display().to_string();
        ended.with_context(|| {
            format!(
                "{}: what was measured until then is in {folder}",
                session.results.name
            )
        })?;
        saved?;
        let mut shown = Vec::new();
        for (cell, why) in session.failures() {
            failed = true;
            let text = format!(
                "{} {}, {}: {why}",
                session.results.name, cell.workload, cell.series
            );
            if !shown.contains(&text) {
                progress.say(&format!("FAILED {text}"));
                shown.push(text);
            }
        }
        progress.say(&format!("{}: results in {folder}", session.results.name));
    }
    progress.end();
    Ok(failed)
}

/// Says what will be done, how long that takes, and what is left out because it waits.
fn announce(sessions: &[Session], options: &Options, progress: &Progress) {
    let mut total = std::time::Duration::ZERO;
    for session in sessions {
        let time = session.estimate();
        total += time;
        progress.say(&format!(
            "{}: about {}",
            session.results.name,
            show_time(time)
        ));
        for (what, series) in session.waiting() {
            progress.say(&format!("  waiting for {what}: {}", series.join(", ")));
        }
    }
    if options.cores.is_none() {
        progress.say("this process may use one core only: the proxy's CPU is not metered");
    }
    progress.say(&format!("in all about {}", show_time(total)));
}

/// Draws the report of results that are on disk.
///
/// # Errors
/// When there are none, or the report cannot be written.
pub fn report(arguments: &Report) -> Result<ExitCode> {
    let results: Vec<ExperimentResults> = report::load(&arguments.directory)?;
    let file = report::write(&arguments.directory, &results)?;
    writeln!(super::output(), "{}", file.display()).context("cannot print")?;
    Ok(ExitCode::SUCCESS)
}

impl Source {
    fn experiments(&self, name: Option<&str>) -> Result<Vec<Experiment>> {
        match (&self.experiment, name) {
            (Some(file), _) => Ok(vec![file::load(file)?]),
            (None, Some(name)) => catalogue::named(name),
            (None, None) => bail!("which experiment? See `carrick-lab list`"),
        }
    }

    fn tools(&self, scratch: &Path) -> Result<Tools> {
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        // The laboratory as a program of its own stands beside carrick.
        let beside = own.with_file_name("carrick");
        let carrick = self.carrick.as_ref().unwrap_or(&beside);
        Tools::find(Some(carrick), self.configurations.as_deref(), scratch)
    }
}

impl Run {
    fn selection(&self) -> Result<Selection> {
        let mut selection = Selection {
            seconds: self.seconds,
            samples: self.samples,
            ..Selection::default()
        };
        self.wheres
            .iter()
            .try_for_each(|text| selection.add(text))?;
        Ok(selection)
    }

    fn options(&self, selection: &Selection) -> Result<Options> {
        let cores = match cores::online().len() {
            0 | 1 => None,
            _ => Some(CorePair::parse(&self.cores).context("--cores")?),
        };
        Ok(Options {
            thoroughness: match (self.smoke, self.full) {
                (true, _) => Thoroughness::Smoke,
                (false, true) => Thoroughness::Scale(Scale::Full),
                (false, false) => Thoroughness::Scale(Scale::Quick),
            },
            seed: self.seed,
            out: self.out.clone(),
            is_flat: false,
            cores,
            filter: Filter {
                families: self
                    .proxies
                    .iter()
                    .map(|program| program.family())
                    .collect(),
                engines: self.engines.clone(),
                names: Vec::new(),
            },
            selection: selection.words(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
        })
    }
}

/// Leaves only the workloads and figures of these names.
fn choose(experiments: &mut Vec<Experiment>, only: &[String]) -> Result<()> {
    if only.is_empty() {
        for experiment in experiments.iter_mut() {
            (experiment.workloads).retain(|workload| !workload.on_request);
        }
        return Ok(());
    }
    for name in only {
        let is_known = experiments.iter().any(|experiment| {
            experiment
                .workloads
                .iter()
                .any(|workload| workload.id == *name)
                || experiment.figures.iter().any(|figure| figure.id == *name)
        });
        if !is_known {
            let ids: Vec<&str> = experiments
                .iter()
                .flat_map(|experiment| {
                    let workloads = experiment
                        .workloads
                        .iter()
                        .map(|workload| workload.id.as_str());
                    workloads.chain(experiment.figures.iter().map(|figure| figure.id.as_str()))
                })
                .collect();
            bail!(
                "--only: there is no workload or figure `{name}`: {}",
                ids.join(", ")
            );
        }
    }
    for experiment in experiments.iter_mut() {
        let workloads = experiment.workloads.clone();
        let is_named = |id: &str| only.iter().any(|name| name == id);
        experiment.figures.retain(|figure| {
            let shown = |workload: &Workload| {
                is_named(&workload.id) && workload.ids().into_iter().any(|id| figure.shows(id))
            };
            is_named(&figure.id) || workloads.iter().any(shown)
        });
        let drawn = experiment
            .figures
            .iter()
            .filter(|figure| is_named(&figure.id));
        let drawn: Vec<_> = drawn.collect();
        experiment.workloads.retain(|workload| {
            let is_drawn = |id| drawn.iter().any(|figure| figure.shows(id));
            is_named(&workload.id) || workload.ids().into_iter().any(is_drawn)
        });
    }
    experiments.retain(|experiment| !experiment.workloads.is_empty());
    Ok(())
}

/// A folder for what carrick is asked about, removed on drop.
pub(super) fn scratch() -> Result<Scratch> {
    let name = crate::testbed::name::RunName::of_this_process()?;
    let path = std::env::temp_dir().join(format!("{name}.asked"));
    std::fs::create_dir_all(&path)
        .with_context(|| format!("cannot make the folder {}", path.display()))?;
    Ok(Scratch(path))
}

pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left there is a few lines.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;
