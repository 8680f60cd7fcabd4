//! How a response's head changes on its way through (RFC 9110 section 7.6).
use super::forward::{via_version, write_via};
use super::lines::{self, LineWriter};
use super::{Field, FieldName, ResponseBody, ResponseHead, Version};

/// How a response's head is to be changed.
#[derive(Debug, Clone, Copy)]
pub struct ResponseRewrite<'a> {
    /// Name in `Via`; empty: no `Via`.
    pub via: &'a str,
    /// The client's version: HTTP/1.0 gets `Connection: keep-alive` when kept, and no `Transfer-Encoding`.
    pub client_version: Version,
    /// Whether the client's connection stays open after this response; else `Connection: close` is added.
    pub keep_alive: bool,
    /// Whether the client gets the body chunked although the upstream sent it until close (HTTP/1.1 clients only).
    pub add_chunked: bool,
    /// Whether `Connection: upgrade` and `Upgrade` of a 101 are kept. Those of a 426 always are: RFC 9110 section 15.5.22 has the client told
    /// what it is to ask for.
    pub pass_upgrade: bool,
}

/// Appends the response head for the client to `out`: status line with HTTP/1.1, hop-by-hop fields removed, order otherwise kept.
///
/// An HTTP/1.0 client does not know the chunked coding: it gets the head without `Transfer-Encoding`, the caller sends only the
/// [`Data`](super::Piece::Data) of the body, and the connection's end is the body's, as
/// [`ends_at_close`](ResponseHead::ends_at_close) says. `Connection: close` is then written whatever `keep_alive` says.
/// `bytes` is the buffer that `head` was parsed from.
pub fn write_response(
    out: &mut Vec<u8>,
    bytes: &[u8],
    head: &ResponseHead,
    how: &ResponseRewrite<'_>,
) {
    out.reserve(head.head_bytes + how.via.len() + 128);
    let mut lines = LineWriter::new(out, bytes);
    write_status_line(&mut lines, bytes, head);
    for field in kept(bytes, head, how) {
        lines.keep(field);
    }
    if let Some(length) = head.repeated_length.filter(|_| has_length(head)) {
        lines.put_text(format_args!("Content-Length: {length}\r\n"));
    }
    let is_http11 = how.client_version == Version::Http11;
    let adds_chunked = how.add_chunked && head.body == ResponseBody::UntilClose;
    if is_http11 && (adds_chunked || has_length(head) && head.is_chunked) {
        lines.put(&[b"Transfer-Encoding: chunked\r\n"]);
    }
    write_connection(&mut lines, head, how);
    if !how.via.is_empty() {
        write_via(&mut lines, via_version(head.version), &[how.via.as_bytes()]);
    }
    lines.finish();
}

/// The fields that [`write_response`] keeps as they came, for a head in another form than that of HTTP/1.1. Of those that it adds, only `Via`
/// is not about the connection. `None`: it writes the length anew.
pub fn kept_fields<'h>(
    bytes: &'h [u8],
    head: &'h ResponseHead,
    how: &'h ResponseRewrite<'_>,
) -> Option<impl Iterator<Item = &'h Field>> {
    let is_as_it_came = head.repeated_length.is_none();
    is_as_it_came.then(|| kept(bytes, head, how))
}

/// Adds a field line to the head that `out` ends with. The value must not have control bytes.
pub fn add_field(out: &mut Vec<u8>, name: &str, value: &str) {
    debug_assert!(out.ends_with(b"\r\n\r\n"), "a head ends with an empty line");
    out.truncate(out.len().saturating_sub(2));
    for part in [name, ": ", value, "\r\n\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn write_status_line(lines: &mut LineWriter<'_>, bytes: &[u8], head: &ResponseHead) {
    let digit = |divisor: u16| b'0' + (head.status / divisor % 10) as u8;
    let code = [digit(100), digit(10), digit(1)];
    lines.put(&[b"HTTP/1.1 ", &code, b" ", head.reason.of(bytes), b"\r\n"]);
}

/// Whether the response may say how long its body is: RFC 9110 section 8.6, RFC 9112 section 6.1.
fn has_length(head: &ResponseHead) -> bool {
    head.body != ResponseBody::Tunnel && !matches!(head.status, 100..200 | 204)
}

fn kept<'h>(
    bytes: &'h [u8],
    head: &'h ResponseHead,
    how: &'h ResponseRewrite<'_>,
) -> impl Iterator<Item = &'h Field> {
    (head.fields.iter()).filter(move |field| is_kept(bytes, head, how, field))
}

fn is_kept(bytes: &[u8], head: &ResponseHead, how: &ResponseRewrite<'_>, field: &Field) -> bool {
    match field.known {
        FieldName::Connection
        | FieldName::KeepAlive
        | FieldName::ProxyConnection
        | FieldName::Te
        | FieldName::TransferEncoding => false,
        FieldName::ContentLength => has_length(head) && head.repeated_length.is_none(),
        FieldName::Upgrade => passes_upgrade(head, how),
        // RFC 9110 section 11.7.1: it is for the next client only, which is ours when the parent's 407 is passed on.
        FieldName::ProxyAuthenticate => head.status == 407,
        FieldName::Trailer => {
            has_length(head) && head.is_chunked && how.client_version == Version::Http11
        }
        FieldName::Other | FieldName::Odd | FieldName::Proxy | FieldName::XOther => {
            !head.connection_names_fields || !lines::is_for_this_hop(bytes, &head.fields, field)
        }
        _ => true,
    }
}

/// Whether the response offers the client other protocols.
fn passes_upgrade(head: &ResponseHead, how: &ResponseRewrite<'_>) -> bool {
    match head.status {
        101 => how.pass_upgrade,
        426 => head
            .fields
            .iter()
            .any(|field| field.known == FieldName::Upgrade),
        _ => false,
    }
}

/// Interim responses and tunnels say nothing of the connection.
fn write_connection(lines: &mut LineWriter<'_>, head: &ResponseHead, how: &ResponseRewrite<'_>) {
    let passes_upgrade = passes_upgrade(head, how);
    let is_final = head.body != ResponseBody::Tunnel && !head.is_interim();
    let keep_alive = how.keep_alive && !head.ends_at_close(how.client_version, how.add_chunked);
    let line: &[u8] = match (is_final, keep_alive, passes_upgrade) {
        (true, true, true) if how.client_version == Version::Http10 => {
            b"Connection: keep-alive, Upgrade\r\n"
        }
        (false, _, true) | (true, true, true) => b"Connection: Upgrade\r\n",
        (false, _, false) => return,
        (true, false, true) => b"Connection: close, Upgrade\r\n",
        (true, false, false) => b"Connection: close\r\n",
        (true, true, false) if how.client_version == Version::Http10 => {
            b"Connection: keep-alive\r\n"
        }
        (true, true, false) => return,
    };
    lines.put(&[line]);
}

#[cfg(test)]
mod tests;
