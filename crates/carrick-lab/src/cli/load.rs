//! `carrick-lab load`: makes load, from a plan or from flags, and prints what came of it.

mod flags;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::load::outcome::LoadOutcome;
use crate::load::plan::LoadPlan;
use crate::load::run;
use crate::load::samples::Samples;
use crate::load::table;
use crate::load::{BEGINS, check};
use crate::program::note;

pub use flags::Load;

/// Makes the load. The exit status is a failure when nothing was answered; single failures are in the report.
///
/// # Errors
/// When the plan cannot be run.
pub fn run(arguments: &Load) -> Result<ExitCode> {
    let plan = match &arguments.plan {
        Some(file) => check::read(file)?,
        None => flags::plan(arguments)?,
    };
    check::check(&plan)?;
    let samples = crate::program::runtime()?.block_on(measure(plan, arguments))?;
    let nothing = samples
        .iter()
        .all(|sample| sample.classes.iter().all(|class| class.completed == 0));
    print(samples, arguments)?;
    Ok(if nothing {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// All samples; after an interruption those until then, the last one shorter.
async fn measure(plan: LoadPlan, arguments: &Load) -> Result<Vec<LoadOutcome>> {
    let stop = Arc::new(AtomicBool::new(false));
    let threads = usize::from(arguments.threads);
    let count = usize::from(arguments.samples);
    let announces = arguments.announce;
    let work = tokio::task::spawn_blocking({
        let stop = Arc::clone(&stop);
        move || {
            let mut samples = Vec::new();
            let mut plan = plan;
            while samples.len() < count && !stop.load(Ordering::Relaxed) {
                match run::run_announced(&plan, threads, &stop, || announce(announces)) {
                    Ok(outcome) => samples.push(outcome),
                    // Interrupted before this sample measured anything: the others count.
                    Err(_) if !samples.is_empty() && stop.load(Ordering::Relaxed) => break,
                    Err(error) => return Err(error),
                }
                // Samples of one and the same sequence of requests would not be independent.
                plan.seed = plan.seed.wrapping_add(1);
            }
            Ok(samples)
        }
    });
    tokio::pin!(work);
    let joined = tokio::select! {
        joined = &mut work => joined,
        name = super::interruption() => {
            let name = name?;
            stop.store(true, Ordering::Relaxed);
            note(format_args!("carrick-lab: ended by {name}: this is what was measured until then"));
            work.await
        }
    };
    joined.context("the thread that makes the load failed")?
}

/// Says that the warm-up begins.
fn announce(wanted: bool) {
    if wanted {
        note(BEGINS);
    }
}

fn print(mut samples: Vec<LoadOutcome>, arguments: &Load) -> Result<()> {
    let text = match (samples.len(), arguments.json) {
        (0, _) => bail!("stopped before anything was measured"),
        (1, true) => to_json(&samples.remove(0))?,
        (1, false) => table::outcome(&samples.remove(0)),
        (_, json) => {
            let samples = Samples::new(samples, f64::from(arguments.confidence) / 100.0);
            if json {
                to_json(&samples)?
            } else {
                table::samples(&samples)
            }
        }
    };
    writeln!(super::output(), "{}", text.trim_end()).context("cannot print the outcome")
}

fn to_json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string_pretty(value).context("cannot write the outcome as JSON")
}
