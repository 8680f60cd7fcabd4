//! `carrick-lab bench`: carrick and its peers, side by side, in network namespaces of its own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};

use crate::bench::plan::{Does, MemoryKind};
use crate::experiment::catalogue;
use crate::experiment::members::{Filter, Tools};
use crate::experiment::results::{CORES, ExperimentResults, Scale};
use crate::experiment::runner::Options as Runs;
use crate::experiment::selection::Selection;
use crate::experiment::spec::{Experiment, Thoroughness, Workload};
use crate::experiment::value::Value;
use crate::peers::{Family, Peer, by_name};
use crate::report;
use crate::testbed::cores::CorePair;

/// `carrick-lab bench`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    tool: Option<Tool>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// Draw the tables and plots of an earlier run again
    Report {
        /// The folder that holds results.json
        directory: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Options {
    /// carrick's program
    #[arg(long, default_value = "target/release/carrick")]
    carrick: PathBuf,
    /// A folder of configurations that replace the built-in ones of the same name (crates/carrick-lab/peers has these)
    #[arg(long, value_name = "FOLDER")]
    configurations: Option<PathBuf>,
    /// Where the table, JSON and plots go
    #[arg(long, default_value = "bench-results")]
    out: PathBuf,
    /// One short run of each cell: a look, not a result
    #[arg(long)]
    quick: bool,
    /// Runs of each cell, interleaved; medians are reported [default: 5; quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Seconds of each run [default: 2; quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Works to run, as switch-1k,tunnel-64k,memory-tunnel or groups: switch,tunnel,tunnel-256,ping,bulk,forward,cache,
    /// cache-hit,cache-hit-256,cache-disk,cache-miss,memory
    /// (see --list)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Peers to run, as carrick-pipe,nginx or whole families: carrick,haproxy (see --list)
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Figures to take: rate (requests/s, shared cores), cpu (the proxy's CPU per request)
    #[arg(long, value_delimiter = ',', default_values = ["rate", "cpu"])]
    figures: Vec<String>,
    /// Two cores: OTHER,PROXY. For the CPU figure the proxy and its packets have the second to themselves
    #[arg(long, default_value = "0,1")]
    cores: String,
    /// Idle connections held for the memory figure
    #[arg(long, default_value_t = 9000)]
    idle_connections: usize,
    /// List works and peers
    #[arg(long)]
    list: bool,
}

/// Does what `carrick-lab bench` was asked for.
///
/// # Errors
/// When the test bed or a tool fails.
pub fn run(arguments: Bench) -> Result<ExitCode> {
    match arguments.tool {
        Some(Tool::Report { directory }) => show(&report::load_one(&directory)?, &directory),
        None if arguments.options.list => list(),
        None => measure(&arguments.options),
    }
}

fn measure(options: &Options) -> Result<ExitCode> {
    let mut experiment = catalogue::bench()?;
    choose(&mut experiment, &options.only)?;
    place(&mut experiment, &options.figures)?;
    hold(&mut experiment, options.idle_connections);
    let peers = chosen_peers(&experiment, &options.peers)?;
    let selection = Selection {
        seconds: options.seconds.map(|seconds| seconds as f64),
        samples: options.repetitions,
        ..Selection::default()
    };
    let mut experiments = vec![experiment];
    selection.apply(&mut experiments)?;
    let scale = match options.quick {
        true => Scale::Quick,
        false => Scale::Full,
    };
    let runs = Runs {
        thoroughness: Thoroughness::Scale(scale),
        seed: 1,
        out: options.out.clone(),
        is_flat: true,
        cores: Some(CorePair::parse(&options.cores).context("--cores")?),
        filter: Filter {
            names: options.peers.clone(),
            ..Filter::default()
        },
        selection: selection.words(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    };
    let needs_carrick = peers.iter().any(|peer| peer.family == Family::Carrick);
    let carrick = needs_carrick.then_some(options.carrick.as_path());
    let folder = super::experiment::scratch()?;
    let mut tools = Tools::find(carrick, options.configurations.as_deref(), folder.path())
        .context("leave it out with --peers, or mend this")?;
    let mut sessions = super::experiment::prepare(experiments, &runs, &mut tools)?;
    if let Some(why) = sessions.iter().find_map(|session| session.impossible()) {
        bail!("{why}; or leave it out with --peers");
    }
    super::experiment::carry_out(&mut sessions, &runs)?;
    let session = sessions.first().context("nothing was run")?;
    show(&session.results, &options.out)
}

fn show(results: &ExperimentResults, out: &Path) -> Result<ExitCode> {
    let table = report::write_side_by_side(out, results)?;
    writeln!(super::output(), "{table}").context("cannot print the table")?;
    Ok(if results.cells.iter().any(|cell| cell.failure.is_some()) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn list() -> Result<ExitCode> {
    let experiment = catalogue::bench()?;
    let mut output = super::output();
    writeln!(output, "works (those in brackets only when named):").context("cannot print")?;
    for workload in &experiment.workloads {
        let name = if workload.on_request {
            format!("[{}]", workload.id)
        } else {
            workload.id.clone()
        };
        writeln!(output, "  {name:<20} {}", workload.about).context("cannot print")?;
    }
    writeln!(output, "peers:").context("cannot print")?;
    for peer in peers(&experiment) {
        let jobs: Vec<&str> = peer.jobs.iter().map(|job| job.name()).collect();
        writeln!(output, "  {:<20} {}", peer.name, jobs.join(", ")).context("cannot print")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Leaves the workloads that the words mean; without words, those that run without being named.
fn choose(experiment: &mut Experiment, only: &[String]) -> Result<()> {
    let ids: Vec<String> = (experiment.workloads.iter())
        .map(|workload| workload.id.clone())
        .collect();
    for word in only {
        if !experiment
            .workloads
            .iter()
            .any(|workload| is_meant_by(workload, word, &ids))
        {
            bail!("there is no work `{word}`: see --list");
        }
    }
    experiment.workloads.retain(|workload| match only {
        [] => !workload.on_request,
        words => words.iter().any(|word| is_meant_by(workload, word, &ids)),
    });
    let left = &experiment.workloads;
    let is_shown = |figure: &crate::experiment::figure::Figure| {
        left.iter().any(|workload| figure.shows(&workload.id))
    };
    experiment.figures.retain(is_shown);
    Ok(())
}

/// Whether a word of the command line means a workload: by its name, or by the beginning of its name up to a hyphen, unless that is another's
/// name; what runs only when it is named is not meant by that.
fn is_meant_by(workload: &Workload, word: &str, ids: &[String]) -> bool {
    let rest = workload.id.strip_prefix(word);
    let is_group = !workload.on_request && !ids.iter().any(|id| id == word);
    rest.is_some_and(|rest| rest.is_empty() || (is_group && rest.starts_with('-')))
}

/// Leaves the placements of cores that the figures need: all share them for rates, the proxy has one of its own for CPU.
fn place(experiment: &mut Experiment, figures: &[String]) -> Result<()> {
    let wanted = figures
        .iter()
        .map(|name| match name.as_str() {
            "rate" => Ok(Value::Word(String::from("shared"))),
            "cpu" => Ok(Value::Word(String::from("separate"))),
            other => bail!("there is no figure `{other}`: rate, cpu"),
        })
        .collect::<Result<Vec<_>>>()?;
    for workload in &mut experiment.workloads {
        if let Some(cores) = workload.parameters.get_mut(CORES) {
            cores.values.retain(|value| wanted.contains(value));
        }
    }
    Ok(())
}

/// Holds so many connections where memory is measured.
fn hold(experiment: &mut Experiment, connections: usize) {
    for workload in &mut experiment.workloads {
        if let Some(Does::Memory(kind)) = workload.work().map(|work| work.does)
            && kind != MemoryKind::StoredObject
        {
            let connections = i64::try_from(connections).unwrap_or(i64::MAX);
            let connections = toml::Value::Integer(connections);
            workload
                .load
                .insert(String::from("connections"), connections);
        }
    }
}

/// The peers of the workloads, each once.
fn peers(experiment: &Experiment) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    for name in experiment
        .workloads
        .iter()
        .flat_map(|workload| &workload.series)
    {
        if let Some(peer) = by_name(name).filter(|peer| !peers.contains(peer)) {
            peers.push(peer);
        }
    }
    peers
}

fn chosen_peers(experiment: &Experiment, names: &[String]) -> Result<Vec<Peer>> {
    let picks = |name: &str, peer: &Peer| peer.name == name || peer.family.name() == name;
    for name in names {
        if !crate::peers::PEERS.iter().any(|peer| picks(name, peer)) {
            bail!("there is no peer `{name}`: see --list");
        }
    }
    let mut peers = peers(experiment);
    peers.retain(|peer| names.is_empty() || names.iter().any(|name| picks(name, peer)));
    Ok(peers)
}

#[cfg(test)]
mod tests;
