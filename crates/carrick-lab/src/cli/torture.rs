//! `carrick-lab torture`: what breaks relays that are not careful, for carrick's engines and for its peers.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::peers::{Family, Peer, by_name};
use crate::program::note;
use crate::torture::cases::{Case, Scale};
use crate::torture::http::{self, Way};
use crate::torture::run::{Plan, run as run_plan};
use crate::torture::{RELAYS, table};

/// `carrick-lab torture`
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status 1: carrick lost a byte, did not pass on an end or a reset, hung, held too much, or kept something. \
                  What its peers do is shown, not judged."
)]
pub struct Torture {
    /// Only these relays, as carrick-socket,nginx or whole families: carrick,haproxy (see --list)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    relay: Vec<String>,
    /// Only these cases (see --list)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    case: Vec<String>,
    /// For everything that is left to chance: sizes, moments, bytes
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// A second or a few for each case and relay: does it work at all?
    #[arg(long)]
    smoke: bool,
    /// Connections that the case `many` holds at one time [default: 9000; smoke: 300]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=9_900))]
    connections: Option<u64>,
    /// Lose, delay and double packets by the kernel's netem instead of the laboratory's emulator
    #[arg(long)]
    netem: bool,
    /// Torture HTTP instead: carrick as a switch, between clients and an origin, a seed for each run
    #[arg(long, conflicts_with_all = ["relay", "case", "connections", "configurations", "list"])]
    http: bool,
    /// Runs of --http, with SEED and those that follow [default: 200; smoke: 8]
    #[arg(long, value_name = "N", requires = "http")]
    runs: Option<u64>,
    /// How carrick moves responses in all runs of --http: auto, unread, bodies, classified; routed is without carrick [default: the seed decides]
    #[arg(long, value_name = "NAME", requires = "http")]
    way: Option<String>,
    /// Stop carrick for moments and reload it, in the midst of each run of --http
    #[arg(long, requires = "http")]
    disturb: bool,
    /// Keep carrick's log of each run of --http with complaints here
    #[arg(long, value_name = "FOLDER", requires = "http")]
    logs: Option<PathBuf>,
    /// carrick's program
    #[arg(long, default_value = "target/release/carrick", value_name = "FILE")]
    carrick: PathBuf,
    /// A folder of configurations that replace the built-in ones of the same name (crates/carrick-lab/peers has these)
    #[arg(long, value_name = "FOLDER")]
    configurations: Option<PathBuf>,
    /// Print JSON instead of tables in Markdown
    #[arg(long)]
    json: bool,
    /// List cases and relays
    #[arg(long)]
    list: bool,
}

/// Runs the suite.
///
/// # Errors
/// When not root, when a name is wrong, or when the test bed cannot be built.
pub fn run(arguments: Torture) -> Result<ExitCode> {
    if arguments.list {
        return list();
    }
    let scale = if arguments.smoke {
        Scale::Smoke
    } else {
        Scale::Full
    };
    if arguments.http {
        return torture_http(arguments, scale);
    }
    let plan = Plan {
        relays: choose_relays(&arguments.relay)?,
        cases: choose_cases(&arguments.case)?,
        scale,
        seed: arguments.seed,
        connections: arguments.connections.unwrap_or(scale.of(300, 9_000)),
        netem: arguments.netem,
        carrick: arguments.carrick,
        configurations: arguments.configurations,
    };
    let results = crate::program::runtime()?.block_on(async {
        let tell = |row: &_| {
            note(table::line(row));
        };
        // Dropping the run removes the namespaces and everything inside.
        tokio::select! {
            biased;
            name = super::interruption() => bail!("ended by {}", name?),
            results = run_plan(&plan, tell) => results,
        }
    })?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&results).context("cannot write the results as JSON")?
    } else {
        table::markdown(&results)
    };
    writeln!(super::output(), "{text}").context("cannot print the results")?;
    let has_faults = results.rows.iter().any(crate::torture::run::Row::is_fault);
    Ok(if has_faults {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn torture_http(arguments: Torture, scale: Scale) -> Result<ExitCode> {
    let way = arguments.way.as_deref().map(|name| {
        Way::by_name(name).with_context(|| {
            let names = Way::ALL.map(Way::name).join(", ");
            format!("there is no way `{name}`: {names}")
        })
    });
    let plan = http::run::Plan {
        seed: arguments.seed,
        runs: arguments.runs.unwrap_or(scale.of(8, 200)),
        way: way.transpose()?,
        disturbs: arguments.disturb,
        netem: arguments.netem,
        carrick: arguments.carrick,
        logs: arguments.logs,
    };
    let results = crate::program::runtime()?.block_on(async {
        let tell = |run: &_| {
            note(http::report::line(run));
        };
        // Dropping the run removes the namespaces and everything inside.
        tokio::select! {
            biased;
            name = super::interruption() => bail!("ended by {}", name?),
            results = http::run::run(&plan, tell) => results,
        }
    })?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&results).context("cannot write the results as JSON")?
    } else {
        http::report::markdown(&results)
    };
    writeln!(super::output(), "{text}").context("cannot print the results")?;
    let is_good = results.runs.iter().all(http::run::Run::is_good);
    Ok(if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn choose_relays(names: &[String]) -> Result<Vec<Peer>> {
    let all: Vec<Peer> = RELAYS.iter().filter_map(|name| by_name(name)).collect();
    let picks = |name: &str, peer: &Peer| peer.name == name || peer.family.name() == name;
    for name in names {
        if !all.iter().any(|peer| picks(name, peer)) {
            bail!("there is no relay `{name}`: {}", RELAYS.join(", "));
        }
    }
    Ok(all
        .into_iter()
        .filter(|peer| names.is_empty() || names.iter().any(|name| picks(name, peer)))
        .collect())
}

fn choose_cases(names: &[String]) -> Result<Vec<Case>> {
    if names.is_empty() {
        return Ok(Case::ALL.to_vec());
    }
    let chosen = names.iter().map(|name| {
        Case::by_name(name).with_context(|| {
            format!(
                "there is no case `{name}`: {}",
                Case::ALL.map(Case::name).join(", ")
            )
        })
    });
    chosen.collect()
}

fn list() -> Result<ExitCode> {
    let mut output = super::output();
    writeln!(output, "cases:").context("cannot print")?;
    for case in Case::ALL {
        writeln!(output, "  {:<18} {}", case.name(), case.about()).context("cannot print")?;
    }
    writeln!(output, "relays:").context("cannot print")?;
    for relay in choose_relays(&[])? {
        let note = match relay.family {
            Family::Routed => {
                "no relay: the kernel routes the packets, and the suite checks itself"
            }
            Family::Carrick => "classified",
            _ => "for comparison",
        };
        writeln!(output, "  {:<18} {note}", relay.name).context("cannot print")?;
    }
    Ok(ExitCode::SUCCESS)
}
