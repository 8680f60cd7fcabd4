//! The packet engine: IP-level splices by BPF programs at the tc hooks of the network interfaces.

#[cfg_attr(
    not(test),
    allow(dead_code, unused_imports, reason = "the engine is what uses them")
)]
pub(crate) mod hooks;
