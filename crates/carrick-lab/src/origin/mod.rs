//! Origins: an HTTP server whose answers the request decides, and whose every byte a client can check; and an echo.
//!
//! A request goes `intake` → `request` → `answer` (with `wishes`, `resource`, `page`, `conditions`) → `pump`. Everything up to the
//! answer is pure: `server`, `connection` and `pump` are what touches sockets.

pub mod answer;
pub mod conditions;
mod connection;
pub mod counters;
pub mod date;
pub mod echo;
pub mod faults;
pub mod handshake;
pub mod intake;
pub mod page;
mod pump;
pub mod quota;
pub mod request;
pub mod resource;
pub mod server;
pub(crate) mod sys;
pub mod upload;
pub mod wishes;

use crate::content::mix;

/// The seed of the body at a path (without the query), unless the request names another: FNV-1a with 64 bits over the
/// path's bytes, then [`mix`]. A client that knows the path knows each byte: `Body::of_seed(body_seed(path))`.
#[must_use]
pub fn body_seed(path_without_query: &str) -> u64 {
    mix(fnv1a(path_without_query.as_bytes()))
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
