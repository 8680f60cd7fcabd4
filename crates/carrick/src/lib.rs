//! The parts of the carrick program.
pub mod config;
