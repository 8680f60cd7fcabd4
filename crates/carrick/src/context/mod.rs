//! What the layers hand each other: the worker, its client, where a request goes, and what is noted of it for the log.
pub mod client;
pub mod destination;
pub mod followers;
pub mod idle;
pub mod kernel_forward;
pub mod live;
pub mod log_line;
pub mod original;
pub mod pace;
pub mod request_log;
pub mod tunnels;
pub mod worker;
