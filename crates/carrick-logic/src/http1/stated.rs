//! What proxies state of a request's client: the lists in `Forwarded` (RFC 7239) and `X-Forwarded-For`, element by element.
use super::{Field, FieldName, Refusal, RequestHead, syntax};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Most proxies in a row, each of which is trusted, that a request may have come through.
pub const TRUSTED_HOPS_MAX: usize = 32;

/// The field in which trusted proxies name the client. Only one is believed: most proxies write one, and pass on what clients
/// say in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatedIn {
    /// `X-Forwarded-For`
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239)
    Forwarded,
}

/// Who a proxy says that it has its request from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// This address; port 0: it does not say which.
    Address(SocketAddr),
    /// A hidden sender: `unknown`, or a name that begins with `_`.
    Hidden,
    /// Nothing that can be read.
    Malformed,
}

/// An element of `Forwarded`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) node: Node,
    pub(super) host: Option<Vec<u8>>,
    pub(super) proto: Option<Vec<u8>>,
}

impl Element {
    pub(super) fn of(node: Node) -> Self {
        Self {
            node,
            host: None,
            proto: None,
        }
    }
}

const MALFORMED: Refusal = Refusal::bad(
    "bad_forwarded",
    "a trusted proxy names a client that cannot be read, in Forwarded or X-Forwarded-For; it is an address, with or without port, `unknown`, or a name that begins with `_` (RFC 7239 section 6)",
);

impl RequestHead {
    /// The client of a request that a trusted proxy has sent: the last address in the list that is no trusted proxy's. If all are, the
    /// first; if that address is hidden, the proxy that hides it. `None`: only the sender itself is named.
    ///
    /// Every element that is looked at was written by a trusted proxy, but for the last of them only as far as the client had none
    /// before it; what clients have put in front of it is never looked at. At most [`TRUSTED_HOPS_MAX`] elements are.
    ///
    /// # Errors
    /// An element that is needed is malformed, or there are more hops than that.
    pub fn stated_client(
        &self,
        bytes: &[u8],
        field: StatedIn,
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> Result<Option<SocketAddr>, Refusal> {
        let is_meant = |line: &&Field| line.known == field.field();
        let (mut client, mut hops) = (None, 0);
        for line in self.fields.iter().rev().filter(is_meant) {
            let value = line.value.of(bytes);
            // The last one first.
            let nodes: Vec<Node> = match field {
                StatedIn::XForwardedFor => last_nodes(value).collect(),
                StatedIn::Forwarded => last_elements(value),
            };
            for node in nodes {
                hops += 1;
                if hops > TRUSTED_HOPS_MAX {
                    return Err(Refusal::bad(
                        "bad_forwarded",
                        "the request has come through more trusted proxies than any should; is there a loop?",
                    ));
                }
                match node {
                    Node::Address(address) => {
                        client = Some(address);
                        if !is_trusted(address.ip()) {
                            return Ok(client);
                        }
                    }
                    Node::Hidden => return Ok(client),
                    Node::Malformed => return Err(MALFORMED),
                }
            }
        }
        Ok(client)
    }

    /// Forgets what is said of the client in the other form, if a trusted proxy has said it in its own: a proxy that writes one form mostly
    /// passes on what its client says in the other (RFC 7239 section 7.4). To be called after [`stated_client`](Self::stated_client).
    pub fn forget_other_form(&mut self, said_in: StatedIn) {
        if !self.says(said_in.field()) {
            return;
        }
        self.fields.retain(|field| match field.known {
            FieldName::Forwarded => said_in == StatedIn::Forwarded,
            FieldName::XForwardedFor | FieldName::XForwardedHost | FieldName::XForwardedProto => {
                said_in == StatedIn::XForwardedFor
            }
            _ => true,
        });
    }

    /// Whether the proxy that has sent the request says that its own client came by HTTPS. Only of a trusted one.
    #[must_use]
    pub fn states_https(&self, bytes: &[u8], field: StatedIn) -> bool {
        let known = match field {
            StatedIn::XForwardedFor => FieldName::XForwardedProto,
            StatedIn::Forwarded => FieldName::Forwarded,
        };
        let last = self.fields.iter().rev().find(|field| field.known == known);
        let value = last.map(|field| field.value.of(bytes)).unwrap_or_default();
        let proto = match field {
            StatedIn::XForwardedFor => syntax::elements(value).last().map(<[u8]>::to_vec),
            StatedIn::Forwarded => elements(value).last().flatten().and_then(|last| last.proto),
        };
        proto.is_some_and(|proto| proto.eq_ignore_ascii_case(b"https"))
    }

    /// Whether there is a field of this name that is not empty.
    pub(super) fn says(&self, known: FieldName) -> bool {
        (self.fields.iter()).any(|field| field.known == known && !field.value.is_empty())
    }
}

impl StatedIn {
    pub(super) fn field(self) -> FieldName {
        match self {
            Self::XForwardedFor => FieldName::XForwardedFor,
            Self::Forwarded => FieldName::Forwarded,
        }
    }
}

/// The last elements of a value of `X-Forwarded-For`, one more than are looked at, the last one first.
fn last_nodes(value: &[u8]) -> impl Iterator<Item = Node> + '_ {
    value
        .rsplit(|&byte| byte == b',')
        .map(syntax::trim)
        .filter(|element| !element.is_empty())
        .take(TRUSTED_HOPS_MAX + 1)
        .map(node)
}

/// The same of `Forwarded`: whether a comma is in quotes is known only from the beginning.
fn last_elements(value: &[u8]) -> Vec<Node> {
    let mut last = VecDeque::with_capacity(TRUSTED_HOPS_MAX + 1);
    for element in elements(value) {
        if last.len() > TRUSTED_HOPS_MAX {
            last.pop_front();
        }
        last.push_back(element.map_or(Node::Malformed, |element| element.node));
    }
    last.into_iter().rev().collect()
}

/// The elements of a value of `X-Forwarded-For`.
pub(super) fn nodes(value: &[u8]) -> impl Iterator<Item = Node> + '_ {
    syntax::elements(value).map(node)
}

/// The elements of a value of `Forwarded` (RFC 7239 section 4), `None` for one that is malformed. A value with a quote that is left open
/// is one malformed element.
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = Option<Element>> + '_ {
    let is_whole = syntax::has_closed_quotes(value);
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        loop {
            let (text, after) = cut(rest?, b',');
            rest = after.filter(|_| is_whole);
            if !is_whole {
                return Some(None);
            }
            let text = syntax::trim(text);
            if !text.is_empty() {
                return Some(element(text));
            }
        }
    })
}

/// `text` up to the first separator outside of quotes, and what follows it.
fn cut(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    let (mut in_quotes, mut escaped) = (false, false);
    for (index, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_quotes => escaped = true,
            b'"' => in_quotes = !in_quotes,
            _ if byte == separator && !in_quotes => {
                return (&text[..index], text.get(index + 1..));
            }
            _ => {}
        }
    }
    (text, None)
}

/// `for=…;by=…;host=…;proto=…`; one without `for` hides whom it has its request from.
fn element(text: &[u8]) -> Option<Element> {
    let mut found: [Option<Vec<u8>>; 3] = Default::default();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (pair, after) = cut(text, b';');
        rest = after;
        let pair = syntax::trim(pair);
        if pair.is_empty() {
            continue;
        }
        let equals = memchr::memchr(b'=', pair)?;
        let (name, value) = (&pair[..equals], parameter(&pair[equals + 1..])?);
        if !syntax::is_token(name) {
            return None;
        }
        let names: [&[u8]; 3] = [b"for", b"host", b"proto"];
        let wanted = names
            .iter()
            .position(|known| name.eq_ignore_ascii_case(known));
        if let Some(wanted) = wanted.and_then(|index| found.get_mut(index))
            && wanted.replace(value).is_some()
        {
            return None;
        }
    }
    let [node, host, proto] = found;
    Some(Element {
        node: node.map_or(Node::Hidden, |text| self::node(&text)),
        host,
        proto,
    })
}

/// A token, or a quoted string without its quotes and escapes.
fn parameter(text: &[u8]) -> Option<Vec<u8>> {
    let [b'"', inside @ .., b'"'] = text else {
        // Many write an address with its port, or in brackets, without the quotes that these require.
        let is_bare = |&byte: &u8| syntax::is_token_byte(byte) || b":[]".contains(&byte);
        return (!text.is_empty() && text.iter().all(is_bare)).then(|| text.to_vec());
    };
    let mut value = Vec::with_capacity(inside.len());
    let mut escaped = false;
    for &byte in inside {
        match byte {
            b'\\' if !escaped => escaped = true,
            b'"' if !escaped => return None,
            _ => {
                escaped = false;
                value.push(byte);
            }
        }
    }
    (!escaped).then_some(value)
}

/// RFC 7239 section 6: an address, with or without port, or who hides. IPv6 addresses have brackets there, and mostly none in
/// `X-Forwarded-For`.
fn node(text: &[u8]) -> Node {
    if text.eq_ignore_ascii_case(b"unknown") || text.to_ascii_lowercase().starts_with(b"unknown:") {
        return Node::Hidden;
    }
    if let [b'_', rest @ ..] = text {
        let is_name = |&byte: &u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
        let hides = !rest.is_empty() && rest.iter().all(is_name);
        return if hides { Node::Hidden } else { Node::Malformed };
    }
    address(text).map_or(Node::Malformed, Node::Address)
}

fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (ip, port): (IpAddr, &str) = if let Some(inside) = text.strip_prefix('[') {
        let (ip, after) = inside.split_once(']')?;
        (ip.parse::<Ipv6Addr>().ok()?.into(), after)
    } else if let Ok(ip) = text.parse::<IpAddr>() {
        (ip, "")
    } else {
        let colon = text.find(':')?;
        let (ip, port) = text.split_at(colon);
        (ip.parse::<std::net::Ipv4Addr>().ok()?.into(), port)
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => 0,
        // An obfuscated port (RFC 7239 section 6.3) is none to us.
        Some(hidden) if hidden.len() > 1 && hidden.starts_with('_') => 0,
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            digits.parse().ok()?
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests;
