//! IPv4 addresses inside IPv6 addresses, which a packet to the IPv6 address may end up at.
use ipnet::Ipv6Net;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most IPv4 addresses that one IPv6 address can be read as: the four layouts of a local-use NAT64 prefix.
const READINGS_MAX: usize = 4;

/// The networks whose addresses embed IPv4 addresses, as [`EmbeddedAddresses::of`] reads them. ISATAP addresses are in any network.
pub(super) const EMBEDDING: [Ipv6Net; 7] = [
    v6([0, 0, 0, 0, 0, 0], 96),
    v6([0, 0, 0, 0, 0, 0xffff], 96),
    v6([0, 0, 0, 0, 0xffff, 0], 96),
    v6([0x64, 0xff9b, 0, 0, 0, 0], 96),
    v6([0x64, 0xff9b, 1, 0, 0, 0], 48),
    v6([0x2002, 0, 0, 0, 0, 0], 16),
    v6([0x2001, 0, 0, 0, 0, 0], 32),
];

const fn v6([a, b, c, d, e, f]: [u16; 6], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, 0, 0), prefix)
}

/// The IPv4 addresses that an IPv6 address may lead to.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct EmbeddedAddresses([Option<Ipv4Addr>; READINGS_MAX]);

impl EmbeddedAddresses {
    /// Reads `address` by the prefixes that embed IPv4 addresses.
    pub(super) fn of(address: Ipv6Addr) -> Self {
        let octets = address.octets();
        let pick = |places: [usize; 4]| Some(Ipv4Addr::from(places.map(|place| octets[place])));
        let last = pick([12, 13, 14, 15]);
        match address.segments() {
            // `::` and `::1` are no IPv4-compatible addresses (RFC 4291 section 2.5.5.1).
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Self::default(),
            // IPv4-compatible, IPv4-mapped (RFC 4291 section 2.5.5) and IPv4-translated (RFC 2765 section 2.1).
            [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] => Self::one(last),
            // NAT64, the well-known prefix (RFC 6052 section 2.1).
            [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Self::one(last),
            // NAT64, local use (RFC 8215): the operator may have chosen any prefix length from 48 on, and the octets
            // around the address are ignored by translators, so nothing here says which layout it is.
            [0x64, 0xff9b, 1, 0, 0, 0, _, _] => Self::one(last),
            [0x64, 0xff9b, 1, _, _, _, _, _] => Self([
                pick([6, 7, 9, 10]),
                pick([7, 9, 10, 11]),
                pick([9, 10, 11, 12]),
                last,
            ])
            .without_hostless(),
            // 6to4 (RFC 3056 section 2).
            [0x2002, _, _, _, _, _, _, _] => Self::one(pick([2, 3, 4, 5])),
            // Teredo: the client's address, every bit inverted (RFC 4380 section 4).
            [0x2001, 0, _, _, _, _, _, _] => {
                Self::one(last.map(|address| Ipv4Addr::from(!u32::from(address))))
            }
            // ISATAP, below any prefix (RFC 5214 section 6.1).
            [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => Self::one(last),
            _ => Self::default(),
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.0.iter().flatten().copied()
    }

    fn one(address: Option<Ipv4Addr>) -> Self {
        Self([address, None, None, None])
    }

    /// Leaves out readings in `0.0.0.0/8` and `224.0.0.0/4`, where translators send no TCP: the bytes of one layout are read
    /// as such addresses in the others, and would deny much of the prefix to those who deny these networks.
    fn without_hostless(self) -> Self {
        let has_hosts = |address: &Ipv4Addr| address.octets()[0] != 0 && !address.is_multicast();
        Self(self.0.map(|reading| reading.filter(has_hosts)))
    }
}

/// The address that Linux connects to for the unspecified address (`ip_route_output_key_hash_rcu`,
/// `tcp_v6_connect`).
pub(super) fn loopback_of_unspecified(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Some(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        _ => None,
    }
}
