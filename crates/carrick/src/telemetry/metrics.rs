//! A worker's counters: plain loads and stores by one thread, read by the control thread on request.
mod cache;
mod link;
mod split;
mod tls;

pub use cache::{CacheMetrics, CacheResult, PrefetchResult};
pub use link::LinkMetrics;
pub use split::{SplitEnd, SplitMetrics};
pub use tls::{
    HandOver, HandOverCounters, Handshake, HandshakeCounters, ServerHandshake,
    ServerHandshakeCounters,
};

use super::job::Job;
use super::tunnels::Tunnels;
use crate::net::shortage::Shortage;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use carrick_splice::{Counter, Counters};

/// Whether a thread makes progress: it reports periodically until it ends.
#[derive(Debug, Default)]
pub struct Liveness {
    rounds: AtomicU64,
    has_ended: AtomicBool,
}

impl Liveness {
    /// Reports progress.
    pub fn show(&self) {
        self.rounds.fetch_add(1, Relaxed);
    }

    /// Notes the thread's regular end.
    pub fn end(&self) {
        self.has_ended.store(true, Relaxed);
    }

    /// Number of reports.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Relaxed)
    }

    /// Whether the thread has ended regularly.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }
}

/// One worker's counters. That worker is the only writer; the control thread reads them through an `Arc`.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Client connections accepted.
    pub connections_accepted: Counter,
    /// Whether the worker makes progress.
    pub liveness: Arc<Liveness>,
    /// Client connections that were intercepted.
    pub intercepted: Counter,
    /// Client connections closed; accepted less closed are open.
    pub connections_closed: Counter,
    /// Counters for each job; see [`WorkerMetrics::job`].
    pub jobs: [JobMetrics; Job::ALL.len()],
    /// Time to open a connection to an upstream (successful attempts).
    pub connect_seconds: Histogram,
    /// From sending the request to the first byte of the response's head.
    pub first_byte_seconds: Histogram,
    /// Body and tunnel bytes read from clients.
    pub client_bytes_received: Counter,
    /// Body and tunnel bytes written to clients.
    pub client_bytes_sent: Counter,
    /// Body and tunnel bytes read from upstreams.
    pub upstream_bytes_received: Counter,
    /// Body and tunnel bytes written to upstreams.
    pub upstream_bytes_sent: Counter,
    /// Connections to upstreams that were opened.
    pub upstream_connections_opened: Counter,
    /// Requests sent on a reused connection.
    pub upstream_connections_reused: Counter,
    /// Connections to upstreams that could not be opened.
    pub upstream_connections_failed: Counter,
    /// Connections to upstreams that were closed (opened less closed are open).
    pub upstream_connections_closed: Counter,
    /// Connections put into the idle pool.
    pub upstream_idle_added: Counter,
    /// Connections taken from the idle pool, for use or closing; added less removed are idle.
    pub upstream_idle_removed: Counter,
    /// Requests that were retried on the same or another server.
    pub retries: Counter,
    /// Refused requests, by the label of the refusal.
    pub refusals: LabelCounters,
    /// TLS handshakes with clients, by result.
    pub tls_handshakes: HandshakeCounters,
    /// Connections that the kernel was to encrypt, by what became of it.
    pub ktls: HandOverCounters,
    /// TLS handshakes with servers.
    pub server_tls_handshakes: ServerHandshakeCounters,
    /// Client connections that speak HTTP/2.
    pub http2_connections: Counter,
    /// Requests on them.
    pub http2_requests: Counter,
    /// Connections to servers that speak HTTP/2.
    pub upstream_http2_connections: Counter,
    /// Streams opened on them.
    pub upstream_http2_requests: Counter,
    /// How often each limit was reached.
    pub limits: LimitCounters,
    /// Names answered from the worker's own cache.
    pub dns_hits: Counter,
    /// Names that the control thread was asked for.
    pub dns_misses: Counter,
    /// Names evicted from the worker's full cache.
    pub dns_evicted: Counter,
    /// The splice service's counters.
    pub splice: Arc<Counters>,
    /// Round-trip times of tunnels' connections to client and upstream, at the end.
    pub tunnel_rtt: [Histogram; 2],
    /// Segments retransmitted to clients and to upstreams of tunnels; counted at the end.
    pub tunnel_retransmissions: [Counter; 2],
    /// Connections of splitters.
    pub split: SplitMetrics,
    /// Cache counters.
    pub cache: CacheMetrics,
    /// Link counters.
    pub link: LinkMetrics,
    /// The open tunnels.
    pub tunnels: Tunnels,
}

impl WorkerMetrics {
    /// Everything at zero; `splice` are the counters of the worker's splice service.
    #[must_use]
    pub fn new(splice: Arc<Counters>) -> Self {
        Self {
            splice,
            ..Self::default()
        }
    }

    /// The counters of one job.
    #[must_use]
    pub fn job(&self, job: Job) -> &JobMetrics {
        // As long as the enum: the index exists.
        &self.jobs[job as usize]
    }

    /// Client connections that are open now.
    #[must_use]
    pub fn connections_open(&self) -> u64 {
        difference(&self.connections_accepted, &self.connections_closed)
    }

    /// Idle connections to upstreams.
    #[must_use]
    pub fn upstream_connections_idle(&self) -> u64 {
        difference(&self.upstream_idle_added, &self.upstream_idle_removed)
    }

    /// Connections to upstreams that are open now, idle ones included.
    #[must_use]
    pub fn upstream_connections_open(&self) -> u64 {
        difference(
            &self.upstream_connections_opened,
            &self.upstream_connections_closed,
        )
    }
}

/// Counters of one job.
#[derive(Debug, Default)]
pub struct JobMetrics {
    /// Responses sent, by status.
    pub requests: StatusCounters,
    /// From the first byte of a request to the last of its response.
    pub request_seconds: Histogram,
    /// Tunnels begun: `CONNECT`, upgrades, TCP.
    pub tunnels_opened: Counter,
    /// Tunnels ended.
    pub tunnels_closed: Counter,
    /// Lifetime of tunnels.
    pub tunnel_seconds: Histogram,
}

impl JobMetrics {
    /// Open tunnels.
    #[must_use]
    pub fn tunnels_open(&self) -> u64 {
        difference(&self.tunnels_opened, &self.tunnels_closed)
    }
}

/// A gauge from two counters. They are read one after the other while the worker continues, so `ended` is read first:
/// the result can be slightly too high, never negative.
fn difference(begun: &Counter, ended: &Counter) -> u64 {
    let ended = ended.get();
    begun.get().saturating_sub(ended)
}

/// Counters by HTTP status.
#[derive(Debug)]
pub struct StatusCounters {
    statuses: [Counter; Self::COUNT],
    other: Counter,
}

impl StatusCounters {
    const FIRST: u16 = 100;
    const COUNT: usize = 500;

    /// Counts one response; a status outside 100 to 599 counts as `other`.
    #[inline]
    pub fn count(&self, status: u16) {
        self.counter(status).add(1);
    }

    /// Responses with this status.
    #[must_use]
    pub fn get(&self, status: u16) -> u64 {
        self.counter(status).get()
    }

    /// Responses with a status outside 100 to 599.
    #[must_use]
    pub fn other(&self) -> u64 {
        self.other.get()
    }

    /// All responses.
    #[must_use]
    pub fn total(&self) -> u64 {
        let counted: u64 = self.statuses.iter().map(Counter::get).sum();
        counted + self.other()
    }

    /// Status and count of those that occurred, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        (Self::FIRST..)
            .zip(&self.statuses)
            .map(|(status, counter)| (status, counter.get()))
            .filter(|(_, count)| *count > 0)
    }

    fn counter(&self, status: u16) -> &Counter {
        status
            .checked_sub(Self::FIRST)
            .and_then(|index| self.statuses.get(usize::from(index)))
            .unwrap_or(&self.other)
    }
}

impl Default for StatusCounters {
    fn default() -> Self {
        Self {
            statuses: std::array::from_fn(|_| Counter::default()),
            other: Counter::default(),
        }
    }
}

carrick_logic::named! {
    /// A limit that a worker can reach; each has a counter. (Limits on pipes and names are counted elsewhere.)
    pub enum Limit with label {
        /// `limits.connections`: accepting paused, clients waited.
        Connections = "connections",
        /// `limits.connections_per_client`: a client was turned away.
        ConnectionsPerClient = "connections_per_client",
        /// `limits.request_head`: a head was too long.
        HeadBytes = "head_bytes",
        /// `limits.headers`: a head had too many fields.
        HeadFields = "head_fields",
        /// `timeouts.head`: a head did not arrive in time.
        HeadTimeout = "head_timeout",
        /// `timeouts.idle`: nothing arrived, or nothing was accepted, for too long.
        IdleTimeout = "idle_timeout",
        /// `timeouts.connect`: an upstream did not answer in time.
        ConnectTimeout = "connect_timeout",
        /// `timeouts.tunnel_idle`: a tunnel moved no bytes.
        TunnelIdleTimeout = "tunnel_idle_timeout",
        /// `limits.rate_min`: a client or upstream was too slow.
        RateMin = "rate_min",
        /// `limits.attempts`: a request could not be retried.
        Attempts = "attempts",
        /// `limits.log_queue`: an access log line was dropped.
        LogQueue = "log_queue",
        /// The process ran out of file descriptors.
        Descriptors = Shortage::Descriptors.label(),
        /// `timeouts.drain`: a connection was cut at the end of the drain.
        Drain = "drain",
        /// The kernel had no memory for a connection to an upstream.
        KernelMemory = Shortage::Memory.label(),
        /// There was no local port for a connection to an upstream.
        Ports = Shortage::Ports.label(),
        /// `limits.stalled`: a transfer or tunnel whose receiver accepted nothing was ended.
        Stalled = "stalled",
        /// A client sent more frames of HTTP/2 that cost work and carry nothing than it has reason to.
        Http2Flood = "http2_flood",
        /// A client had as many requests under way on a connection of HTTP/2 as it may.
        Http2Streams = "http2_streams",
        /// On a connection of HTTP/2 as much waited to be sent as may.
        Http2Unsent = "http2_unsent",
    }
}

impl From<Shortage> for Limit {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Descriptors => Self::Descriptors,
            Shortage::Memory => Self::KernelMemory,
            Shortage::Ports => Self::Ports,
        }
    }
}

/// How often each limit was reached.
#[derive(Debug, Default)]
pub struct LimitCounters {
    counters: [Counter; Limit::ALL.len()],
}

impl LimitCounters {
    /// Counts one more occurrence.
    #[inline]
    pub fn reached(&self, limit: Limit) {
        if let Some(counter) = self.counters.get(limit as usize) {
            counter.add(1);
        }
    }

    /// How often a limit was reached.
    #[must_use]
    pub fn get(&self, limit: Limit) -> u64 {
        self.counters.get(limit as usize).map_or(0, Counter::get)
    }
}

/// Counters by labels that are not known in advance: the first [`LabelCounters::LABELS_MAX`] get a counter each, later ones share one.
#[derive(Debug)]
pub struct LabelCounters {
    labels: [(OnceLock<&'static str>, Counter); Self::LABELS_MAX],
    other: Counter,
}

impl LabelCounters {
    /// Most labels with a counter of their own: more than there are reasons, so that malformed requests cannot take the place of others.
    pub const LABELS_MAX: usize = 192;
    /// The label of the shared counter.
    pub const OTHER: &'static str = "other";

    /// Counts one occurrence of `label`.
    pub fn count(&self, label: &'static str) {
        for (slot, counter) in &self.labels {
            if *slot.get_or_init(|| label) == label {
                counter.add(1);
                return;
            }
        }
        self.other.add(1);
    }

    /// Label and count of those that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let labels = self
            .labels
            .iter()
            .map_while(|(slot, counter)| Some((*slot.get()?, counter.get())));
        labels
            .chain(std::iter::once((Self::OTHER, self.other.get())).filter(|(_, count)| *count > 0))
    }
}

impl Default for LabelCounters {
    fn default() -> Self {
        Self {
            labels: std::array::from_fn(|_| (OnceLock::new(), Counter::default())),
            other: Counter::default(),
        }
    }
}

/// Durations in fixed buckets.
#[derive(Debug)]
pub struct Histogram {
    buckets: [Counter; Self::BOUNDS_US.len() + 1],
    /// In nanoseconds, ten thousand tunnels would overflow it within weeks.
    sum_us: Counter,
}

impl Histogram {
    /// Upper bounds of the buckets in microseconds, inclusive; one more bucket takes longer durations.
    pub const BOUNDS_US: [u64; 16] = [
        500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
        2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
    ];

    /// Counts one duration.
    #[inline]
    pub fn observe(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // Counting instead of searching: no branch that could be mispredicted.
        let index = Self::BOUNDS_US
            .iter()
            .map(|bound_us| usize::from(ns > bound_us * 1_000))
            .sum::<usize>();
        if let Some(bucket) = self.buckets.get(index) {
            bucket.add(1);
        }
        self.sum_us.add(ns.saturating_add(500) / 1_000);
    }

    /// Adds these counts to `total`.
    pub fn add_to(&self, total: &mut HistogramTotal) {
        for (sum, bucket) in total.buckets.iter_mut().zip(&self.buckets) {
            *sum += bucket.get();
        }
        total.sum_seconds += Duration::from_micros(self.sum_us.get()).as_secs_f64();
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Counter::default()),
            sum_us: Counter::default(),
        }
    }
}

/// The sum of several workers' histograms.
#[derive(Debug, Clone, Default)]
pub struct HistogramTotal {
    /// Not cumulative.
    pub buckets: [u64; Histogram::BOUNDS_US.len() + 1],
    /// Of all durations.
    pub sum_seconds: f64,
}
#[cfg(test)]
mod tests;
