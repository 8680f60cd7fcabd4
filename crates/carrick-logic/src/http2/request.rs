//! A request of HTTP/2 as HTTP/1.1 has it (RFC 9113 section 8).
//!
//! What is written is read again by the strict parser of HTTP/1.1, which refuses with a status what is wrong there, too.
//! Refused here is what could not even be written, or what HTTP/2 has rules of its own for.
use crate::http1::{Refusal, syntax};

/// The pseudo-fields of a request. That each is there at most once, and before the fields, is the framing layer's care.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names are the RFC's")]
pub struct Pseudo<'a> {
    pub method: &'a [u8],
    pub scheme: Option<&'a [u8]>,
    pub authority: Option<&'a [u8]>,
    pub path: Option<&'a [u8]>,
    pub protocol: Option<&'a [u8]>,
}

/// How the target is written (RFC 9112 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestForm {
    /// `/path`, as servers get it. Another `:scheme` than these makes a whole URL of it, for the parser to refuse.
    Origin {
        /// Whether `http` is right.
        http: bool,
        /// Whether `https` is right.
        https: bool,
    },
    /// `http://host/path`, as proxies get it.
    Absolute,
}

/// What a translation depends on besides the request.
#[derive(Debug, Clone, Copy)]
pub struct RequestTranslation<'a> {
    /// The target's form.
    pub form: RequestForm,
    /// Whether the request has ended with its head (`END_STREAM`).
    pub is_whole: bool,
    /// The value of `Sec-WebSocket-Key`, which HTTP/2 does not have.
    pub websocket_key: &'a str,
}

/// What follows a translated head, a request's or a response's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBody {
    /// Nothing.
    None,
    /// This many bytes.
    Bytes(u64),
    /// Content of unknown length: it is to be sent in chunks.
    Chunked,
    /// `CONNECT`: once it has succeeded, a tunnel.
    Tunnel,
    /// The same for a WebSocket (RFC 8441): the head asks for an upgrade.
    WebSocket,
}

/// Why a request or response is malformed (RFC 9113 section 8.1.1): a stream error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason())]
pub enum Malformed {
    /// A pseudo-field is missing, must not be there, or has a value that it cannot have.
    Pseudo,
    /// A name has other bytes than lower-case token bytes.
    Name,
    /// A value has control bytes, or white space at an end.
    Value,
    /// A field is about the connection, or has another value than the only one allowed.
    Connection,
    /// `Host` and `:authority` differ, or there are two `Host`.
    Host,
    /// `content-length` is no number, or comes twice.
    Length,
    /// The `:protocol` is not spoken here: 501.
    Protocol,
}

impl Malformed {
    /// What is wrong, for logs and error pages.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Pseudo => "a pseudo-field is missing or wrong",
            Self::Name => "a field's name has other bytes than those of a lower-case token",
            Self::Value => "a field's value has control bytes, or white space at an end",
            Self::Connection => "a field is for connections of HTTP/1.1 only",
            Self::Host => "there is more than one host",
            Self::Length => "content-length is wrong",
            Self::Protocol => "the protocol is not spoken here",
        }
    }

    /// The same fault in a server's response: the client gets 502.
    #[must_use]
    pub const fn of_response(self) -> Refusal {
        Refusal {
            status: 502,
            reason: self.reason(),
            label: "malformed",
        }
    }
}

/// What the fields say that is needed before they are written.
#[derive(Debug, Default)]
struct Stated<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
}

/// Appends the head in the form of HTTP/1.1 to `out`; what is to follow it. `fields` has names and values.
///
/// # Errors
/// See [`Malformed`]. `out` has no part of the head then.
pub fn write_request<'f, F>(
    out: &mut Vec<u8>,
    pseudo: &Pseudo<'f>,
    fields: impl Fn() -> F,
    how: &RequestTranslation<'_>,
) -> Result<RequestBody, Malformed>
where
    F: Iterator<Item = (&'f [u8], &'f [u8])>,
{
    let stated = check_fields(fields())?;
    let target = Target::read(pseudo, &stated)?;
    if how.form == RequestForm::Absolute && target.scheme.is_none() && target.kind != Kind::Tunnel {
        // The library has none without an authority. To guess would be to send in plain what was meant for HTTPS.
        return Err(Malformed::Pseudo);
    }
    let body = body(&target, &stated, how.is_whole);
    target.write(out, how.form);
    for (name, value) in fields().filter(|(name, _)| is_kept(name, body)) {
        for part in [name, b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    write_cookie(out, fields());
    match body {
        RequestBody::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        RequestBody::WebSocket => {
            out.extend_from_slice(b"connection: Upgrade\r\nupgrade: websocket\r\n");
            out.extend_from_slice(b"sec-websocket-key: ");
            out.extend_from_slice(how.websocket_key.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        // Servers may demand a length of a method that has content (RFC 9110 section 8.6).
        RequestBody::None
            if stated.length.is_none() && matches!(target.method, b"POST" | b"PUT" | b"PATCH") =>
        {
            out.extend_from_slice(b"content-length: 0\r\n");
        }
        RequestBody::None | RequestBody::Bytes(_) | RequestBody::Tunnel => {}
    }
    out.extend_from_slice(b"\r\n");
    Ok(body)
}

fn body(target: &Target<'_>, stated: &Stated<'_>, is_whole: bool) -> RequestBody {
    match (target.kind, stated.length) {
        (Kind::Tunnel, _) => RequestBody::Tunnel,
        (Kind::WebSocket, _) => RequestBody::WebSocket,
        (Kind::Request, Some(0)) => RequestBody::None,
        (Kind::Request, Some(length)) => RequestBody::Bytes(length),
        (Kind::Request, None) if is_whole => RequestBody::None,
        (Kind::Request, None) => RequestBody::Chunked,
    }
}

/// RFC 9113 sections 8.2 and 8.3.1.
fn check_fields<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<Stated<'f>, Malformed> {
    let mut stated = Stated::default();
    for (name, value) in fields {
        check_field(name, value)?;
        match name {
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding"
            | b"upgrade" => return Err(Malformed::Connection),
            b"te" if value != b"trailers" => return Err(Malformed::Connection),
            b"host" if stated.host.replace(value).is_some() => return Err(Malformed::Host),
            b"content-length" => {
                let length = syntax::decimal(value).ok_or(Malformed::Length)?;
                if stated.length.replace(length).is_some() {
                    return Err(Malformed::Length);
                }
            }
            _ => {}
        }
    }
    Ok(stated)
}

/// RFC 9113 section 8.2.1, and strictly: no other bytes than HTTP/1.1 has.
pub(super) fn check_field(name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    if !syntax::is_token(name) || name.iter().any(u8::is_ascii_uppercase) {
        return Err(Malformed::Name);
    }
    match syntax::is_text(value) && syntax::trim(value).len() == value.len() {
        true => Ok(()),
        false => Err(Malformed::Value),
    }
}

/// Whether a field may stand in the trailer section of the message as HTTP/1.1 has it; whether it has a place there is
/// decided later.
#[must_use]
pub fn is_trailer(name: &[u8], value: &[u8]) -> bool {
    check_field(name, value).is_ok()
}

/// Fields that are not written as they came.
fn is_kept(name: &[u8], body: RequestBody) -> bool {
    match name {
        // They have places of their own; `http2-settings` was for this hop. `te` is, too, and has only one meaning: whoever writes
        // the request for the next hop decides.
        b"host" | b"cookie" | b"http2-settings" => false,
        b"content-length" => matches!(body, RequestBody::None | RequestBody::Bytes(_)),
        b"sec-websocket-key" => body != RequestBody::WebSocket,
        // A tunnel has no content.
        b"expect" | b"trailer" => !matches!(body, RequestBody::Tunnel | RequestBody::WebSocket),
        _ => true,
    }
}

/// RFC 9113 section 8.2.3: the crumbs become one field.
fn write_cookie<'f>(out: &mut Vec<u8>, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) {
    let mut before: &[u8] = b"cookie: ";
    for (_, value) in fields.filter(|(name, _)| *name == b"cookie") {
        out.extend_from_slice(before);
        out.extend_from_slice(value);
        before = b"; ";
    }
    if before == b"; " {
        out.extend_from_slice(b"\r\n");
    }
}

/// What a request does with its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Tunnel,
    WebSocket,
}

/// What the request line and `Host` are made of.
struct Target<'a> {
    kind: Kind,
    method: &'a [u8],
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: &'a [u8],
}

impl<'a> Target<'a> {
    fn read(pseudo: &Pseudo<'a>, stated: &Stated<'a>) -> Result<Self, Malformed> {
        let authority = authority(pseudo.authority, stated.host)?;
        if !syntax::is_token(pseudo.method) {
            return Err(Malformed::Pseudo);
        }
        let (kind, method) = match (pseudo.method, pseudo.protocol) {
            (b"CONNECT", None) => (Kind::Tunnel, pseudo.method),
            (b"CONNECT", Some(b"websocket")) => (Kind::WebSocket, &b"GET"[..]),
            (b"CONNECT", Some(_)) => return Err(Malformed::Protocol),
            (_, Some(_)) => return Err(Malformed::Pseudo),
            (method, None) => (Kind::Request, method),
        };
        let path = match (kind, pseudo.path) {
            (Kind::Tunnel, None) if pseudo.scheme.is_none() && pseudo.authority.is_some() => b"",
            (Kind::Request | Kind::WebSocket, Some(path)) if is_path(path, method) => path,
            _ => return Err(Malformed::Pseudo),
        };
        if pseudo.scheme.is_some_and(|scheme| !is_scheme(scheme)) {
            return Err(Malformed::Pseudo);
        }
        Ok(Self {
            kind,
            method,
            scheme: pseudo.scheme,
            authority,
            path,
        })
    }

    fn write(&self, out: &mut Vec<u8>, form: RequestForm) {
        out.extend_from_slice(self.method);
        out.push(b' ');
        let scheme = self.scheme.unwrap_or_default();
        let is_absolute = match form {
            RequestForm::Absolute => true,
            RequestForm::Origin { http, https } => self.scheme.is_some_and(|scheme| {
                !(http && scheme.eq_ignore_ascii_case(b"http")
                    || https && scheme.eq_ignore_ascii_case(b"https"))
            }),
        };
        let authority = self.authority.unwrap_or_default();
        match self.kind {
            Kind::Tunnel => out.extend_from_slice(authority),
            Kind::Request | Kind::WebSocket if is_absolute => {
                out.extend_from_slice(scheme);
                out.extend_from_slice(b"://");
                out.extend_from_slice(authority);
                // RFC 9112 section 3.2.4: without a path, OPTIONS is for the whole server.
                if self.path != b"*" {
                    out.extend_from_slice(self.path);
                }
            }
            Kind::Request | Kind::WebSocket => out.extend_from_slice(self.path),
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        if let Some(authority) = self.authority {
            out.extend_from_slice(b"host: ");
            out.extend_from_slice(authority);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// RFC 9113 section 8.3.1: `Host` must not name another host than `:authority`.
fn authority<'a>(
    authority: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
) -> Result<Option<&'a [u8]>, Malformed> {
    if let (Some(authority), Some(host)) = (authority, host)
        && !authority.eq_ignore_ascii_case(host)
    {
        return Err(Malformed::Host);
    }
    match authority.or(host) {
        Some(text) if text.is_empty() || !syntax::is_visible_text(text) => Err(Malformed::Host),
        text => Ok(text),
    }
}

fn is_path(path: &[u8], method: &[u8]) -> bool {
    let is_one = match path {
        [b'/', ..] => true,
        b"*" => method == b"OPTIONS",
        _ => false,
    };
    is_one && syntax::is_visible_text(path)
}

/// RFC 3986 section 3.1.
fn is_scheme(scheme: &[u8]) -> bool {
    let is_meant = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    matches!(scheme, [first, rest @ ..] if first.is_ascii_alphabetic() && rest.iter().all(is_meant))
}

#[cfg(test)]
mod tests;
