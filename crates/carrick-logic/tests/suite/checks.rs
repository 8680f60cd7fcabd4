//! What must hold for any bytes at all. The fuzz targets and the tests of this crate include this file, and so check the same.
use carrick_logic::http1::{
    BodyLength, Chunked, Field, Forwarded, HeadLimits, LAST_CHUNK, Method, Piece, Progress,
    Refusal, RequestHead, RequestRewrite, ResponseBody, ResponseHead, ResponseRewrite, Target,
    TargetForm, Version, write_chunk_size, write_request, write_response,
};
use carrick_logic::{client_hello, proxy_protocol};
use std::net::IpAddr;

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 4096,
    fields_max: 64,
};

/// Lengths at which a stream of this many bytes is cut: everywhere in short ones.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    let step = 1 + length / 600;
    (0..length).step_by(step).chain([length])
}

/// A request head: reads may end anywhere; whoever is laxer reads the same; its bytes are what they should be.
pub fn request_head(bytes: &[u8]) {
    let mut head = RequestHead::new();
    let whole = head.parse(bytes, &LIMITS);
    let mut trickled = RequestHead::new();
    let mut last = Ok(Progress::Partial);
    for length in cuts(bytes.len()) {
        last = trickled.parse(&bytes[..length], &LIMITS);
        if last != Ok(Progress::Partial) {
            break;
        }
    }
    assert_eq!(last, whole, "reads that end elsewhere say something else");
    match whole {
        Ok(Progress::Complete) => {
            assert_eq!(head, trickled);
            request_is_unambiguous(bytes, &head);
            // The same head again, into a used structure.
            assert_eq!(trickled.parse(bytes, &LIMITS), Ok(Progress::Complete));
            assert_eq!(head, trickled);
        }
        Ok(Progress::Partial) => assert!(bytes.len() < LIMITS.head_bytes_max),
        Err(refusal) => {
            assert!(
                [400, 414, 417, 431, 501, 505].contains(&refusal.status),
                "{refusal:?}"
            );
            is_well_put(&refusal);
        }
    }
    assert!(RequestHead::leading_empty_lines(bytes) <= bytes.len().min(8));
}

/// A response head, likewise. The first byte says what the request's method was.
pub fn response_head(bytes: &[u8]) {
    let Some((method, bytes)) = bytes
        .split_first()
        .map(|(&first, rest)| (method_of(first), rest))
    else {
        return;
    };
    let mut head = ResponseHead::new();
    let whole = head.parse(bytes, method, &LIMITS);
    let mut trickled = ResponseHead::new();
    let mut last = Ok(Progress::Partial);
    for length in cuts(bytes.len()) {
        last = trickled.parse(&bytes[..length], method, &LIMITS);
        if last != Ok(Progress::Partial) {
            break;
        }
    }
    assert_eq!(last, whole, "reads that end elsewhere say something else");
    match whole {
        Ok(Progress::Complete) => {
            assert_eq!(head, trickled);
            response_is_unambiguous(bytes, &head, method);
        }
        Ok(Progress::Partial) => assert!(bytes.len() < LIMITS.head_bytes_max),
        Err(refusal) => {
            assert_eq!(refusal.status, 502);
            is_well_put(&refusal);
        }
    }
}

fn method_of(byte: u8) -> Method {
    match byte {
        b'H' => Method::Head,
        b'C' => Method::Connect,
        b'P' => Method::Post,
        _ => Method::Get,
    }
}

fn is_well_put(refusal: &Refusal) {
    assert!(
        !refusal.reason.is_empty() && !refusal.reason.ends_with('.'),
        "{refusal:?}"
    );
    let is_label_byte =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    assert!(
        !refusal.label.is_empty() && refusal.label.bytes().all(is_label_byte),
        "{refusal:?}"
    );
}

/// The head has the line ends, spaces and fields that we said, for us and for parsers that are laxer.
fn request_is_unambiguous(bytes: &[u8], head: &RequestHead) {
    let text = &bytes[..head.head_bytes];
    lines_are_clean(text, &head.fields);
    let mut text = text.to_vec();
    // httparse knows only 1.0 and 1.1; the higher minor versions are 1.1 in every other respect.
    let minor = text.iter().position(|&byte| byte == b'\r').unwrap_or(1) - 1;
    text[minor] = if head.version == Version::Http10 {
        b'0'
    } else {
        b'1'
    };
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut lax = httparse::Request::new(&mut headers);
    assert_eq!(lax.parse(&text), Ok(httparse::Status::Complete(text.len())));
    assert_eq!(
        lax.method.map(str::as_bytes),
        Some(head.method_text.of(bytes))
    );
    same_fields(bytes, &head.fields, lax.headers);
    let chunked = lax_is_chunked(lax.headers);
    assert_eq!(chunked, head.body == BodyLength::Chunked);
    let expected = match head.body {
        BodyLength::Bytes(length) => length,
        BodyLength::None | BodyLength::Chunked => 0,
    };
    assert_eq!(lax_content_length(lax.headers).unwrap_or(0), expected);
    let target = lax.path.unwrap_or_default();
    assert!(target.bytes().all(|byte| byte.is_ascii_graphic()));
    match head.target {
        Target::Origin { path_and_query } => {
            assert_eq!(path_and_query.of(bytes), target.as_bytes())
        }
        Target::Asterisk => assert_eq!((target, head.method), ("*", Method::Options)),
        Target::Authority { .. } => assert!(head.method == Method::Connect && head.port.is_some()),
        Target::Absolute {
            authority,
            path_and_query,
            ..
        } => {
            let rest = [authority.of(bytes), path_and_query.of(bytes)].concat();
            assert!(target.len() == rest.len() + 7 && target.as_bytes().ends_with(&rest));
        }
    }
    host_is_clean(bytes, head);
}

fn host_is_clean(bytes: &[u8], head: &RequestHead) {
    let host = head.host.of(bytes);
    assert!(!host.is_empty() || head.version == Version::Http10);
    assert!(
        host.iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(byte))
    );
    assert_ne!(head.port, Some(0));
}

fn response_is_unambiguous(bytes: &[u8], head: &ResponseHead, method: Method) {
    let text = &bytes[..head.head_bytes];
    lines_are_clean(text, &head.fields);
    let mut text = text.to_vec();
    text[7] = if head.version == Version::Http10 {
        b'0'
    } else {
        b'1'
    };
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut lax = httparse::Response::new(&mut headers);
    assert_eq!(lax.parse(&text), Ok(httparse::Status::Complete(text.len())));
    assert_eq!(lax.code, Some(head.status));
    same_fields(bytes, &head.fields, lax.headers);
    let has_no_body = method == Method::Head || matches!(head.status, 100..200 | 204 | 304);
    let is_tunnel =
        head.status == 101 || method == Method::Connect && (200..300).contains(&head.status);
    match head.body {
        ResponseBody::None => assert!(has_no_body || lax_content_length(lax.headers) == Some(0)),
        ResponseBody::Bytes(length) => assert_eq!(lax_content_length(lax.headers), Some(length)),
        ResponseBody::Chunked => assert!(lax_is_chunked(lax.headers)),
        ResponseBody::UntilClose => {
            assert!(
                !lax_is_chunked(lax.headers)
                    && lax_content_length(lax.headers).is_none()
                    && !head.keep_alive
            );
        }
        ResponseBody::Tunnel => assert!(is_tunnel && !head.keep_alive),
    }
    assert!(head.body == ResponseBody::None || !has_no_body || is_tunnel);
}

fn lines_are_clean(text: &[u8], fields: &[Field]) {
    assert!(text.ends_with(b"\r\n\r\n"));
    let lines = text
        .strip_suffix(b"\r\n\r\n")
        .unwrap_or_default()
        .split(|&byte| byte == b'\n');
    let mut count = 0;
    for line in lines {
        let line = if count == fields.len() {
            line
        } else {
            line.strip_suffix(b"\r").unwrap_or(b"\r")
        };
        assert!(
            !line.is_empty()
                && line
                    .iter()
                    .all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f)
        );
        count += 1;
    }
    assert_eq!(count, fields.len() + 1);
}

fn same_fields(bytes: &[u8], fields: &[Field], lax: &[httparse::Header<'_>]) {
    let ours = fields
        .iter()
        .map(|field| (field.name.of(bytes), field.value.of(bytes)));
    assert!(
        ours.eq(lax
            .iter()
            .map(|header| (header.name.as_bytes(), header.value)))
    );
}

/// A parser that is content with `chunked` anywhere.
fn lax_is_chunked(headers: &[httparse::Header<'_>]) -> bool {
    let mut codings = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("transfer-encoding"));
    codings.any(|header| {
        String::from_utf8_lossy(header.value)
            .to_lowercase()
            .contains("chunked")
    })
}

/// A parser that takes the last length that it sees, and the digits that it begins with.
fn lax_content_length(headers: &[httparse::Header<'_>]) -> Option<u64> {
    let header = headers
        .iter()
        .rev()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))?;
    let text = String::from_utf8_lossy(header.value);
    let digits: String = text
        .trim_start_matches('+')
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// What a chunked body said, read in pieces of at most `step` bytes: its content, and its length if it ended.
fn read_chunked(body: &[u8], step: usize) -> Result<(Vec<u8>, Option<usize>), Refusal> {
    let mut chunked = Chunked::new();
    let (mut content, mut position) = (Vec::new(), 0);
    while position < body.len() {
        let bytes = &body[position..body.len().min(position.saturating_add(step))];
        let left = chunked.data_left();
        let moved = match chunked.next(bytes)? {
            Piece::Framing(length) => length,
            Piece::Data(length) => {
                assert!(length as u64 <= left);
                content.extend_from_slice(&bytes[..length]);
                length
            }
            Piece::End(length) => return Ok((content, Some(position + length))),
            Piece::NeedMore => unreachable!("there are bytes"),
        };
        assert!(0 < moved && moved <= bytes.len());
        position += moved;
    }
    Ok((content, None))
}

/// A chunked body: reads may end anywhere; a laxer reader gets the same content; what we write is read again.
pub fn chunked(body: &[u8]) {
    let whole = read_chunked(body, usize::MAX);
    for step in [1, 2, 3, 7, 64] {
        assert_eq!(read_chunked(body, step), whole, "in steps of {step}");
    }
    let (content, length) = match whole {
        Ok(read) => read,
        Err(refusal) => {
            assert_eq!(refusal.status, 400);
            return is_well_put(&refusal);
        }
    };
    if let Some(length) = length {
        assert_eq!(lax_chunks(&body[..length]), content);
    }
    let mut written = Vec::new();
    for piece in content.chunks(5) {
        write_chunk_size(&mut written, piece.len() as u64);
        written.extend_from_slice(piece);
        written.extend_from_slice(b"\r\n");
    }
    written.extend_from_slice(LAST_CHUNK);
    let length = written.len();
    assert_eq!(
        read_chunked(&written, usize::MAX),
        Ok((content, Some(length)))
    );
}

/// The content as a reader has it that takes LF for a line end, and ignores what follows the size.
fn lax_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = body
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(body.len(), |line_feed| line_feed + 1);
        let digits = body
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let size = u64::from_str_radix(&String::from_utf8_lossy(&body[..digits]), 16)
            .map_or(0, |size| size as usize);
        assert!(matches!(
            httparse::parse_chunk_size(body),
            Ok(httparse::Status::Complete(_))
        ));
        if size == 0 {
            return content;
        }
        content.extend_from_slice(&body[end..end + size]);
        body = &body[end + size..];
        body = body
            .strip_prefix(b"\r")
            .unwrap_or(body)
            .strip_prefix(b"\n")
            .unwrap_or_default();
    }
}

/// A request as the next hop sees it means what it meant. The first byte chooses how it is rewritten.
pub fn rewrite_request(bytes: &[u8]) {
    let Some((&options, bytes)) = bytes.split_first() else {
        return;
    };
    let mut head = RequestHead::new();
    if head.parse(bytes, &LIMITS) != Ok(Progress::Complete) {
        return;
    }
    let how = RequestRewrite {
        form: if options & 1 == 0 {
            TargetForm::Origin
        } else {
            TargetForm::Absolute
        },
        via: if options & 2 == 0 { "" } else { "carrick" },
        client: IpAddr::from(if options & 4 == 0 {
            [192, 0, 2, 1]
        } else {
            [0, 0, 0, 0]
        }),
        forwarded: [
            Forwarded::Unchanged,
            Forwarded::XForwarded,
            Forwarded::Standard,
            Forwarded::Remove,
        ][usize::from(options >> 3 & 3)],
        pass_proxy_authorization: options & 32 != 0,
        pass_upgrade: options & 64 != 0,
        drop_expect: options & 128 != 0,
    };
    let mut out = Vec::new();
    write_request(&mut out, bytes, &head, &how);
    let limits = HeadLimits {
        head_bytes_max: 2 * LIMITS.head_bytes_max,
        fields_max: LIMITS.fields_max + 8,
    };
    let mut next = RequestHead::new();
    let result = next.parse(&out, &limits);
    if head.host.is_empty() {
        // An HTTP/1.0 request for nobody in particular: `Host` is empty, which the strict side of us refuses.
        return assert_eq!(result.map_err(|refusal| refusal.label), Err("bad_host"));
    }
    assert_eq!(result, Ok(Progress::Complete), "{}", out.escape_ascii());
    assert_eq!(next.head_bytes, out.len());
    assert_eq!(next.version, Version::Http11);
    assert_eq!(next.method_text.of(&out), head.method_text.of(bytes));
    assert_eq!(
        (next.host.of(&out), next.port),
        (head.host.of(bytes), head.port)
    );
    assert_eq!((next.body, next.keep_alive), (head.body, true));
    assert_eq!(
        next.expects_continue,
        head.expects_continue && !how.drop_expect
    );
    assert_eq!(next.wants_upgrade, head.wants_upgrade && how.pass_upgrade);
    assert_eq!(
        next.query.map(|query| query.of(&out)),
        head.query.map(|query| query.of(bytes))
    );
    let is_without_path =
        head.path.is_empty() && head.method != Method::Options && head.method != Method::Connect;
    let path = if is_without_path {
        b"/"
    } else {
        head.path.of(bytes)
    };
    if !next.path.is_empty() || head.query.is_none() {
        assert_eq!(next.path.of(&out), path);
    }
    let host = next.field(&out, "host");
    assert_eq!(
        next.fields.first().map(|field| field.value.of(&out)),
        host,
        "Host comes first"
    );
    hop_by_hop_fields_are_gone(&out, &next.fields, next.wants_upgrade);
    if next.head_bytes < LIMITS.head_bytes_max && next.fields.len() < 64 {
        request_is_unambiguous(&out, &next);
    }
    let mut again = Vec::new();
    let unchanged = RequestRewrite {
        via: "",
        forwarded: Forwarded::Unchanged,
        ..how
    };
    write_request(&mut again, &out, &next, &unchanged);
    assert_eq!(
        sorted_lines(&again, true),
        sorted_lines(&out, true),
        "rewriting what is rewritten changes nothing"
    );
}

/// Lines in any order; `Max-Forwards` counts down each time.
fn sorted_lines(text: &[u8], is_request: bool) -> Vec<&[u8]> {
    let is_count = |line: &[u8]| {
        line.get(..13)
            .is_some_and(|name| name.eq_ignore_ascii_case(b"max-forwards:"))
    };
    let mut lines: Vec<&[u8]> = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !is_request || !is_count(line))
        .collect();
    lines.sort_unstable();
    lines
}

fn hop_by_hop_fields_are_gone(bytes: &[u8], fields: &[Field], upgrades: bool) {
    for field in fields {
        let name = String::from_utf8_lossy(field.name.of(bytes)).to_lowercase();
        assert!(
            !["keep-alive", "proxy-connection", "te"].contains(&name.as_str()),
            "{name}"
        );
        assert!(upgrades || name != "upgrade");
        let value = String::from_utf8_lossy(field.value.of(bytes));
        let is_ours = ["Upgrade", "close", "keep-alive", "close, Upgrade"].contains(&&*value);
        assert!(name != "connection" || is_ours, "{value}");
    }
}

/// A response as the client sees it ends where it ended. The first byte chooses method and rewriting.
pub fn rewrite_response(bytes: &[u8]) {
    let Some((&options, bytes)) = bytes.split_first() else {
        return;
    };
    let method =
        [Method::Get, Method::Head, Method::Connect, Method::Post][usize::from(options & 3)];
    let mut head = ResponseHead::new();
    if head.parse(bytes, method, &LIMITS) != Ok(Progress::Complete) {
        return;
    }
    let how = ResponseRewrite {
        via: if options & 4 == 0 { "" } else { "carrick" },
        client_version: if options & 8 == 0 {
            Version::Http11
        } else {
            Version::Http10
        },
        keep_alive: options & 16 != 0,
        add_chunked: options & 32 != 0,
        pass_upgrade: options & 64 != 0,
    };
    let mut out = Vec::new();
    write_response(&mut out, bytes, &head, &how);
    let limits = HeadLimits {
        head_bytes_max: 2 * LIMITS.head_bytes_max,
        fields_max: LIMITS.fields_max + 8,
    };
    let mut seen = ResponseHead::new();
    assert_eq!(
        seen.parse(&out, method, &limits),
        Ok(Progress::Complete),
        "{}",
        out.escape_ascii()
    );
    assert_eq!(seen.head_bytes, out.len());
    assert_eq!((seen.status, seen.version), (head.status, Version::Http11));
    assert_eq!(seen.reason.of(&out), head.reason.of(bytes));
    let ends_at_close = head.ends_at_close(how.client_version, how.add_chunked);
    let body = match head.body {
        ResponseBody::Chunked if how.client_version == Version::Http10 => ResponseBody::UntilClose,
        ResponseBody::UntilClose if !ends_at_close => ResponseBody::Chunked,
        body => body,
    };
    assert_eq!(seen.body, body);
    assert_eq!(seen.ends_at_close(how.client_version, false), ends_at_close);
    if !seen.is_interim() {
        assert_eq!(seen.keep_alive, how.keep_alive && !ends_at_close);
    }
    hop_by_hop_fields_are_gone(&out, &seen.fields, how.pass_upgrade);
    if seen.head_bytes < LIMITS.head_bytes_max && seen.fields.len() < 64 {
        response_is_unambiguous(&out, &seen, method);
    }
    let mut again = Vec::new();
    write_response(&mut again, &out, &seen, &ResponseRewrite { via: "", ..how });
    assert_eq!(
        sorted_lines(&again, false),
        sorted_lines(&out, false),
        "rewriting what is rewritten changes nothing"
    );
}

/// The first bytes of a TLS connection: more bytes never change what was said.
pub fn client_hello(bytes: &[u8]) {
    let mut said = None;
    for length in cuts(bytes.len()) {
        let hello = client_hello::read(&bytes[..length]);
        if let Some(said) = &said {
            assert_eq!(&hello, said, "at {length}");
        }
        if let client_hello::Hello::Complete(Some(name)) = &hello {
            assert!(
                !name.is_empty() && name.len() <= 255 && !name.iter().any(u8::is_ascii_uppercase)
            );
        }
        if hello != client_hello::Hello::Partial {
            said = Some(hello);
        } else {
            assert!(length <= client_hello::CLIENT_HELLO_BYTES_MAX);
        }
    }
}

/// A PROXY header: more bytes never change what was said, and what is read can be written.
pub fn proxy_protocol(bytes: &[u8]) {
    let mut said = None;
    for length in cuts(bytes.len()) {
        let header = proxy_protocol::read(&bytes[..length]);
        if let Some(said) = &said {
            assert_eq!(&header, said, "at {length}");
        }
        if header == Ok(proxy_protocol::Header::Partial) {
            assert!(length < proxy_protocol::HEADER_BYTES_MAX);
        } else {
            said = Some(header);
        }
    }
    let Some(Ok(proxy_protocol::Header::Complete(length, endpoints))) = said else {
        return;
    };
    assert!(0 < length && length <= bytes.len().min(proxy_protocol::HEADER_BYTES_MAX));
    let Some(endpoints) = endpoints else { return };
    for version_1 in [false, true] {
        let mut out = Vec::new();
        proxy_protocol::write(&mut out, &endpoints, version_1);
        let Ok(proxy_protocol::Header::Complete(length, Some(read))) = proxy_protocol::read(&out)
        else {
            unreachable!("what is written can be read: {}", out.escape_ascii());
        };
        assert_eq!(length, out.len());
        assert_eq!(
            canonical(&read),
            canonical(&endpoints),
            "version 1: {version_1}"
        );
    }
}

/// An IPv4-mapped address is the IPv4 address, and may be written so.
fn canonical(endpoints: &proxy_protocol::Endpoints) -> [(IpAddr, u16); 2] {
    [endpoints.source, endpoints.destination]
        .map(|address| (address.ip().to_canonical(), address.port()))
}
