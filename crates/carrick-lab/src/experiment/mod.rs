//! The experiments, of the papers and side by side: what is varied, what is run, what is drawn.

pub mod bed;
pub mod cache_use;
pub mod capture;
pub mod catalogue;
pub mod csv;
pub mod derived;
pub mod expression;
pub mod figure;
pub mod file;
pub mod forwarding;
pub mod members;
pub mod metered;
pub mod metrics;
pub mod progress;
pub mod results;
pub mod runner;
pub mod sample;
pub mod schedule;
pub mod selection;
pub mod spec;
pub mod store;
pub mod target;
pub mod value;
