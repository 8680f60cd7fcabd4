//! The PROXY protocol, versions 1 and 2 (the specification is HAProxy's `proxy-protocol.txt`).
//!
//! Strict, and the same however the bytes are split into reads: the parsers of the registry give up where a read ends
//! between two fields, and take ports such as `+80`.

#[cfg(test)]
mod tests;
mod version_1;
mod version_2;

use std::net::{IpAddr, SocketAddr};

/// What a PROXY header says of the connection. What was read has no IPv4-mapped addresses, but IPv4 ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// The client's address.
    pub source: SocketAddr,
    /// The address that the client connected to.
    pub destination: SocketAddr,
}

/// Result of looking for a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// A header of this many bytes; no endpoints for `UNKNOWN`, `LOCAL`, Unix sockets and datagrams.
    Complete(usize, Option<Endpoints>),
    /// More bytes are needed.
    Partial,
}

/// Most bytes of a header that are accepted.
pub const HEADER_BYTES_MAX: usize = 4096;

/// Reads the header at the start of `bytes`. More bytes never change an answer other than [`Header::Partial`].
///
/// # Errors
/// Says what is wrong; the connection is to be closed without an answer.
pub fn read(bytes: &[u8]) -> Result<Header, &'static str> {
    let header = match bytes.first() {
        None => Header::Partial,
        Some(b'P') => version_1::read(bytes)?,
        Some(_) => version_2::read(bytes)?,
    };
    Ok(match header {
        Header::Partial => Header::Partial,
        Header::Complete(length, endpoints) => {
            Header::Complete(length, endpoints.map(Endpoints::to_canonical))
        }
    })
}

impl Endpoints {
    /// With IPv4-mapped addresses as the IPv4 addresses that they are.
    fn to_canonical(self) -> Self {
        let canonical =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Self {
            source: canonical(self.source),
            destination: canonical(self.destination),
        }
    }
}

/// Appends a version 2 header (or version 1 where `version_1`) to `out`.
///
/// IPv4-mapped addresses are written as IPv4. If the two addresses are of different families, the IPv4 one is written as
/// an IPv4-mapped IPv6 address.
pub fn write(out: &mut Vec<u8>, endpoints: &Endpoints, version_1: bool) {
    let Endpoints {
        source,
        destination,
    } = endpoints.to_canonical();
    let addresses = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4([source, destination]),
        (source, destination) => {
            Addresses::V6([source, destination].map(|address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            }))
        }
    };
    let ports = [source.port(), destination.port()];
    if version_1 {
        version_1::write(out, &addresses, ports);
    } else {
        version_2::write(out, &addresses, ports);
    }
}

/// Appends the header of a connection that is the proxy's own, such as a health check's: `LOCAL`, or `UNKNOWN` in version 1.
pub fn write_local(out: &mut Vec<u8>, version_1: bool) {
    if version_1 {
        version_1::write_unknown(out);
    } else {
        version_2::write_local(out);
    }
}

/// Source and destination, of one family.
enum Addresses {
    V4([std::net::Ipv4Addr; 2]),
    V6([std::net::Ipv6Addr; 2]),
}

/// Whether `bytes` begins with `expected`, as far as it goes.
fn agrees(bytes: &[u8], expected: &[u8]) -> bool {
    bytes.iter().zip(expected).all(|(a, b)| a == b)
}
