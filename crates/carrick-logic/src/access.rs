//! Who may ask, and for what: clients by network, destinations by port, name and address.
use ipnet::IpNet;
use std::net::IpAddr;

/// A name pattern as configurations write it: `www.example.org`, `*.example.org` (any depth below, not the name itself), or `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {}

impl NamePattern {
    /// Parses a pattern; names are compared without case, a final dot is ignored.
    ///
    /// # Errors
    /// Says in words what is wrong with the pattern and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let _ = text;
        todo!()
    }

    /// Whether `name` matches.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let _ = name;
        todo!()
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
        let _ = client;
        todo!()
    }

    /// Checks what is known before resolution: the port (only for `CONNECT`) and the name.
    ///
    /// # Errors
    /// Why it is denied.
    pub fn check_name(&self, host: &[u8], port: u16, connect: bool) -> Result<(), Denied> {
        let _ = (host, port, connect);
        todo!()
    }

    /// Checks one resolved address. IPv4-mapped, NAT64 (`64:ff9b::/96`) and 6to4 forms of a denied IPv4 address are denied, too.
    ///
    /// # Errors
    /// Why it is denied.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Denied> {
        let _ = address;
        todo!()
    }
}
