//! Load without HTTP, through tunnels: a message back and forth, a stream, or what a browser says. This program again, at both ends.

pub mod client;
pub mod server;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use crate::bench::generator;
use crate::bench::measured::Measured;
use crate::bench::plan::Talk;
use crate::testbed::Testbed;
use crate::testbed::service::Service;

/// What the server prints when it serves.
pub const READY: &str = "ready";
/// How long that may take.
const READY_TIMEOUT: Duration = Duration::from_secs(90);
/// How much longer than asked the client may take, patience with a proxy that comes up included.
const GRACE: Duration = Duration::from_secs(30);

/// What a browser and a server say on one connection: requests and their answers, in bytes. First TLS's handshake and the
/// first tickets, then objects. The server closes, so that no proxy's connection to it waits (TIME_WAIT), which would cost
/// the next ones the more the more there are.
pub const PAGE: [(usize, usize); 13] = [
    (517, 4096),
    (64, 256),
    (512, 512),
    OBJECT,
    OBJECT,
    OBJECT,
    OBJECT,
    OBJECT,
    OBJECT,
    OBJECT,
    OBJECT,
    OBJECT,
    OBJECT,
];
const OBJECT: (usize, usize) = (2 << 10, 20 << 10);

/// Starts the far end in the server's namespace, and waits until it serves.
///
/// # Errors
/// When it does not start: with what it said.
pub async fn start_server(testbed: &Testbed, talk: Talk, listen: SocketAddr) -> Result<Service> {
    let mut command = testbed.this_program(&testbed.server)?;
    command.args(["talk-server", "--talk", talk.name()]);
    command.args(["--listen", &listen.to_string()]);
    let log = testbed
        .directory()
        .join(format!("talk-{}.log", talk.name()));
    let name = format!("the server of {}s", talk.name());
    let mut service = Service::start(&name, command, &testbed.server, log, false)?;
    service.wait_for_line(READY, READY_TIMEOUT).await?;
    Ok(service)
}

/// What the client is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// What is said.
    pub talk: Talk,
    /// `ADDRESS:PORT`, of a proxy or of the server.
    pub connect: &'a str,
    /// What is asked for there by `CONNECT`, if it is a forward proxy; only for pages.
    pub through: Option<&'a str>,
    /// On so many connections at a time.
    pub connections: usize,
    /// The length of each message; a stream has none.
    pub message_bytes: usize,
    /// For so long; at least one message, or one read, on each connection.
    pub time: Duration,
}

/// Runs the client in the client's namespace.
///
/// # Errors
/// When it cannot connect, a connection fails, or other bytes come back than were sent.
pub async fn run(testbed: &Testbed, wish: &Wish<'_>) -> Result<Measured> {
    let mut command = testbed.this_program(&testbed.client)?;
    command
        .args(["talk-client", "--talk", wish.talk.name()])
        .args(["--connect", wish.connect])
        .args(["--connections", &wish.connections.to_string()])
        .args(["--message-bytes", &wish.message_bytes.to_string()])
        .args(["--milliseconds", &wish.time.as_millis().to_string()])
        .args(wish.through.iter().flat_map(|origin| ["--through", origin]));
    let name = format!("client of {}s", wish.talk.name());
    generator::run_own(command, &name, wish.time + GRACE).await
}

#[cfg(test)]
mod tests;
