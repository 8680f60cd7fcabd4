//! The laboratory of carrick: a test bed of network namespaces, the peers, side-by-side benchmarks, and their report.
//!
//! Invariants: traffic stays inside namespaces that the test bed made itself; every namespace and file of a run bears
//! the run's name, so that a run that was killed can be cleaned up by the next; nothing is reported that was not measured.

pub mod bench;
pub mod cli;
pub mod command;
pub mod content;
pub mod experiment;
pub mod files;
pub mod load;
pub mod origin;
pub mod peers;
pub mod program;
pub mod report;
pub mod statistics;
pub mod tables;
pub mod testbed;
pub mod tls;
pub mod torture;
pub mod wan;
