//! Links: connections that stand between this carrick and one at the other end of a long way, over which clients' connections are relayed
//! one after the other. So the handshake and the slow start on that way are paid once.
//!
//! | module | what it does |
//! |---|---|
//! | `pool` | the connections of a worker to the other end: opened ahead, kept, taken |
//! | `near` | what a tunnel or splitter sends over a link |
//! | `far` | the other end: connects to servers |
//! | `relay` | one connection, relayed over one of the link |
//! | `connection` | frames on a connection over the link |
//!
//! What is said there is [`carrick_logic::link`]'s; `docs/internals/link-protocol.md` tells it.
mod far;
mod near;
mod pool;
mod relay;

pub use far::serve;
pub(super) use near::{Wish, relay};
pub use pool::{fill_all, keep_up};

use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;
use tokio::net::TcpStream;

/// Silence on a connection over a link after which the kernel asks whether the other end is there, and between two such questions. A
/// leg profile may say otherwise.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// So many questions without an answer end it.
const KEEPALIVE_PROBES: u32 = 3;

/// How long an end that has given a relayed connection up waits for the other end to do so, too; and for what it is connected to
/// already to take what was sent before. Then it ends the connection over the link as well.
const GIVEN_UP_MAX: Duration = Duration::from_secs(10);

/// Asks the kernel to notice when the other end of a link is gone.
pub fn keep_alive(stream: &TcpStream) {
    let wanted = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE)
        .with_retries(KEEPALIVE_PROBES);
    // Without it, it is noticed when something is sent.
    let _ = SockRef::from(stream).set_tcp_keepalive(&wanted);
}
