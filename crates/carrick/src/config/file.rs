//! The configuration as it is written: every key with its place, its kind and its default; nothing is put together yet.
mod acme;
mod cache;
mod general;
mod intercept;
mod link;
mod listener;
mod pace;
mod route;
mod tcp_profile;
mod tls;
mod upstream;

pub use acme::{Acme, ChallengeKind, DIRECTORY_DEFAULT, ExternalAccount};
pub use cache::{
    Bypass, Cache, CacheKey, CachePeers, CacheUse, Disk, Prefetch, Query, QuickAbort, Shared,
};
pub use general::{
    Admin, Ktls, Limits, Log, LogFormat, PINS_DEFAULT, PacketUse, Process, Sandbox, Splice,
    Timeouts, Workers,
};
pub use intercept::{Intercept, PortRange};
pub use link::{Fallback, Link};
pub use listener::{Answering, ConnectPorts, Job, Listener, Parent, Splitting, ViaIn};
pub use pace::{
    PREFIX_V4_DEFAULT, PREFIX_V6_DEFAULT, Pace, PaceClass, PolicyName, WrongPolicy, policy,
};
pub use route::{Header, Requests, Responses, Route, To};
pub use tcp_profile::{Keepalive, TcpProfile, TcpProfileRule};
pub use tls::{Certificate, ClientCertificate, ListenerTls, ServerTls};
pub use upstream::{HashOn, Health, ProxyVersion, Server, ServerHttp2, Upstream};

use super::keys::{NONE, REQUIRED};
use super::kinds::{named_tables, table, table_or, tables};
use super::section::{Written, section};
use super::setting::Setting;

/// The modes of listeners that look at requests.
const HTTP: &[&str] = &["forward", "switch"];
/// Those that do not.
const BLIND: &[&str] = &["tunnel", "split"];

section! {
    /// The whole file.
    #[derive(Debug)]
    pub struct File = "the file", advice = ADVICE {
        /// Metrics, health and status
        admin: Written<Admin> = table(),
        /// Certificates that an authority issues to carrick
        acme: Written<Acme> = table(),
        /// How bytes are relayed
        splice: Written<Splice> = table(),
        /// Threads
        workers: Written<Workers> = table(),
        /// Who carrick is once it has started
        process: Written<Process> = table(),
        /// Bounds on what clients can make carrick hold
        limits: Written<Limits> = table(),
        /// How long things may take
        timeouts: Written<Timeouts> = table(),
        /// The access log
        log: Written<Log> = table(),
        /// What is kept of responses
        cache: Setting<Written<Cache>> = table_or(NONE),
        /// When what is relayed waits, and how fast it may be
        pace: Written<Pace> = table(),
        /// How the TCP of some connections is to be
        tcp_profiles as "tcp_profile": Vec<Written<TcpProfile>> = named_tables(""),
        /// Connections that are kept to carricks at the other ends of long links
        links as "link": Vec<Written<Link>> = named_tables(""),
        /// What is listened on, and to do what
        listeners as "listener": Vec<Written<Listener>> = tables("`[[listener]]`, at least one", REQUIRED),
        /// Groups of servers, by the name that routes use
        upstreams as "upstream": Vec<Written<Upstream>> = named_tables(""),
    }
}

/// What the tables of other programs are here.
const ADVICE: &[(&str, &str)] = &[
    ("access_log", LOG_ADVICE),
    ("accesslog", LOG_ADVICE),
    ("logging", LOG_ADVICE),
    ("logs", LOG_ADVICE),
    (
        "error_log",
        "messages go to standard error; the environment variable CARRICK_LOG chooses which",
    ),
    ("server", UPSTREAM_ADVICE),
    ("servers", UPSTREAM_ADVICE),
    ("backend", UPSTREAM_ADVICE),
    ("backends", UPSTREAM_ADVICE),
    ("frontend", LISTENER_ADVICE),
    ("http", LISTENER_ADVICE),
    ("metrics", "`listen` of [admin] says where they are served"),
    ("stats", "`listen` of [admin] says where they are served"),
];

const LOG_ADVICE: &str =
    "did you mean [log]? `access` says where the access log goes, `format` how it looks";
const UPSTREAM_ADVICE: &str = "write [upstream.NAME] with `servers`, and name it in a route";
const LISTENER_ADVICE: &str = "write [[listener]] with `listen` and `mode`";
