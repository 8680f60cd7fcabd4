//! `/metrics`: adds up what the workers counted and writes it as text.
mod cache;
mod certificates;
mod format;
mod link;
mod pace;
mod split;
mod tunnels;
mod writer;

pub use format::Format;

use crate::control::{ControlState, EngineStatus, Reloads};
use crate::telemetry::LookupResult;
use crate::telemetry::declarations as declared;
use crate::telemetry::job::Job;
use crate::telemetry::messages;
use crate::telemetry::metrics::{HandOver, Handshake, Limit, ServerHandshake, WorkerMetrics};
use crate::telemetry::process::Process;
use crate::upstream::state::ServerState;
use carrick_splice::{Counter, Counters, Reason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;
use writer::Writer;

/// Statuses that are shown before they occur, so that Prometheus sees the first occurrence as an increase.
const STATUSES_ALWAYS: [u16; 18] = [
    200, 304, 400, 403, 404, 407, 408, 413, 421, 429, 431, 499, 500, 501, 502, 503, 504, 505,
];

/// Writes all metrics.
///
/// # Errors
/// None in practice: only what the writer of a `String` can report.
pub fn exposition(state: &Arc<ControlState>, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition(Arc::clone(state))));
    let mut text = String::with_capacity(32 * 1024);
    text::encode(&mut text, &registry)?;
    Ok(match format {
        Format::Plain => format::plain(&text),
        Format::OpenMetrics => text,
    })
}

#[derive(Debug)]
struct Exposition(Arc<ControlState>);

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut writer = Writer {
            encoder,
            state: &self.0,
        };
        writer.program()?;
        writer.requests()?;
        writer.connections()?;
        writer.certificates()?;
        writer.servers()?;
        writer.splices()?;
        writer.tunnels()?;
        writer.cache()?;
        writer.links()?;
        writer.pace()?;
        writer.splitting()?;
        writer.limits()?;
        writer.names()?;
        writer.log()?;
        writer.process()
    }
}

impl Writer<'_, '_> {
    fn program(&mut self) -> fmt::Result {
        let state = self.state;
        self.family(&declared::BUILD)?
            .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        self.gauge(&declared::DRAINING, u64::from(state.is_draining()))?;
        let Reloads { ok, failed, .. } = state.reloads();
        self.counters(
            &declared::RELOADS,
            [([("result", "ok")], ok), ([("result", "failed")], failed)],
        )?;
        let engines = state.engines.load();
        let engines = || {
            let named = |engine| Some((EngineStatus::engine(engine)?, engine));
            engines.iter().filter_map(named)
        };
        let usable = engines().map(|(name, engine)| ([("engine", name)], u64::from(engine.usable)));
        self.gauges(&declared::ENGINE_USABLE, usable)?;
        let unusable = engines().filter(|(_, engine)| !engine.usable);
        let reasons = unusable
            .map(|(name, engine)| ([("engine", name), ("reason", engine.reason.as_str())], 1));
        self.gauges(&declared::ENGINE_REASON, reasons)?;
        let sandboxed = &self.state.identity.sandbox;
        let parts = [("files", &sandboxed.files), ("calls", &sandboxed.calls)];
        let parts = parts.map(|(name, part)| ([("part", name)], u64::from(part.in_force)));
        self.gauges(&declared::SANDBOX, parts)
    }

    fn requests(&mut self) -> fmt::Result {
        let state = self.state;
        let mut requests = self.family(&declared::REQUESTS)?;
        for job in Job::ALL {
            for (status, count) in statuses(state, job) {
                let labels = [("mode", job.name()), ("status", status.as_str())];
                requests
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
            }
        }
        self.job_histograms(&declared::REQUEST_SECONDS, |worker, job| {
            &worker.job(job).request_seconds
        })?;
        self.histogram(&declared::CONNECT_SECONDS, |worker| &worker.connect_seconds)?;
        self.histogram(&declared::FIRST_BYTE_SECONDS, |worker| {
            &worker.first_byte_seconds
        })?;
        let tunnels = Job::ALL.map(|job| {
            let opened = state.sum(|worker| worker.job(job).tunnels_opened.get());
            ([mode(job)], opened)
        });
        self.counters(&declared::TUNNELS, tunnels)?;
        let open = Job::ALL.map(|job| {
            let open = state.sum(|worker| worker.job(job).tunnels_open());
            ([mode(job)], open)
        });
        self.gauges(&declared::TUNNELS_OPEN, open)?;
        self.job_histograms(&declared::TUNNEL_SECONDS, |worker, job| {
            &worker.job(job).tunnel_seconds
        })?;
        self.counter(&declared::RETRIES, |worker| &worker.retries)?;

        let mut refusals = BTreeMap::new();
        for (label, count) in state
            .workers
            .iter()
            .flat_map(|worker| worker.refusals.iter())
        {
            *refusals.entry(label).or_insert(0) += count;
        }
        self.counters(
            &declared::REFUSALS,
            refusals
                .into_iter()
                .map(|(label, count)| ([("reason", label)], count)),
        )
    }

    fn connections(&mut self) -> fmt::Result {
        let state = self.state;
        self.counter(&declared::CLIENT_CONNECTIONS, |worker| {
            &worker.connections_accepted
        })?;
        let handshakes = Handshake::ALL.map(|handshake| {
            let count = state.sum(|worker| worker.tls_handshakes.get(handshake));
            ([("result", handshake.name())], count)
        });
        self.counters(&declared::TLS_HANDSHAKES, handshakes)?;
        let hand_overs = HandOver::ALL.map(|hand_over| {
            let count = state.sum(|worker| worker.ktls.get(hand_over));
            ([("result", hand_over.name())], count)
        });
        self.counters(&declared::KTLS, hand_overs)?;
        self.counter(&declared::HTTP2_CONNECTIONS, |worker| {
            &worker.http2_connections
        })?;
        self.counter(&declared::HTTP2_REQUESTS, |worker| &worker.http2_requests)?;
        self.counter(&declared::INTERCEPTED, |worker| &worker.intercepted)?;
        let deferred_syns = &state.kernel.deferred_syns;
        let events = deferred_syns.events().into_iter();
        let events = events.map(|(event, count)| ([("event", event)], count));
        self.counters(&declared::DEFERRED_SYNS, events)?;
        self.gauge(
            &declared::DEFERRED_SYNS_WAITING,
            deferred_syns.waiting() as u64,
        )?;
        let open = state.workers.iter().enumerate();
        let open = open
            .map(|(index, worker)| ([("worker", index.to_string())], worker.connections_open()));
        self.gauges(&declared::CLIENT_CONNECTIONS_OPEN, open)?;
        let [up, down] = state.kernel.packet.adopted_totals().bytes;
        let bytes = directions(
            state.sum(|worker| worker.client_bytes_received.get()) + up,
            state.sum(|worker| worker.client_bytes_sent.get()) + down,
        );
        self.counters(&declared::CLIENT_BYTES, bytes)?;
        let bytes = directions(
            state.sum(|worker| worker.upstream_bytes_received.get()) + down,
            state.sum(|worker| worker.upstream_bytes_sent.get()) + up,
        );
        self.counters(&declared::UPSTREAM_BYTES, bytes)?;
        self.counter(&declared::UPSTREAM_OPENED, |worker| {
            &worker.upstream_connections_opened
        })?;
        self.counter(&declared::UPSTREAM_REUSED, |worker| {
            &worker.upstream_connections_reused
        })?;
        self.counter(&declared::UPSTREAM_FAILED, |worker| {
            &worker.upstream_connections_failed
        })?;
        self.counter(&declared::UPSTREAM_HTTP2_CONNECTIONS, |worker| {
            &worker.upstream_http2_connections
        })?;
        self.counter(&declared::UPSTREAM_HTTP2_REQUESTS, |worker| {
            &worker.upstream_http2_requests
        })?;
        let handshakes = ServerHandshake::ALL.map(|handshake| {
            let count = state.sum(|worker| worker.server_tls_handshakes.get(handshake));
            ([("result", handshake.name())], count)
        });
        self.counters(&declared::UPSTREAM_TLS_HANDSHAKES, handshakes)?;
        self.gauge(
            &declared::UPSTREAM_OPEN,
            state.sum(WorkerMetrics::upstream_connections_open),
        )?;
        self.gauge(
            &declared::UPSTREAM_IDLE,
            state.sum(WorkerMetrics::upstream_connections_idle),
        )
    }

    fn servers(&mut self) -> fmt::Result {
        let running = self.state.running.load();
        let mut servers: Vec<(&str, &ServerState)> = Vec::new();
        for upstream in &running.upstreams {
            servers.extend(
                upstream
                    .servers
                    .iter()
                    .map(|server| (upstream.plan.name.as_str(), &**server)),
            );
        }
        // A server that an upstream names twice would yield a duplicate time series, for which Prometheus rejects the whole page.
        servers.sort_by(|a, b| (a.0, &a.1.label).cmp(&(b.0, &b.1.label)));
        servers.dedup_by(|a, b| (a.0, &a.1.label) == (b.0, &b.1.label));
        let labels = |upstream, server| [("upstream", upstream), ("server", server)];
        let each = |value: fn(&ServerState) -> u64| {
            let labelled = servers
                .iter()
                .map(|(upstream, server)| (labels(*upstream, &*server.label), value(server)));
            labelled.collect::<Vec<_>>()
        };
        self.counters(
            &declared::SERVER_REQUESTS,
            each(|server| server.requests.load(Relaxed)),
        )?;
        self.counters(
            &declared::SERVER_FAILURES,
            each(|server| server.failures.load(Relaxed)),
        )?;
        let mut bytes = self.family(&declared::SERVER_BYTES)?;
        for (upstream, server) in &servers {
            for (direction, count) in [
                ("received", &server.bytes_received),
                ("sent", &server.bytes_sent),
            ] {
                let labels = [
                    ("upstream", *upstream),
                    ("server", &server.label),
                    ("direction", direction),
                ];
                bytes
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, f64>(&count.load(Relaxed), None)?;
            }
        }
        self.gauges(
            &declared::SERVER_ACTIVE,
            each(|server| u64::from(server.active.load(Relaxed))),
        )?;
        self.gauges(
            &declared::SERVER_UP,
            each(|server| u64::from(server.is_healthy())),
        )?;
        let metrics = &self.state.metrics;
        let checks = [
            ([("result", "good")], metrics.health_checks_good.get()),
            ([("result", "failed")], metrics.health_checks_failed.get()),
            ([("result", "unmade")], metrics.health_checks_unmade.get()),
        ];
        self.counters(&declared::HEALTH_CHECKS, checks)
    }

    fn splices(&mut self) -> fmt::Result {
        let state = self.state;
        let sum =
            |counter: fn(&Counters) -> &Counter| state.sum(|worker| counter(&worker.splice).get());
        let splices = [
            ([("engine", "copy")], sum(|splice| &splice.copy_splices)),
            ([("engine", "pipe")], sum(|splice| &splice.pipe_splices)),
            ([("engine", "socket")], sum(|splice| &splice.socket_splices)),
            ([("engine", "packet")], sum(|splice| &splice.packet_splices)),
        ];
        self.counters(&declared::SPLICES, splices)?;
        let adopted: u64 = state.kernel.packet.adopted_totals().bytes.iter().sum();
        let by_packet = sum(|splice| &splice.packet_bytes) + adopted;
        let bytes = [
            ([("engine", "copy")], sum(|splice| &splice.copy_bytes)),
            ([("engine", "pipe")], sum(|splice| &splice.pipe_bytes)),
            ([("engine", "socket")], sum(|splice| &splice.socket_bytes)),
            ([("engine", "packet")], by_packet),
        ];
        self.counters(&declared::SPLICE_BYTES, bytes)?;
        let reasons = Reason::ALL.map(|reason| {
            let count = state.sum(|worker| worker.splice.reason(reason).get());
            ([("reason", reason.name())], count)
        });
        self.counters(&declared::SPLICE_CHOICES, reasons)?;
        let passed = sum(|splice| &splice.socket_passed_bytes);
        self.total(&declared::SPLICE_PASSED_BYTES, passed)?;
        self.total(
            &declared::SPLICES_BROKEN,
            sum(|splice| &splice.socket_broken),
        )?;
        let copied = sum(|splice| &splice.local_copy_bytes);
        self.total(&declared::SPLICE_LOCAL_COPY_BYTES, copied)?;
        self.total(&declared::UNSPLICES, sum(|splice| &splice.unsplices))?;
        self.gauge(
            &declared::STALLED_SPLICES,
            sum(|splice| &splice.stalled_splices),
        )?;
        self.gauge(
            &declared::STALLED_BYTES,
            sum(|splice| &splice.stalled_bytes),
        )?;
        self.gauge(&declared::PIPES_OPEN, sum(|splice| &splice.pipes_open))?;
        self.gauge(&declared::PIPES_POOLED, sum(|splice| &splice.pipes_pooled))?;
        self.gauge(
            &declared::BUFFERS_IN_USE,
            sum(|splice| &splice.buffers_in_use),
        )
    }

    fn limits(&mut self) -> fmt::Result {
        let state = self.state;
        let plan = Arc::clone(&state.running.load().plan);
        let limits = [
            ("connections", plan.limits.connections),
            ("log_queue", plan.limits.log_queue),
            ("dns_cache", plan.limits.dns_cache),
            (
                "pipes",
                plan.limits.pipes.saturating_mul(state.workers.len()),
            ),
            ("socket_splices", state.kernel.socket.splices().1 as usize),
            ("packet_splices", state.kernel.packet.taken().max as usize),
            ("split_pairs", carrick_logic::split::PAIRS_MAX),
            (
                "stalled",
                usize::try_from(plan.limits.stalled).unwrap_or(usize::MAX),
            ),
        ];
        self.gauges(
            &declared::LIMIT,
            limits.map(|(limit, value)| ([("limit", limit)], value as u64)),
        )?;
        let reached =
            Limit::ALL.map(|limit| (limit.label(), state.sum(|worker| worker.limits.get(limit))));
        let elsewhere = [
            (
                "pipes",
                state.sum(|worker| worker.splice.pipes_refused.get()),
            ),
            (
                "dns_cache",
                state.metrics.dns_evicted.get() + state.sum(|worker| worker.dns_evicted.get()),
            ),
            ("split_pairs", state.kernel.path_history.counts().1),
            ("dns_queue", state.metrics.dns_refused.load(Relaxed)),
            (
                "admin_connections",
                state.metrics.admin_connections_full.get(),
            ),
        ];
        let reached = reached.into_iter().chain(elsewhere);
        self.counters(
            &declared::LIMIT_REACHED,
            reached.map(|(limit, count)| ([("limit", limit)], count)),
        )
    }

    fn names(&mut self) -> fmt::Result {
        let state = self.state;
        let metrics = &state.metrics;
        let hits = [
            (
                [("cache", "worker")],
                state.sum(|worker| worker.dns_hits.get()),
            ),
            ([("cache", "control")], metrics.dns_hits.get()),
        ];
        self.counters(&declared::DNS_HITS, hits)?;
        let lookups = LookupResult::ALL.map(|result| {
            (
                [("result", result.label())],
                metrics.dns_lookups(result).get(),
            )
        });
        self.counters(&declared::DNS_LOOKUPS, lookups)?;
        self.total(&declared::DNS_JOINED, metrics.dns_joined.get())?;
        self.gauge(&declared::DNS_NAMES, metrics.dns_names.load(Relaxed))?;
        self.gauge(
            &declared::DNS_UNDER_WAY,
            metrics.dns_under_way.load(Relaxed),
        )
    }

    fn log(&mut self) -> fmt::Result {
        let log = &self.state.log;
        let queue = self.state.sum(|worker| worker.limits.get(Limit::LogQueue));
        self.total(&declared::LOG_LINES, log.lines_written.get())?;
        let dropped = [
            ([("reason", "queue")], queue),
            ([("reason", "write")], log.lines_lost.get()),
        ];
        self.counters(&declared::LOG_DROPPED, dropped)?;
        self.gauge(&declared::LOG_WAITING, log.lines_waiting())?;
        self.total(&declared::MESSAGES_DROPPED, messages::dropped())
    }

    fn process(&mut self) -> fmt::Result {
        let process = Process::read();
        if let Some(seconds) = process.cpu_seconds {
            self.family(&declared::PROCESS_CPU)?
                .encode_counter::<NoLabelSet, _, f64>(&seconds, None)?;
        }
        let gauges = [
            (&declared::PROCESS_MEMORY, process.resident_bytes),
            (&declared::PROCESS_OPEN_FDS, process.open_fds),
            (&declared::PROCESS_MAX_FDS, process.max_fds),
        ];
        for (metric, value) in gauges {
            if let Some(value) = value {
                self.gauge(metric, value)?;
            }
        }
        let started = self
            .state
            .started
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.family(&declared::PROCESS_START)?
            .encode_gauge(&started.as_secs_f64())
    }
}

const fn mode(job: Job) -> (&'static str, &'static str) {
    ("mode", job.name())
}

const fn directions(received: u64, sent: u64) -> [([(&'static str, &'static str); 1], u64); 2] {
    [
        ([("direction", "received")], received),
        ([("direction", "sent")], sent),
    ]
}

/// Number of a job's responses by status, over all workers.
fn statuses(state: &ControlState, job: Job) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<u16, u64> = STATUSES_ALWAYS.iter().map(|status| (*status, 0)).collect();
    for (status, count) in state
        .workers
        .iter()
        .flat_map(|worker| worker.job(job).requests.iter())
    {
        *sums.entry(status).or_insert(0) += count;
    }
    let other = state.sum(|worker| worker.job(job).requests.other());
    let other = (other > 0).then(|| (String::from("other"), other));
    sums.into_iter()
        .map(|(status, count)| (status.to_string(), count))
        .chain(other)
        .collect()
}

#[cfg(test)]
mod tests;
