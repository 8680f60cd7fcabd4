//! The access log: workers format lines into their own buffers, one thread writes them.
//!
//! A worker never waits: buffers reach the thread through a bounded queue; lines that do not fit are dropped and
//! counted. The queue is limited in lines, and in bytes at [`BYTES_PER_LINE`] each.
mod clock;
mod format;
mod thread;

pub use thread::LogThread;

use crate::config::plan::LogFormat;
use crate::net::transport::tls::Agreed;
use crate::telemetry::job::Job;
use crate::telemetry::metrics::{Counter, Limit, WorkerMetrics};
use carrick_splice::tcp::PathState;
use clock::LogClock;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

/// A worker hands its buffer over when it holds this much.
const BATCH_BYTES: usize = 16 * 1024;

/// The queue's limit in bytes is its limit in lines times this.
pub const BYTES_PER_LINE: usize = 1024;

/// One request or tunnel for the log.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    /// The client.
    pub client: IpAddr,
    /// Its port.
    pub client_port: u16,
    /// The user name that authenticated.
    pub user: Option<&'a str>,
    /// The method; empty if no request could be read; `TUNNEL` for connections without HTTP.
    pub method: &'a [u8],
    /// The request target as received, without user information; for connections without HTTP the server name, else the listener's address; if
    /// no request could be read, its first line.
    pub target: &'a [u8],
    /// `HTTP/1.1`, `HTTP/1.0`; `TLS` or `TCP` for connections without HTTP; empty: unknown.
    pub version: &'static str,
    /// The status that the client got; 499: it reset, or closed within its request. Without HTTP: 200, or the status that an HTTP
    /// client would have got.
    pub status: u16,
    /// Bytes of the request's body; of a tunnel: from the client.
    pub bytes_received: u64,
    /// Bytes of the response's body; of a tunnel: to the client.
    pub bytes_sent: u64,
    /// The field as received, without user information; empty: absent.
    pub referer: &'a [u8],
    /// The field as received; empty: absent.
    pub user_agent: &'a [u8],
    /// The listener's job.
    pub job: Job,
    /// The upstream's name.
    pub upstream: Option<&'a str>,
    /// The address of the server that was used last.
    pub server: Option<SocketAddr>,
    /// What TLS has agreed with the client; `None`: it speaks plainly.
    pub tls: Option<&'a Agreed>,
    /// The original destination of an intercepted client.
    pub destination: Option<SocketAddr>,
    /// The engine that moved the body.
    pub engine: Option<&'static str>,
    /// Time to connect; `None` if no connection was opened.
    pub connect: Option<Duration>,
    /// From sending the request to the response's first byte.
    pub first_byte: Option<Duration>,
    /// From the request's first byte to the response's last.
    pub total: Duration,
    /// Whether the upstream connection had been used before.
    pub reused: bool,
    /// What was spoken to the server, if it is not HTTP/1.1.
    pub server_version: Option<&'static str>,
    /// The TCP state of a tunnel's connections to the client and to the upstream.
    pub paths: Option<[PathState; 2]>,
    /// The cache's result in one word: `hit`, `miss`, …; `None` if the cache was not asked.
    pub cache: Option<&'static str>,
    /// How it ended, in one word: `complete`, `client_reset`, `idle_timeout`, …
    pub ended: &'static str,
}

/// Shared by the workers' side and the thread.
#[derive(Debug)]
pub struct LogState {
    /// Lines that were written.
    pub lines_written: Counter,
    /// Lines that the target refused.
    pub lines_lost: Counter,
    settings: AtomicU32,
    lines_max: AtomicUsize,
    lines_waiting: AtomicUsize,
    bytes_waiting: AtomicUsize,
}

/// The format, and the target that it is for: each change of the configuration begins a new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Settings {
    generation: u32,
    format: Option<LogFormat>,
}

impl LogState {
    fn new(settings: Settings, lines_max: usize) -> Self {
        Self {
            lines_written: Counter::default(),
            lines_lost: Counter::default(),
            settings: AtomicU32::new(settings.pack()),
            lines_max: AtomicUsize::new(lines_max),
            lines_waiting: AtomicUsize::new(0),
            bytes_waiting: AtomicUsize::new(0),
        }
    }

    /// Lines that were handed over and not yet written.
    #[must_use]
    pub fn lines_waiting(&self) -> u64 {
        self.lines_waiting.load(Relaxed) as u64
    }

    fn settings(&self) -> Settings {
        Settings::unpack(self.settings.load(Acquire))
    }

    /// Reserves room in the queue; false if there is none.
    fn reserve(&self, lines: usize, bytes: usize) -> bool {
        let lines_max = self.lines_max.load(Relaxed);
        let lines_waiting = self
            .lines_waiting
            .fetch_add(lines, Relaxed)
            .saturating_add(lines);
        let bytes_waiting = self
            .bytes_waiting
            .fetch_add(bytes, Relaxed)
            .saturating_add(bytes);
        // A single batch always fits, however small the limit.
        let fits =
            lines_waiting <= lines_max && bytes_waiting <= lines_max.saturating_mul(BYTES_PER_LINE);
        if !fits && lines_waiting != lines {
            self.release(lines, bytes);
            return false;
        }
        true
    }

    fn release(&self, lines: usize, bytes: usize) {
        self.lines_waiting.fetch_sub(lines, Relaxed);
        self.bytes_waiting.fetch_sub(bytes, Relaxed);
    }
}

impl Settings {
    const FORMAT_BITS: u32 = 2;

    fn pack(self) -> u32 {
        let format = match self.format {
            None => 0,
            Some(LogFormat::Combined) => 1,
            Some(LogFormat::Json) => 2,
        };
        (self.generation << Self::FORMAT_BITS) | format
    }

    fn unpack(packed: u32) -> Self {
        let format = match packed & ((1 << Self::FORMAT_BITS) - 1) {
            1 => Some(LogFormat::Combined),
            2 => Some(LogFormat::Json),
            _ => None,
        };
        Self {
            generation: packed >> Self::FORMAT_BITS,
            format,
        }
    }

    /// The settings after a change of the configuration.
    fn next(self, format: Option<LogFormat>) -> Self {
        let generation = self.generation.wrapping_add(1) & (u32::MAX >> Self::FORMAT_BITS);
        Self { generation, format }
    }
}

/// Lines of one worker on their way to the thread.
#[derive(Debug, Default)]
struct Batch {
    generation: u32,
    lines: usize,
    bytes: Vec<u8>,
}

/// Creates the workers' ends.
#[derive(Debug, Clone)]
pub struct LogSender {
    state: Arc<LogState>,
    queue: mpsc::Sender<thread::Message>,
}

impl LogSender {
    /// The end for one worker, which counts dropped lines in `metrics`.
    #[must_use]
    pub fn worker(&self, metrics: Arc<WorkerMetrics>) -> AccessLog {
        let local = Local {
            batch: Batch::default(),
            clock: LogClock::new(),
        };
        AccessLog {
            sender: self.clone(),
            metrics,
            local: RefCell::new(local),
        }
    }
}

/// A worker's end of the log.
#[derive(Debug)]
pub struct AccessLog {
    sender: LogSender,
    metrics: Arc<WorkerMetrics>,
    local: RefCell<Local>,
}

#[derive(Debug)]
struct Local {
    batch: Batch,
    clock: LogClock,
}

impl AccessLog {
    /// Whether lines are written; if not, callers need not build a record.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.sender.state.settings().format.is_some()
    }

    /// Formats a line into the buffer; hands the buffer over when it is full.
    pub fn write(&self, record: &Record<'_>) {
        self.write_at(record, SystemTime::now());
    }

    fn write_at(&self, record: &Record<'_>, now: SystemTime) {
        let settings = self.sender.state.settings();
        let mut local = self.local.borrow_mut();
        let Local { batch, clock } = &mut *local;
        if batch.generation != settings.generation {
            if !self.hand_over(batch) {
                self.drop_batch(batch);
            }
            batch.generation = settings.generation;
        }
        let Some(format) = settings.format else {
            return;
        };
        if self.is_full(batch) && !self.hand_over(batch) {
            self.metrics.limits.reached(Limit::LogQueue);
            return;
        }
        let stamp = clock.at(now);
        match format {
            LogFormat::Combined => format::combined(&mut batch.bytes, record, stamp),
            LogFormat::Json => format::json(&mut batch.bytes, record, stamp),
        }
        batch.lines += 1;
        if self.is_full(batch) {
            // If the queue is full, the lines stay here, and the next line is dropped.
            self.hand_over(batch);
        }
    }

    /// Hands over the buffered lines. Call it every 100 to 250 ms; dropping this also does it.
    pub fn flush(&self) {
        self.hand_over(&mut self.local.borrow_mut().batch);
    }

    /// Hands over early if the queue is small, so that the first worker with a large buffer does not fill it.
    fn is_full(&self, batch: &Batch) -> bool {
        batch.bytes.len() >= BATCH_BYTES
            || batch.lines > self.sender.state.lines_max.load(Relaxed) / 8
    }

    /// Returns false, and leaves the batch as it is, if the queue has no room.
    fn hand_over(&self, batch: &mut Batch) -> bool {
        if batch.lines == 0 {
            return true;
        }
        if !self.sender.state.reserve(batch.lines, batch.bytes.len()) {
            return false;
        }
        let empty = Batch {
            generation: batch.generation,
            ..Batch::default()
        };
        let full = std::mem::replace(batch, empty);
        if let Err(mpsc::SendError(message)) = self.sender.queue.send(thread::Message::Lines(full))
            && let thread::Message::Lines(mut full) = message
        {
            self.sender.state.release(full.lines, full.bytes.len());
            self.drop_batch(&mut full);
        }
        true
    }

    fn drop_batch(&self, batch: &mut Batch) {
        for _ in 0..batch.lines {
            self.metrics.limits.reached(Limit::LogQueue);
        }
        batch.lines = 0;
        batch.bytes.clear();
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests;
