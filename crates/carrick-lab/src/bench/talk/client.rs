//! The near end: asks and waits, or takes what comes. A thread for each connection, so that what is measured is the
//! proxy's wake-ups, and not those of an event loop.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hdrhistogram::Histogram;
use rustix::net::{RecvFlags, recv};

use crate::bench::measured::{Errors, Latency, Measured};
use crate::bench::plan::Talk;
use crate::bench::talk::PAGE;

/// A proxy has to come up within this time.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(10);
/// So long without a byte, and the connection has failed.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// For one read of a stream.
const READ_BYTES: usize = 1 << 20;
/// The longest latency that is told apart.
const LATENCY_NS_MAX: u64 = 10_000_000_000;

/// What one connection saw.
struct Seen {
    count: u64,
    bytes: u64,
    latency_ns: Histogram<u64>,
}

/// Opens the connections, waits until all are open, and talks on each for so long, or on one after the other. What is counted are
/// messages, whole megabytes of a stream, or pages. `through`: what is asked for by `CONNECT`.
///
/// # Errors
/// When one connection cannot be opened, fails, or brings other bytes back than were sent.
pub fn run(
    (connect, through): (SocketAddr, Option<&str>),
    talk: Talk,
    connections: usize,
    message_bytes: usize,
    time: Duration,
) -> Result<Measured> {
    let streams = (0..connections)
        .map(|_| open(connect))
        .collect::<Result<Vec<_>>>()?;
    let start = Barrier::new(connections);
    let begun = Instant::now();
    let seen = std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .into_iter()
            .map(|stream| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    match talk {
                        Talk::PingPong => ping(stream, message_bytes, time),
                        Talk::Stream => take(&stream, time),
                        Talk::Pages => pages(stream, (connect, through), time),
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| bail!("a thread of the client panicked"))
            })
            .collect::<Result<Vec<Seen>>>()
    })?;
    add_up(talk, seen, begun.elapsed())
}

fn add_up(talk: Talk, seen: Vec<Seen>, duration: Duration) -> Result<Measured> {
    let mut all = histogram()?;
    let (mut count, mut bytes) = (0, 0);
    for one in seen {
        count += one.count;
        bytes += one.bytes;
        all.add(&one.latency_ns)
            .context("latencies cannot be added")?;
    }
    if talk == Talk::Stream {
        count = bytes >> 20;
    }
    Ok(Measured {
        duration_us: duration.as_micros() as u64,
        requests: count,
        bytes,
        errors: Errors::default(),
        latency_us: Latency::of(&all, 1000.0),
    })
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).context("no histogram")
}

fn open(address: SocketAddr) -> Result<TcpStream> {
    let given_up = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_nodelay(true).context("TCP_NODELAY")?;
                stream
                    .set_read_timeout(Some(SILENCE_MAX))
                    .context("SO_RCVTIMEO")?;
                return Ok(stream);
            }
            Err(error) if Instant::now() >= given_up => {
                return Err(error).with_context(|| format!("cannot connect to {address}"));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// A message there and back, until the time is over; each one differs from the one before.
fn ping(mut stream: TcpStream, message_bytes: usize, time: Duration) -> Result<Seen> {
    let mut seen = Seen {
        count: 0,
        bytes: 0,
        latency_ns: histogram()?,
    };
    let mut message = vec![0_u8; message_bytes.max(1)];
    let mut answer = message.clone();
    let begun = Instant::now();
    let mut sent = begun;
    loop {
        for (byte, value) in message.iter_mut().zip(seen.count.to_le_bytes()) {
            *byte = value;
        }
        stream.write_all(&message).context("cannot send")?;
        stream
            .read_exact(&mut answer)
            .context("nothing came back")?;
        if answer != message {
            bail!("other bytes came back than were sent");
        }
        let now = Instant::now();
        seen.count += 1;
        seen.bytes += message.len() as u64;
        seen.latency_ns
            .saturating_record((now - sent).as_nanos() as u64);
        if now - begun >= time {
            return Ok(seen);
        }
        sent = now;
    }
}

/// One page after the other, each on a connection of its own, the first on `stream`.
fn pages(
    mut stream: TcpStream,
    (connect, through): (SocketAddr, Option<&str>),
    time: Duration,
) -> Result<Seen> {
    let mut seen = Seen {
        count: 0,
        bytes: 0,
        latency_ns: histogram()?,
    };
    let mut message = vec![0_u8; READ_BYTES];
    let begun = Instant::now();
    loop {
        let sent = Instant::now();
        if let Some(origin) = through {
            open_tunnel(&mut stream, origin)?;
        }
        for (asked, answered) in PAGE {
            stream.write_all(&message[..asked]).context("cannot send")?;
            stream
                .read_exact(&mut message[..answered])
                .context("no page came back")?;
            seen.bytes += answered as u64;
        }
        if stream.read(&mut message).context("no end came")? > 0 {
            bail!("more came than the page");
        }
        seen.count += 1;
        seen.latency_ns
            .saturating_record(sent.elapsed().as_nanos() as u64);
        if begun.elapsed() >= time {
            return Ok(seen);
        }
        stream = open(connect)?;
    }
}

/// Asks a forward proxy for a tunnel.
fn open_tunnel(stream: &mut TcpStream, origin: &str) -> Result<()> {
    write!(
        stream,
        "CONNECT {origin} HTTP/1.1\r\nHost: {origin}\r\n\r\n"
    )
    .context("cannot ask")?;
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    // The server says nothing before it is asked.
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece).context("no answer came")? {
            0 => bail!("the proxy closed"),
            count => head.extend(&piece[..count]),
        }
    }
    let is_open = head.starts_with(b"HTTP/1.1 200") || head.starts_with(b"HTTP/1.0 200");
    if !is_open {
        bail!("no tunnel: {}", String::from_utf8_lossy(&head));
    }
    Ok(())
}

/// Takes what comes until the time is over. `MSG_TRUNC` takes it out of the socket without copying it (tcp(7)), so that the
/// client costs little beside the proxy.
fn take(stream: &TcpStream, time: Duration) -> Result<Seen> {
    let mut buffer = vec![0; READ_BYTES];
    let mut bytes = 0;
    let begun = Instant::now();
    while bytes == 0 || begun.elapsed() < time {
        let (_, count) =
            recv(stream, &mut buffer[..], RecvFlags::TRUNC).context("nothing came any more")?;
        if count == 0 {
            bail!("the stream ended");
        }
        bytes += count as u64;
    }
    Ok(Seen {
        count: 0,
        bytes,
        latency_ns: histogram()?,
    })
}
