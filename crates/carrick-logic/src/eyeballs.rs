//! Happy eyeballs (RFC 8305): in which order, and how far apart, the addresses of a name are tried.
use std::net::IpAddr;
use std::time::Duration;

/// How long an attempt is waited for before the next starts beside it (RFC 8305 section 8: 250 ms recommended).
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Most addresses that are tried for one connection.
pub const ATTEMPTS_MAX: usize = 6;

/// Orders resolved addresses: the families alternate, IPv6 first, each family in its given order, doubles removed, at most [`ATTEMPTS_MAX`].
#[must_use]
pub fn order(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let _ = addresses;
    todo!()
}
