//! Connections whose bytes are not interpreted: CONNECT, upgrades, tunnels, the splitter, and links.
pub mod by_name;
mod copied;
pub mod link;
mod notes;
pub mod split;
pub mod tunnel;
