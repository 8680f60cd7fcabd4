//! Inner networks: addresses that mean something else to the proxy's machine than to its clients.
#[cfg(test)]
mod tests;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The networks that a proxy for others does not connect to by default.
///
/// These are the blocks of the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890, RFC 8190) that belong
/// to the proxy's own machine or link, that route segments of its network, or that no server can have; the
/// multicast blocks; and the addresses outside of these at which clouds give their machines credentials.
///
/// Left out are the blocks that networks use for themselves, because reaching them is what many proxies are for
/// (private use, shared address space, unique local, benchmarking, documentation), blocks that are globally reachable,
/// and blocks that embed an IPv4 address, which [`Access::check_address`](super::Access::check_address) judges by that
/// address. The tests name the reason for every block of both registries.
#[must_use]
pub fn inner_networks() -> Vec<IpNet> {
    INNER.to_vec()
}

const INNER: [IpNet; 26] = [
    // "This network", and `0.0.0.0`, which Linux connects to loopback (RFC 791 section 3.2, RFC 1122 section 3.2.1.3).
    v4([0, 0, 0, 0], 8),
    // Loopback (RFC 1122 section 3.2.1.3).
    v4([127, 0, 0, 0], 8),
    // Link-local (RFC 3927). Most clouds have their metadata here: 169.254.169.254 (AWS, Azure, Google, Oracle,
    // OpenStack, DigitalOcean, Hetzner, IBM and others), 169.254.170.2 and .23 (AWS containers), 169.254.0.23
    // and .10.10 (Tencent), 169.254.42.42 (Scaleway).
    v4([169, 254, 0, 0], 16),
    // IETF protocol assignments: ends of DS-Lite tunnels, port control and NAT64 discovery (RFC 6890 section 2.1);
    // 192.0.0.192 is the metadata of Oracle Cloud Classic.
    v4([192, 0, 0, 0], 24),
    // Relays of tunnels for IPv6 (RFC 7526, RFC 6751).
    v4([192, 88, 99, 0], 24),
    // Multicast (RFC 5771).
    v4([224, 0, 0, 0], 4),
    // Reserved, which clouds use inside, and limited broadcast (RFC 1112 section 4, RFC 8190).
    v4([240, 0, 0, 0], 4),
    // Alibaba Cloud's and Volcengine's metadata, in shared address space.
    v4([100, 100, 100, 200], 32),
    v4([100, 96, 0, 96], 32),
    // Azure's platform ("wire server"), in public address space.
    v4([168, 63, 129, 16], 32),
    // Unspecified, which Linux connects to loopback, and loopback (RFC 4291 section 2.5).
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    // Discard-only, and the dummy prefix (RFC 6666, RFC 9780).
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64),
    // The nearest NAT, relay and registrar of services (RFC 7723, RFC 8155, RFC 9665).
    v6([0x2001, 1, 0, 0, 0, 0, 0, 1], 128),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 2], 128),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 3], 128),
    // Segments of the operator's routing (RFC 9602).
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16),
    // Link-local (RFC 4291 section 2.5.6); fe80::a9fe:a9fe is OpenStack's metadata.
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    // Multicast (RFC 4291 section 2.7).
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
    // Clouds' metadata in unique local addresses: all of AWS's services, Google, Oracle, Alibaba, Scaleway, Akamai.
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
    v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128),
    v6([0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200], 128),
    v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128),
    v6([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], 128),
];

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(a, b, c, d, e, f, g, h),
        prefix,
    ))
}
