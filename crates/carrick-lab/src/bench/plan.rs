//! What is asked of the proxies that are compared side by side: the `load` of a workload whose key `does` is there.

use std::net::SocketAddr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::peers::{Family, Job, Peer};
use crate::testbed::Addresses;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// What the client does.
    pub does: Does,
    /// How many connections are kept busy, or held.
    #[serde(default = "sixteen")]
    pub connections: usize,
    /// How many more are open beside a load of GETs: each has had one response.
    #[serde(default)]
    pub idle_connections: usize,
    /// The length of each response's body, or of each message; a stream has none.
    #[serde(default)]
    pub body_bytes: usize,
    /// Whether the client opens a new connection for each request.
    #[serde(default)]
    pub close: bool,
    /// Whether each of these resumes the TLS session of the one before.
    #[serde(default)]
    pub resumes: bool,
    /// How many requests of HTTP/2 are under way on each connection; 0: HTTP/1.1.
    #[serde(default)]
    pub streams: usize,
}

/// What the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// HTTP requests for a file, by wrk.
    Get,
    /// HTTP requests to a proxy with a cache.
    Cache(Asks),
    /// No HTTP, by ourselves.
    Talk(Talk),
    /// Calls of gRPC, by ghz.
    Call(Call),
    /// Next to nothing, on many connections, whose memory is measured.
    Memory(MemoryKind),
}

impl Work {
    /// The work of a workload's table `load`. `None` if the load is another: one of [`crate::load`].
    ///
    /// # Errors
    /// When the table has a key or a value that does not exist.
    pub fn of(load: &toml::Table) -> Result<Option<Self>, toml::de::Error> {
        let is_one = load.contains_key("does");
        is_one.then(|| load.clone().try_into()).transpose()
    }

    /// Whether the figures are of bytes, not of requests.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.does == Does::Talk(Talk::Stream)
    }

    /// What the rate is counted in.
    #[must_use]
    pub fn rate_unit(&self) -> &'static str {
        match self.does {
            Does::Get | Does::Cache(_) | Does::Memory(_) => "requests/s",
            Does::Call(Call::Unary) => "calls/s",
            Does::Call(Call::Stream) => "messages/s",
            Does::Talk(Talk::PingPong) => "trips/s",
            Does::Talk(Talk::Stream) => "Gbit/s",
            Does::Talk(Talk::Pages) => "pages/s",
        }
    }

    /// What the CPU is given in.
    #[must_use]
    pub fn cpu_unit(&self) -> &'static str {
        if self.is_stream() { "ms/GB" } else { "us" }
    }
}

/// How many connections are kept busy, unless a work says otherwise.
fn sixteen() -> usize {
    16
}

/// 1 KB.
pub const KIB: usize = 1024;
/// What is asked for on disk: eight times the memory that a cache on disk is given beside it.
const DISK_BYTES: usize = 512 << 20;
/// Objects that are stored between the two readings.
const STORED_OBJECTS: usize = 100_000;
/// With clients that do not read: each has some megabytes.
const STALLED_CONNECTIONS_MAX: usize = 100;

/// What the clients of a cache ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// One object, which is there.
    One,
    /// Any of many objects that are there, but do not fit into memory.
    Many,
    /// Each time for another, new object.
    New,
    /// All at once for one new object.
    Crowd,
}

impl Asks {
    /// Whether the origin must not be asked.
    #[must_use]
    pub fn is_hit(self) -> bool {
        matches!(self, Self::One | Self::Many)
    }

    /// The objects to be stored before anything is measured.
    #[must_use]
    pub fn objects(self, body_bytes: usize) -> u64 {
        match self {
            Self::Many => (DISK_BYTES / body_bytes.max(1)) as u64,
            Self::One | Self::New | Self::Crowd => 1,
        }
    }

    /// The part of the target before an object's number. `run` is a number that no other run has.
    #[must_use]
    pub fn target(self, target: &Target, run: u32) -> Target {
        let before = match self {
            Self::One | Self::Many => String::from("?"),
            Self::New | Self::Crowd => format!("?{run}-"),
        };
        Target {
            request_target: format!("{}{before}", target.request_target),
            ..target.clone()
        }
    }

    /// What wrk needs besides to number its requests: in order where each is to be new, else any of those that are there,
    /// drawn in the same order in each run.
    #[must_use]
    pub fn wrk_script(self, body_bytes: usize) -> String {
        match self {
            // The only one.
            Self::One => String::from("wrk.path = wrk.path .. 0"),
            // It is not wrk's work.
            Self::Crowd => String::new(),
            Self::Many => format!(
                "local asked = {{}}\n\
                 function init()\n  \
                   for number = 0, {} do asked[number + 1] = wrk.format(nil, wrk.path .. number) end\n\
                 end\n\
                 function request() return asked[math.random(#asked)] end",
                self.objects(body_bytes) - 1
            ),
            Self::New => String::from(
                "local before, behind, number = nil, nil, -1\n\
                 function init()\n  \
                   before, behind = wrk.format(nil, wrk.path .. \"@\"):match(\"^(.-)@(.*)$\")\n\
                 end\n\
                 function request()\n  \
                   number = number + 1\n  \
                   return before .. number .. behind\n\
                 end",
            ),
        }
    }
}

/// What is said on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Talk {
    /// A message there and back, and then the next one.
    PingPong,
    /// The server sends, without end.
    Stream,
    /// What a browser asks for over TLS, [on a new connection each time](crate::bench::talk::PAGE).
    Pages,
}

impl Talk {
    /// As an argument of the hidden subcommands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PingPong => "ping-pong",
            Self::Stream => "stream",
            Self::Pages => "pages",
        }
    }

    /// Where its server listens.
    #[must_use]
    pub fn origin(self, addresses: &Addresses) -> SocketAddr {
        match self {
            Self::PingPong => addresses.origin_ping_pong(),
            Self::Stream => addresses.origin_stream(),
            Self::Pages => addresses.origin_pages(),
        }
    }
}

/// What each call of gRPC is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// A message there, and one back.
    Unary,
    /// A message there, and many back.
    Stream,
}

/// What the connections are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Keep-alive clients of a switch.
    SwitchKeepAlive,
    /// The same over TLS.
    HttpsKeepAlive,
    /// Keep-alive clients of a forward proxy.
    ForwardKeepAlive,
    /// Tunnels.
    Tunnel,
    /// Connections that a splitter intercepts.
    Split,
    /// The same whose client does not read what comes without end.
    SplitStalled,
    /// Objects of a cache in memory, besides body, key and head.
    StoredObject,
}

impl MemoryKind {
    /// What the proxy is used as.
    #[must_use]
    pub fn job(self) -> Job {
        match self {
            Self::SwitchKeepAlive => Job::Switch,
            Self::HttpsKeepAlive => Job::Https,
            Self::ForwardKeepAlive => Job::Forward,
            Self::Tunnel => Job::Tunnel,
            Self::Split | Self::SplitStalled => Job::Gateway,
            Self::StoredObject => Job::Cache,
        }
    }

    /// How many are measured, if so many connections are to be held.
    #[must_use]
    pub fn count(self, connections: usize) -> usize {
        match self {
            Self::StoredObject => STORED_OBJECTS,
            Self::SplitStalled => connections.min(STALLED_CONNECTIONS_MAX),
            _ => connections,
        }
    }

    /// What the figure leaves out, for people.
    #[must_use]
    pub fn besides(self) -> &'static str {
        match self {
            Self::StoredObject => ", less their bodies, keys and heads",
            Self::Split | Self::SplitStalled => {
                "; of the kernel: growth of its slabs, less that of as many connections without a proxy, and what the proxy's sockets hold"
            }
            _ => "",
        }
    }
}

/// Where the client sends a request, and what it writes into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `ADDRESS:PORT` to connect to.
    pub connect: String,
    /// Whether TLS is spoken there.
    pub is_tls: bool,
    /// The request target: a path, or an absolute URL for a forward proxy.
    pub request_target: String,
    /// The `Host` field.
    pub host: String,
}

impl Target {
    /// The URL of what is connected to, without a path.
    #[must_use]
    pub fn base(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.connect)
    }
}

/// Where the tunnels of a work lead to.
#[must_use]
pub fn tunnel_origin(work: &Work, addresses: &Addresses) -> String {
    let origin = match work.does {
        Does::Get | Does::Cache(_) | Does::Memory(_) => addresses.origin_http(),
        Does::Call(_) => addresses.origin_calls(),
        Does::Talk(talk) => talk.origin(addresses),
    };
    origin.to_string()
}

/// Where the client of a talk connects to, and what it asks for there by `CONNECT`, if it does.
#[must_use]
pub fn talk_target(
    job: Job,
    work: &Work,
    peer: &Peer,
    addresses: &Addresses,
) -> (String, Option<String>) {
    let origin = tunnel_origin(work, addresses);
    if peer.family == Family::Routed {
        return (origin, None);
    }
    let proxy = addresses.proxy_for(job).to_string();
    (proxy, (job == Job::Forward).then_some(origin))
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
        is_tls: job == Job::Https && !routed,
        request_target,
        host,
    }
}
