//! What clients and origin of a scenario share: the plan, the counts, and how they read and write.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::torture::http::exchange::Exchange;
use crate::torture::http::scenario::Scenario;
use crate::torture::http::tally::Tally;
use crate::torture::stream::within;

/// What clients and origin share.
pub struct Play {
    /// The plan.
    pub scenario: Scenario,
    /// Where clients connect to.
    pub proxy: SocketAddr,
    /// The addresses that clients connect from, by conversation; none: whatever the kernel chooses.
    pub clients: fn(&Scenario, usize) -> Option<SocketAddr>,
    /// Longest time without a byte that is due.
    pub patience: Duration,
    /// The counts.
    pub tally: RefCell<Tally>,
    /// How often each request has reached the origin.
    pub arrivals: RefCell<BTreeMap<(usize, usize), u32>>,
    /// Exchanges that the origin is busy with, by the number of its connection.
    pub busy: RefCell<BTreeMap<u64, String>>,
    pub(super) connections: Cell<u64>,
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

    /// Writes all of it, each piece within [`Self::patience`].
    ///
    /// # Errors
    /// When the connection breaks; `TimedOut` if it takes nothing.
    pub async fn write_all(&self, stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match stream.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    within(self.patience, stream.writable()).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads something; 0 at the end.
    ///
    /// # Errors
    /// When the connection breaks; `TimedOut` if nothing comes within [`Self::patience`].
    pub async fn read_some(&self, stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        read_within(self.patience, stream, buffer).await
    }
}

/// Reads something within a limit; 0 at the end.
///
/// # Errors
/// As [`Play::read_some`].
pub async fn read_within(
    limit: Duration,
    stream: &TcpStream,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match stream.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                within(limit, stream.readable()).await?;
            }
            read => return read,
        }
    }
}
