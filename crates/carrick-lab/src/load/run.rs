//! A whole load: objects asked for beforehand, then the threads, and one outcome of all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use crate::content::Body;
use crate::load::check::{check, slots};
use crate::load::driver::{Driver, Prime, driver};
use crate::load::engine::{Engine, Setup, Span};
use crate::load::outcome::LoadOutcome;
use crate::load::plan::{Arrival, LoadPlan, Route};
use crate::load::socket::Ports;
use crate::load::tally::Tally;
use crate::load::target::Targets;
use crate::load::work::{Lengths, Work};

/// Makes the load of a plan with so many threads, until it is over or `stop` is set; then the outcome is of the time until
/// then. Blocks: an asynchronous caller gives it a thread of its own.
///
/// # Errors
/// When the plan cannot be run, or an object that has to be cached beforehand cannot be had. Failures of requests are in the
/// outcome.
pub fn run(plan: &LoadPlan, threads: usize, stop: &AtomicBool) -> Result<LoadOutcome> {
    run_announced(plan, threads, stop, || {})
}

/// As [`run`]; calls `begins` when the cacheable objects are there and the warm-up begins, for those who meter meanwhile.
///
/// # Errors
/// As [`run`].
pub fn run_announced(
    plan: &LoadPlan,
    threads: usize,
    stop: &AtomicBool,
    begins: impl FnOnce(),
) -> Result<LoadOutcome> {
    check(plan)?;
    ensure!(threads > 0, "no load can be made with 0 threads");
    let threads = threads.min(most_threads(plan));
    if plan.verify {
        // The table of all bodies is made when it is first used: not within what is measured.
        let _ = Body::of_seed(0).piece(0, 1);
    }
    prime(plan, stop)?;
    if stop.load(Ordering::Relaxed) {
        bail!("stopped before anything was measured");
    }
    begins();
    let started = Instant::now();
    let ended = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || -> Result<(Tally, u64)> {
                    let plan = share(plan, thread, threads);
                    let mut driver = driver(&plan, thread, threads);
                    let setup = setup(&plan, thread);
                    let mut tally = Tally::new(&plan, Arc::clone(&setup.targets))?;
                    let to_ns = Engine::new(setup, &mut *driver, &mut tally, started)?
                        .run(span(&plan), stop)?;
                    Ok((tally, to_ns))
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .map_err(|_| anyhow!("a thread of the load failed"))?
            })
            .collect::<Result<Vec<_>>>()
    })?;
    let mut ended = ended.into_iter();
    let (mut tally, mut to_ns) = ended.next().context("no thread made load")?;
    for (other, other_to_ns) in ended {
        tally.add(&other)?;
        to_ns = to_ns.max(other_to_ns);
    }
    let measured_ns = to_ns.saturating_sub(span(plan).measure_from_ns);
    ensure!(
        measured_ns > 0,
        "stopped before anything was measured: the warm-up was not over"
    );
    Ok(tally.outcome(measured_ns as f64 / 1e9))
}

/// Asks once for each object of the cacheable classes.
fn prime(plan: &LoadPlan, stop: &AtomicBool) -> Result<()> {
    let requests = Work::new(plan, 0).cacheable();
    if requests.is_empty() {
        return Ok(());
    }
    let setup = setup(plan, 0);
    let targets = Arc::clone(&setup.targets);
    let mut tally = Tally::new(plan, Arc::clone(&targets))?;
    let mut driver = Prime::new(requests);
    let span = Span {
        measure_from_ns: u64::MAX,
        measure_to_ns: u64::MAX,
        end_ns: u64::MAX,
    };
    Engine::new(setup, &mut driver, &mut tally, Instant::now())?.run(span, stop)?;
    if let Some((request, fault)) = driver.failure() {
        bail!(
            "cannot ask for the cacheable objects beforehand: {}: {fault}",
            targets.describe(request)
        );
    }
    debug_assert!(driver.is_done() || stop.load(Ordering::Relaxed));
    Ok(())
}

fn setup(plan: &LoadPlan, thread: usize) -> Setup {
    Setup {
        address: match plan.route {
            Route::Direct { address, .. } => address,
            Route::Forward { proxy, .. } => proxy,
        },
        targets: Arc::new(Targets::new(plan)),
        timeout_ns: nanoseconds(plan.timeout_seconds),
        ports: Ports::new(plan.local_ports),
        lengths: Lengths::new(plan, thread as u64),
    }
}

fn span(plan: &LoadPlan) -> Span {
    let measure_from_ns = nanoseconds(plan.warm_up_seconds);
    let measure_to_ns = measure_from_ns + nanoseconds(plan.measured_seconds);
    Span {
        measure_from_ns,
        measure_to_ns,
        end_ns: measure_to_ns + nanoseconds(plan.shutdown_seconds),
    }
}

/// Each thread has one client (or slot) and one local port at least.
fn most_threads(plan: &LoadPlan) -> usize {
    let units = match plan.arrival {
        Arrival::Closed { clients, .. }
        | Arrival::Batches { clients, .. }
        | Arrival::Pages { clients, .. } => clients,
        Arrival::Open { .. } => slots(&plan.arrival),
    };
    let ports = plan
        .local_ports
        .map_or(usize::MAX, |[first, last]| usize::from(last - first) + 1);
    units.min(ports)
}

/// The part of a plan that is a thread's.
fn share(plan: &LoadPlan, thread: usize, threads: usize) -> LoadPlan {
    let mut plan = plan.clone();
    let part = |whole: usize| whole / threads + usize::from(thread < whole % threads);
    match &mut plan.arrival {
        Arrival::Closed { clients, .. }
        | Arrival::Batches { clients, .. }
        | Arrival::Pages { clients, .. } => *clients = part(*clients),
        Arrival::Open { rate, clients_max } => {
            *rate /= threads as f64;
            *clients_max = part(*clients_max);
        }
    }
    if let Some([first, last]) = &mut plan.local_ports {
        let count = usize::from(*last - *first) + 1;
        let from = |thread: usize| u16::try_from(count * thread / threads).unwrap_or(u16::MAX);
        (*first, *last) = (*first + from(thread), *first + from(thread + 1) - 1);
    }
    plan
}

/// Seconds of a checked plan.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

#[cfg(test)]
mod tests;
