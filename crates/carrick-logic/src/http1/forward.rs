//! How a request's head changes on its way through (RFC 9110 section 7.6): hop-by-hop fields go, `Via` and `Forwarded` come.
use super::hops::Mark;
use super::lines::{self, LineWriter};
use super::stated::{self, Element, Node, StatedIn};
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

/// Whether the client's address is told to the upstream. Fields that tell of the client and are in the head are believed:
/// [`RequestHead::forget_claims`] and [`RequestHead::forget_other_form`] remove those that are not to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarded {
    /// What the head has goes on as it is, nothing is added.
    Unchanged,
    /// `X-Forwarded-For` gets one more element; `X-Forwarded-Proto` and `X-Forwarded-Host` come where they are not yet.
    XForwarded,
    /// `Forwarded` (RFC 7239) gets one more element.
    Standard,
    /// All fields that tell of the client are removed.
    Remove,
}

/// Which field of a request tells that it has come through this proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedIn {
    /// `Via` (RFC 9110 section 7.6.3).
    Via,
    /// `CDN-Loop` (RFC 8586).
    CdnLoop,
    /// None.
    Nothing,
}

/// How a request's head is to be changed.
#[derive(Debug, Clone, Copy)]
pub struct RequestRewrite<'a> {
    /// The target's form for the next hop.
    pub form: TargetForm,
    /// `Host` for an HTTP/1.0 request that names no host, such as the upstream's address: many servers refuse an empty one.
    pub default_host: &'a str,
    /// The proxy's name.
    pub name: &'a str,
    /// Where the name goes.
    pub named_in: NamedIn,
    /// What the request is known by, should it come back: in a comment of `Via`, or in place of the name in `CDN-Loop`.
    pub mark: Option<Mark>,
    /// The address of the request's sender, for `forwarded`.
    pub client: IpAddr,
    /// What is told about the client.
    pub forwarded: Forwarded,
    /// Where the sender, if it is a trusted proxy, tells of the client: what is only there is put into the form of `forwarded`, too.
    pub stated_in: StatedIn,
    /// Whether `Proxy-Authorization` is passed on (to a parent that asks for it); else it is removed.
    pub pass_proxy_authorization: bool,
    /// Whether an `Upgrade` that the client asked for is passed on.
    pub pass_upgrade: bool,
    /// Whether the next hop is told, as carrick was, that trailers are welcome (RFC 9110 section 10.1.4): servers of gRPC demand it.
    pub pass_te_trailers: bool,
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
    out.reserve(head.head_bytes + how.name.len() + 256);
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
    if how.pass_te_trailers && accepts_trailers(bytes, head) {
        lines.put(&[b"TE: trailers\r\nConnection: TE\r\n"]);
    }
    match how.forwarded {
        Forwarded::XForwarded => write_x_forwarded(&mut lines, bytes, head, how),
        Forwarded::Standard => write_forwarded(&mut lines, bytes, head, how),
        Forwarded::Unchanged | Forwarded::Remove => {}
    }
    let received = match (head.is_http2, head.version) {
        (true, _) => b"Via: 2.0 ",
        (false, version) => via_version(version),
    };
    write_name(&mut lines, received, how);
    lines.put(&[how.added]);
    lines.finish();
}

/// Whether the sender has said that trailers are welcome.
fn accepts_trailers(bytes: &[u8], head: &RequestHead) -> bool {
    let mut fields = head.fields.iter();
    fields.any(|field| {
        field.known == FieldName::Te
            && syntax::elements(field.value.of(bytes))
                .any(|element| element.eq_ignore_ascii_case(b"trailers"))
    })
}

/// Both fields as a line of its own, which counts as an element after those before.
fn write_name(lines: &mut LineWriter<'_>, received: &[u8], how: &RequestRewrite<'_>) {
    let name = how.name.as_bytes();
    match (how.named_in, how.mark) {
        (NamedIn::Via, None) => write_via(lines, received, &[name]),
        (NamedIn::Via, Some(mark)) => write_via(lines, received, &[name, b" (", mark.text(), b")"]),
        (NamedIn::CdnLoop, None) => lines.put(&[b"CDN-Loop: ", name, b"\r\n"]),
        (NamedIn::CdnLoop, Some(mark)) => lines.put(&[b"CDN-Loop: ", mark.text(), b"\r\n"]),
        (NamedIn::Nothing, _) => {}
    }
}

/// What a line of `Via` begins with.
pub(super) fn via_version(received: Version) -> &'static [u8; 9] {
    match received {
        Version::Http10 => b"Via: 1.0 ",
        Version::Http11 => b"Via: 1.1 ",
    }
}

/// A line of `Via`, with this beginning.
pub(super) fn write_via(lines: &mut LineWriter<'_>, received: &[u8], name: &[&[u8]]) {
    lines.put(&[received]);
    lines.put(name);
    lines.put(&[b"\r\n"]);
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
        | FieldName::Proxy
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
        FieldName::XForwardedFor => {
            matches!(how.forwarded, Forwarded::Unchanged | Forwarded::Standard)
        }
        // One without a value says nothing, and is written anew.
        FieldName::XForwardedHost | FieldName::XForwardedProto => match how.forwarded {
            Forwarded::Remove => false,
            Forwarded::XForwarded => !field.value.is_empty(),
            Forwarded::Unchanged | Forwarded::Standard => true,
        },
        FieldName::Forwarded => {
            matches!(how.forwarded, Forwarded::Unchanged | Forwarded::XForwarded)
        }
        FieldName::XOther => how.forwarded != Forwarded::Remove,
        FieldName::Trailer => head.body == BodyLength::Chunked,
        FieldName::Authorization
        | FieldName::CdnLoop
        | FieldName::Cookie
        | FieldName::Date
        | FieldName::Via => true,
        FieldName::ProxyAuthenticate | FieldName::Odd | FieldName::Other => {
            !how.omits(field.name.of(bytes))
                && (!head.connection_names_fields
                    || !lines::is_for_this_hop(bytes, &head.fields, field))
        }
    };
    if is_kept {
        lines.keep(field);
    }
}

/// The sender's address goes last in `X-Forwarded-For`. What a proxy before this one said only in `Forwarded` is put into these fields.
fn write_x_forwarded(
    lines: &mut LineWriter<'_>,
    bytes: &[u8],
    head: &RequestHead,
    how: &RequestRewrite<'_>,
) {
    let translated = Translated::of(bytes, head, how.stated_in, FieldName::XForwardedFor);
    lines.put(&[b"X-Forwarded-For: "]);
    write_elements(lines, bytes, head, FieldName::XForwardedFor);
    for element in translated.iter() {
        match element.node {
            Node::Address(address) => lines.put_text(format_args!("{}, ", address.ip())),
            Node::Hidden | Node::Malformed => lines.put(&[b"unknown, "]),
        }
    }
    lines.put_text(format_args!("{}\r\n", how.client.to_canonical()));
    let last = translated.last();
    if !head.says(FieldName::XForwardedProto) {
        let proto = last.and_then(|last| last.proto.as_deref());
        let proto = proto.filter(|proto| syntax::is_token(proto));
        let scheme = head.scheme.name().as_bytes();
        lines.put(&[b"X-Forwarded-Proto: ", proto.unwrap_or(scheme), b"\r\n"]);
    }
    let host = last.and_then(|last| last.host.as_deref());
    let host = host.filter(|host| syntax::is_host_and_port(host));
    let host = host.unwrap_or(head.host_and_port.of(bytes));
    if !host.is_empty() && !head.says(FieldName::XForwardedHost) {
        lines.put(&[b"X-Forwarded-Host: ", host, b"\r\n"]);
    }
}

/// `Forwarded` (RFC 7239 section 4). A host with a port or brackets must be quoted, and quoting harms no other. What a proxy before this
/// one said only in `X-Forwarded-For` and the like is put into this field, as section 7.4 has it.
fn write_forwarded(
    lines: &mut LineWriter<'_>,
    bytes: &[u8],
    head: &RequestHead,
    how: &RequestRewrite<'_>,
) {
    let translated = Translated::of(bytes, head, how.stated_in, FieldName::Forwarded);
    lines.put(&[b"Forwarded: "]);
    write_elements(lines, bytes, head, FieldName::Forwarded);
    for element in translated.iter() {
        match element.node {
            Node::Address(address) => write_for(lines, address.ip()),
            Node::Hidden | Node::Malformed => lines.put(&[b"for=unknown"]),
        }
        if let Some(host) = element.host.as_deref()
            && syntax::is_host_and_port(host)
        {
            lines.put(&[b";host=\"", host, b"\""]);
        }
        if let Some(proto) = element.proto.as_deref()
            && syntax::is_token(proto)
        {
            lines.put(&[b";proto=", proto]);
        }
        lines.put(&[b", "]);
    }
    write_for(lines, how.client.to_canonical());
    let host = head.host_and_port.of(bytes);
    if !host.is_empty() {
        lines.put(&[b";host=\"", host, b"\""]);
    }
    lines.put(&[b";proto=", head.scheme.name().as_bytes(), b"\r\n"]);
}

fn write_for(lines: &mut LineWriter<'_>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => lines.put_text(format_args!("for={address}")),
        IpAddr::V6(address) => lines.put_text(format_args!("for=\"[{address}]\"")),
    }
}

/// What was said in the other form, where nothing was said in the one that is written.
struct Translated(Vec<Element>);

impl Translated {
    fn of(bytes: &[u8], head: &RequestHead, stated_in: StatedIn, wanted: FieldName) -> Self {
        let other = stated_in.field();
        if other == wanted || head.says(wanted) || !head.says(other) {
            return Self(Vec::new());
        }
        let values = |known| {
            let meant = head.fields.iter().filter(move |field| field.known == known);
            meant.map(|field| field.value.of(bytes))
        };
        if other == FieldName::Forwarded {
            return Self(values(other).flat_map(stated::elements).flatten().collect());
        }
        let mut elements: Vec<Element> = values(other)
            .flat_map(stated::nodes)
            .map(Element::of)
            .collect();
        // The proxy before this one has said these, of the connection that it had its request by.
        let last_word = |known| {
            let last = values(known).next_back()?;
            syntax::elements(last).last().map(<[u8]>::to_vec)
        };
        if let Some(last) = elements.last_mut() {
            last.host = last_word(FieldName::XForwardedHost);
            last.proto = last_word(FieldName::XForwardedProto);
        }
        Self(elements)
    }

    fn iter(&self) -> std::slice::Iter<'_, Element> {
        self.0.iter()
    }

    fn last(&self) -> Option<&Element> {
        self.0.last()
    }
}

/// What is in fields of this name, as the beginning of a list. A value with an open quote would swallow what
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
