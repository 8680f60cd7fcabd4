//! The integration tests of carrick, one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a panic is how a test and its helpers report failure"
)]
mod bodies;
mod caching;
mod clients;
mod config;
mod engines;
mod forwarding;
mod http;
mod http2;
mod https;
mod laboratory;
mod linking;
mod memory;
mod operations;
mod outliving;
mod refusals;
mod responses;
mod splitting;
mod support;
mod switching;
mod tidiness;
mod torture;
mod transparent;
mod tunnels;
mod upstreams;
