//! How a request's head changes on its way through (RFC 9110 section 7.6): hop-by-hop fields go, `Via` and `Forwarded` come.
use super::lines::{self, LineWriter};
use super::{BodyLength, Field, FieldName, Method, RequestHead, Span, Target, Version, syntax};
use std::net::IpAddr;

/// Which form of target the next hop gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query` (or `*`): origins and gateways.
    Origin,
    /// `http://host/path?query`: a parent proxy.
    Absolute,
}

/// Whether the client's address is told to the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarded {
    /// What the client sent is passed on as it is, nothing is added.
    Unchanged,
    /// `X-Forwarded-For` (appended), `X-Forwarded-Proto`, `X-Forwarded-Host`.
    XForwarded,
    /// `Forwarded` (RFC 7239, appended).
    Standard,
    /// All of these fields are removed.
    Remove,
}

/// How a request's head is to be changed.
#[derive(Debug, Clone, Copy)]
pub struct RequestRewrite<'a> {
    /// The target's form for the next hop.
    pub form: TargetForm,
    /// `Host` for an HTTP/1.0 request that names no host, such as the upstream's address: many servers refuse an empty one.
    pub default_host: &'a str,
    /// Name in `Via`; empty: no `Via`.
    pub via: &'a str,
    /// The client's address, for `forwarded`.
    pub client: IpAddr,
    /// What is told about the client.
    pub forwarded: Forwarded,
    /// Whether `Proxy-Authorization` is passed on (to a parent that asks for it); else it is removed.
    pub pass_proxy_authorization: bool,
    /// Whether an `Upgrade` that the client asked for is passed on.
    pub pass_upgrade: bool,
    /// `Expect` is dropped when the proxy answered it itself.
    pub drop_expect: bool,
    /// Further fields that are dropped, lower-case: those that a cache writes anew, or answers itself.
    pub omitted: &'a [&'a [u8]],
    /// Further lines, with CR LF each.
    pub added: &'a [u8],
}

impl RequestRewrite<'_> {
    fn omits(&self, name: &[u8]) -> bool {
        (self.omitted.iter()).any(|omitted| name.eq_ignore_ascii_case(omitted))
    }
}

/// Appends the request head for the next hop to `out`: HTTP/1.1, `Host` first and equal to the target (RFC 9112 section 3.2.2),
/// hop-by-hop fields and those named in `Connection` removed (never the framing fields), order otherwise kept.
///
/// Fields are written as `name: value` whatever white space was around them. `Max-Forwards` of TRACE and OPTIONS is
/// written one less; the caller has answered a request with 0 itself. `bytes` is the buffer that `head` was parsed from.
pub fn write_request(
    out: &mut Vec<u8>,
    bytes: &[u8],
    head: &RequestHead,
    how: &RequestRewrite<'_>,
) {
    out.reserve(head.head_bytes + how.via.len() + 256);
    out.extend_from_slice(head.method_text.of(bytes));
    out.push(b' ');
    write_target(out, bytes, head, how.form);
    let mut lines = LineWriter::new(out, bytes);
    let host = match head.host_and_port.of(bytes) {
        b"" => how.default_host.as_bytes(),
        host => host,
    };
    lines.put(&[b" HTTP/1.1\r\nHost: ", host, b"\r\n"]);
    for field in &head.fields {
        write_field(&mut lines, bytes, head, how, field);
    }
    if how.pass_upgrade && head.wants_upgrade {
        lines.put(&[b"Connection: Upgrade\r\n"]);
    }
    match how.forwarded {
        Forwarded::XForwarded => write_x_forwarded(&mut lines, bytes, head, how.client),
        Forwarded::Standard => write_forwarded(&mut lines, bytes, head, how.client),
        Forwarded::Unchanged | Forwarded::Remove => {}
    }
    write_via(&mut lines, head.version, how.via);
    lines.put(&[how.added]);
    lines.finish();
}

/// `Via` (RFC 9110 section 7.6.3) as a line of its own, which counts as an element after those before.
pub(super) fn write_via(lines: &mut LineWriter<'_>, received: Version, name: &str) {
    let version: &[u8] = match received {
        Version::Http10 => b"Via: 1.0 ",
        Version::Http11 => b"Via: 1.1 ",
    };
    if !name.is_empty() {
        lines.put(&[version, name.as_bytes(), b"\r\n"]);
    }
}

fn write_target(out: &mut Vec<u8>, bytes: &[u8], head: &RequestHead, form: TargetForm) {
    let path_and_query = match head.target {
        Target::Authority { authority } => return out.extend_from_slice(authority.of(bytes)),
        Target::Origin { path_and_query } | Target::Absolute { path_and_query, .. } => {
            path_and_query
        }
        Target::Asterisk => Span::default(),
    };
    let text = path_and_query.of(bytes);
    // RFC 9112 section 3.2.4: `OPTIONS http://host` is what the last proxy turns into `OPTIONS *`.
    let is_whole_server = head.method == Method::Options && text.is_empty();
    if form == TargetForm::Absolute && !head.host_and_port.is_empty() {
        out.extend_from_slice(b"http://");
        out.extend_from_slice(head.host_and_port.of(bytes));
    } else if is_whole_server {
        return out.push(b'*');
    }
    if !text.starts_with(b"/") && !is_whole_server {
        out.push(b'/');
    }
    out.extend_from_slice(text);
}

fn write_field(
    lines: &mut LineWriter<'_>,
    bytes: &[u8],
    head: &RequestHead,
    how: &RequestRewrite<'_>,
    field: &Field,
) {
    let is_kept = match field.known {
        FieldName::Host
        | FieldName::Connection
        | FieldName::KeepAlive
        | FieldName::ProxyConnection
        | FieldName::Te => false,
        FieldName::TransferEncoding => return lines.put(&[b"Transfer-Encoding: chunked\r\n"]),
        FieldName::ContentLength => head.method != Method::Connect,
        FieldName::Expect => head.expects_continue && !how.drop_expect,
        FieldName::Upgrade => how.pass_upgrade && head.wants_upgrade,
        FieldName::ProxyAuthorization => how.pass_proxy_authorization,
        FieldName::MaxForwards => match head.max_forwards(bytes) {
            Some(hops) => {
                return lines
                    .put_text(format_args!("Max-Forwards: {}\r\n", hops.saturating_sub(1)));
            }
            None => true,
        },
        FieldName::XForwardedFor | FieldName::XForwardedHost | FieldName::XForwardedProto => {
            matches!(how.forwarded, Forwarded::Unchanged | Forwarded::Standard)
        }
        FieldName::Forwarded => {
            matches!(how.forwarded, Forwarded::Unchanged | Forwarded::XForwarded)
        }
        FieldName::Trailer => head.body == BodyLength::Chunked,
        FieldName::Cookie | FieldName::Date | FieldName::Via => true,
        FieldName::ProxyAuthenticate | FieldName::Other => {
            !how.omits(field.name.of(bytes))
                && (!head.connection_names_fields
                    || !lines::is_for_this_hop(bytes, &head.fields, field))
        }
    };
    if is_kept {
        lines.keep(field);
    }
}

/// The client's address goes last in `X-Forwarded-For`; the other two say what this proxy saw, whatever the client claims.
fn write_x_forwarded(lines: &mut LineWriter<'_>, bytes: &[u8], head: &RequestHead, client: IpAddr) {
    lines.put(&[b"X-Forwarded-For: "]);
    write_elements(lines, bytes, head, FieldName::XForwardedFor);
    lines.put_text(format_args!(
        "{}\r\nX-Forwarded-Proto: http\r\n",
        client.to_canonical()
    ));
    let host = head.host_and_port.of(bytes);
    if !host.is_empty() {
        lines.put(&[b"X-Forwarded-Host: ", host, b"\r\n"]);
    }
}

/// `Forwarded` (RFC 7239 section 4). A host with a port or brackets must be quoted, and quoting harms no other.
fn write_forwarded(lines: &mut LineWriter<'_>, bytes: &[u8], head: &RequestHead, client: IpAddr) {
    lines.put(&[b"Forwarded: "]);
    write_elements(lines, bytes, head, FieldName::Forwarded);
    match client.to_canonical() {
        IpAddr::V4(address) => lines.put_text(format_args!("for={address}")),
        IpAddr::V6(address) => lines.put_text(format_args!("for=\"[{address}]\"")),
    }
    let host = head.host_and_port.of(bytes);
    if !host.is_empty() {
        lines.put(&[b";host=\"", host, b"\""]);
    }
    lines.put(&[b";proto=http\r\n"]);
}

/// What the client sent in fields of this name, as the beginning of a list. A value with an open quote would swallow what
/// comes after it, and is left out.
fn write_elements(lines: &mut LineWriter<'_>, bytes: &[u8], head: &RequestHead, known: FieldName) {
    let values = head
        .fields
        .iter()
        .filter(|field| field.known == known)
        .map(|field| field.value.of(bytes));
    for value in values.filter(|value| !value.is_empty() && syntax::has_closed_quotes(value)) {
        lines.put(&[value, b", "]);
    }
}

#[cfg(test)]
mod tests;
