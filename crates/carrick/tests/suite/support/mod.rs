//! What the plays share: a carrick of their own on an address of their own, scripted clients and servers, and ways to wait for events.
//!
//! A play is written in the order in which things happen, in one thread:
//!
//! ```ignore
//! let place = Place::claim();
//! let server = Server::listen(&place);
//! let carrick = Carrick::switch(&place, &[server.address()]);
//! let mut client = carrick.connect();
//! client.send(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
//! let mut upstream = server.accept();
//! assert!(upstream.read_head().starts_with("GET / HTTP/1.1\r\n"));
//! upstream.send(b"HTTP/1.1 204 No Content\r\n\r\n");
//! assert_eq!(client.read_response("GET").status, 204);
//! ```
//!
//! When `carrick` goes out of scope it is told to end, and must end with success and without having panicked.
pub mod access_log;
pub mod carrick;
pub mod descriptors;
pub mod message;
pub mod metrics;
pub mod output;
pub mod peer;
pub mod place;
pub mod random;
#[cfg(feature = "shared-cache")]
pub mod redis;
pub mod server;
pub mod sockets;
pub mod squid;
pub mod tls;

pub use access_log::Line;
pub use carrick::Carrick;
pub use message::Response;
pub use peer::{Ending, Peer};
pub use place::Place;
#[cfg(feature = "shared-cache")]
pub use redis::Redis;
pub use server::Server;
pub use sockets::End;
pub use squid::Squid;

use std::time::{Duration, Instant};

/// How long an event may take before a play fails. Nothing here measures speed: machines are slow and busy at times.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Looks again and again until `condition` has an answer; fails with `what` when patience ends. For what cannot be waited for otherwise.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = condition() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
