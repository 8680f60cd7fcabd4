//! The loads of the side-by-side benchmark, and what is read beside them. `experiments/bench.toml` has its workloads, and
//! [`crate::experiment`] runs them.

pub mod cached;
pub mod congestion;
pub mod fetch;
pub mod generator;
pub mod ghz;
pub mod h2load;
pub mod holder;
pub mod measured;
pub mod memory;
pub mod plan;
pub mod resume;
pub mod run;
pub mod talk;
pub mod wrk;
