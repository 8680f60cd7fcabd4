//! Connections to servers: the type, idle ones, and the servers' state that all workers share.
pub mod checkout;
pub mod group;
pub mod http2;
pub mod idle;
pub mod link;
pub mod link_connection;
pub mod origins;
pub mod reuse;
pub mod state;

use crate::net::admission::UpstreamPlace;
use crate::net::shortage::{Shortage, is_tcp_memory_short};
use crate::net::transport::Transport;
use crate::net::transport::tls::HandshakeError;
use crate::net::unread::Unread;
use crate::resolver::ResolveError;
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
    /// Its slot within the process's descriptors.
    pub place: Option<UpstreamPlace>,
    /// Whether it [is at rest](reuse): then closing it resets it, which costs the server nothing and leaves no TIME_WAIT (RFC 9293 section
    /// 3.6) to occupy its port for a minute.
    pub is_at_rest: bool,
    /// Whether a client's credentials have authenticated it: it never carries another client's requests.
    pub is_pinned: bool,
    /// The limit on unread bytes; see [`Upstream::limit_unread`].
    unread: Unread,
}

/// Counts a connection as open until dropped.
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

/// After a response body of this size, the next one is expected to be spliced, too.
const LARGE_BODY_BYTES: u64 = 32 * 1024;

/// Size of the first read if a large body is expected: enough for a usual head, with few body bytes to copy.
const HEAD_READ_BYTES: usize = 2 * 1024;

impl Upstream {
    /// An unused connection, with `limits.unread`.
    #[must_use]
    pub fn new(transport: impl Into<Transport>, address: SocketAddr, unread_bytes: u32) -> Self {
        Self {
            transport: transport.into(),
            address,
            reused: false,
            first_read_bytes: usize::MAX,
            counted: None,
            place: None,
            is_at_rest: false,
            is_pinned: false,
            unread: Unread::new(unread_bytes),
        }
    }

    /// Limits unread bytes in the kernel: before the process relays bytes from the server, once per connection. Not sooner, since the limit
    /// also makes the buffer that large from the start: the server could send all of it before a response's head is read. Without the limit
    /// a new connection has a small window, and the packet engine can soon take over the rest of a response.
    pub fn limit_unread(&mut self) -> UnreadLimit {
        self.unread.begin(&self.transport)
    }

    /// The same for a tunnel, once it has carried a little.
    pub fn limit_unread_late(&mut self) -> UnreadLimit {
        self.unread.begin_late(&self.transport)
    }

    /// The same for callers that do not grow the window: only if the server is near.
    pub fn limit_unread_if_near(&mut self) {
        self.unread.begin_if_near(&self.transport);
    }

    /// Expects the next response to have a body of about this size. A wrong guess costs one more read.
    pub fn expect_like(&mut self, body_bytes: u64) {
        self.first_read_bytes = if body_bytes >= LARGE_BODY_BYTES {
            HEAD_READ_BYTES
        } else {
            usize::MAX
        };
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if self.is_at_rest {
            if let Some(tls) = self.transport.tls() {
                tls.take_leave();
            }
            self.transport.reset_on_close();
        }
    }
}

/// Why there is no connection to an upstream. No byte of the request has been sent.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// All servers are down or were tried.
    #[error("no server of the upstream is up")]
    NoServer,
    /// The name has no address.
    #[error("{0}")]
    Resolve(#[from] ResolveError),
    /// The address is on the listener's deny list.
    #[error("{0}")]
    Denied(#[from] carrick_logic::access::Denied),
    /// All attempts failed; this is the last error.
    #[error("connect to {address}: {error}")]
    Connect {
        /// The address of the last attempt.
        address: SocketAddr,
        /// The error of `connect(2)`.
        error: io::Error,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with {address}: {error}")]
    Tls {
        /// The address of the server.
        address: SocketAddr,
        /// Why.
        error: HandshakeError,
    },
    /// The TLS handshake took longer than what `[timeouts] connect` had left.
    #[error("the TLS handshake with {0} took longer than [timeouts] connect")]
    TlsTimedOut(SocketAddr),
    /// It does not speak HTTP/2 as it should.
    #[error("HTTP/2 with {address}: {why}")]
    Http2 {
        /// The address of the server.
        address: SocketAddr,
        /// Why.
        why: String,
    },
    /// Its first word of HTTP/2 took longer than what `[timeouts] connect` had left.
    #[error("{0} has not begun to speak HTTP/2 within [timeouts] connect")]
    Http2TimedOut(SocketAddr),
    /// It does not take WebSockets by HTTP/2.
    #[error("{0} takes no WebSocket by HTTP/2 (RFC 8441)")]
    NoWebSocket(SocketAddr),
    /// The same has happened to another request, whose connection was waited for.
    #[error("{0}")]
    Shared(Arc<Unreachable>),
    /// It took longer than `[timeouts] connect`; the address that was tried last. `None`: only other requests' attempts were waited for.
    #[error("connecting{} took longer than [timeouts] connect", .0.map(|to| format!(" to {to}")).unwrap_or_default())]
    TimedOut(Option<SocketAddr>),
    /// The server is carrick itself, at the address that the client connected to.
    #[error("{0} is this proxy itself")]
    Itself(SocketAddr),
    /// This machine lacks a resource.
    #[error("{0}")]
    Shortage(Shortage),
}

impl Unreachable {
    /// Whether it says nothing about the server: the cause is on this machine, or nothing was tried.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Shortage(_) | Self::Resolve(ResolveError::Busy) | Self::TimedOut(None) => true,
            Self::TimedOut(_) | Self::TlsTimedOut(_) | Self::Http2TimedOut(_) => {
                is_tcp_memory_short()
            }
            // Nothing was sent: a server of the other IP version cannot see the client's address.
            Self::Connect { error, .. } => error.kind() == io::ErrorKind::Unsupported,
            Self::Shared(other) => other.is_ours(),
            _ => false,
        }
    }

    /// Whether another server need not be tried. For lack of ports one can; for lack of descriptors or memory none can.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Shortage(Shortage::Descriptors | Shortage::Memory) | Self::NoWebSocket(_) => true,
            Self::Shared(other) => other.is_final(),
            _ => false,
        }
    }

    /// What happened, to whichever request.
    #[must_use]
    pub fn cause(&self) -> &Self {
        match self {
            Self::Shared(other) => other.cause(),
            _ => self,
        }
    }

    /// The server that was tried last, if one was tried.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Connect { address, .. }
            | Self::Tls { address, .. }
            | Self::Http2 { address, .. }
            | Self::TlsTimedOut(address)
            | Self::Http2TimedOut(address)
            | Self::NoWebSocket(address)
            | Self::Itself(address) => Some(*address),
            Self::TimedOut(address) => *address,
            Self::Shared(other) => other.address(),
            Self::NoServer | Self::Resolve(_) | Self::Denied(_) | Self::Shortage(_) => None,
        }
    }

    /// The status that the client gets (RFC 9110 section 15.6).
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::NoServer | Self::Shortage(_) => 503,
            Self::Denied(_) => 403,
            Self::TimedOut(_) | Self::TlsTimedOut(_) | Self::Http2TimedOut(_) => 504,
            Self::Resolve(error) => error.status(),
            Self::Connect { .. } | Self::Tls { .. } | Self::Http2 { .. } | Self::NoWebSocket(_) => {
                502
            }
            Self::Shared(other) => other.status(),
            Self::Itself(_) => 508,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_tried_is_not_a_servers_failure() {
        let busy = || Unreachable::from(ResolveError::Busy);
        assert!(busy().is_ours() && Unreachable::Shared(Arc::new(busy())).is_ours());
        assert!(!Unreachable::from(ResolveError::NoSuchName).is_ours());
        assert_eq!(busy().status(), 503);
        // Another request's attempt took too long, which speaks for itself.
        assert!(Unreachable::TimedOut(None).is_ours());
        let failed = |kind: io::ErrorKind| Unreachable::Connect {
            address: ([192, 0, 2, 1], 80).into(),
            error: kind.into(),
        };
        // A client's address of the other IP version cannot be kept.
        assert!(failed(io::ErrorKind::Unsupported).is_ours());
        assert!(!failed(io::ErrorKind::ConnectionRefused).is_ours());
    }
}
