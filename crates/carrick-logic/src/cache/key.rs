//! The bytes that name a resource in a cache (RFC 9111 section 2), and which requests have none.
//!
//! Two requests have the same key only if they ask the same servers for the same thing. Whoever can make a server answer
//! one thing and have it stored under the name of another poisons the cache, so the key is written from what is sent on:
//!
//! - Scheme, host and port are in their usual form (RFC 3986 sections 6.2.2.1 and 6.2.3). They are those of the target; a
//!   `Host` that says something else reaches nobody (RFC 9112 section 3.2.2).
//! - Path and query are as they were sent, byte for byte. Section 6.2.2 of RFC 3986 would let `%7e` be `~` and `/a/../b`
//!   be `/b`; but routes compare what was sent, and so do many servers: an answer to one spelling, such as a 404, would be
//!   kept for the other. A path with dot segments, which clients resolve before they send it, has no key.
//! - Of the fields only those are in it that [`KeyRules`] name, with the length of each value before it. What varies with
//!   others is the business of [`Variant`](super::Variant).
#[cfg(test)]
mod tests;

mod query;

use super::{Fields, Uri};
use crate::http1::{RequestHead, Target, syntax};
use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr};

/// What is in the key, where the configuration says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRules {
    /// The part of the query.
    pub query: KeyQuery,
    /// Names of fields, lower-case, whose values are in the key.
    pub headers: Vec<Vec<u8>>,
}

/// Which parameters of the query are in the key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KeyQuery {
    /// All, as they were sent.
    #[default]
    All,
    /// None: the server must not look at the query.
    None,
    /// Those with these names, in whatever order they come; the server must not look at others. A query that two parsers
    /// could take apart differently is in the key as a whole.
    These(Vec<Vec<u8>>),
}

/// Fields that say which URL the client meant, or which method. Servers and frameworks that believe them answer something
/// else than what was asked for. All that begin with [`GUARDED_PREFIX`] are such fields, too.
const GUARDED_FIELDS: [&[u8]; 13] = [
    b"forwarded",
    b"front-end-https",
    b"x-host",
    b"x-http-host-override",
    b"x-http-method",
    b"x-http-method-override",
    b"x-method-override",
    b"x-original-host",
    b"x-original-proto",
    b"x-original-url",
    b"x-rewrite-url",
    b"x-scheme",
    b"x-url-scheme",
];

/// What the names of further such fields begin with, but that of the field with the client's address.
const GUARDED_PREFIX: &[u8] = b"x-forwarded";

impl KeyRules {
    /// Whether servers may heed a field with this name, or gateways take it for such a field, and no key has it: the
    /// answer to a request that has it may not be stored.
    #[must_use]
    pub fn guards(&self, name: &[u8]) -> bool {
        let may_be = |meant: &[u8]| syntax::may_pass_for(name, meant);
        let is_forwarded = syntax::may_begin_as(name, GUARDED_PREFIX);
        let is_heeded =
            is_forwarded && !may_be(b"x-forwarded-for") || GUARDED_FIELDS.into_iter().any(may_be);
        let is_in_key = |other: &Vec<u8>| name.eq_ignore_ascii_case(other);
        is_heeded && !self.headers.iter().any(is_in_key)
    }
}

/// Who answers. The same URL is something else to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Realm<'a> {
    /// The servers of an upstream, by its name.
    Upstream(&'a str),
    /// Whoever the URL names, or a parent, as this listener of a forward proxy finds them. Another listener may be allowed
    /// to ask others.
    Listener(SocketAddr),
    /// The destination of a connection that was intercepted. `Host` is the client's word only, and whoever owns the
    /// destination could answer for any name.
    Original(SocketAddr),
}

crate::named! {
    /// Why a request has no key: the cache is not for it.
    pub enum NoKey with label {
        /// It asks for a tunnel, or for the server as a whole.
        NoResource = "no_resource",
        /// It names no host, and which one the servers take is theirs to choose.
        NoHost = "no_host",
        /// The path has `.` or `..` as a segment.
        DotSegments = "dot_segments",
    }
}

crate::named! {
    /// Why the answer to a request with a key may not be stored; what is stored already may answer it.
    pub enum NotFilled with label {
        /// The host has capital letters, a final dot, the scheme's default port or an unusual form of an address: some
        /// servers take it for another host, or write it into their answers.
        HostForm = "host_form",
        /// There is a field that [`KeyRules::guards`].
        GuardedField = "guarded_field",
        /// `Connection` names a field that would else be sent on, so that servers answer without what a key or `Vary` says
        /// that they were told.
        FieldForOneHop = "field_for_one_hop",
        /// The cache is not for this client, or not for this request.
        Bypass = "bypass",
    }
}

/// The URI that a request is for, as it goes to the servers, if it has a key.
///
/// # Errors
/// Says why the request has no key.
pub fn target_uri<'b>(head: &RequestHead, bytes: &'b [u8]) -> Result<Uri<'b>, NoKey> {
    let is_dots = |segment: &[u8]| matches!(segment, b"." | b"..");
    match head.path.of(bytes).split(|&byte| byte == b'/').any(is_dots) {
        true => Err(NoKey::DotSegments),
        false => changed_uri(head, bytes),
    }
}

/// The URI whose resource a request changes. It may have dot segments, which [`invalidated`](super::invalidated)
/// resolves as servers do.
///
/// # Errors
/// The request is for no resource.
pub fn changed_uri<'b>(head: &RequestHead, bytes: &'b [u8]) -> Result<Uri<'b>, NoKey> {
    let path_and_query = match head.target {
        Target::Origin { path_and_query } | Target::Absolute { path_and_query, .. } => {
            path_and_query
        }
        Target::Authority { .. } | Target::Asterisk => return Err(NoKey::NoResource),
    };
    let host = head.host.of(bytes);
    if host.is_empty() {
        return Err(NoKey::NoHost);
    }
    Ok(Uri {
        scheme: head.scheme.name().as_bytes(),
        host,
        port: head.port.unwrap_or(head.scheme.port()),
        path_and_query: path_and_query.of(bytes),
    })
}

/// Whether the answer to a request may be stored under its key. `host_and_port` is what servers get as `Host`.
///
/// # Errors
/// Says why not.
pub fn may_fill(
    uri: &Uri<'_>,
    host_and_port: &[u8],
    fields: Fields<'_>,
    rules: &KeyRules,
) -> Result<(), NotFilled> {
    let mut usual = Vec::with_capacity(host_and_port.len() + 8);
    write_host(&mut usual, uri.host);
    if uri.port != uri.default_port() {
        let _ = write!(usual, ":{}", uri.port);
    }
    if usual != host_and_port {
        return Err(NotFilled::HostForm);
    }
    if fields.iter().any(|(name, _)| rules.guards(name)) {
        return Err(NotFilled::GuardedField);
    }
    let takes_away = |name: &[u8]| {
        !is_of_connection(name)
            && fields
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    if fields.elements(b"connection").any(takes_away) {
        return Err(NotFilled::FieldForOneHop);
    }
    Ok(())
}

/// Whether a field belongs to the connection, so that dropping it loses nothing (RFC 9110 section 7.6.1).
fn is_of_connection(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    ];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Appends the key of a resource to `out`: [`write_key_prefix`], path and query, and what `rules` choose.
///
/// `uri` is that of [`target_uri`], or one of the same origin that was invalidated; `fields` are the request's.
pub fn write_key(
    out: &mut Vec<u8>,
    realm: Realm<'_>,
    uri: &Uri<'_>,
    fields: Fields<'_>,
    rules: &KeyRules,
) {
    write_key_prefix(out, realm, uri);
    let (path, query) = match memchr::memchr(b'?', uri.path_and_query) {
        Some(mark) => uri.path_and_query.split_at(mark),
        None => (uri.path_and_query, b"".as_slice()),
    };
    out.extend_from_slice(if path.is_empty() { b"/" } else { path });
    query::write(out, query, &rules.query);
    for name in &rules.headers {
        out.push(b'\n');
        put(out, name);
        for value in fields.values(name) {
            put(out, value);
        }
    }
}

/// Appends what the keys of all resources of an origin begin with: `REALM http://host:port`. The path follows, which
/// begins with `/`; so a prefix and the beginning of a path, up to a `/`, are a folder with all that is in it.
pub fn write_key_prefix(out: &mut Vec<u8>, realm: Realm<'_>, uri: &Uri<'_>) {
    // Writing to memory cannot fail.
    let _ = match realm {
        Realm::Upstream(name) => {
            out.extend_from_slice(b"upstream=");
            put(out, name.as_bytes());
            Ok(())
        }
        Realm::Listener(address) => write!(out, "listener={address}"),
        Realm::Original(address) => write!(out, "original={address}"),
    };
    out.push(b' ');
    out.extend(uri.scheme.iter().map(u8::to_ascii_lowercase));
    out.extend_from_slice(b"://");
    write_host(out, uri.host);
    let _ = write!(out, ":{}", uri.port);
}

fn write_host(out: &mut Vec<u8>, host: &[u8]) {
    let address = std::str::from_utf8(host)
        .ok()
        .and_then(|text| text.parse::<Ipv6Addr>().ok());
    if let Some(address) = address {
        let _ = write!(out, "[{address}]");
        return;
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    out.extend(host.iter().map(u8::to_ascii_lowercase));
}

/// A piece with its length before it: whatever is in it, it ends where it ends.
fn put(out: &mut Vec<u8>, piece: &[u8]) {
    let _ = write!(out, "{}:", piece.len());
    out.extend_from_slice(piece);
}
