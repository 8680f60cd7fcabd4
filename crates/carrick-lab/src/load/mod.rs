//! Load: clients of the papers' kinds (closed loop, pages, batches, open loop), and idle ones.
//!
//! `plan` -> `check` -> `run`, which starts threads of an `engine`; a `driver` says what is asked for when, `work` draws it,
//! `target` writes it, `connection` and `response` judge what comes back, and `tally` counts.

pub mod chance;
pub mod check;
pub mod connection;
mod drain;
pub mod driver;
pub mod engine;
pub mod fault;
pub mod hold;
pub mod outcome;
pub mod plan;
pub mod response;
pub mod run;
pub mod samples;
pub mod socket;
pub mod table;
pub mod tally;
pub mod target;
pub mod work;

/// The line on standard error that says that the warm-up begins.
pub const BEGINS: &str = "the load begins";
