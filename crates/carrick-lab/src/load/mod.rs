//! Load: clients of the papers' kinds (closed loop, pages, batches, open loop), and idle ones.

pub mod hold;
pub mod outcome;
pub mod plan;
pub mod spin;
