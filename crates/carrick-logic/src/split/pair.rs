//! Pairs of networks: what is learned of one connection holds for others between the same networks.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;

/// How long the prefixes of networks are, in bits. The defaults are those that routes of the Internet have at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefixes {
    /// Of IPv4 networks; what is over 32 counts as 32.
    pub v4: u8,
    /// Of IPv6 networks; what is over 128 counts as 128.
    pub v6: u8,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { v4: 24, v6: 48 }
    }
}

/// A client's network and a server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// The client's.
    pub client: IpNet,
    /// The server's.
    pub server: IpNet,
}

impl Pair {
    /// The networks of these addresses.
    #[must_use]
    pub fn of(client: IpAddr, server: IpAddr, prefixes: Prefixes) -> Self {
        Self {
            client: network(client, prefixes),
            server: network(server, prefixes),
        }
    }
}

fn network(address: IpAddr, prefixes: Prefixes) -> IpNet {
    let network = match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Net::new(address, prefixes.v4.min(32)).map(IpNet::V4),
        IpAddr::V6(address) => Ipv6Net::new(address, prefixes.v6.min(128)).map(IpNet::V6),
    };
    // Fails only for more bits than an address has.
    network.map_or(IpNet::from(address), |network| network.trunc())
}
