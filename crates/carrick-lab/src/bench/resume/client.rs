//! The near end: all connections in one thread, one after the other in each of so many tasks.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use crate::bench::measured::{Errors, Latency, Measured};
use crate::tls::Client;

/// The longest latency that is told apart.
const LATENCY_US_MAX: u64 = 1_000_000_000;
/// Room for a response's head.
const HEAD_BYTES: usize = 4 << 10;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// `ADDRESS:PORT` to connect to.
    pub connect: SocketAddr,
    /// The `Host` field.
    pub host: String,
    /// The request target.
    pub target: String,
    /// The length that each body must have.
    pub body_bytes: usize,
}

/// Asks for so long on so many connections at a time. Before, each has had a connection with a full handshake. All are of
/// TLS 1.3.
///
/// # Errors
/// When a connection fails or does not resume the session, or an answer is not 200 with a body of the right length.
pub async fn run(wish: Wish, connections: usize, time: Duration) -> Result<Measured> {
    let wish = Rc::new(wish);
    let local = LocalSet::new();
    let mut visitors = Vec::with_capacity(connections);
    for _ in 0..connections {
        let visitor = Visitor::new(Rc::clone(&wish))?;
        visitor.visit().await.context("the first connection")?;
        visitors.push(visitor);
    }
    let seen = Rc::new(RefCell::new(Seen {
        latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).context("no histogram")?,
        bytes: 0,
    }));
    let begun = Instant::now();
    let mut under_way = JoinSet::new();
    for visitor in visitors {
        let seen = Rc::clone(&seen);
        under_way.spawn_local_on(
            async move { visitor.visit_until(begun + time, &seen).await },
            &local,
        );
    }
    local
        .run_until(async {
            while let Some(joined) = under_way.join_next().await {
                joined.context("a task of the client failed")??;
            }
            anyhow::Ok(())
        })
        .await?;
    let duration = begun.elapsed();
    let seen = seen.borrow();
    Ok(Measured {
        duration_us: duration.as_micros() as u64,
        requests: seen.latency_us.len(),
        bytes: seen.bytes,
        errors: Errors::default(),
        latency_us: Latency::of(&seen.latency_us, 1.0),
    })
}

struct Seen {
    latency_us: Histogram<u64>,
    bytes: u64,
}

/// A client with a session of its own.
struct Visitor {
    wish: Rc<Wish>,
    tls: Client,
}

impl Visitor {
    fn new(wish: Rc<Wish>) -> Result<Self> {
        let tls = Client::new()?;
        Ok(Self { wish, tls })
    }

    /// Visits until then, and at least once.
    async fn visit_until(self, end: Instant, seen: &RefCell<Seen>) -> Result<()> {
        loop {
            let begun = Instant::now();
            let (kind, bytes) = self.visit().await?;
            ensure!(
                kind == Some(HandshakeKind::Resumed),
                "a session was not resumed"
            );
            let mut seen = seen.borrow_mut();
            let latency_us = begun.elapsed().as_micros() as u64;
            seen.latency_us.saturating_record(latency_us);
            seen.bytes += bytes as u64;
            if Instant::now() >= end {
                return Ok(());
            }
        }
    }

    /// One connection with one request. The tickets of the server come before its response.
    async fn visit(&self) -> Result<(Option<HandshakeKind>, usize)> {
        let wish = &self.wish;
        let tcp = TcpStream::connect(wish.connect).await?;
        tcp.set_nodelay(true).context("TCP_NODELAY")?;
        let mut stream = self.tls.connect(tcp).await?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            wish.target, wish.host
        );
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::with_capacity(HEAD_BYTES + wish.body_bytes);
        match stream.read_to_end(&mut response).await {
            // The end of a connection whose server does not announce it.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
            result => {
                result.context("reading the response")?;
            }
        }
        let head_bytes = response.windows(4).position(|four| four == b"\r\n\r\n");
        let body_bytes = head_bytes.map(|count| response.len() - count - 4);
        ensure!(
            response.starts_with(b"HTTP/1.1 200 ") && body_bytes == Some(wish.body_bytes),
            "the response is not 200 with {} bytes",
            wish.body_bytes
        );
        let kind = stream.get_ref().1.handshake_kind();
        Ok((kind, response.len()))
    }
}
