//! What is remembered of a request while it is under way, for the access log and the metrics.
use crate::context::client::Client;
use crate::telemetry::access_log::Record;
use crate::telemetry::engine_name;
use crate::telemetry::metrics::{CacheResult, Job};
use crate::upstream::Upstream;
use carrick_logic::http1::{RequestHead, Version, without_user_information};
use carrick_splice::Engine;
use carrick_splice::tcp::PathState;
use std::borrow::Cow;
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
    /// How the client's and the upstream's connections of a tunnel have fared.
    pub paths: Option<[PathState; 2]>,
    /// How long it has been over when that is noticed.
    pub over_for: Duration,
    /// What the cache did, if there is one for it.
    pub cache: Option<CacheResult>,
    /// How it ended, in one word.
    pub ended: &'static str,
}

/// How a response ended whose client or upstream let `[timeouts] idle` go by.
pub const IDLE_TIMEOUT: &str = "idle_timeout";

/// How a response ended whose client took less than `[limits] rate_min`.
pub const TOO_SLOW: &str = "too_slow";

/// How a response or tunnel ended whose receiver took nothing while all such held too much memory.
pub const STALLED: &str = "stalled";

/// The status for "the client went away before it was answered", as nginx and others log it.
pub const CLIENT_CLOSED_REQUEST: u16 = 499;

impl RequestLog {
    /// A story that begins now.
    pub fn new() -> Self {
        Self::beginning(Instant::now())
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
            paths: None,
            over_for: Duration::ZERO,
            cache: None,
            ended: "complete",
        }
    }

    /// The story, for somebody else who goes on with it; what stays here has only its beginning.
    pub fn hand_over(&mut self) -> Self {
        let begun = self.begun;
        std::mem::replace(self, Self::beginning(begun))
    }

    /// Notes which connection is used.
    pub fn took(&mut self, upstream: &Upstream) {
        self.server = Some(upstream.address);
        self.reused = upstream.reused;
    }

    /// The server's address for a message.
    pub fn server_name(&self) -> String {
        self.server
            .map_or_else(|| "no server".to_owned(), |server| server.to_string())
    }

    /// Writes the log line and counts the request. `bytes` is the buffer of `head`; no head: it could not be read.
    pub fn finish(&self, client: &Client, bytes: &[u8], head: Option<&RequestHead>) {
        let worker = &client.worker;
        let job = Job::from(&client.listener.mode);
        let counters = worker.metrics.job(job);
        let total = self.begun.elapsed().saturating_sub(self.over_for);
        counters.requests.count(self.status);
        counters.request_seconds.observe(total);
        if let Some(connect) = self.connect {
            worker.metrics.connect_seconds.observe(connect);
        }
        if let Some(first_byte) = self.first_byte {
            worker.metrics.first_byte_seconds.observe(first_byte);
        }
        worker.metrics.client_bytes_received.add(self.received);
        worker.metrics.client_bytes_sent.add(self.sent);
        if let Some(result) = self.cache {
            worker.metrics.cache.count(result, self.sent);
        }
        if !worker.log.is_on() {
            return;
        }
        let field = |name| {
            head.and_then(|head| head.field(bytes, name))
                .unwrap_or_default()
        };
        let target = match head {
            Some(head) => Cow::Borrowed(target_text(bytes, head)),
            None => first_line(bytes),
        };
        self.write(
            client,
            job,
            total,
            RequestWords {
                method: head.map_or(&[][..], |head| head.method_text.of(bytes)),
                target: &target,
                version: match head.map(|head| head.version) {
                    Some(Version::Http11) => "HTTP/1.1",
                    Some(Version::Http10) => "HTTP/1.0",
                    None => "-",
                },
                referer: field("referer"),
                user_agent: field("user-agent"),
            },
        );
    }

    /// Writes the log line of a tunnel without HTTP and counts it.
    pub fn finish_tunnel(&self, client: &Client, target: &[u8], version: &'static str) {
        let job = Job::from(&client.listener.mode);
        let counters = client.worker.metrics.job(job);
        let total = self.begun.elapsed();
        counters.requests.count(self.status);
        if let Some(connect) = self.connect {
            client.worker.metrics.connect_seconds.observe(connect);
        }
        client
            .worker
            .metrics
            .client_bytes_received
            .add(self.received);
        client.worker.metrics.client_bytes_sent.add(self.sent);
        if client.worker.log.is_on() {
            let words = RequestWords {
                method: b"TUNNEL",
                target,
                version,
                referer: b"",
                user_agent: b"",
            };
            self.write(client, job, total, words);
        }
    }

    fn write(&self, client: &Client, job: Job, total: Duration, words: RequestWords<'_>) {
        let plan = client.live.plan();
        let who = self.client.unwrap_or(client.address);
        client.worker.log.write(&Record {
            client: who.ip(),
            client_port: who.port(),
            user: self.user.as_deref(),
            method: words.method,
            target: &without_user_information(words.target),
            version: words.version,
            status: self.status,
            bytes_received: self.received,
            bytes_sent: self.sent,
            referer: &without_user_information(words.referer),
            user_agent: words.user_agent,
            job,
            upstream: self
                .upstream
                .and_then(|index| plan.upstreams.get(index))
                .map(|upstream| upstream.name.as_str()),
            server: self.server,
            destination: client.original,
            engine: self.engine.map(engine_name),
            connect: self.connect,
            first_byte: self.first_byte,
            total,
            reused: self.reused,
            paths: self.paths,
            cache: self.cache.map(CacheResult::name),
            ended: if client.worker.has_cut_off() && self.ended != "complete" {
                "drain"
            } else {
                self.ended
            },
        });
    }
}

struct RequestWords<'a> {
    method: &'a [u8],
    target: &'a [u8],
    version: &'static str,
    referer: &'a [u8],
    user_agent: &'a [u8],
}

/// The request target as it was written: between the first and the last space of the request line.
pub fn target_text<'b>(bytes: &'b [u8], head: &RequestHead) -> &'b [u8] {
    let line = memchr::memchr(b'\r', bytes)
        .and_then(|end| bytes.get(..end))
        .unwrap_or_default();
    let start = head.method_text.end as usize + 1;
    memchr::memrchr(b' ', line)
        .and_then(|end| line.get(start..end))
        .unwrap_or_default()
}

/// What to show of a request that could not be read: its first line, cut short.
fn first_line(bytes: &[u8]) -> Cow<'_, [u8]> {
    const SHOWN_BYTES_MAX: usize = 200;
    let line = bytes
        .split(|byte| matches!(byte, b'\r' | b'\n'))
        .next()
        .unwrap_or_default();
    match without_user_information(line) {
        Cow::Borrowed(line) => Cow::Borrowed(line.get(..SHOWN_BYTES_MAX).unwrap_or(line)),
        Cow::Owned(mut line) => {
            line.truncate(SHOWN_BYTES_MAX);
            Cow::Owned(line)
        }
    }
}
