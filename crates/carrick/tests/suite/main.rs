//! The integration tests of carrick, one binary.
mod config;
