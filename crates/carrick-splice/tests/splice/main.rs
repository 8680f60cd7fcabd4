//! The splice service over real TCP connections on loopback: every engine, every end, at every moment.

mod boundaries;
mod exchanges;
mod faults;
mod local_copies;
mod pools;
mod support;
mod timeouts;
mod unsplicing;
