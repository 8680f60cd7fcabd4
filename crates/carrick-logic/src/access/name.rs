//! Patterns for host names, as configurations write them.
#[cfg(test)]
mod tests;

use super::literal::{
    LABEL_BYTES_MAX, Literal, NAME_BYTES_MAX, parse_ip_literal, without_final_dot,
};
use std::net::IpAddr;

/// A name pattern as configurations write it: `www.example.org`, `*.example.org` (any depth below, not the name itself),
/// `.example.org` (the name itself and any depth below, as Squid and nginx read it), or `*` (everything).
///
/// An address is a pattern, too, and matches that address however it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(Kind);

/// Names are kept in lower case without a final dot.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Any,
    Exact(Box<str>),
    Below(Box<str>),
    ExactOrBelow(Box<str>),
    Address(IpAddr),
}

/// What a pattern matches, for those who compare names by themselves: in lower case without a final dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameShape<'a> {
    /// Every name.
    Any,
    /// This one.
    Exact(&'a str),
    /// What is below it.
    Below(&'a str),
    /// It, and what is below it.
    ExactOrBelow(&'a str),
    /// This address, however it is written.
    Address(IpAddr),
}

impl NamePattern {
    /// What it matches.
    #[must_use]
    pub fn shape(&self) -> NameShape<'_> {
        match &self.0 {
            Kind::Any => NameShape::Any,
            Kind::Exact(name) => NameShape::Exact(name),
            Kind::Below(name) => NameShape::Below(name),
            Kind::ExactOrBelow(name) => NameShape::ExactOrBelow(name),
            Kind::Address(address) => NameShape::Address(*address),
        }
    }

    /// Parses a pattern; names are compared without case, a final dot is ignored.
    ///
    /// # Errors
    /// Says in words what is wrong with the pattern and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self(Kind::Any));
        }
        if let Some(name) = text.strip_prefix("*.") {
            return Ok(Self(Kind::Below(checked_name(text, name)?)));
        }
        if let Some(name) = text.strip_prefix('.') {
            return Ok(Self(Kind::ExactOrBelow(checked_name(text, name)?)));
        }
        match parse_ip_literal(text.as_bytes()) {
            Literal::Ip(address) => Ok(Self(Kind::Address(address.to_canonical()))),
            Literal::Name | Literal::Odd => Ok(Self(Kind::Exact(checked_name(text, text)?))),
        }
    }

    /// Whether `name` matches: a host without its port, IPv6 addresses with or without brackets.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let name_bare = without_final_dot(name);
        match &self.0 {
            Kind::Any => true,
            Kind::Exact(exact) => name_bare.eq_ignore_ascii_case(exact.as_bytes()),
            Kind::Below(suffix) => is_below(name_bare, suffix),
            Kind::ExactOrBelow(suffix) => {
                name_bare.eq_ignore_ascii_case(suffix.as_bytes()) || is_below(name_bare, suffix)
            }
            Kind::Address(address) => {
                matches!(parse_ip_literal(name), Literal::Ip(named) if named.to_canonical() == *address)
            }
        }
    }

    /// Whether it is `*`.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.0 == Kind::Any
    }

    /// Whether every name that `narrower` matches is matched by `self`, too.
    #[must_use]
    pub fn covers(&self, narrower: &Self) -> bool {
        match (&self.0, &narrower.0) {
            (Kind::Any, _) => true,
            (Kind::Address(address), Kind::Address(other)) => address == other,
            (Kind::Exact(_) | Kind::Below(_) | Kind::ExactOrBelow(_), Kind::Exact(name)) => {
                self.matches(name.as_bytes())
            }
            (Kind::Below(suffix) | Kind::ExactOrBelow(suffix), Kind::Below(other)) => {
                suffix == other || is_below(other.as_bytes(), suffix)
            }
            (Kind::Below(suffix), Kind::ExactOrBelow(other)) => is_below(other.as_bytes(), suffix),
            (Kind::ExactOrBelow(suffix), Kind::ExactOrBelow(other)) => {
                suffix == other || is_below(other.as_bytes(), suffix)
            }
            _ => false,
        }
    }
}

/// Whether `name` is a label or more, a dot, and `suffix`.
fn is_below(name: &[u8], suffix: &str) -> bool {
    let Some(dot) = name.len().checked_sub(suffix.len() + 1) else {
        return false;
    };
    dot > 0 && name[dot] == b'.' && name[dot + 1..].eq_ignore_ascii_case(suffix.as_bytes())
}

/// The name of a pattern in the form that is compared, or what is wrong with it.
fn checked_name(pattern: &str, name: &str) -> Result<Box<str>, String> {
    match parse_ip_literal(name.as_bytes()) {
        Literal::Name => Ok(name
            .strip_suffix('.')
            .unwrap_or(name)
            .to_ascii_lowercase()
            .into()),
        Literal::Ip(address) => Err(format!(
            "{pattern:?} has an address after the dot; write \"{address}\" alone"
        )),
        Literal::Odd => Err(format!("{pattern:?} {}", fault(name))),
    }
}

/// What keeps `name` from being a host name, with what would be right.
fn fault(name: &str) -> String {
    let bare = name.strip_suffix('.').unwrap_or(name);
    if bare.is_empty() {
        return "has no name; write a name, \"*.example.org\" or \"*\"".to_owned();
    }
    if name.contains("://") || name.contains('/') {
        return "is more than a host name; leave out the scheme and the path".to_owned();
    }
    if name.contains('*') {
        return "has a * that is not alone in front of the first dot; write \"*.example.org\", or \"*\" for every name"
            .to_owned();
    }
    if let Some((host, port)) = name.rsplit_once(':')
        && (!host.contains(':') || host.ends_with(']'))
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return "has a port; leave it out, names match on every port".to_owned();
    }
    if !name.is_ascii() {
        return "has letters outside ASCII; write the name as DNS has it, beginning with \"xn--\""
            .to_owned();
    }
    let is_strange =
        |byte: u8| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_' | b'.' | b':');
    if let Some(strange) = name.bytes().find(|&byte| is_strange(byte)) {
        let strange = char::from(strange);
        return format!("has {strange:?}; a host name has letters, digits, \"-\", \"_\" and dots");
    }
    if name.contains(':') {
        return "is not an IPv6 address; write it as 2001:db8::1, without a zone".to_owned();
    }
    if bare.split('.').any(str::is_empty) {
        return "has two dots in a row, or a dot too many at an end".to_owned();
    }
    if bare.len() > NAME_BYTES_MAX || bare.split('.').any(|label| label.len() > LABEL_BYTES_MAX) {
        return format!(
            "is too long; a host name has at most {NAME_BYTES_MAX} letters, {LABEL_BYTES_MAX} between two dots"
        );
    }
    "ends in a number, and is not an address in its usual form; write it as 192.0.2.1".to_owned()
}
