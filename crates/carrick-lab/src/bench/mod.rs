//! The side-by-side benchmark: every work on every peer, by two figures, in interleaved runs; then memory.

pub mod cached;
pub mod congestion;
pub mod fetch;
pub mod holder;
pub mod memory;
pub mod observer;
pub mod report;
pub mod results;
pub mod runner;
pub mod talk;
pub mod targets;
pub mod works;
pub mod wrk;
