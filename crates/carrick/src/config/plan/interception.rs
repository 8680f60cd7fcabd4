//! What is intercepted for a transparent listener.
pub use crate::config::file::PortRange;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// `transparent = true` and what belongs to it: whose connections come to the listener, and by which rules in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interception {
    /// The listener.
    pub listener: SocketAddr,
    /// Ports of the destinations; none: nothing is led to the listener but servers' answers to what has clients' addresses.
    pub ports: Vec<PortRange>,
    /// Of these, those that are left alone.
    pub except_ports: Vec<PortRange>,
    /// Where packets come in; empty: everywhere.
    pub interfaces: Vec<String>,
    /// Clients; empty: all.
    pub from: Vec<IpNet>,
    /// Destinations; empty: all.
    pub to: Vec<IpNet>,
    /// Clients and destinations that are left alone.
    pub except: Vec<IpNet>,
    /// The mark of the packets.
    pub mark: u32,
    /// Their routing table.
    pub table: u32,
    /// Whether connections to servers have the client's address.
    pub keeps_client: bool,
    /// Whether connections of this machine's own programs are intercepted, and how.
    pub local: Option<LocalInterception>,
}

/// `local = true`: programs of this machine are clients as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalInterception {
    /// The mark of their packets.
    pub mark: u32,
    /// For how many seconds a connection on which nothing is said is known.
    pub idle_seconds: u64,
}

impl Interception {
    /// Whether IPv4 is intercepted.
    #[must_use]
    pub fn takes_v4(&self) -> bool {
        match self.listener.ip() {
            IpAddr::V4(_) => true,
            // The far end of a link has servers of either family.
            IpAddr::V6(_) if self.ports.is_empty() => true,
            // `[::]` takes both.
            IpAddr::V6(address) => address.is_unspecified(),
        }
    }

    /// Whether IPv6 is intercepted.
    #[must_use]
    pub fn takes_v6(&self) -> bool {
        self.listener.is_ipv6() || self.ports.is_empty()
    }

    /// Whether connections to this port are intercepted.
    #[must_use]
    pub fn takes_port(&self, port: u16) -> bool {
        let has = |ranges: &[PortRange]| ranges.iter().any(|range| range.has(port));
        has(&self.ports) && !has(&self.except_ports)
    }
}
