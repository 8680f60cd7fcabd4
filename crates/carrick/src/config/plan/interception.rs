//! What is intercepted for a transparent listener.
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
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

/// Ports from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRange {
    /// The lowest, at least 1.
    pub first: u16,
    /// The highest, at least `first`.
    pub last: u16,
}

impl PortRange {
    /// Every port.
    pub const ALL: Self = Self {
        first: 1,
        last: u16::MAX,
    };

    /// Whether a port is one of them.
    #[must_use]
    pub fn has(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl From<u16> for PortRange {
    fn from(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }
}

impl fmt::Display for PortRange {
    /// As nft and the configuration write it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(out, "{}", self.first)
        } else {
            write!(out, "{}-{}", self.first, self.last)
        }
    }
}
