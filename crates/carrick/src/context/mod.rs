//! What the layers hand each other.
//!
//! | module | what it has |
//! |---|---|
//! | `worker` | what belongs to a thread |
//! | `client` | a client that is connected: a request context and a connection |
//! | `request_context` | what a request is decided, fetched and logged by |
//! | `downstream` | a client's connection, and its state |
//! | `live`, `followers` | the configuration in force, and the workers that have taken it up |
//! | `destination`, `original` | where a request goes; where an intercepted client wanted to go |
//! | `kernel_forward` | a client's connection to a server between which the kernel forwards |
//! | `request_log`, `log_line` | what is noted of a request; its line and its counts |
//! | `idle`, `tunnels`, `pace` | sessions that wait, tunnels, and pacing classes of a client |
pub mod client;
pub mod destination;
pub mod downstream;
pub mod followers;
pub mod idle;
pub mod kernel_forward;
pub mod live;
pub mod log_line;
pub mod original;
pub mod pace;
pub mod pinned;
pub mod request_context;
pub mod request_log;
pub mod tunnels;
pub mod worker;
