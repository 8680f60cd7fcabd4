//! Connections to upstreams: choosing a server, connecting, keeping what can be used again.
pub mod checkout;
pub mod dial;
pub mod group;
pub mod idle;
pub mod origins;

use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A connection to an upstream, ready for a request.
#[derive(Debug)]
pub struct Upstream {
    /// The connection.
    pub stream: TcpStream,
    /// The other end.
    pub address: SocketAddr,
    /// Whether it has carried a request before.
    pub reused: bool,
}

/// Why there is no connection to an upstream. None of these has sent a byte of the request.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// All servers are down or were tried.
    #[error("no server of the upstream is up")]
    NoServer,
    /// The name has no address.
    #[error("{0}")]
    Resolve(#[from] crate::control::ResolveError),
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
    /// This process has no descriptor left.
    #[error("no descriptor is free for a connection to the upstream")]
    Shortage,
}

impl Unreachable {
    /// The status that the client gets (RFC 9110 section 15.6).
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::NoServer | Self::Shortage => 503,
            Self::Denied(_) => 403,
            Self::TimedOut => 504,
            Self::Resolve(error) => error.status(),
            Self::Connect { .. } => 502,
        }
    }
}
