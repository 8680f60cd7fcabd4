//! The emulator of wide-area networks: the papers' modified NISTNet, as a router in user space.
//!
//! Invariants: `model`, `schedule`, `rules`, `emulation`, `packet`, `resolve`, `neighbours` and `routes` have no clock and
//! no socket, they are given `now` in nanoseconds; only `forward` waits and only `sys` calls the kernel unsafely.

pub mod ack_filter;
mod cache;
pub mod check;
pub mod control;
pub mod emulation;
pub mod forward;
pub mod model;
mod neighbours;
pub mod packet;
mod resolve;
pub mod routes;
pub mod rules;
pub mod schedule;
pub mod spec;
mod sys;

pub use forward::run;
