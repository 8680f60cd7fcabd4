//! Which connections are the control group, and which explore: a share of them, by a hash of their addresses and ports.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

/// What a connection is chosen for: one that is chosen for one thing is not likelier to be chosen for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// To be joined, so that split ones can be compared with it.
    Control = 1,
    /// To go the other way than the pair's others.
    Explore = 2,
}

/// Any constant: the choice is to be the same after a restart.
const KEY: u64 = 0x6361_7272_6963_6b05;

/// Whether the connection between these is among a share of all (0 to 1), which is the same each time it is asked.
#[must_use]
pub fn is_chosen(client: SocketAddr, server: SocketAddr, purpose: Purpose, share: f64) -> bool {
    let mut hasher = SipHasher13::new_with_keys(KEY, purpose as u64);
    for address in [client, server] {
        let ip = match address.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        hasher.write(&ip.octets());
        hasher.write(&address.port().to_be_bytes());
    }
    // 53 bits are what a float holds.
    let place = (hasher.finish() >> 11) as f64 / (1u64 << 53) as f64;
    place < share
}
