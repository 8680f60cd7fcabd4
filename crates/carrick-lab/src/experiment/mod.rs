//! The experiments of the papers: what is varied, what is run, what is drawn.

pub mod catalogue;
pub mod derived;
pub mod expression;
pub mod figure;
pub mod metrics;
pub mod results;
pub mod schedule;
pub mod spec;
