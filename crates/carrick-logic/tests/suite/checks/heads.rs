//! Heads: reads may end anywhere, and laxer parsers read the same.
use super::{LIMITS, cuts};
use carrick_logic::http1::{
    BodyLength, Field, Method, Progress, Refusal, RequestHead, ResponseBody, ResponseHead, Target,
    Version,
};

/// A request head: reads may end anywhere; laxer parsers read the same; its bytes are well-formed.
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
    assert_eq!(last, whole, "the result depends on where reads end");
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

/// The same for a response head. The first byte selects the request's method.
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
    assert_eq!(last, whole, "the result depends on where reads end");
    match whole {
        Ok(Progress::Complete) => {
            assert_eq!(head, trickled);
            // Deviations are checked in rewritten form: `rewrite_response`.
            let mut strict = ResponseHead::new();
            if strict.parse_strictly(bytes, method, &LIMITS) == Ok(Progress::Complete) {
                assert_eq!(head, strict);
                response_is_unambiguous(bytes, &head, method);
            }
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

pub(super) fn is_well_put(refusal: &Refusal) {
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

/// The head has the line ends, spaces and fields that we reported, for us and for laxer parsers.
pub(super) fn request_is_unambiguous(bytes: &[u8], head: &RequestHead) {
    let text = &bytes[..head.head_bytes];
    lines_are_clean(text, &head.fields);
    let mut text = text.to_vec();
    // httparse knows only 1.0 and 1.1; higher minor versions are otherwise like 1.1.
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
    framing_is_plain(lax.headers);
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

pub(super) fn response_is_unambiguous(bytes: &[u8], head: &ResponseHead, method: Method) {
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
    framing_is_plain(lax.headers);
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

/// At most one length, in the only spelling that all parsers read alike.
fn framing_is_plain(headers: &[httparse::Header<'_>]) {
    let mut lengths = 0;
    for header in headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            assert!(!header.value.is_empty() && header.value.iter().all(u8::is_ascii_digit));
            lengths += 1;
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            assert!(header.value.eq_ignore_ascii_case(b"chunked"));
            lengths += 1;
        }
    }
    assert!(lengths <= 1);
}

/// A parser that accepts `chunked` anywhere.
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

/// A parser that takes the last length, and its leading digits.
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
