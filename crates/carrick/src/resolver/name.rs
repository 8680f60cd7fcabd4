//! Classifies a host: an address literal, a name with a fixed address, or a name in normal form.
use super::{NamedBy, ResolveError};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

/// Most bytes of a name without its final dot (RFC 1035 section 2.3.4: 255 with the lengths of labels).
const NAME_BYTES_MAX: usize = 253;

/// Most bytes of a label (RFC 1035 section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

static LOOPBACK: LazyLock<Arc<[IpAddr]>> = LazyLock::new(|| {
    Arc::from([
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ])
});

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Host<'a> {
    /// Known without a look-up.
    Addresses(Arc<[IpAddr]>),
    /// Lower case. Without a final dot, except for a name of one label that search domains must not complete.
    Name(Cow<'a, str>),
}

impl<'a> Host<'a> {
    /// Search domains complete only what the configuration names, and not if it ends with a dot: rules for the names that
    /// clients give are checked for the names as given.
    pub fn parse(host: &'a str, named_by: NamedBy) -> Result<Self, ResolveError> {
        let literal = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        if let Ok(address) = literal.parse::<IpAddr>() {
            return Ok(Self::Addresses(Arc::from([address])));
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        if !is_name(name) {
            return Err(ResolveError::Invalid);
        }
        let name = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        };
        // RFC 6761 section 6.3: name servers are never asked for it.
        if name == "localhost" || name.ends_with(".localhost") {
            return Ok(Self::Addresses(Arc::clone(&LOOPBACK)));
        }
        let is_relative = named_by == NamedBy::Configuration && name.len() == host.len();
        Ok(Self::Name(if is_relative || name.contains('.') {
            name
        } else {
            Cow::Owned(format!("{name}."))
        }))
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label) && !ends_in_number(name)
}

/// Letters, digits, hyphens, and the underscores that are used in practice. No byte beyond ASCII: internationalized
/// names are `xn--` labels (RFC 5890).
fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    (1..=LABEL_BYTES_MAX).contains(&bytes.len())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Some resolvers take `127.1`, `2130706433`, `0x7f.0.0.1` for IPv4 addresses and others for names, which attackers use
/// against address rules. No top-level domain is a number.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_hexadecimal = last
        .strip_prefix("0x")
        .or_else(|| last.strip_prefix("0X"))
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit())
}
