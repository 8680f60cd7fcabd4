//! `carrick-lab bench`: carrick and its peers, side by side, in network namespaces of its own.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::bench::memory::MemoryKind;
use crate::bench::report;
use crate::bench::results::{Figure, Results};
use crate::bench::runner::{self, Plan, default_carrick};
use crate::bench::works::{WORKS, Work};
use crate::peers::{PEERS, Peer};
use crate::testbed::cores::CorePair;
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};

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
    #[arg(long, default_value = default_carrick().as_os_str())]
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
    let runtime = crate::program::runtime()?;
    match arguments.tool {
        Some(Tool::Report { directory }) => show(&report::load_json(&directory)?, &directory),
        None if arguments.options.list => list(),
        None => {
            let plan = plan(arguments.options)?;
            let results = runtime.block_on(async {
                // Dropping the run removes the namespaces and everything inside.
                tokio::select! {
                    // The signals are listened for before anything is made.
                    biased;
                    name = super::interruption() => bail!("ended by {}; what was measured until then is in {}", name?, plan.out.display()),
                    results = runner::run(&plan) => results,
                }
            })?;
            show(&results, &plan.out)
        }
    }
}

fn show(results: &Results, out: &std::path::Path) -> Result<ExitCode> {
    let table = report::write_all(results, out)?;
    writeln!(super::output(), "{table}").context("cannot print the table")?;
    Ok(if results.has_faults() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn list() -> Result<ExitCode> {
    let mut output = super::output();
    writeln!(output, "works (those in brackets only when named):").context("cannot print")?;
    for work in WORKS {
        let name = if work.by_default {
            work.name.to_owned()
        } else {
            format!("[{}]", work.name)
        };
        writeln!(output, "  {name:<20} {}", work.title).context("cannot print")?;
    }
    for kind in MemoryKind::ALL {
        writeln!(output, "  {:<20} memory per {}", kind.name(), kind.title())
            .context("cannot print")?;
    }
    writeln!(output, "peers:").context("cannot print")?;
    for peer in PEERS {
        let jobs: Vec<&str> = peer.jobs.iter().map(|job| job.name()).collect();
        writeln!(output, "  {:<20} {}", peer.name, jobs.join(", ")).context("cannot print")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(options: Options) -> Result<Plan> {
    let (works, memory) = choose_works(&options.only)?;
    let figures = options
        .figures
        .iter()
        .map(|name| match name.as_str() {
            "rate" => Ok(Figure::Rate),
            "cpu" => Ok(Figure::Cpu),
            other => bail!("there is no figure `{other}`: rate, cpu"),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Plan {
        command: std::env::args().collect::<Vec<_>>().join(" "),
        works,
        peers: choose_peers(&options.peers)?,
        figures,
        memory,
        memory_connections: options.idle_connections,
        repetitions: options
            .repetitions
            .unwrap_or(if options.quick { 1 } else { 5 }),
        seconds: options.seconds.unwrap_or(if options.quick { 1 } else { 2 }),
        warm_up: !options.quick,
        calibration: Duration::from_secs(if options.quick { 1 } else { 2 }),
        cores: CorePair::parse(&options.cores).context("--cores")?,
        carrick: options.carrick,
        configurations: options.configurations,
        out: options.out,
    })
}

fn choose_works(only: &[String]) -> Result<(Vec<Work>, Vec<MemoryKind>)> {
    if only.is_empty() {
        return Ok((
            WORKS.into_iter().filter(|work| work.by_default).collect(),
            MemoryKind::ALL.to_vec(),
        ));
    }
    let picks_memory = |name: &str, kind: MemoryKind| kind.name() == name || name == "memory";
    for name in only {
        if !WORKS.iter().any(|work| work.is_meant_by(name))
            && !MemoryKind::ALL.iter().any(|kind| picks_memory(name, *kind))
        {
            bail!("there is no work `{name}`: see --list");
        }
    }
    let works = WORKS
        .into_iter()
        .filter(|work| only.iter().any(|name| work.is_meant_by(name)))
        .collect();
    let memory = MemoryKind::ALL
        .into_iter()
        .filter(|kind| only.iter().any(|name| picks_memory(name, *kind)))
        .collect();
    Ok((works, memory))
}

fn choose_peers(names: &[String]) -> Result<Vec<Peer>> {
    let picks = |name: &str, peer: &Peer| peer.name == name || peer.family.name() == name;
    for name in names {
        if !PEERS.iter().any(|peer| picks(name, peer)) {
            bail!("there is no peer `{name}`: see --list");
        }
    }
    Ok(PEERS
        .into_iter()
        .filter(|peer| names.is_empty() || names.iter().any(|name| picks(name, peer)))
        .collect())
}
