//! The request line (RFC 9112 section 3): method, the four forms of target, version; and the host that a request names.
use super::{Method, Refusal, Scheme, Span, Target, Version, syntax};
use std::net::Ipv6Addr;

/// Longer methods are refused before the line has ended. The longest registered one has 17 letters.
const METHOD_BYTES_MAX: usize = 32;

/// The longest name that DNS has, in dotted form (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 255;

/// What a request line says.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLine {
    pub(super) target: Target,
    pub(super) path: Span,
    pub(super) query: Option<Span>,
    pub(super) version: Version,
    /// Host and port, when the target has them.
    pub(super) authority: Option<Authority>,
}

/// `host[:port]`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Authority {
    /// Without brackets.
    pub(super) host: Span,
    pub(super) port: Option<u16>,
}

/// Length of the method that `bytes` begin with, when the space after it is there. Looks at no more than the longest
/// method, so it says soon that what comes is not HTTP, and calling it again costs little.
pub(super) fn method_bytes(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    for (index, &byte) in bytes.iter().take(METHOD_BYTES_MAX + 1).enumerate() {
        if byte == b' ' && index > 0 {
            return Ok(Some(index));
        }
        if !syntax::is_token_byte(byte) {
            return Err(mistake_in_method(byte, index));
        }
    }
    if bytes.len() > METHOD_BYTES_MAX {
        return Err(Refusal::new(
            501,
            "method_too_long",
            "the method is longer than any that is known",
        ));
    }
    Ok(None)
}

#[cold]
fn mistake_in_method(byte: u8, index: usize) -> Refusal {
    match (byte, index) {
        // The content type of a TLS handshake record (RFC 8446 section 5.1).
        (0x16, 0) => Refusal::bad(
            "tls_on_plain_port",
            "this is a TLS handshake; this port speaks plain HTTP",
        ),
        (b'\r' | b'\n', 0) => Refusal::bad(
            "empty_lines",
            "too many empty lines before the request line",
        ),
        (b'\r' | b'\n', _) => MALFORMED,
        _ => Refusal::bad(
            "bad_method",
            "the request does not begin with a method; this port speaks HTTP/1.1",
        ),
    }
}

const MALFORMED: Refusal = Refusal::bad(
    "malformed_request_line",
    "the request line is malformed; it is `METHOD target HTTP/1.1`",
);

/// Methods differ by case (RFC 9110 section 9.1), but servers exist to which `Head` is HEAD: their response would have
/// another end. Browsers send `patch` as a script writes it.
pub(super) fn method(text: &[u8]) -> Result<Method, Refusal> {
    match method_named(text) {
        Method::Other => match method_named(&text.to_ascii_uppercase()) {
            Method::Other | Method::Patch => Ok(Method::Other),
            _ => Err(Refusal::bad(
                "method_case",
                "methods are written in capital letters",
            )),
        },
        method => Ok(method),
    }
}

fn method_named(text: &[u8]) -> Method {
    match text {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        b"POST" => Method::Post,
        b"PUT" => Method::Put,
        b"DELETE" => Method::Delete,
        b"CONNECT" => Method::Connect,
        b"OPTIONS" => Method::Options,
        b"TRACE" => Method::Trace,
        b"PATCH" => Method::Patch,
        _ => Method::Other,
    }
}

/// Parses what follows the method and its space; `line` is the whole line without CR LF.
pub(super) fn parse(
    line: &[u8],
    method_bytes: usize,
    method: Method,
    scheme: Scheme,
) -> Result<RequestLine, Refusal> {
    let start = method_bytes + 1;
    let rest = line.get(start..).unwrap_or_default();
    let Some(space) = memchr::memchr(b' ', rest) else {
        return Err(Refusal::bad(
            "no_version",
            "the request line has no version; HTTP/0.9 is not spoken here",
        ));
    };
    let end = start + space;
    let version = version(&rest[space + 1..])?;
    let parts = target(line, Span::new(start, end), method, scheme)?;
    Ok(RequestLine { version, ..parts })
}

/// `HTTP/1.x`; RFC 9112 section 2.3: a higher minor version is the highest that is known.
fn version(text: &[u8]) -> Result<Version, Refusal> {
    match text {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Err(Refusal::new(
                505,
                "unsupported_version",
                "this version of HTTP is not spoken here; HTTP/1.1 is",
            ))
        }
        _ => Err(MALFORMED),
    }
}

fn target(
    line: &[u8],
    whole: Span,
    method: Method,
    scheme: Scheme,
) -> Result<RequestLine, Refusal> {
    let text = whole.of(line);
    if !syntax::is_visible_text(text) {
        return Err(Refusal::bad(
            "bad_target_byte",
            "the target has a control byte or one outside ASCII; escape it with %",
        ));
    }
    if memchr::memchr(b'#', text).is_some() {
        return Err(Refusal::bad(
            "fragment_in_target",
            "the target has a fragment; fragments stay with the client",
        ));
    }
    if method == Method::Connect {
        return authority_form(line, whole);
    }
    match text {
        [b'/', ..] => Ok(with_path(
            line,
            whole,
            Target::Origin {
                path_and_query: whole,
            },
        )),
        b"*" if method == Method::Options => Ok(without_path(Target::Asterisk, None)),
        b"*" => Err(Refusal::bad(
            "asterisk_target",
            "`*` is a target for OPTIONS only",
        )),
        _ => absolute_form(line, whole, scheme),
    }
}

fn without_path(target: Target, authority: Option<Authority>) -> RequestLine {
    RequestLine {
        target,
        path: Span::default(),
        query: None,
        version: Version::Http11,
        authority,
    }
}

fn with_path(line: &[u8], path_and_query: Span, target: Target) -> RequestLine {
    let (start, end) = (path_and_query.start as usize, path_and_query.end as usize);
    let (path, query) = match memchr::memchr(b'?', path_and_query.of(line)) {
        Some(mark) => (
            Span::new(start, start + mark),
            Some(Span::new(start + mark + 1, end)),
        ),
        None => (path_and_query, None),
    };
    RequestLine {
        path,
        query,
        ..without_path(target, None)
    }
}

/// `CONNECT host:port` (RFC 9112 section 3.2.3).
fn authority_form(line: &[u8], whole: Span) -> Result<RequestLine, Refusal> {
    let authority = match authority(line, whole) {
        Ok(authority) if authority.port.is_some() => authority,
        Err(USER_INFORMATION) => return Err(USER_INFORMATION),
        _ => {
            return Err(Refusal::bad(
                "bad_connect_target",
                "the target of CONNECT is `host:port`, with a port from 1 to 65535",
            ));
        }
    };
    Ok(without_path(
        Target::Authority { authority: whole },
        Some(authority),
    ))
}

/// `http://host[:port][/path][?query]` (RFC 9112 section 3.2.2).
fn absolute_form(line: &[u8], whole: Span, wanted: Scheme) -> Result<RequestLine, Refusal> {
    let text = whole.of(line);
    let colon = memchr::memchr(b':', text).unwrap_or(0);
    let (scheme, rest) = text.split_at(colon);
    if !matches!(scheme, [first, ..] if first.is_ascii_alphabetic()) || !rest.starts_with(b"://") {
        return Err(Refusal::bad(
            "bad_target",
            "the target is neither `/path` nor `http://host/path`",
        ));
    }
    if !scheme.eq_ignore_ascii_case(wanted.name().as_bytes()) {
        return Err(Refusal::bad(
            "unsupported_scheme",
            match wanted {
                Scheme::Http => "only `http://` is asked for here; `https://` goes by CONNECT",
                Scheme::Https => "only `https://` is asked for here",
            },
        ));
    }
    let start = whole.start as usize;
    let authority_start = start + colon + 3;
    let after = &text[colon + 3..];
    let authority_end = authority_start + memchr::memchr2(b'/', b'?', after).unwrap_or(after.len());
    let authority_span = without_empty_port(line, Span::new(authority_start, authority_end));
    let path_and_query = Span::new(authority_end, whole.end as usize);
    let target = Target::Absolute {
        scheme: Span::new(start, start + colon),
        authority: authority_span,
        path_and_query,
    };
    let authority = authority(line, authority_span)?;
    Ok(RequestLine {
        authority: Some(authority),
        ..with_path(line, path_and_query, target)
    })
}

const BAD_HOST: Refusal = Refusal::bad(
    "bad_host",
    "the host is neither a host name nor an address, with or without `:port`",
);

/// RFC 9110 section 4.2.4: what stands there is most often made to look like another host.
const USER_INFORMATION: Refusal = Refusal::bad(
    "user_information",
    "a user name or password stands before the host (`user:password@host`); write the host alone, and credentials into Authorization (RFC 9110 section 4.2.4)",
);

/// `host` of `host:`: URLs may have an empty port (RFC 3986 section 3.2.3), and their one form leaves the colon out (section 6.2.3).
pub(super) fn without_empty_port(bytes: &[u8], authority: Span) -> Span {
    match authority.of(bytes) {
        [.., b':'] => Span::new(authority.start as usize, authority.end as usize - 1),
        _ => authority,
    }
}

/// Parses `host[:port]` as targets and `Host` have it (RFC 9110 section 7.2). There is no user information, no list, and no
/// escape: what one parser takes for the host, another must not take for something else.
pub(super) fn authority(bytes: &[u8], whole: Span) -> Result<Authority, Refusal> {
    let text = whole.of(bytes);
    let start = whole.start as usize;
    if memchr::memchr(b'@', text).is_some() {
        return Err(USER_INFORMATION);
    }
    let (host, after_host) = if let [b'[', inside @ ..] = text {
        let end = memchr::memchr(b']', inside).ok_or(BAD_HOST)?;
        let address = std::str::from_utf8(&inside[..end]).map_err(|_| BAD_HOST)?;
        address.parse::<Ipv6Addr>().map_err(|_| BAD_HOST)?;
        (Span::new(start + 1, start + 1 + end), &inside[end + 1..])
    } else {
        let end = memchr::memchr(b':', text).unwrap_or(text.len());
        if !syntax::is_host_name(&text[..end]) || end > HOST_BYTES_MAX {
            return Err(BAD_HOST);
        }
        (Span::new(start, start + end), &text[end..])
    };
    let port = match after_host {
        [] => None,
        [b':', digits @ ..] => Some(port(digits).ok_or(Refusal::bad(
            "bad_port",
            "the port is a number from 1 to 65535",
        ))?),
        _ => return Err(BAD_HOST),
    };
    Ok(Authority { host, port })
}

fn port(digits: &[u8]) -> Option<u16> {
    if matches!(digits, [b'0', ..]) {
        return None;
    }
    syntax::decimal(digits).and_then(|port| u16::try_from(port).ok())
}
