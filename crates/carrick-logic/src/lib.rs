//! The decisions of carrick: what a message means, where it goes, who may ask, which server answers.
//!
//! Invariants: nothing here opens a socket, reads a clock, starts a thread or uses `unsafe`. Whatever depends on time
//! is given `now`; whatever came from the network is bytes in a buffer of the caller's.
#![forbid(unsafe_code)]

pub mod access;
pub mod balance;
pub mod cache;
pub mod client_hello;
pub mod credentials;
mod cursor;
pub mod embedded;
pub mod eyeballs;
pub mod grpc;
pub mod http1;
pub mod http2;
pub mod link;
mod named;
pub mod proxy_protocol;
pub mod route;
pub mod split;
