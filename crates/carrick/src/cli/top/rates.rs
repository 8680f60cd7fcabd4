//! Computes rates from two samples: the model of `carrick top`, without a clock, a connection or a terminal.
use super::snapshot::{Class, Paced, Snapshot, Splices, Way};
use crate::cli::args::Sort;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

/// What a running carrick does. Rates are per second, between two samples.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates {
    /// Between the two samples.
    pub time: Duration,
    /// Values that are not rates.
    pub about: About,
    /// Connections accepted from clients.
    pub connections: f64,
    /// Requests answered.
    pub requests: f64,
    /// Bytes relayed, by all engines.
    pub bytes: f64,
    /// In the order of the lexicon.
    pub engines: Vec<EngineRates>,
    /// In the order of the configuration.
    pub classes: Vec<ClassRates>,
    /// In numeric order.
    pub workers: Vec<WorkerRates>,
    /// The cache, if there is one.
    pub cache: Option<CacheRates>,
    /// In no particular order.
    pub tunnels: Vec<TunnelRates>,
}

/// As of the second sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    pub version: String,
    pub pid: u32,
    pub state: String,
    pub uptime: Duration,
    pub connections_open: u64,
    pub upstream_connections_open: u64,
    pub upstream_connections_idle: u64,
    /// Splices of engine `socket` in the kernel, and their limit.
    pub in_kernel: (u64, u64),
    /// Pairs of connections whose packets the kernel may forward.
    pub packet_open: u64,
}

/// Rates of one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineRates {
    /// Its name.
    pub name: &'static str,
    /// Directions that began to use it.
    pub splices: f64,
    /// Bytes; of tunnels as they move, of bodies as the process counts them.
    pub bytes: f64,
    /// Open tunnels whose bytes it moves.
    pub tunnels: u64,
}

/// Rates of a pacing class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassRates {
    /// Its name.
    pub name: String,
    /// Its policy; with `deadline`, the target in microseconds.
    pub policy: (String, Option<u64>),
    /// Its ceiling, in bytes per second.
    pub ceiling: Option<u64>,
    /// Tunnels and connections now in the class.
    pub splices: u64,
    /// Bytes passed.
    pub bytes: f64,
    /// Waits for the worker's own work.
    pub yields: f64,
    /// Waits because of a rate.
    pub rate_waits: f64,
    /// Delays by kernel programs, for either reason.
    pub kernel_holds: f64,
    /// Seconds of delay per second, over all splices: the mean number of waiting splices.
    pub held: f64,
}

/// Rates of a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerRates {
    /// Its number.
    pub number: u64,
    /// Clients' connections.
    pub connections_open: u64,
    /// Share of the time in which it had work of its own: 0 to 1.
    pub runnable: f64,
    /// Share of the time in which it forwarded delayed bytes.
    pub forwarding: f64,
    /// Requests that it answered itself.
    pub local_requests: f64,
    /// Requests whose responses it relayed.
    pub spliced_requests: f64,
    /// 99th percentile of the time to answer a cache hit, at the last measurement; microseconds.
    pub hits_p99_us: Option<u64>,
}

/// Rates of the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheRates {
    /// Its share of answers since the first sample, 0 to 1; `None` before the first request.
    pub hit_ratio: Option<f64>,
    /// Cacheable requests.
    pub requests: f64,
    /// Bytes that origins did not have to send.
    pub bytes_saved: f64,
    /// Number of objects.
    pub objects: u64,
    /// Bytes used.
    pub bytes: u64,
    /// Limit on bytes.
    pub bytes_max: u64,
}

/// Rates of a tunnel.
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelRates {
    pub client: String,
    pub server: String,
    pub target: String,
    pub engine: String,
    pub class: Option<String>,
    /// `None` if an earlier carrick began it.
    pub age: Option<Duration>,
    /// Bytes per second from the client.
    pub up: f64,
    /// Bytes per second to the client.
    pub down: f64,
    /// Bytes since the beginning, in both directions.
    pub bytes: u64,
}

impl Rates {
    /// The rates between two samples; `None` if they are of different processes or of the same time.
    #[must_use]
    pub fn between(before: &Snapshot, now: &Snapshot) -> Option<Self> {
        let (old, new) = (&before.status.page, &now.status.page);
        let of_status = Span::between(before.status.at, now.status.at)?;
        let of_splices = Span::between(before.splices.at, now.splices.at)?;
        let of_pace = Span::between(before.pace.at, now.pace.at)?;
        if (old.pid, &old.started) != (new.pid, &new.started) {
            return None;
        }
        let engines: Vec<EngineRates> = ENGINES
            .map(|name| EngineRates {
                name,
                splices: of_status.rate(splices_by(before, name), splices_by(now, name)),
                bytes: of_status.rate(bytes_by(before, name), bytes_by(now, name)),
                tunnels: new.splices.tunnels.get(name).copied().unwrap_or(0)
                    + if name == PACKET {
                        new.splices.outliving.adopted
                    } else {
                        0
                    },
            })
            .into();
        let sum = |snapshot: &Snapshot, of: fn(&super::snapshot::Worker) -> u64| -> u64 {
            snapshot.status.page.workers.iter().map(of).sum()
        };
        let rate = |of| of_status.rate(sum(before, of), sum(now, of));
        let open = |of| sum(now, of);
        Some(Self {
            time: now.status.at - before.status.at,
            about: About {
                version: new.version.clone(),
                pid: new.pid,
                state: new.state.clone(),
                uptime: Duration::from_secs(new.uptime_seconds),
                connections_open: open(|worker| worker.connections_open),
                upstream_connections_open: open(|worker| worker.upstream_connections_open),
                upstream_connections_idle: open(|worker| worker.upstream_connections_idle),
                in_kernel: (new.splices.in_kernel, new.splices.limit),
                packet_open: new.splices.packet_open,
            },
            connections: rate(|worker| worker.connections_accepted),
            requests: rate(|worker| worker.requests),
            bytes: engines.iter().map(|engine| engine.bytes).sum(),
            engines,
            classes: classes(&of_pace, before, now),
            workers: workers(&of_pace, before, now),
            cache: cache(&of_status, before, now),
            tunnels: tunnels(&of_splices, &before.splices.page, &now.splices.page),
        })
    }

    /// Open tunnels.
    #[must_use]
    pub fn tunnels_open(&self) -> u64 {
        self.engines.iter().map(|engine| engine.tunnels).sum()
    }

    /// The first tunnels in an order, at most `at_most`.
    #[must_use]
    pub fn first_tunnels(&self, sort: Sort, at_most: usize) -> Vec<&TunnelRates> {
        let mut tunnels: Vec<&TunnelRates> = self.tunnels.iter().collect();
        // Ties: more bytes first, then the lower address, so that idle tunnels keep their positions.
        tunnels.sort_by(|one, other| (one.client.as_str()).cmp(&other.client));
        tunnels.sort_by_key(|tunnel| Reverse(tunnel.bytes));
        match sort {
            Sort::Rate => highest_first(&mut tunnels, |tunnel| tunnel.up + tunnel.down),
            Sort::Up => highest_first(&mut tunnels, |tunnel| tunnel.up),
            Sort::Down => highest_first(&mut tunnels, |tunnel| tunnel.down),
            Sort::Bytes => {}
            // Tunnels of an earlier carrick are the oldest.
            Sort::Age => tunnels.sort_by_key(|tunnel| Reverse(tunnel.age.unwrap_or(Duration::MAX))),
            Sort::Client => tunnels.sort_by(|one, other| one.client.cmp(&other.client)),
        }
        tunnels.truncate(at_most);
        tunnels
    }
}

fn highest_first(tunnels: &mut [&TunnelRates], rate: fn(&TunnelRates) -> f64) {
    tunnels.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
}

const PACKET: &str = "packet";

/// The engines, in the order of display.
const ENGINES: [&str; 4] = ["copy", "pipe", "socket", PACKET];

/// A time that is not zero.
struct Span {
    seconds: f64,
}

impl Span {
    fn between(before: Duration, now: Duration) -> Option<Self> {
        let seconds = now.checked_sub(before)?.as_secs_f64();
        (seconds > 0.0).then_some(Self { seconds })
    }

    /// Counters that are read while they are updated can seem to decrease slightly: that counts as zero.
    fn rate(&self, before: u64, now: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.seconds
    }

    /// The share of the time, from two counts of milliseconds.
    fn share(&self, before_ms: u64, now_ms: u64) -> f64 {
        (self.rate(before_ms, now_ms) / 1000.0).min(1.0)
    }
}

fn splices_by(snapshot: &Snapshot, engine: &str) -> u64 {
    counter(snapshot, engine, "splices")
}

/// Bytes that an engine has moved, including those not yet counted.
fn bytes_by(snapshot: &Snapshot, engine: &str) -> u64 {
    let splices = &snapshot.status.page.splices;
    let uncounted = splices.uncounted_bytes.get(engine).copied().unwrap_or(0);
    let adopted = if engine == PACKET {
        splices.outliving.bytes_total
    } else {
        0
    };
    counter(snapshot, engine, "bytes") + uncounted + adopted
}

fn counter(snapshot: &Snapshot, engine: &str, of: &str) -> u64 {
    let name = format!("{engine}_{of}");
    snapshot.status.page.splice.get(&name).copied().unwrap_or(0)
}

fn classes(span: &Span, before: &Snapshot, now: &Snapshot) -> Vec<ClassRates> {
    let nothing = Class::default();
    let rates = now.pace.page.classes.iter().map(|class| {
        let known = before.pace.page.classes.iter();
        // A new class begins at zero.
        let old = known
            .clone()
            .find(|old| old.name == class.name)
            .unwrap_or(&nothing);
        let rate = |of: fn(&Class) -> u64| span.rate(of(old), of(class));
        ClassRates {
            name: class.name.clone(),
            policy: (class.policy.clone(), class.target_us),
            ceiling: class.ceiling,
            splices: class.splices,
            bytes: rate(|class| class.bytes),
            yields: rate(|class| class.yields),
            rate_waits: rate(|class| class.rate_waits),
            kernel_holds: rate(|class| class.kernel_holds),
            held: rate(|class| class.waited_ms) / 1000.0,
        }
    });
    rates.collect()
}

fn workers(span: &Span, before: &Snapshot, now: &Snapshot) -> Vec<WorkerRates> {
    let nothing = Paced::default();
    let rates = now
        .pace
        .page
        .workers
        .iter()
        .enumerate()
        .map(|(place, worker)| {
            let old = before.pace.page.workers.get(place).unwrap_or(&nothing);
            let status = now.status.page.workers.get(place);
            WorkerRates {
                number: worker.worker,
                connections_open: status.map_or(0, |status| status.connections_open),
                runnable: span.share(old.runnable_ms, worker.runnable_ms),
                forwarding: span.share(old.forwarding_ms, worker.forwarding_ms),
                local_requests: span.rate(old.local_requests, worker.local_requests),
                spliced_requests: span.rate(old.spliced_requests, worker.spliced_requests),
                hits_p99_us: worker.hits_p99_us,
            }
        });
    rates.collect()
}

fn cache(span: &Span, before: &Snapshot, now: &Snapshot) -> Option<CacheRates> {
    let cache = now.status.page.cache.as_ref()?;
    let old = before.status.page.cache.clone().unwrap_or_default();
    let hits = cache.hits.saturating_sub(old.hits);
    let asked = hits + cache.misses.saturating_sub(old.misses);
    Some(CacheRates {
        hit_ratio: (asked > 0).then(|| hits as f64 / asked as f64),
        requests: span.rate(0, asked),
        bytes_saved: span.rate(old.bytes_saved, cache.bytes_saved),
        objects: cache.objects,
        bytes: cache.bytes,
        bytes_max: cache.bytes_max,
    })
}

fn tunnels(span: &Span, before: &Splices, now: &Splices) -> Vec<TunnelRates> {
    let old: HashMap<&str, [Way; 2]> = (before.list.iter())
        .map(|tunnel| (tunnel.id.as_str(), tunnel.ways()))
        .collect();
    let ours = now.list.iter().map(|tunnel| {
        let ways = tunnel.ways();
        // A tunnel that was not listed before is new, or its rate is unknown.
        let is_new = tunnel.seconds <= span.seconds + 1.0;
        let known = old.get(tunnel.id.as_str()).copied();
        let [up, down] = since(span, known.or(is_new.then(Default::default)), ways);
        TunnelRates {
            client: tunnel.client.clone(),
            server: tunnel.server.clone(),
            target: tunnel.target.clone(),
            engine: tunnel.engine.clone(),
            class: tunnel.class.clone(),
            age: Duration::try_from_secs_f64(tunnel.seconds).ok(),
            up,
            down,
            bytes: ways[0].bytes + ways[1].bytes,
        }
    });
    let old: HashMap<[&str; 4], [Way; 2]> = (before.outliving.list.iter())
        .map(|tunnel| (tunnel.name(), tunnel.ways()))
        .collect();
    let adopted = now.outliving.list.iter().map(|tunnel| {
        let ways = tunnel.ways();
        let [up, down] = since(span, old.get(&tunnel.name()).copied(), ways);
        TunnelRates {
            client: tunnel.client.clone(),
            server: tunnel.server.clone(),
            target: "(adopted)".to_owned(),
            engine: PACKET.to_owned(),
            class: None,
            age: None,
            up,
            down,
            bytes: ways[0].bytes + ways[1].bytes,
        }
    });
    ours.chain(adopted).collect()
}

/// The rates of both directions, if the previous counts are known.
fn since(span: &Span, before: Option<[Way; 2]>, now: [Way; 2]) -> [f64; 2] {
    before.map_or([0.0; 2], |before| {
        [0, 1].map(|side| span.rate(before[side].bytes, now[side].bytes))
    })
}

#[cfg(test)]
pub(crate) mod tests;
