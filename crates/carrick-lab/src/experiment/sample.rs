//! One sample: a fresh proxy, a load, and what came of both.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::bed::{self, Bed};
use super::cache_use;
use super::expression::Point;
use super::forwarding::{self, Ends};
use super::members::Member;
use super::metered::{self, Metered};
use super::metrics;
use super::results::Sample;
use super::schedule;
use super::spec::{Effort, Workload};
use crate::load::outcome::LoadOutcome;
use crate::load::plan::Route;
use crate::peers::{Family, Job, engine_use};

/// How long a proxy may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the sockets of a proxy that was killed may take to close.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts the proxy, makes the load, and stops the proxy.
///
/// # Errors
/// When the proxy does not start or ends, no connection reaches it, or the load fails. Requests that fail are no error.
pub async fn measure(
    bed: &Bed,
    workload: &Workload,
    member: &Member,
    point: &Point,
    effort: &Effort,
    seed: u64,
) -> Result<Metered> {
    let testbed = &bed.testbed;
    let addresses = testbed.addresses();
    let origin = addresses.origin_http();
    let mut variables: BTreeMap<String, String> = bed::further_origins(workload, &addresses)
        .into_iter()
        .collect();
    variables.insert(
        String::from("configuration"),
        member.series.configuration.clone(),
    );
    let route = match (member.peer.family, member.job) {
        // Connections to the server come in at a gateway on their way.
        (Family::Routed, _) | (_, Job::Gateway) => Route::Direct {
            address: origin,
            host: None,
        },
        (_, Job::Forward) => Route::Forward {
            proxy: addresses.proxy_for(member.job),
            origin: origin.to_string(),
        },
        (_, job) => Route::Direct {
            address: addresses.proxy_for(job),
            host: Some(origin.to_string()),
        },
    };
    let plan = schedule::load_plan(workload, &member.series, point, effort, route, seed)?;
    let mut service = member.peer.start_with(
        member.job,
        &origin.to_string(),
        testbed,
        &member.programs,
        &variables,
    )?;
    let measured = match &mut service {
        None => metered::run(testbed, &plan, workload.capture).await,
        Some(service) => {
            let peer = &member.peer;
            peer.wait_until_ready(member.job, service, START_TIMEOUT)
                .await?;
            let before = service.connections()?.accepted;
            let measured = tokio::select! {
                measured = metered::run(testbed, &plan, workload.capture) => measured,
                ended = service.ended() => Err(ended),
            };
            // A proxy that has died explains more than what the load makes of it.
            service.check()?;
            let accepted = service.connections()?.accepted - before;
            if accepted == 0 && measured.is_ok() {
                bail!(
                    "no connection reached {}: what was measured is not its work",
                    member.peer.name
                );
            }
            measured
        }
    };
    let measured = measured.and_then(|mut measured| {
        let engine = member
            .peer
            .engine()
            .filter(|engine| !member.series.any_engine && engine_use::must_be_shown(engine));
        let (stored, mut others) = cache_use::parts(&plan, &measured.outcome);
        if cache_use::has_cache(member) {
            cache_use::check(&testbed.proxy, stored.requests)?;
        } else {
            others.body_bytes += stored.body_bytes;
        }
        if let Some(engine) = engine {
            // What the cache sends is not the engine's work.
            measured.is_its_work =
                engine_use::has_done_the_work(&testbed.proxy, engine, others.body_bytes)?;
        }
        Ok(measured)
    });
    if let Some(service) = service {
        // Squid has shared memory to put away, and a carrick that intercepts rules of the kernel. The others would only wait for
        // connections that have ended.
        let has_something_left = member.peer.family == Family::Squid
            || (member.job, member.peer.family) == (Job::Gateway, Family::Carrick);
        if has_something_left {
            service.stop().await;
        } else {
            service.kill().await;
        }
        // A worker's sockets may outlive it by a moment; the next proxy must not be taken to listen while they do.
        let until = Instant::now() + END_TIMEOUT;
        while testbed.proxy.is_listening(member.job.port())? && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    measured
}

/// The metrics of what was measured.
#[must_use]
pub fn metrics_of(metered: &Metered, workload: &Workload, ends: Ends) -> Sample {
    let mut sample = metrics::of_load(&metered.outcome, &metered.class_bytes);
    if let Some(cpu) = metered.cpu.as_ref().filter(|cpu| cpu.is_trusted()) {
        metrics::add_busy(
            &mut sample,
            cpu.core_share(),
            cpu.utilization_percent() / 100.0,
        );
        sample.insert(String::from("foreign_cores"), cpu.foreign_cores);
    }
    for (name, value) in [
        ("data_per_ack", metered.server.data_per_ack()),
        (
            "timeouts_per_1000_packets",
            metered.server.timeouts_per_1000_packets(),
        ),
    ] {
        if let Some(value) = value {
            sample.insert(name.to_owned(), value);
        }
    }
    if workload.capture {
        forwarding::add(&mut sample, &forwarding::delays(&metered.packets, ends));
    }
    sample
}

/// What was wrong with a load, in words; `None`: nothing.
#[must_use]
pub fn failure(outcome: &LoadOutcome) -> Option<String> {
    let completed: u64 = outcome.classes.iter().map(|class| class.completed).sum();
    let failed: Vec<String> = outcome
        .classes
        .iter()
        .filter(|class| !class.failed.is_empty())
        .map(|class| {
            let kinds: Vec<String> = class
                .failed
                .iter()
                .map(|(kind, count)| format!("{kind} {count}"))
                .collect();
            let first = class.first_failure.as_deref().unwrap_or("not told");
            format!(
                "class {}: {} (the first: {first})",
                class.name,
                kinds.join(", ")
            )
        })
        .collect();
    if !failed.is_empty() {
        return Some(format!(
            "{} of {} requests failed: {}",
            outcome.failures(),
            outcome.failures() + completed,
            failed.join("; ")
        ));
    }
    (completed == 0).then(|| String::from("no request was completed while it was measured"))
}

/// Whether nothing went wrong, but no request had time to be completed.
#[must_use]
pub fn is_too_short(measured: &Result<Metered>) -> bool {
    measured.as_ref().is_ok_and(|metered| {
        let mut classes = metered.outcome.classes.iter();
        metered.outcome.failures() == 0 && classes.all(|class| class.completed == 0)
    })
}

#[cfg(test)]
mod tests;
