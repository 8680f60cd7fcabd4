//! Connections to servers: what one is, those that wait to be used again, and the state of servers that all workers share.
pub mod checkout;
pub mod group;
pub mod idle;
pub mod link;
pub mod link_connection;
pub mod origins;
pub mod reuse;
pub mod state;

use crate::net::admission::UpstreamPlace;
use crate::net::shortage::{Shortage, is_tcp_memory_short};
use crate::net::transport::Transport;
use crate::net::unread::Unread;
use crate::telemetry::metrics::WorkerMetrics;
use carrick_splice::tcp::UnreadLimit;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// A connection to an upstream, ready for a request.
#[derive(Debug)]
pub struct Upstream {
    /// The connection.
    pub transport: Transport,
    /// The other end.
    pub address: SocketAddr,
    /// Whether it has carried a request before.
    pub reused: bool,
    /// Most bytes to read when a response is expected; see [`Upstream::expect_like`].
    pub first_read_bytes: usize,
    /// Counts the connection as open while it is.
    pub counted: Option<Counted>,
    /// Its part of the process's descriptors.
    pub place: Option<UpstreamPlace>,
    /// What may wait to be read; see [`Upstream::limit_unread`].
    unread: Unread,
}

/// A connection that is counted as open, until dropped.
#[derive(Debug)]
pub struct Counted(Arc<WorkerMetrics>);

impl Counted {
    /// Counts one more.
    #[must_use]
    pub fn on(metrics: &Arc<WorkerMetrics>) -> Self {
        metrics.upstream_connections_opened.add(1);
        Self(Arc::clone(metrics))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.upstream_connections_closed.add(1);
    }
}

/// A response body from which on the next one is taken to be spliced, too.
const LARGE_BODY_BYTES: u64 = 32 * 1024;

/// What is read first where a large body is expected: room for a usual head, and little that must be copied.
const HEAD_READ_BYTES: usize = 2 * 1024;

impl Upstream {
    /// A connection that has not been used yet, with `limits.unread`.
    #[must_use]
    pub fn new(transport: impl Into<Transport>, address: SocketAddr, unread_bytes: u32) -> Self {
        Self {
            transport: transport.into(),
            address,
            reused: false,
            first_read_bytes: usize::MAX,
            counted: None,
            place: None,
            unread: Unread::new(unread_bytes),
        }
    }

    /// Limits what the kernel holds of bytes that nobody has read: before the process passes on what comes from the server, and once for a
    /// connection. Not sooner, since the limit is also a buffer of that size from the start: the server could send all of it before a response's
    /// head is read. Without the limit a new connection has a small window, and the packet engine can take the rest of a response soon.
    pub fn limit_unread(&mut self) -> UnreadLimit {
        self.unread.begin(&self.transport)
    }

    /// The same for those who do not see to it that the window grows as it should: only if the server is near.
    pub fn limit_unread_if_near(&mut self) {
        self.unread.begin_if_near(&self.transport);
    }

    /// Expects the next response to be like one with a body of this many bytes. A wrong guess costs one more read.
    pub fn expect_like(&mut self, body_bytes: u64) {
        self.first_read_bytes = if body_bytes >= LARGE_BODY_BYTES {
            HEAD_READ_BYTES
        } else {
            usize::MAX
        };
    }
}

/// Why there is no connection to an upstream. None of these has sent a byte of the request.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// All servers are down or were tried.
    #[error("no server of the upstream is up")]
    NoServer,
    /// The name has no address.
    #[error("{0}")]
    Resolve(#[from] crate::resolver::ResolveError),
    /// The address is on the listener's deny list.
    #[error("{0}")]
    Denied(#[from] carrick_logic::access::Denied),
    /// No attempt succeeded; this is the last error.
    #[error("connect to {address}: {error}")]
    Connect {
        /// The address of the last attempt.
        address: SocketAddr,
        /// What `connect(2)` said.
        error: io::Error,
    },
    /// It took longer than `[timeouts] connect`.
    #[error("connecting took longer than [timeouts] connect")]
    TimedOut,
    /// The server is carrick, at the address that its client has connected to.
    #[error("{0} is this proxy itself")]
    Itself(SocketAddr),
    /// This machine is short of something.
    #[error("{0}")]
    Shortage(Shortage),
}

impl Unreachable {
    /// Whether it says nothing about the server.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Shortage(_) => true,
            Self::TimedOut => is_tcp_memory_short(),
            _ => false,
        }
    }

    /// The status that the client gets (RFC 9110 section 15.6).
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::NoServer | Self::Shortage(_) => 503,
            Self::Denied(_) => 403,
            Self::TimedOut => 504,
            Self::Resolve(error) => error.status(),
            Self::Connect { .. } => 502,
            Self::Itself(_) => 508,
        }
    }
}
