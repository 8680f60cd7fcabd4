//! Links: lasting connections between this carrick and another over a long path, over which clients' connections are
//! relayed one after the other. The handshake and the slow start on that path are paid once.
//!
//! | module | what it does |
//! |---|---|
//! | `pool` | the connections of a worker to the other end: opened in advance, kept, taken |
//! | `near` | sends a tunnel's or splitter's connection over a link |
//! | `far` | the other end: connects to servers |
//! | `relay` | relays one connection over a link connection |
//! | `upstream/link_connection` | frames on a link connection |
//!
//! [`carrick_logic::link`] has the protocol; `docs/internals/link-protocol.md` describes it.
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

/// TCP keepalive of link connections: idle time before the first probe, and between probes. A TCP profile may override it.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Unanswered probes that end a connection.
const KEEPALIVE_PROBES: u32 = 3;

/// How long an end that has given up a relayed connection waits for the other end to do so, too, and for its local
/// connection to accept earlier bytes; or, before that, for the link to take some of what a failed local connection has
/// received. Then it also closes the link connection.
const GIVEN_UP_MAX: Duration = Duration::from_secs(10);

/// Sets keepalive, so that the kernel notices when the other end of a link is gone.
pub fn keep_alive(stream: &TcpStream) {
    let wanted = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE)
        .with_retries(KEEPALIVE_PROBES);
    // Without it, the loss is noticed at the next write.
    let _ = SockRef::from(stream).set_tcp_keepalive(&wanted);
}
