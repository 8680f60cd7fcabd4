//! Who may ask, and for what: clients by network, destinations by port, name and address.

mod embedded;
mod inner;
mod literal;
mod name;
#[cfg(test)]
mod tests;

pub use inner::inner_networks;
pub use literal::{Literal, parse_ip_literal};
pub use name::{NamePattern, NameShape};

use embedded::{EMBEDDING, EmbeddedAddresses, loopback_of_unspecified};
use ipnet::{IpNet, Ipv4Net};
use std::net::{IpAddr, Ipv6Addr};

/// The network that limits on one client count as one: who has an IPv6 address mostly has all of its /64 (RFC 6177). IPv4-mapped
/// addresses count as IPv4.
#[must_use]
pub fn network_of_client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// Why a destination is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Denied {
    #[error("CONNECT to this port is not allowed here")]
    Port,
    #[error("this destination's name is not allowed here")]
    Name,
    #[error("this destination's address is not allowed here")]
    Address,
    #[error(
        "this is neither a host name nor an address in its usual form; write 192.0.2.1 or [2001:db8::1]"
    )]
    Form,
}

/// The access rules of a forward listener.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Networks that clients may come from; empty: all.
    pub clients: Vec<IpNet>,
    /// Ports that `CONNECT` may name; empty: all.
    pub connect_ports: Vec<u16>,
    /// Networks that must not be connected to, checked after name resolution.
    pub deny_networks: Vec<IpNet>,
    /// Names that must not be connected to.
    pub deny_names: Vec<NamePattern>,
}

impl Access {
    /// Whether a client at this address may use the listener. IPv4-mapped IPv6 addresses count as IPv4.
    #[must_use]
    pub fn allows_client(&self, client: IpAddr) -> bool {
        self.clients.is_empty() || contains(&self.clients, client.to_canonical())
    }

    /// Checks what is known before resolution: the port (only for `CONNECT`) and the name.
    ///
    /// An address literal is checked as [`check_address`](Self::check_address) does. What is neither a literal in its
    /// usual form nor a host name ([`Literal::Odd`]) is always refused: resolvers and clients read such forms
    /// differently, and a rule that one of them sidesteps is none.
    ///
    /// # Errors
    /// Why it is denied.
    pub fn check_name(&self, host: &[u8], port: u16, connect: bool) -> Result<(), Denied> {
        if connect && !self.allows_connect_port(port) {
            return Err(Denied::Port);
        }
        match parse_ip_literal(host) {
            Literal::Odd => return Err(Denied::Form),
            Literal::Ip(address) => self.check_address(address)?,
            Literal::Name => {}
        }
        if self.deny_names.iter().any(|pattern| pattern.matches(host)) {
            return Err(Denied::Name);
        }
        Ok(())
    }

    /// Port 0 cannot be connected to, so it is never allowed: a list of only that port allows none.
    fn allows_connect_port(&self, port: u16) -> bool {
        port != 0 && (self.connect_ports.is_empty() || self.connect_ports.contains(&port))
    }

    /// Checks one resolved address.
    ///
    /// Denied is also what leads to a denied address by another way: IPv4-mapped, IPv4-compatible and IPv4-translated
    /// forms, NAT64 (`64:ff9b::/96`, and `64:ff9b:1::/48` in each way that RFC 6052 section 2.2 lets it be read), 6to4,
    /// Teredo and ISATAP addresses that embed a denied IPv4 address; and `0.0.0.0` and `::`, which Linux connects to loopback.
    ///
    /// # Errors
    /// Why it is denied.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Denied> {
        let denied = |address| contains(&self.deny_networks, address);
        let leads_to =
            |address| denied(address) || loopback_of_unspecified(address).is_some_and(denied);
        let embedded = match address {
            IpAddr::V4(_) => EmbeddedAddresses::default(),
            IpAddr::V6(address) => EmbeddedAddresses::of(address),
        };
        if leads_to(address) || embedded.iter().any(|address| leads_to(IpAddr::V4(address))) {
            return Err(Denied::Address);
        }
        Ok(())
    }

    /// Whether these rules refuse nothing between two networks: every client of one may come, and [`check_address`](Self::check_address)
    /// denies no address of the other, but for the unspecified one, which no packet is sent to, and ISATAP addresses, which every IPv6
    /// network has. A name could lead to any address.
    #[must_use]
    pub fn allows_all_between(&self, clients: IpNet, servers: IpNet) -> bool {
        let embeds = EMBEDDING
            .map(IpNet::V6)
            .iter()
            .any(|one| overlap(one, &servers));
        let is_denied = |network: &IpNet| {
            let network = unmapped(network);
            overlap(&network, &servers) || embeds && matches!(network, IpNet::V4(_))
        };
        let mut allowed = self.clients.iter().map(unmapped);
        (self.clients.is_empty() || allowed.any(|network| network.contains(&clients)))
            && self.deny_names.is_empty()
            && !self.deny_networks.iter().any(is_denied)
    }
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// A network written as `::ffff:10.0.0.0/104` is the IPv4 network that it maps.
#[must_use]
pub fn unmapped(network: &IpNet) -> IpNet {
    let IpNet::V6(mapped) = network else {
        return *network;
    };
    let first = mapped.network().to_ipv4_mapped();
    let v4 = first.zip(mapped.prefix_len().checked_sub(96));
    let v4 = v4.and_then(|(first, prefix)| Ipv4Net::new(first, prefix).ok());
    v4.map_or(*network, IpNet::V4)
}

/// Whether one of `networks` holds `address`.
fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    let mut networks = networks.iter();
    networks.any(|network| match address {
        IpAddr::V4(_) => unmapped(network).contains(&address),
        IpAddr::V6(_) => network.contains(&address),
    })
}
