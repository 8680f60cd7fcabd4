//! A scenario being played: clients and origin in one thread, with the plan and the counts between them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use crate::torture::http::exchange::Exchange;
use crate::torture::http::scenario::Scenario;
use crate::torture::http::tally::Tally;
use crate::torture::http::{PATIENCE, client, origin};

/// Behind the last client's end, the origin may have so long until it has heard of it.
const ORIGIN_PATIENCE: Duration = PATIENCE;
/// Between two looks whether it has.
const POLL: Duration = Duration::from_millis(20);

/// What clients and origin share.
pub struct Play {
    /// The plan.
    pub scenario: Scenario,
    /// Where clients connect to.
    pub proxy: SocketAddr,
    /// The addresses that clients connect from, by conversation; none: whatever the kernel chooses.
    pub clients: fn(&Scenario, usize) -> Option<SocketAddr>,
    /// The counts.
    pub tally: RefCell<Tally>,
    /// How often each request has reached the origin.
    pub arrivals: RefCell<BTreeMap<(usize, usize), u32>>,
    /// Exchanges that the origin is busy with, by the number of its connection.
    pub busy: RefCell<BTreeMap<u64, String>>,
    connections: Cell<u64>,
}

impl Play {
    /// The exchange of this name.
    #[must_use]
    pub fn exchange(&self, name: (usize, usize)) -> Option<&Exchange> {
        self.scenario
            .conversations
            .get(name.0)?
            .exchanges
            .get(name.1)
    }

    /// A number for a connection of the origin's.
    pub fn next_connection(&self) -> u64 {
        let number = self.connections.get();
        self.connections.set(number + 1);
        number
    }

    /// Complains of an exchange.
    pub fn complain(&self, exchange: &Exchange, what: &str) {
        self.tally.borrow_mut().complain(format!(
            "seed {} {}: connection {} request {} ({:?}, {} bytes, {:?}): {what}",
            self.scenario.seed,
            self.scenario.way.name(),
            exchange.name.0,
            exchange.name.1,
            exchange.kind,
            exchange.object_bytes,
            exchange.framing,
        ));
    }

    /// Complains of something else.
    pub fn complain_of(&self, whom: &str, what: &str) {
        self.tally.borrow_mut().complain(format!(
            "seed {} {}: {whom}: {what}",
            self.scenario.seed,
            self.scenario.way.name()
        ));
    }
}

/// Plays a scenario to its end. The origin's connections are closed then. To be called in a `LocalSet`.
///
/// # Errors
/// When the runtime does not take the listener.
pub async fn play(
    scenario: Scenario,
    proxy: SocketAddr,
    clients: fn(&Scenario, usize) -> Option<SocketAddr>,
    listener: std::net::TcpListener,
) -> Result<Tally> {
    listener
        .set_nonblocking(true)
        .context("cannot make the origin's listener non-blocking")?;
    let listener = TcpListener::from_std(listener).context("cannot listen")?;
    let conversations = scenario.conversations.len();
    let play = Rc::new(Play {
        scenario,
        proxy,
        clients,
        tally: RefCell::default(),
        arrivals: RefCell::default(),
        busy: RefCell::default(),
        connections: Cell::new(0),
    });
    let serving = Serving(tokio::task::spawn_local(serve(listener, Rc::clone(&play))));
    let mut talking = JoinSet::new();
    for number in 0..conversations {
        talking.spawn_local(client::converse(Rc::clone(&play), number));
    }
    while let Some(ended) = talking.join_next().await {
        ended.context("a client failed")?;
    }
    let until = Instant::now() + ORIGIN_PATIENCE;
    while !play.busy.borrow().is_empty() && Instant::now() < until {
        tokio::time::sleep(POLL).await;
    }
    for (_, what) in play.busy.take() {
        play.complain_of(
            "the origin",
            &format!("its connection is still held for {what}, whose client has gone"),
        );
    }
    drop(serving);
    let repeated = play
        .arrivals
        .borrow()
        .values()
        .filter(|&&times| times > 1)
        .count();
    let mut tally = play.tally.take();
    tally.repeated = repeated as u64;
    Ok(tally)
}

/// The origin's task, which ends when it is dropped.
struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(listener: TcpListener, play: Rc<Play>) {
    // Dropped with this task, and all connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn_local(origin::serve(Rc::clone(&play), stream));
                }
                // For want of descriptors, or a connection that is gone already: neither ends the server.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(ended) = connections.join_next() => {
                if ended.is_err() {
                    play.complain_of("the origin", "a task of its own failed");
                }
            }
        }
    }
}

/// Writes all of it, each piece within [`PATIENCE`].
///
/// # Errors
/// When the connection breaks; `TimedOut` if it takes nothing.
pub async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                patiently(PATIENCE, stream.writable()).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads something; 0 at the end.
///
/// # Errors
/// When the connection breaks; `TimedOut` if nothing comes within [`PATIENCE`].
pub async fn read_some(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    read_within(PATIENCE, stream, buffer).await
}

/// Likewise, with another limit.
///
/// # Errors
/// As [`read_some`].
pub async fn read_within(
    limit: Duration,
    stream: &TcpStream,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match stream.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                patiently(limit, stream.readable()).await?;
            }
            read => return read,
        }
    }
}

async fn patiently(limit: Duration, ready: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    timeout(limit, ready)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
