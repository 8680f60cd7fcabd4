//! What the load generator is asked to do. `carrick-lab load --plan FILE` reads it as TOML or JSON; experiments write it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::origin::quota::RequestsPerConnection;

/// A whole load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    /// Where to.
    pub route: Route,
    /// When requests are made.
    pub arrival: Arrival,
    /// What is asked for: each request is of one class, chosen at random by weight.
    #[serde(rename = "class")]
    pub classes: Vec<Class>,
    /// How many requests a connection carries (`pages` has a rule of its own).
    #[serde(default)]
    pub requests_per_connection: RequestsPerConnection,
    /// Not measured, at the beginning.
    #[serde(default)]
    pub warm_up_seconds: f64,
    /// Measured: requests that end within it count.
    pub measured_seconds: f64,
    /// Not measured, at the end, still with full load.
    #[serde(default)]
    pub shutdown_seconds: f64,
    /// For all random choices.
    #[serde(default)]
    pub seed: u64,
    /// Whether every byte of every body is compared with what the origin's rule says.
    #[serde(default = "yes")]
    pub verify: bool,
    /// A request that takes longer has failed.
    #[serde(default = "thirty")]
    pub timeout_seconds: f64,
    /// Local ports to use, first and last (the WAN emulator's rules may depend on them); none: the kernel's choice.
    #[serde(default)]
    pub local_ports: Option<[u16; 2]>,
}

/// How requests reach the origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Route {
    /// To a switch, a tunnel, a transparent proxy or the origin itself: the target in origin form.
    Direct {
        /// To connect to.
        address: SocketAddr,
        /// The `Host` field; none: the address.
        #[serde(default)]
        host: Option<String>,
    },
    /// Through a forward proxy: the target in absolute form, `CONNECT` for tunnels.
    Forward {
        /// To connect to.
        proxy: SocketAddr,
        /// The origin's authority.
        origin: String,
    },
}

/// When requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// Closed loop: each client makes its next request when the last one is answered (s-client).
    Closed {
        /// Clients at a time.
        clients: usize,
        /// Pause between a response and the next request.
        #[serde(default)]
        think_ms: f64,
    },
    /// Open loop: requests come at a rate, whether or not the earlier ones are answered; latency is counted from the moment
    /// at which the request should have been sent (no coordinated omission).
    Open {
        /// Requests per second.
        rate: f64,
        /// Requests under way at a time; beyond, they wait (and their waiting counts).
        clients_max: usize,
    },
    /// Batches (WebWatch): each client makes `batch` requests at once, waits for all or for the time-out, and goes on.
    Batches {
        /// Clients at a time.
        clients: usize,
        /// Requests in a batch.
        batch: usize,
        /// For a whole batch.
        timeout_ms: f64,
    },
    /// Pages: each client gets a base page, then the objects embedded in it, and then the next page. A page is one
    /// measurement: from its first connection's start to its last byte.
    Pages {
        /// Clients at a time.
        clients: usize,
        /// Embedded objects; base and objects share the class's size evenly.
        embedded: usize,
        /// Embedded objects asked for at a time, each on a connection of its own.
        parallel: usize,
        /// Whether a connection carries more than one request.
        persistent: bool,
    },
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name in the outcome.
    pub name: String,
    /// Its share of the requests, relative to the other classes.
    #[serde(default = "one")]
    pub weight: f64,
    /// What it is.
    #[serde(default)]
    pub kind: Kind,
    /// Length of the body in bytes.
    pub body_bytes: u64,
    /// Ask for this path, as it is, instead of the emulator's `/b/BYTES…`: for plain servers. With `verify`, its body has to be
    /// that of the seed in its query (`seed=N`), or else of the emulator's rule for paths.
    #[serde(default)]
    pub path: Option<String>,
    /// Extension of the path, such as `.gif`, for switches that look at it.
    #[serde(default)]
    pub extension: String,
    /// HTTP/1.0 without keep-alive: a connection for each request, whatever else the plan says.
    #[serde(default)]
    pub http_1_0: bool,
    /// Share of the requests whose client goes away in the middle of the body (0 to 1).
    #[serde(default)]
    pub abort_share: f64,
    /// Further fields of the request, each `Name: value`.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// What a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// A GET whose response no cache may store.
    #[default]
    NonCacheable,
    /// A GET for one of so many objects that a cache may store; all of them are asked for once before the warm-up.
    Cacheable {
        /// How many.
        objects: u64,
    },
    /// `CONNECT` (with [`Route::Forward`]; else directly), the messages of a TLS handshake, then a GET.
    Tls {
        /// Share of abbreviated handshakes (0 to 1); the paper has 0.6.
        abbreviated_share: f64,
    },
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

fn thirty() -> f64 {
    30.0
}
