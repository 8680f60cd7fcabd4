//! From a SYN to a client who is served: listening sockets, the PROXY header, who may come in, deferred SYNs, and which job a connection gets.
pub mod arrival;
pub mod listen;
pub mod syn_defer;
