//! The integration tests of carrick, one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a panic of a helper is the failure report of the test that called it"
)]
mod bodies;
mod config;
mod http;
mod refusals;
mod support;
mod tunnels;
mod upstreams;
