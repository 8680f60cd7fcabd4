//! One sample of a running carrick: the fields of admin's pages that `carrick top` uses. docs/operations.md explains them.
use crate::cli::admin::{Failed, ask_at, parsed};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long admin may take for a part of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Admin's answers.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// `/status`.
    pub status: Timed<Status>,
    /// `/splices`.
    pub splices: Timed<Splices>,
    /// `/pace`.
    pub pace: Timed<Pace>,
}

/// A page, and when it was fetched, relative to a common start.
#[derive(Debug, Clone, Default)]
pub struct Timed<P> {
    /// The time.
    pub at: Duration,
    /// The page.
    pub page: P,
}

impl Snapshot {
    /// Fetches all pages.
    ///
    /// # Errors
    /// Admin does not answer, or answers something else.
    pub fn ask(address: SocketAddr, since: Instant) -> Result<Self, Failed> {
        Ok(Self {
            status: timed(address, "/status", since)?,
            splices: timed(address, "/splices", since)?,
            pace: timed(address, "/pace", since)?,
        })
    }
}

fn timed<P: serde::de::DeserializeOwned>(
    address: SocketAddr,
    path: &str,
    since: Instant,
) -> Result<Timed<P>, Failed> {
    let json = ask_at(address, &format!("GET {path}"), PATIENCE)?;
    Ok(Timed {
        at: since.elapsed(),
        page: parsed(&json)?,
    })
}

/// Text of unknown origin as printable ASCII: it cannot move the cursor, and each character takes one column.
fn escaped<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| escape(&text))
}

fn escaped_option<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.as_deref().map(escape))
}

/// Escapes everything but printable ASCII.
pub fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == ' ' || letter.is_ascii_graphic() {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_default());
        }
    }
    shown
}

/// The used fields of `/status`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Status {
    /// carrick's version; required, so that another program's page is an error.
    #[serde(deserialize_with = "escaped")]
    pub version: String,
    /// The process ID.
    pub pid: u32,
    /// `serving` or `draining`.
    #[serde(deserialize_with = "escaped")]
    pub state: String,
    /// When the process started.
    pub started: String,
    /// How long it has been running.
    pub uptime_seconds: u64,
    /// Its worker threads.
    #[serde(default)]
    pub workers: Vec<Worker>,
    /// Counters by name; other fields are omitted.
    #[serde(default, deserialize_with = "numbers")]
    pub splice: BTreeMap<String, u64>,
    /// The tunnels, without their list.
    #[serde(default)]
    pub splices: Kernel,
    /// The cache, if there is one.
    #[serde(default)]
    pub cache: Option<Cache>,
}

fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let all = BTreeMap::<String, serde_json::Value>::deserialize(from)?;
    let number = |(name, value): (String, serde_json::Value)| Some((name, value.as_u64()?));
    Ok(all.into_iter().filter_map(number).collect())
}

/// A worker in `/status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Worker {
    pub connections_open: u64,
    pub connections_accepted: u64,
    pub upstream_connections_open: u64,
    pub upstream_connections_idle: u64,
    pub requests: u64,
}

/// `splices.kernel` of `/status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Kernel {
    pub in_kernel: u64,
    pub limit: u64,
    pub packet_open: u64,
    pub tunnels: BTreeMap<String, u64>,
    pub uncounted_bytes: BTreeMap<String, u64>,
    pub outliving: Outliving,
}

/// `outliving` in `/status` and `/splices`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Outliving {
    pub adopted: u64,
    pub bytes_total: u64,
    pub list: Vec<Adopted>,
}

/// `cache` of `/status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Cache {
    pub objects: u64,
    pub bytes: u64,
    pub bytes_max: u64,
    pub hits: u64,
    pub misses: u64,
    pub bytes_saved: u64,
}

/// The used fields of `/splices`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Splices {
    pub list: Vec<Tunnel>,
    pub outliving: Outliving,
}

/// A tunnel.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Tunnel {
    pub id: String,
    #[serde(deserialize_with = "escaped")]
    pub client: String,
    #[serde(deserialize_with = "escaped")]
    pub target: String,
    #[serde(deserialize_with = "escaped")]
    pub server: String,
    #[serde(deserialize_with = "escaped")]
    pub engine: String,
    #[serde(deserialize_with = "escaped_option")]
    pub class: Option<String>,
    pub seconds: f64,
    pub client_to_upstream: Way,
    pub upstream_to_client: Way,
}

impl Tunnel {
    /// From the client, and to it.
    pub fn ways(&self) -> [Way; 2] {
        [self.client_to_upstream, self.upstream_to_client]
    }
}

/// A tunnel of an earlier carrick.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Adopted {
    #[serde(deserialize_with = "escaped")]
    pub client: String,
    #[serde(deserialize_with = "escaped")]
    pub listener: String,
    #[serde(deserialize_with = "escaped")]
    pub server: String,
    #[serde(deserialize_with = "escaped")]
    pub own: String,
    pub client_to_upstream: Way,
    pub upstream_to_client: Way,
}

impl Adopted {
    /// Its addresses, which identify it.
    pub fn name(&self) -> [&str; 4] {
        [&self.client, &self.listener, &self.server, &self.own]
    }

    /// From the client, and to it.
    pub fn ways(&self) -> [Way; 2] {
        [self.client_to_upstream, self.upstream_to_client]
    }
}

/// One direction.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Way {
    pub bytes: u64,
}

/// The used fields of `/pace`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Pace {
    pub classes: Vec<Class>,
    pub workers: Vec<Paced>,
}

/// A class.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Class {
    #[serde(deserialize_with = "escaped")]
    pub name: String,
    #[serde(deserialize_with = "escaped")]
    pub policy: String,
    pub target_us: Option<u64>,
    pub ceiling: Option<u64>,
    pub splices: u64,
    pub bytes: u64,
    pub yields: u64,
    pub rate_waits: u64,
    pub kernel_holds: u64,
    pub waited_ms: u64,
}

/// A worker in `/pace`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Paced {
    pub worker: u64,
    pub runnable_ms: u64,
    pub forwarding_ms: u64,
    pub local_requests: u64,
    pub spliced_requests: u64,
    pub hits_p99_us: Option<u64>,
}
