//! Happy eyeballs (RFC 8305): in which order, and how far apart, the addresses of a name are tried.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

/// How long an attempt is waited for before the next starts beside it (RFC 8305 section 8: 250 ms recommended).
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Most addresses that are tried for one connection.
pub const ATTEMPTS_MAX: usize = 6;

/// Orders resolved addresses: the families alternate, IPv6 first, each family in its given order, doubles removed, at most [`ATTEMPTS_MAX`].
///
/// IPv4-mapped IPv6 addresses count as the IPv4 addresses that they are.
#[must_use]
pub fn order(addresses: &[IpAddr]) -> Vec<IpAddr> {
    // RFC 8305 section 4, with a First Address Family Count of 1.
    let mut families = [Family::default(), Family::default()];
    for address in addresses.iter().map(IpAddr::to_canonical) {
        families[usize::from(address.is_ipv4())].add(address);
    }
    let [v6, v4] = families.map(|family| family.0);
    let longest = v6.len().max(v4.len());
    let alternating = (0..longest).flat_map(|place| [v6.get(place), v4.get(place)]);
    alternating.flatten().take(ATTEMPTS_MAX).copied().collect()
}

/// Addresses of one family, each once, no more than could be tried.
#[derive(Default)]
struct Family(Vec<IpAddr>);

impl Family {
    fn add(&mut self, address: IpAddr) {
        if self.0.len() < ATTEMPTS_MAX && !self.0.contains(&address) {
            self.0.push(address);
        }
    }
}
