//! carrick: a web proxy that joins client and server connections inside the kernel.
//!
//! This library is the program; `main.rs` only calls it. `ARCHITECTURE.md` has the map.
pub mod accept;
pub mod cache;
pub mod cli;
pub mod config;
pub mod connect;
pub mod context;
pub mod control;
pub mod engines;
pub mod http;
pub mod net;
pub mod path_history;
pub mod privileges;
pub mod reply;
pub mod resolver;
pub mod run;
pub mod service;
pub mod syn_defer;
pub mod tcp;
pub mod telemetry;
pub mod transparent;
pub mod upstream;
