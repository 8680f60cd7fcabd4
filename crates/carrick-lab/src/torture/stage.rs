//! Where cases are played: connections through the relay, both ends in one thread, so that each side's bytes can be
//! compared with what the other did.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::content::mix;
use crate::load::chance::Chance;
use crate::testbed::namespace::Namespace;
use crate::torture::stream::{Lane, Socket};
use crate::torture::tally::{SharedTally, Tally};

type Waiting = Rc<RefCell<HashMap<u64, oneshot::Sender<TcpStream>>>>;

/// A relay, the server behind it, and what has been counted.
pub struct Stage {
    relay: SocketAddr,
    waiting: Waiting,
    accepting: JoinHandle<()>,
    next: Cell<u64>,
    seed: u64,
    processes: Option<Namespace>,
    /// Longer than the relay may need for a connection, or stay silent on one when it has something to pass on.
    pub patience: Duration,
    /// The counts of the case.
    pub tally: SharedTally,
}

/// One connection through the relay: both of its outer ends, and what goes each way.
pub struct Pair {
    /// The connection's number, from 0.
    pub number: u64,
    /// The client's end.
    pub client: Socket,
    /// The server's end.
    pub server: Socket,
    /// From client to server.
    pub up: Lane,
    /// From server to client.
    pub down: Lane,
    /// For all that is left to chance with this connection.
    pub chance: Chance,
}

/// One direction of a connection.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// Where its bytes go in.
    pub sender: &'a Socket,
    /// Where they come out.
    pub receiver: &'a Socket,
    /// The bytes.
    pub lane: &'a Lane,
}

impl Pair {
    /// From client to server.
    #[must_use]
    pub fn upward(&self) -> Way<'_> {
        Way {
            sender: &self.client,
            receiver: &self.server,
            lane: &self.up,
        }
    }

    /// From server to client.
    #[must_use]
    pub fn downward(&self) -> Way<'_> {
        Way {
            sender: &self.server,
            receiver: &self.client,
            lane: &self.down,
        }
    }

    /// The direction away from the client if `is_up`, else away from the server; and the other one.
    #[must_use]
    pub fn ways(&self, is_up: bool) -> (Way<'_>, Way<'_>) {
        if is_up {
            (self.upward(), self.downward())
        } else {
            (self.downward(), self.upward())
        }
    }

    /// Its ends and lanes, the client's first if `client_first`: near end, far end, from near to far, from far to near.
    #[must_use]
    pub fn parts(self, client_first: bool) -> (Socket, Socket, Lane, Lane) {
        if client_first {
            (self.client, self.server, self.up, self.down)
        } else {
            (self.server, self.client, self.down, self.up)
        }
    }

    /// The name of a direction in complaints.
    #[must_use]
    pub fn name(&self, is_up: bool) -> String {
        way_name(self.number, is_up)
    }
}

/// The name of a direction in complaints.
#[must_use]
pub fn way_name(number: u64, is_up: bool) -> String {
    format!("connection {number} {}", if is_up { "up" } else { "down" })
}

impl Stage {
    /// For a relay at this address that opens a connection to `listener` for each of its own. `processes`: where the relay
    /// runs, if it can be stopped. What takes longer than `patience` counts as silence. To be called inside a `LocalSet`.
    ///
    /// # Errors
    /// When the runtime does not take the listener.
    pub fn new(
        relay: SocketAddr,
        listener: std::net::TcpListener,
        processes: Option<Namespace>,
        seed: u64,
        patience: Duration,
    ) -> Result<Self> {
        listener
            .set_nonblocking(true)
            .context("cannot make the server's listener non-blocking")?;
        let listener = TcpListener::from_std(listener).context("cannot listen")?;
        let waiting = Waiting::default();
        Ok(Self {
            relay,
            accepting: tokio::task::spawn_local(accept(listener, Rc::clone(&waiting))),
            waiting,
            next: Cell::new(0),
            seed,
            processes,
            patience,
            tally: SharedTally::default(),
        })
    }

    /// Opens one more connection. None if that is not possible, which is counted.
    pub async fn pair(&self) -> Option<Pair> {
        let number = self.next.get();
        self.next.set(number + 1);
        let opened = timeout(self.patience, self.open(number)).await;
        let why = match opened {
            Ok(Ok((client, server))) => {
                self.tally.borrow_mut().connections += 1;
                // A direction's bytes depend on the run's seed, the connection and the direction only.
                let seed = mix(self.seed ^ mix(number));
                return Some(Pair {
                    number,
                    client: Socket::new(client, self.patience),
                    server: Socket::new(server, self.patience),
                    up: Lane::new(seed),
                    down: Lane::new(mix(seed)),
                    chance: Chance::new(seed, 1),
                });
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => format!("nothing arrived within {} s", self.patience.as_secs()),
        };
        self.waiting.borrow_mut().remove(&number);
        let mut tally = self.tally.borrow_mut();
        tally.refused += 1;
        tally.complain(|| format!("connection {number} was not made: {why}"));
        None
    }

    async fn open(&self, number: u64) -> Result<(TcpStream, TcpStream)> {
        let (arrived, arrival) = oneshot::channel();
        self.waiting.borrow_mut().insert(number, arrived);
        let mut client = TcpStream::connect(self.relay)
            .await
            .with_context(|| format!("cannot connect to {}", self.relay))?;
        client.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        client
            .write_all(&number.to_be_bytes())
            .await
            .context("cannot send the connection's number")?;
        let server = arrival.await.context("the server has gone")?;
        server.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        Ok((client, server))
    }

    /// Numbers for what is left to chance with the case as a whole.
    #[must_use]
    pub fn chance(&self) -> Chance {
        Chance::new(self.seed, 2)
    }

    /// Where the relay's processes are, if they can be stopped.
    #[must_use]
    pub fn processes(&self) -> Option<&Namespace> {
        self.processes.as_ref()
    }

    /// Ends the stage; what was counted.
    #[must_use]
    pub fn finish(self) -> Tally {
        self.tally.take()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts what the relay opens, and gives each connection to the task that waits for its number.
async fn accept(listener: TcpListener, waiting: Waiting) {
    loop {
        match listener.accept().await {
            Ok((mut stream, _)) => {
                let waiting = Rc::clone(&waiting);
                tokio::task::spawn_local(async move {
                    let mut number = [0; 8];
                    // One that ends before it has a number is missed by who opened it.
                    if stream.read_exact(&mut number).await.is_ok() {
                        let waiter = waiting.borrow_mut().remove(&u64::from_be_bytes(number));
                        if let Some(waiter) = waiter {
                            let _ = waiter.send(stream);
                        }
                    }
                });
            }
            // For want of descriptors, or a connection that is gone already: neither ends the server.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
