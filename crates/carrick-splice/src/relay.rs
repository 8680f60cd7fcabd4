//! Relaying in the process: takes bytes from one socket and writes them to another, by copying or through a
//! pipe.

pub(crate) mod flow;
pub(crate) mod local_copy;
pub(crate) mod pipe;
pub(crate) mod pool;
pub(crate) mod sockmap_splice;
pub(crate) mod stalls;
pub(crate) mod watch;
