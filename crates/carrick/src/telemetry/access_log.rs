//! The access log: workers format lines into buffers of their own, one thread writes them.
//!
//! Nothing here blocks a worker. Lines wait in a queue with a limit; what does not fit is dropped and counted.
use crate::config::plan::LogPlan;
use crate::telemetry::metrics::{Job, WorkerMetrics};
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// One request, or one tunnel, as the log tells it.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    /// The client.
    pub client: IpAddr,
    /// Its port.
    pub client_port: u16,
    /// Who authenticated.
    pub user: Option<&'a str>,
    /// The method; empty if no request could be read. `TUNNEL` for TCP and SNI.
    pub method: &'a [u8],
    /// The request target as it came; for TCP and SNI: the server name, else the listener's address.
    pub target: &'a [u8],
    /// `HTTP/1.1`, `HTTP/1.0`; `TLS` or `TCP` for tunnels without HTTP.
    pub version: &'static str,
    /// What the client was answered; 499: it went away before that. Tunnels without HTTP: 200, or what an HTTP client would have been told.
    pub status: u16,
    /// Bytes of the request's body, or in a tunnel: from the client.
    pub bytes_received: u64,
    /// Bytes of the response's body, or in a tunnel: to the client.
    pub bytes_sent: u64,
    /// The field, as it came; empty: absent.
    pub referer: &'a [u8],
    /// The field, as it came; empty: absent.
    pub user_agent: &'a [u8],
    /// The job.
    pub job: Job,
    /// The upstream's name.
    pub upstream: Option<&'a str>,
    /// The server's address.
    pub server: Option<SocketAddr>,
    /// The engine that moved the body.
    pub engine: Option<&'static str>,
    /// Connecting took this long; `None`: none was opened.
    pub connect: Option<Duration>,
    /// From the request's first byte to the response's first.
    pub first_byte: Option<Duration>,
    /// From the request's first byte to the response's last.
    pub total: Duration,
    /// Whether the upstream connection had been used before.
    pub reused: bool,
    /// How it ended, one word: `complete`, `client_reset`, `idle_timeout`, …
    pub ended: &'static str,
}

/// A worker's end of the log.
#[derive(Debug)]
pub struct AccessLog {
    buffer: RefCell<Vec<u8>>,
    metrics: Arc<WorkerMetrics>,
}

impl AccessLog {
    /// Whether lines go anywhere; where not, a record need not be made.
    #[must_use]
    pub fn is_on(&self) -> bool {
        false
    }

    /// Formats a line into the buffer; hands the buffer over when it is full.
    pub fn write(&self, record: &Record<'_>) {
        let _ = (record, &self.buffer, &self.metrics);
    }

    /// Hands over what is in the buffer. To be called every 100 to 250 ms, and when the worker ends.
    pub fn flush(&self) {}
}

/// Makes the workers' ends.
#[derive(Debug, Clone)]
pub struct LogSender {}

impl LogSender {
    /// The end for one worker.
    #[must_use]
    pub fn worker(&self, metrics: Arc<WorkerMetrics>) -> AccessLog {
        AccessLog {
            buffer: RefCell::default(),
            metrics,
        }
    }
}

/// The thread that writes.
#[derive(Debug)]
pub struct LogThread {}

impl LogThread {
    /// Opens the target and starts the thread. `lines_max`: most lines that wait to be written.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread not started.
    pub fn start(plan: &LogPlan, lines_max: usize) -> io::Result<(Self, LogSender)> {
        let _ = (plan, lines_max);
        Ok((Self {}, LogSender {}))
    }

    /// Opens the file anew, after it was moved away. Where that fails the old one goes on being written.
    pub fn reopen(&self) {}

    /// Takes up another target and format.
    ///
    /// # Errors
    /// The new file cannot be opened; nothing has changed.
    pub fn change(&self, plan: &LogPlan, lines_max: usize) -> io::Result<()> {
        let _ = (plan, lines_max);
        Ok(())
    }

    /// Writes what workers have handed over, and ends the thread.
    pub fn stop(self) {}
}
