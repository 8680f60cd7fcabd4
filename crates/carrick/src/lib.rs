//! The parts of the carrick program.
pub mod cli;
pub mod commands;
pub mod config;
