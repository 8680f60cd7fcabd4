//! Shared by all tests: a carrick of the test's own at an address of its own, scripted clients and servers, and ways to wait for events.
//!
//! A test is written in chronological order, in one thread:
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
//! When `carrick` goes out of scope it is told to end, and must exit successfully and without a panic.
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

/// Time limit for an event before a test fails; polling for one.
pub use carrick_test::{PATIENCE, wait_for, wait_until};
