//! Active health checks: probes each server of an upstream periodically and marks those that fail.
mod check_error;
mod http2;
mod probe;
mod server_health;

use crate::resolver::Resolver;
use crate::telemetry::ControlMetrics;
use crate::upstream::state::{ServerState, UpstreamState};
use carrick_splice::PacketService;
use probe::Probe;
use server_health::ServerHealth;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Upper limit on a check's time-out, however long the interval.
const CHECK_MAX: Duration = Duration::from_secs(10);

/// The checks of one configuration. Dropping it ends them.
#[derive(Debug)]
pub(super) struct HealthChecks {
    _tasks: JoinSet<()>,
}

impl HealthChecks {
    /// Starts a check for each server of each upstream that has checks; the other servers are healthy from now on. Must
    /// be called within a runtime.
    pub fn start(
        upstreams: &[Arc<UpstreamState>],
        resolver: &Resolver,
        mark: Option<u32>,
        metrics: &Arc<ControlMetrics>,
        packet: &PacketService,
    ) -> Self {
        let mut tasks = JoinSet::new();
        for (index, upstream) in (0..).zip(upstreams) {
            for (place, server) in upstream.servers.iter().enumerate() {
                match Probe::new(&upstream.plan, (place, server), resolver) {
                    Some(probe) => {
                        tasks.spawn(watch(
                            Arc::clone(upstream),
                            Arc::clone(server),
                            probe.marked(mark),
                            Arc::clone(metrics),
                            (packet.clone(), index),
                        ));
                    }
                    None => server.set_healthy(true),
                }
            }
        }
        Self { _tasks: tasks }
    }
}

/// Checks one server until cancelled. When it goes down or comes up, the clients of its upstream, by its index, get their requests to the
/// process, which chooses a server.
async fn watch(
    upstream: Arc<UpstreamState>,
    server: Arc<ServerState>,
    probe: Probe,
    metrics: Arc<ControlMetrics>,
    (packet, index): (PacketService, u32),
) {
    let Some(plan) = &upstream.plan.health else {
        return;
    };
    let limit = plan.every.min(CHECK_MAX);
    let mut server_health = ServerHealth::new(server.is_healthy(), plan.fall, plan.rise);
    // Spreads the checks of many servers over time.
    let mut ticks = interval_at(
        Instant::now() + below(plan.every),
        plan.every.max(Duration::from_millis(10)),
    );
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let result = probe.check(limit).await;
        let counter = match &result {
            Ok(()) => &metrics.health_checks_good,
            Err(error) if error.is_ours() => {
                metrics.health_checks_unmade.add(1);
                let (name, address) = (&upstream.plan.name, &server.label);
                tracing::warn!(
                    "upstream {name}: cannot check server {address}, because this machine lacks a resource: {error}"
                );
                continue;
            }
            Err(_) => &metrics.health_checks_failed,
        };
        counter.add(1);
        let Some(is_healthy) = server_health.note(result.is_ok()) else {
            continue;
        };
        server.set_healthy(is_healthy);
        if let Some(tables) = packet.request_tables() {
            tables.choose_again(index);
        }
        let (name, address) = (&upstream.plan.name, &server.label);
        match result {
            Ok(()) => tracing::info!(
                "upstream {name}: server {address} is up again ({} checks in a row)",
                plan.rise.max(1)
            ),
            Err(why) => {
                tracing::warn!(
                    "upstream {name}: server {address} is down: {why} ({} checks in a row)",
                    plan.fall.max(1)
                );
            }
        }
    }
}

/// A random duration below `most`.
fn below(most: Duration) -> Duration {
    // Each `RandomState` has its own keys: random enough for spreading.
    let random = RandomState::new().hash_one(0_u8);
    most.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests;
