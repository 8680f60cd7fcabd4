//! Whether a host is an address or a name, told apart as strictly as the strictest reader does.
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most bytes of a host name, without its final dot (RFC 1035 section 2.3.4).
pub(super) const NAME_BYTES_MAX: usize = 253;

/// Most bytes between two dots of a host name.
pub(super) const LABEL_BYTES_MAX: usize = 63;

/// What stands in a host's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal {
    /// An address in its usual form: four decimal numbers, or IPv6 with or without brackets.
    Ip(IpAddr),
    /// Neither an address in its usual form nor a host name.
    ///
    /// `2130706433`, `0x7f.1`, `127.1`, `0177.0.0.1`, `127.0.0.1.` and `fe80::1%eth0` are addresses to some resolvers
    /// (`inet_aton`, the URL standard) and not to others; names with bytes that host names cannot have are read
    /// differently, too. They are to be refused, not guessed at.
    Odd,
    /// A host name of letters, digits, `-` and `_`, with or without a final dot.
    Name,
}

/// Tells an address from a name, without looking anything up.
///
/// A name whose last label is a number is [`Literal::Odd`], as in the URL standard's "ends in a number" check: no such
/// top-level domain exists, and what `inet_aton` takes for an address is among them.
#[must_use]
pub fn parse_ip_literal(host: &[u8]) -> Literal {
    let Ok(text) = std::str::from_utf8(host) else {
        return Literal::Odd;
    };
    let bracketed = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Ok(address) = bracketed.unwrap_or(text).parse::<Ipv6Addr>() {
        return Literal::Ip(IpAddr::V6(address));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Literal::Ip(IpAddr::V4(address));
    }
    let name = without_final_dot(host);
    if is_name(name) && !ends_in_number(name) {
        Literal::Name
    } else {
        Literal::Odd
    }
}

/// A name without the dot that says that it is complete.
pub(super) fn without_final_dot(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".").unwrap_or(name)
}

/// Labels of letters, digits, `-` and `_` (which DNS has and host names use), none empty or too long.
fn is_name(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.split(|&byte| byte == b'.').all(|label| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label
                    .iter()
                    .all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        })
}

fn ends_in_number(name: &[u8]) -> bool {
    let last = name.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
    match last {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => digits.iter().all(u8::is_ascii_digit),
    }
}
