//! What is asked of the proxies: the rows of the benchmark.

use crate::peers::{Job, Peer};
use crate::testbed::Addresses;

/// One kind of load, always from 16 connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// What the proxy is used as.
    pub job: Job,
    /// The length of each response's body.
    pub body_bytes: usize,
    /// Whether the client opens a new connection for each request.
    pub close: bool,
    /// Whether it runs without being named.
    pub by_default: bool,
}

/// How many connections the load generator keeps busy.
pub const CONNECTIONS: usize = 16;

/// 1 KB.
pub const KIB: usize = 1024;

/// All works, in the order of reports.
pub const WORKS: [Work; 13] = [
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
        "switch-1m",
        "switch, keep-alive, 1 MB",
        Job::Switch,
        KIB * KIB,
        true,
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
    work("tunnel-10k", "tunnel, 10 KB", Job::Tunnel, 10 * KIB, false),
    work("tunnel-64k", "tunnel, 64 KB", Job::Tunnel, 64 * KIB, true),
    work("tunnel-1m", "tunnel, 1 MB", Job::Tunnel, KIB * KIB, true),
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
        body_bytes,
        close: false,
        by_default,
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

/// How a job's requests for a file of the origin are addressed through a peer.
#[must_use]
pub fn target(job: Job, body_bytes: usize, peer: &Peer, addresses: &Addresses) -> Target {
    let host = addresses.origin_http().to_string();
    let routed = peer.family == crate::peers::Family::Routed;
    let connect = if routed {
        host.clone()
    } else {
        addresses.proxy_for(job).to_string()
    };
    let path = format!("/{body_bytes}");
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
