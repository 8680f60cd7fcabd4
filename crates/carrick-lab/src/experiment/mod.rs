//! The experiments of the papers: what is varied, what is run, what is drawn.

pub mod figure;
pub mod results;
