//! The splice service over real TCP connections on loopback: every engine, every end, at every moment.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a panic here is the failure report; what is skipped says so"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "the examples that are tests, too, have a module in common"
)]

mod body_cost;
mod boundaries;
mod exchanges;
mod faults;
mod hosts;
mod live;
mod local_copies;
mod many_flows;
mod pacing;
mod packet;
mod pools;
mod relay;
mod router;
mod socket;
mod socket_ends;
mod socket_sleep;
mod splice_cost;
mod support;
mod syn_defer;
mod tcp_profiles;
mod timeouts;
mod torture_copies;
mod torture_unsplicing;
mod unsplicing;
mod verifier;
