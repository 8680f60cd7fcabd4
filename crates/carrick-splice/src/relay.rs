//! Relaying in the process: bytes are taken from one socket and put into another, by copying or by pipe.

pub(crate) mod flow;
pub(crate) mod local_copy;
pub(crate) mod pipe;
pub(crate) mod pool;
pub(crate) mod sockmap_splice;
pub(crate) mod stalls;
pub(crate) mod watch;
