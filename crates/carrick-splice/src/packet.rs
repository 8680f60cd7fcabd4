//! The packet engine: IP-level splices by BPF programs at the tc hooks of the network interfaces.

#[allow(unused_imports, reason = "the engine is what uses them")]
#[cfg_attr(not(test), allow(dead_code, reason = "likewise"))]
pub(crate) mod hooks;
