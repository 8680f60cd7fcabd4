//! carrick: a web proxy that joins client and server connections inside the kernel.
//!
//! This library is the program; `main.rs` only calls it. `ARCHITECTURE.md` has the map.
pub mod cache;
pub mod cli;
pub mod commands;
pub mod config;
pub mod control;
pub mod engines;
pub mod handshakes;
pub mod learned;
pub mod privileges;
pub mod proxy;
pub mod run;
pub mod service;
pub mod shortage;
pub mod telemetry;
pub mod transparent;
pub mod upstreams;
pub mod worker;
