//! `/status`: the state of a running carrick as one JSON object.
use super::cache::CacheStatus;
use super::certificates::{self, Certificate};
use super::link::Links;
use super::pace::PaceStatus;
use super::paths::SplitStatus;
use super::splices::{self, Splices};
use crate::config::plan::{Handshake, ListenerPlan, ServerHttp2, ServerPlan};
use crate::control::{self, ControlState, EngineStatus};
use crate::privileges::Identity;
use crate::syn_defer::DeferredSyns;
use crate::telemetry::LookupResult;
use crate::telemetry::job::Job;
use crate::telemetry::metrics::{Limit, WorkerMetrics};
use crate::upstream::state::{ServerState, UpstreamState};
use carrick_splice::Reason;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// Writes the current state.
pub(super) fn json(state: &ControlState) -> serde_json::Result<String> {
    let running = state.running.load();
    let engines = state.engines.load();
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        state: if state.is_draining() {
            "draining"
        } else {
            "serving"
        },
        started: rfc3339(state.started),
        uptime_seconds: state.started_at.elapsed().as_secs(),
        admin: state.admin_address().map(|address| address.to_string()),
        listeners: running
            .plan
            .listeners
            .iter()
            .map(|listener| Listener::of(listener, &state.kernel.deferred_syns))
            .collect(),
        certificates: certificates::of(state),
        deferred_syns: DeferredSynsStatus::of(&state.kernel.deferred_syns),
        engines: &engines,
        process: &state.identity,
        workers: state
            .workers
            .iter()
            .map(|worker| Worker::of(worker))
            .collect(),
        upstreams: running
            .upstreams
            .iter()
            .map(|upstream| Upstream::of(upstream))
            .collect(),
        limits: limits(state),
        splice: Splice::of(state),
        splices: Splices::of(state, splices::LISTED_MAX),
        cache: CacheStatus::of(state),
        links: Links::of(state),
        pace: PaceStatus::of(state),
        split: SplitStatus::of(state),
        dns: Dns::of(state),
        access_log: Log::of(state),
        reloads: Reloads::of(state),
    };
    let mut json = serde_json::to_string_pretty(&status)?;
    json.push('\n');
    Ok(json)
}

#[derive(Serialize)]
struct Status<'a> {
    version: &'static str,
    pid: u32,
    state: &'static str,
    started: String,
    uptime_seconds: u64,
    admin: Option<String>,
    listeners: Vec<Listener>,
    certificates: Vec<Certificate>,
    deferred_syns: Option<DeferredSynsStatus>,
    engines: &'a [EngineStatus],
    process: &'a Identity,
    workers: Vec<Worker>,
    upstreams: Vec<Upstream<'a>>,
    limits: BTreeMap<&'static str, LimitUse>,
    splice: Splice,
    splices: Splices,
    cache: Option<CacheStatus>,
    links: Links,
    pace: PaceStatus,
    split: SplitStatus,
    dns: Dns,
    access_log: Log,
    reloads: Reloads,
}

#[derive(Serialize)]
struct Listener {
    address: String,
    mode: &'static str,
    proxy_protocol: bool,
    tls: bool,
    http2: bool,
    handshake: &'static str,
}

impl Listener {
    fn of(plan: &ListenerPlan, deferred_syns: &DeferredSyns) -> Self {
        let is_asked_first = plan.handshake != Handshake::AtOnce && deferred_syns.are_deferred();
        Self {
            address: plan.address.to_string(),
            mode: Job::from(&plan.mode).name(),
            proxy_protocol: plan.proxy_protocol,
            tls: plan.tls.is_some(),
            http2: plan.http2 && !plan.mode.is_blind(),
            handshake: if is_asked_first {
                "server-first"
            } else {
                "at-once"
            },
        }
    }
}

/// Deferred SYNs: at present, and in total.
#[derive(Serialize)]
struct DeferredSynsStatus {
    waiting: usize,
    #[serde(flatten)]
    events: BTreeMap<&'static str, u64>,
}

impl DeferredSynsStatus {
    /// `None` if the listener does not defer SYNs.
    fn of(deferred_syns: &DeferredSyns) -> Option<Self> {
        deferred_syns.are_deferred().then(|| Self {
            waiting: deferred_syns.waiting(),
            events: deferred_syns.events().into_iter().collect(),
        })
    }
}

#[derive(Serialize)]
struct Worker {
    connections_open: u64,
    connections_accepted: u64,
    tunnels_open: u64,
    upstream_connections_open: u64,
    upstream_connections_idle: u64,
    requests: u64,
}

impl Worker {
    fn of(metrics: &WorkerMetrics) -> Self {
        Self {
            connections_open: metrics.connections_open(),
            connections_accepted: metrics.connections_accepted.get(),
            tunnels_open: metrics.jobs.iter().map(|job| job.tunnels_open()).sum(),
            upstream_connections_open: metrics.upstream_connections_open(),
            upstream_connections_idle: metrics.upstream_connections_idle(),
            requests: metrics.jobs.iter().map(|job| job.requests.total()).sum(),
        }
    }
}

#[derive(Serialize)]
struct Upstream<'a> {
    name: &'a str,
    tls: bool,
    /// Whether it is spoken to servers, to all or to those that agree to it.
    http2: bool,
    health_checks: bool,
    servers: Vec<Server<'a>>,
}

impl<'a> Upstream<'a> {
    fn of(state: &'a UpstreamState) -> Self {
        let servers = state.plan.servers.iter().zip(&state.servers);
        Self {
            name: &state.plan.name,
            tls: state.plan.tls.is_some(),
            http2: state.plan.http2 != ServerHttp2::Never,
            health_checks: state.plan.health.is_some(),
            servers: servers
                .map(|(plan, state)| Server::of(plan, state))
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct Server<'a> {
    address: &'a str,
    weight: u32,
    up: bool,
    active: u32,
    requests: u64,
    failures: u64,
    bytes_received: u64,
    bytes_sent: u64,
}

impl<'a> Server<'a> {
    fn of(plan: &ServerPlan, state: &'a ServerState) -> Self {
        Self {
            address: &state.label,
            weight: plan.weight,
            up: state.is_healthy(),
            active: state.active.load(Relaxed),
            requests: state.requests.load(Relaxed),
            failures: state.failures.load(Relaxed),
            bytes_received: state.bytes_received.load(Relaxed),
            bytes_sent: state.bytes_sent.load(Relaxed),
        }
    }
}

/// A limit, if it has a number; how much of it is in use; how often it was reached.
#[derive(Serialize, Default)]
struct LimitUse {
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_use: Option<u64>,
    reached: u64,
}

fn limits(state: &ControlState) -> BTreeMap<&'static str, LimitUse> {
    let running = state.running.load();
    let plan = &running.plan.limits;
    let metrics = &state.metrics;
    let mut limits: BTreeMap<&'static str, LimitUse> = Limit::ALL
        .iter()
        .map(|limit| {
            let reached = state.sum(|worker| worker.limits.get(*limit));
            (
                limit.label(),
                LimitUse {
                    reached,
                    ..LimitUse::default()
                },
            )
        })
        .collect();
    let mut held = |label, limit: usize, in_use, reached_elsewhere| {
        let entry = limits.entry(label).or_default();
        entry.limit = Some(limit as u64);
        entry.in_use = Some(in_use);
        entry.reached += reached_elsewhere;
    };
    held(
        "connections",
        plan.connections,
        state.sum(WorkerMetrics::connections_open),
        0,
    );
    held("log_queue", plan.log_queue, state.log.lines_waiting(), 0);
    let evicted = metrics.dns_evicted.get() + state.sum(|worker| worker.dns_evicted.get());
    held(
        "dns_cache",
        plan.dns_cache,
        metrics.dns_names.load(Relaxed),
        evicted,
    );
    let pipes_open = state.sum(|worker| worker.splice.pipes_open.get());
    let pipes_refused = state.sum(|worker| worker.splice.pipes_refused.get());
    held(
        "pipes",
        plan.pipes.saturating_mul(state.workers.len()),
        pipes_open,
        pipes_refused,
    );
    limits
}

#[derive(Serialize)]
struct Splice {
    transfers: u64,
    exchanges: u64,
    copy_splices: u64,
    copy_bytes: u64,
    pipe_splices: u64,
    pipe_bytes: u64,
    socket_splices: u64,
    socket_bytes: u64,
    socket_passed_bytes: u64,
    packet_splices: u64,
    packet_bytes: u64,
    unsplices: u64,
    choices: BTreeMap<&'static str, u64>,
}

impl Splice {
    fn of(state: &ControlState) -> Self {
        Self {
            transfers: state.sum(|worker| worker.splice.transfers.get()),
            exchanges: state.sum(|worker| worker.splice.exchanges.get()),
            copy_splices: state.sum(|worker| worker.splice.copy_splices.get()),
            copy_bytes: state.sum(|worker| worker.splice.copy_bytes.get()),
            pipe_splices: state.sum(|worker| worker.splice.pipe_splices.get()),
            pipe_bytes: state.sum(|worker| worker.splice.pipe_bytes.get()),
            socket_splices: state.sum(|worker| worker.splice.socket_splices.get()),
            socket_bytes: state.sum(|worker| worker.splice.socket_bytes.get()),
            socket_passed_bytes: state.sum(|worker| worker.splice.socket_passed_bytes.get()),
            packet_splices: state.sum(|worker| worker.splice.packet_splices.get()),
            packet_bytes: state.sum(|worker| worker.splice.packet_bytes.get()),
            unsplices: state.sum(|worker| worker.splice.unsplices.get()),
            choices: Reason::ALL
                .map(|reason| {
                    (
                        reason.name(),
                        state.sum(|worker| worker.splice.reason(reason).get()),
                    )
                })
                .into(),
        }
    }
}

#[derive(Serialize)]
struct Dns {
    names_cached: u64,
    hits: u64,
    lookups: BTreeMap<&'static str, u64>,
    lookups_under_way: u64,
}

impl Dns {
    fn of(state: &ControlState) -> Self {
        let metrics = &state.metrics;
        Self {
            names_cached: metrics.dns_names.load(Relaxed),
            hits: metrics.dns_hits.get() + state.sum(|worker| worker.dns_hits.get()),
            lookups: LookupResult::ALL
                .map(|result| (result.label(), metrics.dns_lookups(result).get()))
                .into(),
            lookups_under_way: metrics.dns_under_way.load(Relaxed),
        }
    }
}

#[derive(Serialize)]
struct Log {
    lines_written: u64,
    lines_waiting: u64,
    lines_dropped: u64,
}

impl Log {
    fn of(state: &ControlState) -> Self {
        let queue_full = state.sum(|worker| worker.limits.get(Limit::LogQueue));
        Self {
            lines_written: state.log.lines_written.get(),
            lines_waiting: state.log.lines_waiting(),
            lines_dropped: state.log.lines_lost.get() + queue_full,
        }
    }
}

#[derive(Serialize)]
struct Reloads {
    begun: u64,
    ok: u64,
    failed: u64,
    last: Option<LastReload>,
}

#[derive(Serialize)]
struct LastReload {
    /// In UTC, with the clock's full precision, so that a client that requested a reload can tell it from one just before.
    at: String,
    error: Option<String>,
}

impl Reloads {
    fn of(state: &ControlState) -> Self {
        let control::Reloads {
            begun,
            ok,
            failed,
            last,
        } = state.reloads();
        let last = last.map(|last| LastReload {
            at: timestamp(last.at).to_string(),
            error: last.error.map(|error| error.to_string()),
        });
        Self {
            begun,
            ok,
            failed,
            last,
        }
    }
}

/// In UTC, to the second.
fn rfc3339(time: SystemTime) -> String {
    format!("{:.0}", timestamp(time))
}

fn timestamp(time: SystemTime) -> jiff::Timestamp {
    jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}
