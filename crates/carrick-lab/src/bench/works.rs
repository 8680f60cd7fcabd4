//! What is asked of the proxies: the rows of the benchmark.

use crate::bench::cached::Asks;
use crate::bench::talk::Talk;
use crate::peers::{Family, Job, Peer};
use crate::testbed::Addresses;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// What the proxy is used as.
    pub job: Job,
    /// What the client does.
    pub load: Load,
    /// How many connections are kept busy.
    pub connections: usize,
    /// The length of each response's body, or of each message; a stream has none.
    pub body_bytes: usize,
    /// Whether the client opens a new connection for each request.
    pub close: bool,
    /// Whether it runs without being named.
    pub by_default: bool,
}

/// What the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// HTTP requests for a file, by wrk.
    Get,
    /// HTTP requests to a proxy with a cache.
    Cache(Asks),
    /// No HTTP, by ourselves.
    Talk(Talk),
}

impl Work {
    /// Whether the figures are of bytes, not of requests.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.load == Load::Talk(Talk::Stream)
    }

    /// What the rate is counted in.
    #[must_use]
    pub fn rate_unit(&self) -> &'static str {
        match self.load {
            Load::Get | Load::Cache(_) => "requests/s",
            Load::Talk(Talk::PingPong) => "trips/s",
            Load::Talk(Talk::Stream) => "Gbit/s",
        }
    }

    /// What the CPU is given in.
    #[must_use]
    pub fn cpu_unit(&self) -> &'static str {
        if self.is_stream() { "ms/GB" } else { "us" }
    }

    /// Whether a peer is measured at it. The engine `socket` is for tunnels: of HTTP bodies the process relays the first burst,
    /// which is the whole of small ones. The engine `packet` leaves a connection's first response to the process, which is its
    /// only one if it closes; and where the process reads heads, as a forward proxy does always, small bodies come with them.
    #[must_use]
    pub fn is_for(&self, peer: &Peer) -> bool {
        let is_its_engines = match peer.engine() {
            Some("socket") => self.job == Job::Tunnel,
            Some("packet") => {
                let is_large = self.body_bytes >= BODY_BY_PACKET_BYTES_MIN;
                !self.close && (is_large || !(peer.relays_heads() || self.job == Job::Forward))
            }
            // What it is there for is the way of what is not stored.
            _ => !peer.is_uncached() || self.load == Load::Cache(Asks::New),
        };
        peer.jobs.contains(&self.job) && is_its_engines
    }

    /// Whether a word of the command line means it: its name, the beginning of its name up to a hyphen, or, if it runs by
    /// default, its job.
    #[must_use]
    pub fn is_meant_by(&self, word: &str) -> bool {
        if [Job::Switch, Job::Tunnel, Job::Forward]
            .map(Job::name)
            .contains(&word)
        {
            return self.job.name() == word && self.by_default && self.load == Load::Get;
        }
        let rest = self.name.strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

/// How many connections wrk keeps busy, unless a work says otherwise.
const CONNECTIONS: usize = 16;
/// Many of them.
const CONNECTIONS_MANY: usize = 256;
/// Clients that come at once.
const CROWD_CONNECTIONS: usize = 1_000;

/// 1 KB.
pub const KIB: usize = 1024;
/// Of smaller bodies a good part is read with the head.
const BODY_BY_PACKET_BYTES_MIN: usize = 256 * KIB;

/// All works, in the order of reports.
pub const WORKS: [Work; 36] = [
    work(
        "switch-1k",
        "switch, keep-alive, 1 KB",
        Job::Switch,
        KIB,
        true,
    ),
    work(
        "switch-10k",
        "switch, keep-alive, 10 KB",
        Job::Switch,
        10 * KIB,
        false,
    ),
    work(
        "switch-64k",
        "switch, keep-alive, 64 KB",
        Job::Switch,
        64 * KIB,
        true,
    ),
    work(
        "switch-256k",
        "switch, keep-alive, 256 KB",
        Job::Switch,
        256 * KIB,
        false,
    ),
    work(
        "switch-1m",
        "switch, keep-alive, 1 MB",
        Job::Switch,
        KIB * KIB,
        true,
    ),
    work(
        "switch-10m",
        "switch, keep-alive, 10 MB",
        Job::Switch,
        10 * KIB * KIB,
        false,
    ),
    Work {
        close: true,
        ..work(
            "switch-close-1k",
            "switch, new connection per request, 1 KB",
            Job::Switch,
            KIB,
            true,
        )
    },
    work("tunnel-1k", "tunnel, 1 KB", Job::Tunnel, KIB, true),
    work("tunnel-2k", "tunnel, 2 KB", Job::Tunnel, 2 * KIB, false),
    work("tunnel-4k", "tunnel, 4 KB", Job::Tunnel, 4 * KIB, false),
    work("tunnel-10k", "tunnel, 10 KB", Job::Tunnel, 10 * KIB, true),
    work("tunnel-64k", "tunnel, 64 KB", Job::Tunnel, 64 * KIB, true),
    work("tunnel-1m", "tunnel, 1 MB", Job::Tunnel, KIB * KIB, true),
    Work {
        connections: CONNECTIONS_MANY,
        ..work(
            "tunnel-256-1k",
            "tunnel, 256 connections, 1 KB",
            Job::Tunnel,
            KIB,
            true,
        )
    },
    Work {
        connections: CONNECTIONS_MANY,
        ..work(
            "tunnel-256-10k",
            "tunnel, 256 connections, 10 KB",
            Job::Tunnel,
            10 * KIB,
            true,
        )
    },
    talk(
        "ping-64",
        "tunnel, one connection, 64 bytes there and back",
        Talk::PingPong,
        1,
        64,
    ),
    talk(
        "ping-1k",
        "tunnel, one connection, 1 KB there and back",
        Talk::PingPong,
        1,
        KIB,
    ),
    talk(
        "bulk-1",
        "tunnel, one connection, a stream",
        Talk::Stream,
        1,
        0,
    ),
    talk(
        "bulk-16",
        "tunnel, 16 connections, a stream on each",
        Talk::Stream,
        CONNECTIONS,
        0,
    ),
    work("forward-1k", "forward proxy, 1 KB", Job::Forward, KIB, true),
    work(
        "forward-10k",
        "forward proxy, 10 KB",
        Job::Forward,
        10 * KIB,
        false,
    ),
    work(
        "forward-64k",
        "forward proxy, 64 KB",
        Job::Forward,
        64 * KIB,
        true,
    ),
    work(
        "forward-1m",
        "forward proxy, 1 MB",
        Job::Forward,
        KIB * KIB,
        true,
    ),
    cached(
        "cache-hit-1k",
        "cache hits, 1 KB",
        Asks::One,
        CONNECTIONS,
        KIB,
    ),
    cached(
        "cache-hit-10k",
        "cache hits, 10 KB",
        Asks::One,
        CONNECTIONS,
        10 * KIB,
    ),
    cached(
        "cache-hit-64k",
        "cache hits, 64 KB",
        Asks::One,
        CONNECTIONS,
        64 * KIB,
    ),
    cached(
        "cache-hit-1m",
        "cache hits, 1 MB",
        Asks::One,
        CONNECTIONS,
        KIB * KIB,
    ),
    cached(
        "cache-hit-256-1k",
        "cache hits, 256 connections, 1 KB",
        Asks::One,
        CONNECTIONS_MANY,
        KIB,
    ),
    cached(
        "cache-hit-256-10k",
        "cache hits, 256 connections, 10 KB",
        Asks::One,
        CONNECTIONS_MANY,
        10 * KIB,
    ),
    cached(
        "cache-hit-256-64k",
        "cache hits, 256 connections, 64 KB",
        Asks::One,
        CONNECTIONS_MANY,
        64 * KIB,
    ),
    cached(
        "cache-hit-256-1m",
        "cache hits, 256 connections, 1 MB",
        Asks::One,
        CONNECTIONS_MANY,
        KIB * KIB,
    ),
    cached(
        "cache-disk-64k",
        "cache hits on disk, eight times as much as fits into memory, 64 KB",
        Asks::Many,
        CONNECTIONS,
        64 * KIB,
    ),
    cached(
        "cache-disk-1m",
        "cache hits on disk, eight times as much as fits into memory, 1 MB",
        Asks::Many,
        CONNECTIONS,
        KIB * KIB,
    ),
    cached(
        "cache-miss-64k",
        "cache misses, stored, 64 KB",
        Asks::New,
        CONNECTIONS,
        64 * KIB,
    ),
    cached(
        "cache-miss-1m",
        "cache misses, stored, 1 MB",
        Asks::New,
        CONNECTIONS,
        KIB * KIB,
    ),
    cached(
        "cache-crowd-10m",
        "1,000 clients ask at once for 10 MB that nobody has",
        Asks::Crowd,
        CROWD_CONNECTIONS,
        10 * KIB * KIB,
    ),
];

const fn work(
    name: &'static str,
    title: &'static str,
    job: Job,
    body_bytes: usize,
    by_default: bool,
) -> Work {
    Work {
        name,
        title,
        job,
        load: Load::Get,
        connections: CONNECTIONS,
        body_bytes,
        close: false,
        by_default,
    }
}

const fn talk(
    name: &'static str,
    title: &'static str,
    talk: Talk,
    connections: usize,
    message_bytes: usize,
) -> Work {
    Work {
        load: Load::Talk(talk),
        connections,
        ..work(name, title, Job::Tunnel, message_bytes, true)
    }
}

const fn cached(
    name: &'static str,
    title: &'static str,
    asks: Asks,
    connections: usize,
    body_bytes: usize,
) -> Work {
    let job = match asks {
        Asks::Many => Job::CacheDisk,
        Asks::One | Asks::New | Asks::Crowd => Job::Cache,
    };
    Work {
        load: Load::Cache(asks),
        connections,
        ..work(name, title, job, body_bytes, true)
    }
}

/// The work of this name.
#[must_use]
pub fn named(name: &str) -> Option<Work> {
    WORKS.into_iter().find(|work| work.name == name)
}

/// Where the client sends a request, and what it writes into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `ADDRESS:PORT` to connect to.
    pub connect: String,
    /// The request target: a path, or an absolute URL for a forward proxy.
    pub request_target: String,
    /// The `Host` field.
    pub host: String,
}

/// Where the tunnels of a work lead to.
#[must_use]
pub fn tunnel_origin(work: &Work, addresses: &Addresses) -> String {
    let origin = match work.load {
        Load::Get | Load::Cache(_) => addresses.origin_http(),
        Load::Talk(Talk::PingPong) => addresses.origin_ping_pong(),
        Load::Talk(Talk::Stream) => addresses.origin_stream(),
    };
    origin.to_string()
}

/// Where the client of a talk connects to.
#[must_use]
pub fn talk_target(work: &Work, peer: &Peer, addresses: &Addresses) -> String {
    if peer.family == Family::Routed {
        tunnel_origin(work, addresses)
    } else {
        addresses.proxy_for(work.job).to_string()
    }
}

/// How a job's requests for a file of the origin are addressed through a peer.
#[must_use]
pub fn target(job: Job, body_bytes: usize, peer: &Peer, addresses: &Addresses) -> Target {
    let host = addresses.origin_http().to_string();
    let routed = peer.family == Family::Routed;
    let connect = if routed {
        host.clone()
    } else {
        addresses.proxy_for(job).to_string()
    };
    let path = match job {
        // There the origin says that it may be stored.
        Job::Cache | Job::CacheDisk => format!("/c/{body_bytes}"),
        _ => format!("/{body_bytes}"),
    };
    let request_target = if job == Job::Forward && !routed {
        format!("http://{host}{path}")
    } else {
        path
    };
    Target {
        connect,
        request_target,
        host,
    }
}

#[cfg(test)]
mod tests;
