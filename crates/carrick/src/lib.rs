//! carrick: a web proxy that joins client and server connections inside the kernel.
pub mod config;
pub mod control;
pub mod telemetry;
pub mod upstreams;
