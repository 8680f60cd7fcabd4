//! From a SYN to an admitted client: listening sockets, PROXY header, access, TLS, deferred SYNs, and the start of the listener's job.
pub mod arrival;
pub mod listen;
pub mod syn_defer;
pub mod tls;
