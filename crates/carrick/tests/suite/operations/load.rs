//! Clients that send requests continuously over keep-alive connections, and count every failure.
//!
//! As HTTP allows (RFC 9112 section 9.3.1), a request is retried once, and only if it went out on a reused connection,
//! or long after the connection was opened, and that ended without a byte of its response: the server had closed it in
//! between.
use crate::support::{PATIENCE, wait_until};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After so long without a first request, carrick may have closed a connection: a listener that closes waits for 250 ms.
const LATE: Duration = Duration::from_millis(200);

/// The load.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The target.
    pub address: SocketAddr,
    /// Number of concurrent clients.
    pub clients: usize,
    /// Requests per connection before the client opens another.
    pub requests_per_connection: usize,
}

/// Running clients.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

/// The result.
#[derive(Debug)]
pub struct Result {
    /// Requests that were answered with 200 and the whole body.
    pub answered: usize,
    /// Failures of other requests.
    pub failures: Vec<String>,
}

impl Load {
    /// Starts the clients. They end when told to, or when a connection is refused.
    pub fn start(asking: &Asking) -> Self {
        let shared = Arc::new(Shared::default());
        let threads = (0..asking.clients)
            .map(|number| {
                let (shared, asking) = (Arc::clone(&shared), asking.clone());
                std::thread::spawn(move || ask_repeatedly(&shared, &asking, number))
            })
            .collect();
        Self { shared, threads }
    }

    /// Waits until `count` more requests have been answered.
    pub fn wait_for_more(&self, count: usize) {
        let before = self.shared.answered.load(Ordering::Relaxed);
        wait_until("answers to the load", || {
            let failures = self.shared.failures.lock().expect("no panic in between");
            assert!(failures.is_empty(), "{failures:?}");
            self.shared.answered.load(Ordering::Relaxed) >= before + count
        });
    }

    /// Lets every client finish its current request.
    pub fn stop(self) -> Result {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.wait()
    }

    /// Waits until all clients have been refused.
    pub fn wait(self) -> Result {
        for thread in self.threads {
            thread.join().expect("a client of the load panicked");
        }
        let failures =
            std::mem::take(&mut *self.shared.failures.lock().expect("no panic in between"));
        Result {
            answered: self.shared.answered.load(Ordering::Relaxed),
            failures,
        }
    }
}

impl Result {
    /// No request may have failed, and at least `least` were answered.
    pub fn expect_no_failure(&self, least: usize) {
        assert!(
            self.failures.is_empty(),
            "{} of {} requests failed: {:#?}",
            self.failures.len(),
            self.failures.len() + self.answered,
            &self.failures[..self.failures.len().min(5)]
        );
        assert!(self.answered >= least, "only {} answers", self.answered);
    }
}

fn ask_repeatedly(shared: &Shared, asking: &Asking, client: usize) {
    let mut number = 0_usize;
    while !shared.stop.load(Ordering::Relaxed) {
        let mut connection = match Connection::open(asking.address) {
            Ok(connection) => connection,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            Err(error) => return shared.failed(format!("connect: {error}")),
        };
        for place in 0..asking.requests_per_connection {
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            number += 1;
            match connection.ask(&format!("/{client}/{number}")) {
                Ok(goes_on) => {
                    shared.answered.fetch_add(1, Ordering::Relaxed);
                    if !goes_on {
                        break;
                    }
                }
                // Closed between two requests, or before the first; the next one goes out on a new connection.
                Err(Failed {
                    nothing_came: true, ..
                }) if place > 0 || connection.is_late => break,
                Err(Failed { what, .. }) => {
                    return shared.failed(format!("request {place} of a connection: {what}"));
                }
            }
        }
    }
}

impl Shared {
    fn failed(&self, what: String) {
        self.failures
            .lock()
            .expect("no panic in between")
            .push(what);
    }
}

struct Failed {
    nothing_came: bool,
    what: String,
}

struct Connection {
    reader: BufReader<TcpStream>,
    host: SocketAddr,
    opened: Instant,
    /// Whether the last request was sent after [`LATE`].
    is_late: bool,
}

impl Connection {
    fn open(address: SocketAddr) -> std::io::Result<Self> {
        let opened = Instant::now();
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            reader: BufReader::new(stream),
            host: address,
            opened,
            is_late: false,
        })
    }

    /// Sends one request, whose response must be 200 with the target as its body; returns whether another may follow.
    fn ask(&mut self, target: &str) -> std::result::Result<bool, Failed> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        let mut came = 0;
        self.exchange(&request, target, &mut came)
            .map_err(|what| Failed {
                nothing_came: came == 0,
                what,
            })
    }

    fn exchange(
        &mut self,
        request: &str,
        target: &str,
        came: &mut usize,
    ) -> std::result::Result<bool, String> {
        let failed = |step: &str, error: std::io::Error| format!("{step}: {error}");
        let sent = self.reader.get_mut().write_all(request.as_bytes());
        self.is_late = self.opened.elapsed() > LATE;
        sent.map_err(|error| failed("send", error))?;
        let (mut status, mut length, mut goes_on) = (String::new(), 0, true);
        loop {
            let mut line = String::new();
            let count = self
                .reader
                .read_line(&mut line)
                .map_err(|error| failed("head", error))?;
            if count == 0 {
                return Err(format!("the connection ended after {came} bytes"));
            }
            *came += count;
            let line = line.trim_end().to_ascii_lowercase();
            if status.is_empty() {
                status = line;
            } else if line.is_empty() {
                break;
            } else if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| line.clone())?;
            } else if line.strip_prefix("connection:").map(str::trim) == Some("close") {
                goes_on = false;
            }
        }
        let mut body = vec![0; length];
        self.reader
            .read_exact(&mut body)
            .map_err(|error| failed("body", error))?;
        if !status.starts_with("http/1.1 200") || body != target.as_bytes() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
        }
        Ok(goes_on)
    }
}

/// The response that the load expects: 200 with the target as its body.
pub fn echo_target(head: &str) -> Vec<u8> {
    let target = head.split(' ').nth(1).unwrap_or_default();
    // Requests of different clients overlap.
    std::thread::sleep(Duration::from_millis(1));
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}",
        target.len()
    )
    .into_bytes()
}
