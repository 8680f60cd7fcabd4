//! The near end: all connections in one thread, bodies counted and thrown away.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use crate::bench::fetch::{Fetched, Wish};
use crate::bench::measured::{Errors, Latency, Measured};
use crate::content::framing::{self, Fields};

/// Room for a head and what comes with it.
const HEAD_BYTES: usize = 16 << 10;
/// For one read of a body.
const READ_BYTES: usize = 1 << 20;
/// The longest latency that is told apart.
const LATENCY_US_MAX: u64 = 1_000_000_000;

/// Where to ask.
#[derive(Clone, Debug)]
pub struct Place {
    /// `ADDRESS:PORT` to connect to.
    pub connect: SocketAddr,
    /// The `Host` field.
    pub host: String,
    /// The request target; a number follows.
    pub target: String,
}

/// What all connections share.
struct Shared {
    place: Place,
    wish: Wish,
    next: Cell<u64>,
    begun: Cell<Instant>,
    seen: RefCell<Seen>,
    /// `MSG_TRUNC` does not write into it.
    scratch: RefCell<Vec<u8>>,
}

struct Seen {
    latency_us: Histogram<u64>,
    bytes: u64,
    head_bytes: u64,
    first_us: u64,
    last_us: u64,
}

/// Opens all connections, then asks.
///
/// # Errors
/// When a connection cannot be opened or breaks, or an answer is not 200 with a body of the wanted length.
pub async fn run(place: Place, wish: Wish) -> Result<Fetched> {
    let mut streams = Vec::with_capacity(wish.connections);
    for number in 1..=wish.connections {
        let stream = TcpStream::connect(place.connect)
            .await
            .with_context(|| format!("connection {number} to {}", place.connect))?;
        stream.set_nodelay(true).context("TCP_NODELAY")?;
        streams.push(stream);
    }
    let shared = Rc::new(Shared {
        place,
        wish,
        next: Cell::new(0),
        begun: Cell::new(Instant::now()),
        seen: RefCell::new(Seen {
            latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).context("no histogram")?,
            bytes: 0,
            head_bytes: 0,
            first_us: u64::MAX,
            last_us: 0,
        }),
        scratch: RefCell::new(vec![0; READ_BYTES]),
    });
    LocalSet::new()
        .run_until(ask_on_all(streams, &shared))
        .await?;
    let seen = shared.seen.borrow();
    Ok(Fetched {
        measured: Measured {
            duration_us: seen.last_us,
            requests: seen.latency_us.len(),
            bytes: seen.bytes,
            errors: Errors::default(),
            latency_us: Latency::of(&seen.latency_us, 1.0),
        },
        first_us: seen.first_us,
        last_us: seen.last_us,
        head_bytes: seen.head_bytes,
    })
}

async fn ask_on_all(streams: Vec<TcpStream>, shared: &Rc<Shared>) -> Result<()> {
    let mut under_way = JoinSet::new();
    shared.begun.set(Instant::now());
    for stream in streams {
        let shared = Rc::clone(shared);
        under_way.spawn_local(async move { ask_on(stream, &shared).await });
    }
    while let Some(joined) = under_way.join_next().await {
        joined.context("a task of the client failed")??;
    }
    Ok(())
}

/// One request after the other, until there are none left.
async fn ask_on(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    loop {
        let number = shared.next.get();
        if number >= shared.wish.requests {
            return Ok(());
        }
        shared.next.set(number + 1);
        let object = shared.wish.first + number % shared.wish.objects;
        let target = format!("{}{object}", shared.place.target);
        ask(&mut stream, shared, &target)
            .await
            .with_context(|| format!("GET {target}"))?;
    }
}

async fn ask(stream: &mut TcpStream, shared: &Shared, target: &str) -> Result<()> {
    let asked = Instant::now();
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n",
        shared.place.host
    );
    stream
        .write_all(request.as_bytes())
        .await
        .context("cannot send")?;
    let (head_bytes, mut have) = read_head(stream, shared.wish.body_bytes).await?;
    while have < shared.wish.body_bytes {
        have += throw_away(stream, shared, shared.wish.body_bytes - have)
            .await
            .with_context(|| format!("after {have} bytes of the body"))?;
    }
    let now = Instant::now();
    let since_begin_us = (now - shared.begun.get()).as_micros() as u64;
    let mut seen = shared.seen.borrow_mut();
    seen.latency_us
        .saturating_record((now - asked).as_micros() as u64);
    seen.head_bytes += head_bytes as u64;
    seen.bytes += (head_bytes + have) as u64;
    seen.first_us = seen.first_us.min(since_begin_us);
    seen.last_us = seen.last_us.max(since_begin_us);
    Ok(())
}

/// The lengths of the head, and of what has come of the body.
async fn read_head(stream: &mut TcpStream, body_bytes: usize) -> Result<(usize, usize)> {
    let mut response = Vec::with_capacity(HEAD_BYTES);
    loop {
        let read = stream
            .read_buf(&mut response)
            .await
            .context("cannot read")?;
        ensure!(read > 0, "the connection was closed");
        if let Some(head_bytes) = head_of(&response, body_bytes)? {
            let have = response.len() - head_bytes;
            ensure!(have <= body_bytes, "the body has {have} bytes and more");
            return Ok((head_bytes, have));
        }
    }
}

/// The length of a head that is there as a whole, and right.
fn head_of(response: &[u8], body_bytes: usize) -> Result<Option<usize>> {
    let head = framing::response(response, |head| {
        let status = head.code.unwrap_or_default();
        ensure!(status == 200, "the answer was {status}");
        let length = Fields::read(head.headers)?.length;
        ensure!(
            length == Some(body_bytes as u64),
            "the body's length is {length:?} instead of {body_bytes}"
        );
        Ok(())
    })?;
    Ok(head.map(|(head_bytes, ())| head_bytes))
}

/// Takes at most so many bytes out of the socket without copying them (tcp(7), `MSG_TRUNC`).
async fn throw_away(stream: &TcpStream, shared: &Shared, bytes: usize) -> Result<usize> {
    let taken = stream
        .async_io(Interest::READABLE, || {
            let mut scratch = shared.scratch.borrow_mut();
            let most = bytes.min(READ_BYTES);
            recv(stream, &mut scratch[..most], RecvFlags::TRUNC)
                .map(|(_, count)| count)
                .map_err(io::Error::from)
        })
        .await
        .context("cannot read")?;
    ensure!(taken > 0, "the connection was closed");
    Ok(taken)
}
