//! What carrick has to reach against each peer's best mode, and whether it did.

use crate::bench::memory::MemoryKind;
use crate::bench::results::{Figure, Results};
use crate::peers::{Family, JUDGED, JUDGED_IN_KERNEL, PACKET, PACKET_BODY, PEERS, UNCACHED};

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Requests (or messages, or bits) per second: as many as possible.
    Rate,
    /// CPU of the proxy's core for each: as little as possible.
    Cpu,
    /// CPU of the proxy's process alone for each: as little as possible.
    Process,
    /// The median latency: as low as possible.
    Latency,
    /// Requests that the origin gets of a crowd that asks for one object.
    Fetches,
    /// The last client of a crowd: its time divided by that of the first one.
    LastToFirst,
}

impl What {
    /// The figure whose runs it is from.
    #[must_use]
    pub fn figure(self) -> Figure {
        match self {
            Self::Rate | Self::Latency | Self::Fetches | Self::LastToFirst => Figure::Rate,
            Self::Cpu | Self::Process => Figure::Cpu,
        }
    }
}

/// Whom carrick is compared with.
#[derive(Clone, Copy, Debug)]
enum Against {
    /// The best row of these programs.
    BestOf(&'static [Family]),
    /// This row.
    Row(&'static str),
    /// Nobody: the factor is the bound itself.
    Nobody,
}

/// A factor: at least for rates, at most for the others.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    what: What,
    factor: f64,
    against: Against,
}

/// The bounds for one row of one work.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The work's name.
    pub work: &'static str,
    /// The row of carrick's that is judged.
    pub own: &'static str,
    bounds: &'static [Bound],
}

const BOTH: Against = Against::BestOf(&[Family::Haproxy, Family::Nginx]);
const HAPROXY: Against = Against::BestOf(&[Family::Haproxy]);
const NGINX: Against = Against::BestOf(&[Family::Nginx]);
const SQUID: Against = Against::BestOf(&[Family::Squid]);
const COPY: Against = Against::Row("carrick-copy");
const ROUTED: Against = Against::BestOf(&[Family::Routed]);
const PIPE: Against = Against::Row("carrick-pipe");
const CACHES: Against = Against::BestOf(&[
    Family::Nginx,
    Family::Squid,
    Family::Varnish,
    Family::TrafficServer,
]);
const SOCKET: &str = "carrick-socket";

const fn rate(factor: f64, against: Against) -> Bound {
    bound(What::Rate, factor, against)
}

const fn cpu(factor: f64, against: Against) -> Bound {
    bound(What::Cpu, factor, against)
}

const fn bound(what: What, factor: f64, against: Against) -> Bound {
    Bound {
        what,
        factor,
        against,
    }
}

const fn target(work: &'static str, bounds: &'static [Bound]) -> Target {
    of(JUDGED, work, bounds)
}

const fn of(own: &'static str, work: &'static str, bounds: &'static [Bound]) -> Target {
    Target { work, own, bounds }
}

/// A message costs the process next to nothing: it is not woken.
const PING: &[Bound] = &[
    rate(1.5, COPY),
    bound(What::Latency, 1.0, COPY),
    bound(What::Process, 0.05, COPY),
];

/// Routing is the limit of what a kernel can do that judges each request besides.
const JUDGED_BY_KERNEL: &[Bound] = &[
    rate(0.85, ROUTED),
    rate(1.6, BOTH),
    cpu(2.0, ROUTED),
    cpu(1.0 / 3.0, BOTH),
];

/// What is in memory.
const HIT: &[Bound] = &[rate(1.05, CACHES), cpu(0.9, CACHES)];
/// To be stored must cost little beside being passed on.
const MISS: &[Bound] = &[rate(1.5, CACHES), rate(0.85, Against::Row(UNCACHED))];

/// All of them, in the order of reports.
pub const TARGETS: [Target; 46] = [
    target("switch-1k", &[rate(1.05, BOTH), cpu(0.9, BOTH)]),
    of(PACKET, "switch-1k", &[rate(1.2, BOTH), cpu(0.6, BOTH)]),
    of(JUDGED_IN_KERNEL, "switch-1k", JUDGED_BY_KERNEL),
    of(PACKET, "switch-10k", &[rate(1.3, BOTH), cpu(0.55, BOTH)]),
    of(JUDGED_IN_KERNEL, "switch-10k", JUDGED_BY_KERNEL),
    target("switch-64k", &[rate(1.0, BOTH), cpu(0.9, BOTH)]),
    of(PACKET, "switch-64k", &[rate(1.3, BOTH), cpu(0.4, BOTH)]),
    of(JUDGED_IN_KERNEL, "switch-64k", JUDGED_BY_KERNEL),
    of(PACKET, "switch-256k", &[rate(1.3, BOTH), cpu(0.25, BOTH)]),
    of(
        PACKET_BODY,
        "switch-256k",
        &[rate(1.0, BOTH), cpu(0.6, BOTH)],
    ),
    target(
        "switch-1m",
        &[rate(1.0, HAPROXY), rate(1.9, NGINX), cpu(0.9, HAPROXY)],
    ),
    of(PACKET, "switch-1m", &[rate(1.25, BOTH), cpu(0.12, BOTH)]),
    of(PACKET_BODY, "switch-1m", &[rate(1.0, BOTH), cpu(0.4, BOTH)]),
    of(PACKET, "switch-10m", &[rate(1.0, BOTH), cpu(0.25, BOTH)]),
    of(
        PACKET_BODY,
        "switch-10m",
        &[rate(1.0, BOTH), cpu(0.3, BOTH)],
    ),
    target("switch-close-1k", &[rate(1.0, BOTH), cpu(1.0, BOTH)]),
    target("tunnel-1k", &[rate(1.05, HAPROXY), cpu(0.8, HAPROXY)]),
    of(SOCKET, "tunnel-1k", &[cpu(0.85, COPY), cpu(0.5, HAPROXY)]),
    of(
        PACKET,
        "tunnel-1k",
        &[
            rate(0.95, ROUTED),
            rate(2.0, HAPROXY),
            cpu(1.25, ROUTED),
            cpu(1.0 / 4.0, HAPROXY),
        ],
    ),
    of(SOCKET, "tunnel-10k", &[cpu(0.85, COPY)]),
    target("tunnel-64k", &[rate(1.0, HAPROXY), cpu(0.9, HAPROXY)]),
    of(
        PACKET,
        "tunnel-64k",
        &[
            rate(0.95, ROUTED),
            rate(1.7, HAPROXY),
            cpu(1.25, ROUTED),
            cpu(1.0 / 5.0, HAPROXY),
        ],
    ),
    target("tunnel-1m", &[rate(1.1, HAPROXY), cpu(0.85, HAPROXY)]),
    of(
        PACKET,
        "tunnel-1m",
        &[
            rate(0.9, ROUTED),
            rate(1.3, HAPROXY),
            cpu(1.25, ROUTED),
            cpu(1.0 / 6.0, HAPROXY),
        ],
    ),
    of(
        SOCKET,
        "tunnel-256-1k",
        &[cpu(0.85, COPY), cpu(0.5, HAPROXY)],
    ),
    of(SOCKET, "tunnel-256-10k", &[cpu(0.85, COPY)]),
    of(SOCKET, "ping-64", PING),
    of(SOCKET, "ping-1k", PING),
    of(SOCKET, "bulk-1", &[rate(0.9, PIPE)]),
    of(SOCKET, "bulk-16", &[rate(0.9, PIPE)]),
    target("forward-1k", &[rate(3.5, SQUID)]),
    target("forward-64k", &[rate(5.0, SQUID)]),
    target("forward-1m", &[rate(8.0, SQUID)]),
    target("cache-hit-1k", HIT),
    target("cache-hit-10k", HIT),
    target("cache-hit-64k", HIT),
    target("cache-hit-1m", HIT),
    target("cache-hit-256-1k", HIT),
    target("cache-hit-256-10k", HIT),
    target("cache-hit-256-64k", HIT),
    target("cache-hit-256-1m", HIT),
    target("cache-disk-64k", &[rate(1.0, NGINX)]),
    target("cache-disk-1m", &[rate(1.0, NGINX)]),
    target("cache-miss-64k", MISS),
    target("cache-miss-1m", MISS),
    target(
        "cache-crowd-10m",
        &[
            bound(What::Fetches, 1.0, Against::Nobody),
            bound(What::LastToFirst, 1.2, Against::Nobody),
        ],
    ),
];

/// Most bytes of process memory per idle connection, or per object besides what it consists of.
#[must_use]
pub fn memory_bytes_max(kind: MemoryKind) -> f64 {
    match kind {
        MemoryKind::SwitchKeepAlive | MemoryKind::ForwardKeepAlive => 8.0 * 1024.0,
        MemoryKind::Tunnel | MemoryKind::Split | MemoryKind::SplitStalled => 16.0 * 1024.0,
        MemoryKind::StoredObject => 300.0,
    }
}

/// Most bytes of process and kernel together for an idle split connection: 100,000 of them on 4 GB.
pub const SPLIT_BYTES_MAX: f64 = 4.0 * 1024.0 * 1024.0 * 1024.0 / 100_000.0;

/// One bound, applied.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The work's name.
    pub work: &'static str,
    /// The row of carrick's that is judged.
    pub own: &'static str,
    /// What was compared.
    pub what: What,
    /// The factor asked for: at least for rates, at most for the others.
    pub factor: f64,
    /// The row that it was compared with; empty where the factor is the bound itself.
    pub best_peer: &'static str,
    /// That row's median.
    pub best: f64,
    /// carrick's median divided by that.
    pub ratio: f64,
    /// Whether it was reached.
    pub met: bool,
}

/// The median of what is judged, of one row.
#[must_use]
pub fn median(results: &Results, work: &str, peer: &str, what: What) -> Option<f64> {
    match what {
        What::Rate | What::Cpu => results.cell(work, peer, what.figure()).median(),
        What::Process => results.process_cell(work, peer).median(),
        What::Latency => results.latency_us(work, peer).map(|(p50, _)| p50),
        What::Fetches => results.median_of(work, peer, |run| Some(run.origin_requests? as f64)),
        What::LastToFirst => results.median_of(work, peer, |run| {
            let crowd = run.crowd?;
            Some(crowd.last_us as f64 / crowd.first_us.max(1) as f64)
        }),
    }
}

/// The row to compare with: the highest rate, the lowest of anything else.
fn best_of(
    results: &Results,
    work: &str,
    what: What,
    against: Against,
) -> Option<(&'static str, f64)> {
    if let Against::Nobody = against {
        return Some(("", 1.0));
    }
    let candidates = PEERS
        .iter()
        .filter(|peer| match against {
            Against::BestOf(families) => families.contains(&peer.family),
            Against::Row(name) => peer.name == name,
            Against::Nobody => false,
        })
        .filter_map(|peer| Some((peer.name, median(results, work, peer.name, what)?)));
    match what {
        What::Rate => candidates.max_by(|left, right| left.1.total_cmp(&right.1)),
        _ => candidates.min_by(|left, right| left.1.total_cmp(&right.1)),
    }
}

/// Judges every bound whose two sides were measured.
#[must_use]
pub fn judge(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for target in TARGETS {
        for bound in target.bounds {
            let Some(own) = median(results, target.work, target.own, bound.what) else {
                continue;
            };
            let Some((best_peer, best)) = best_of(results, target.work, bound.what, bound.against)
                .filter(|best| best.1 > 0.0)
            else {
                continue;
            };
            let ratio = own / best;
            verdicts.push(Verdict {
                work: target.work,
                own: target.own,
                what: bound.what,
                factor: bound.factor,
                best_peer,
                best,
                ratio,
                met: match bound.what {
                    What::Rate => ratio >= bound.factor,
                    _ => ratio <= bound.factor,
                },
            });
        }
    }
    verdicts
}

#[cfg(test)]
pub(crate) mod tests;
