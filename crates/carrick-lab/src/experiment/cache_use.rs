//! Whether the hits of a load were hits: carrick itself says how many requests its cache has answered.
//!
//! A cache that asks the server all the same answers rightly, only later. What is measured then are no hits, and must not be
//! drawn as such.

use anyhow::{Result, ensure};

use super::members::Member;
use crate::load::outcome::LoadOutcome;
use crate::load::plan::{Kind, LoadPlan};
use crate::peers::engine_use;
use crate::testbed::namespace::Namespace;

/// What carrick calls its answers from the cache.
const ANSWERED: [&str; 2] = ["result=\"hit\"", "result=\"collapsed\""];

/// Whether this is a carrick with a cache.
#[must_use]
pub fn has_cache(member: &Member) -> bool {
    member.peer.engine().is_some()
        && member
            .series
            .configuration
            .lines()
            .any(|line| line.trim() == "[cache]")
}

/// Bytes of bodies, and requests, that a cache has to answer, and those that it must not: in this order.
#[must_use]
pub fn parts(plan: &LoadPlan, outcome: &LoadOutcome) -> (Part, Part) {
    let (mut stored, mut other) = (Part::default(), Part::default());
    for (class, came) in plan.classes.iter().zip(&outcome.classes) {
        let part = match class.kind {
            Kind::Cacheable { .. } => &mut stored,
            _ => &mut other,
        };
        part.requests += came.completed;
        part.body_bytes += came.body_bytes;
    }
    (stored, other)
}

/// A part of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
}

/// Makes sure that the carrick in this namespace has answered so many requests from its cache. Waits a little for it.
///
/// # Errors
/// When it has not, or cannot be asked.
pub fn check(namespace: &Namespace, requests: u64) -> Result<()> {
    let metrics = engine_use::metrics_once(namespace, |metrics| answered(metrics) >= requests)?;
    let answered = answered(&metrics);
    ensure!(
        answered >= requests,
        "of {requests} requests for what the cache has, it answered {answered}: what was measured are no hits"
    );
    Ok(())
}

/// Requests that the cache has answered.
fn answered(metrics: &str) -> u64 {
    let count = |label: &&str| engine_use::sum(metrics, "carrick_cache_requests_total", label);
    ANSWERED.iter().filter_map(count).sum::<f64>() as u64
}

#[cfg(test)]
mod tests;
