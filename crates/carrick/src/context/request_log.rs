//! What is remembered of a request while it is under way, for the access log and the metrics.
use crate::net::deadline::now;
use crate::telemetry::metrics::CacheResult;
use crate::upstream::Upstream;
use carrick_splice::Engine;
use carrick_splice::tcp::PathState;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A request's, or a tunnel's, story.
#[derive(Debug)]
pub struct RequestLog {
    /// When its first byte was there.
    pub begun: Instant,
    /// The client, if a trusted proxy has named it.
    pub client: Option<SocketAddr>,
    /// The user that authenticated.
    pub user: Option<String>,
    /// What the client was answered; 499 until something was.
    pub status: u16,
    /// Body bytes from the client.
    pub received: u64,
    /// Body bytes to the client.
    pub sent: u64,
    /// The configured upstream's name's index in the plan.
    pub upstream: Option<usize>,
    /// The server's address.
    pub server: Option<SocketAddr>,
    /// How bytes moved.
    pub engine: Option<Engine>,
    /// How long connecting took.
    pub connect: Option<Duration>,
    /// Until the response's first byte.
    pub first_byte: Option<Duration>,
    /// Whether the upstream connection had been used before.
    pub reused: bool,
    /// Whether HTTP/2 was spoken to the server.
    pub is_server_http2: bool,
    /// How the client's and the upstream's connections of a tunnel have fared.
    pub paths: Option<[PathState; 2]>,
    /// How long it has been over when that is noticed; the longest there is: nobody knows.
    pub over_for: Duration,
    /// What the cache did, if there is one for it.
    pub cache: Option<CacheResult>,
    /// How it ended, in one word.
    pub ended: &'static str,
}

/// How a request ended that nothing went wrong with.
pub const COMPLETE: &str = "complete";

/// How a tunnel ended for carrick that continues in the kernel.
pub const LEFT: &str = "left";

/// How a response ended whose client or upstream let `[timeouts] idle` go by.
pub const IDLE_TIMEOUT: &str = "idle_timeout";

/// How a response ended whose client took less than `[limits] rate_min`.
pub const TOO_SLOW: &str = "too_slow";

/// How a response or tunnel ended whose receiver took nothing while all such held too much memory.
pub const STALLED: &str = "stalled";

/// The status for "the client went away before it was answered", as nginx and others log it.
pub const CLIENT_CLOSED_REQUEST: u16 = 499;

impl RequestLog {
    /// Of a request that begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self::beginning(now())
    }

    fn beginning(begun: Instant) -> Self {
        Self {
            begun,
            client: None,
            user: None,
            status: CLIENT_CLOSED_REQUEST,
            received: 0,
            sent: 0,
            upstream: None,
            server: None,
            engine: None,
            connect: None,
            first_byte: None,
            reused: false,
            is_server_http2: false,
            paths: None,
            over_for: Duration::ZERO,
            cache: None,
            ended: COMPLETE,
        }
    }

    /// The log so far, to be continued elsewhere; what stays here has only its beginning.
    pub fn hand_over(&mut self) -> Self {
        let begun = self.begun;
        std::mem::replace(self, Self::beginning(begun))
    }

    /// Notes which connection is used.
    pub fn took(&mut self, upstream: &Upstream) {
        self.server = Some(upstream.address);
        self.reused = upstream.reused;
        self.is_server_http2 = upstream.transport.server_stream().is_some();
    }

    /// The server's address for a message.
    pub fn server_name(&self) -> String {
        self.server
            .map_or_else(|| "no server".to_owned(), |server| server.to_string())
    }
}
