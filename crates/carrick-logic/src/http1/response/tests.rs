//! Response heads: which are refused, which are accepted, and where the body ends.
use super::*;
use ResponseBody as B;

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 8192,
    fields_max: 100,
};

/// Parses `text`, and checks that single bytes give the same result.
fn parse(text: &[u8], method: Method) -> Result<(ResponseHead, Progress), Refusal> {
    let mut head = ResponseHead::new();
    let whole = head.parse(text, method, &LIMITS);
    let mut trickled = ResponseHead::new();
    let mut last = Ok(Progress::Partial);
    for length in 1..=text.len() {
        last = trickled.parse(&text[..length], method, &LIMITS);
        if last != Ok(Progress::Partial) {
            break;
        }
    }
    assert_eq!(last, whole, "byte by byte: {}", text.escape_ascii());
    whole.map(|progress| (head, progress))
}

fn accepted(text: &str, method: Method) -> ResponseHead {
    match parse(text.as_bytes(), method) {
        Ok((head, Progress::Complete)) => head,
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn responses_that_are_refused() {
    #[rustfmt::skip]
    let table: [(&[u8], &str); 43] = [
        (b"<html>", "not_http"),
        (b"\r\nHTTP/1.1 200 OK\r\n\r\n", "not_http"),
        (b"http/1.1 200 OK\r\n\r\n", "not_http"),
        (b"ICY 200 OK\r\n\r\n", "not_http"),
        (b"HTTP/2", "unsupported_version"),
        (b"HTTP/0.9 200 OK\r\n\r\n", "unsupported_version"),
        (b"HTTP/1.x 200 OK\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.10 200 OK\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1  200 OK\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1 099 OK\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1 +20 OK\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1 200\tOK\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1 200 O\x00K\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1 200 O\rK\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1 200 OK\r\r\n\r\n", "malformed_status_line"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\r\n\r\n", "bare_cr"),
        (b"HTTP/1.1 200 OK\nA: b\n c\n\n", "line_folding"),
        (b"HTTP/1.1 200 OK\nA\n\n", "missing_colon"),
        (b"HTTP/1.1 200 OK\nA: b\rc\n\n", "bare_cr"),
        (b"HTTP/1.1 200 OK\n\r\r\n\n", "missing_colon"),
        (b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", "bare_cr"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "line_folding"),
        (b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", "bad_field_name"),
        (b"HTTP/1.1 200 OK\r\nA\x0b: c\r\n\r\n", "bad_field_name"),
        (b"HTTP/1.1 200 OK\r\n : b\r\n\r\n", "line_folding"),
        (b"HTTP/1.1 200 OK\r\n: b\r\n\r\n", "empty_field_name"),
        (b"HTTP/1.1 200 OK\r\nA\r\n\r\n", "missing_colon"),
        (b"HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n", "control_byte"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "repeated_content_length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1, 2\r\n\r\n", "repeated_content_length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1,\r\n\r\n", "bad_content_length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 01\r\n\r\n", "bad_content_length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "bad_content_length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "bad_content_length"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "unknown_transfer_coding"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "unknown_transfer_coding"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", "unknown_transfer_coding"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", "chunked_not_last"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked;x\r\n\r\n", "bad_transfer_encoding"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "repeated_transfer_encoding"),
        (b"HTTP/1.1 200 OK\r\nConnection: a b\r\n\r\n", "bad_connection"),
    ];
    for (text, label) in table {
        let seen = parse(text, Method::Get).map_err(|refusal| (refusal.status, refusal.label));
        assert_eq!(seen.err(), Some((502, label)), "{}", text.escape_ascii());
    }
    let names = vec!["a"; 65].join(",");
    let text = format!("HTTP/1.1 200 OK\r\nConnection: {names}\r\n\r\n");
    let seen = parse(text.as_bytes(), Method::Get).map_err(|refusal| refusal.label);
    assert_eq!(seen.err(), Some("long_connection"));
}

/// Deviations that are refused if the head is forwarded unchanged, and their meaning if it is rewritten.
#[test]
fn deviations_with_one_reading_are_read_where_the_head_is_written_anew() {
    #[rustfmt::skip]
    type Row = (&'static str, &'static str, B, &'static [(&'static str, &'static str)]);
    let table: [Row; 16] = [
        ("HTTP/1.1 200 OK\n\n", "bare_lf", B::UntilClose, &[]),
        ("HTTP/1.1 200 OK\n\r\n", "bare_lf", B::UntilClose, &[]),
        ("HTTP/1.1 200 OK\r\n\n", "bare_lf", B::UntilClose, &[]),
        (
            "HTTP/1.1 200 OK\r\nA: b\n\r\n",
            "bare_lf",
            B::UntilClose,
            &[("A", "b")],
        ),
        (
            "HTTP/1.1 200 OK\nContent-Length: 5\nA:b \n\n",
            "bare_lf",
            B::Bytes(5),
            &[("Content-Length", "5"), ("A", "b")],
        ),
        (
            "HTTP/1.1 200 OK\nTransfer-Encoding \t: chunked\n\n",
            "bare_lf",
            B::Chunked,
            &[("Transfer-Encoding", "chunked")],
        ),
        (
            "HTTP/1.1 200 OK\r\nA : b\r\nC:\r\n\r\n",
            "space_before_colon",
            B::UntilClose,
            &[("A", "b"), ("C", "")],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length\t: 5\r\n\r\n",
            "space_before_colon",
            B::Bytes(5),
            &[("Content-Length", "5")],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "repeated_content_length",
            B::Bytes(5),
            &[("Content-Length", "5"), ("Content-Length", "5")],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5,5\r\n\r\n",
            "bad_content_length",
            B::Bytes(5),
            &[("Content-Length", "5, 5,5")],
        ),
        (
            "HTTP/1.1 304 Same\r\nContent-Length: 5, 5\r\n\r\n",
            "bad_content_length",
            B::None,
            &[("Content-Length", "5, 5")],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0,0\r\n\r\n",
            "bad_content_length",
            B::None,
            &[("Content-Length", "0,0")],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "both_lengths",
            B::Chunked,
            &[("Transfer-Encoding", "chunked")],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length : 1\nTransfer-Encoding: chunked\r\n\r\n",
            "bare_lf",
            B::Chunked,
            &[("Transfer-Encoding", "chunked")],
        ),
        (
            "HTTP/1.1 304 Same\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
            "both_lengths",
            B::None,
            &[("Transfer-Encoding", "chunked")],
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "chunked_http10",
            B::Chunked,
            &[("Transfer-Encoding", "chunked")],
        ),
    ];
    for (text, label, body, fields) in table {
        let strict = ResponseHead::new().parse_strictly(text.as_bytes(), Method::Get, &LIMITS);
        let seen = strict.map_err(|refusal| (refusal.status, refusal.label));
        assert_eq!(seen, Err((502, label)), "{text:?}");
        let with_body = format!("{text}A: b\n\n");
        let head = accepted(&with_body, Method::Get);
        assert_eq!((head.head_bytes, head.body), (text.len(), body), "{text:?}");
        let seen = head.fields.iter().map(|field| {
            let of = |span: Span| str::from_utf8(span.of(with_body.as_bytes())).unwrap();
            (of(field.name), of(field.value))
        });
        assert!(
            seen.eq(fields.iter().copied()),
            "{text:?}: {:?}",
            head.fields
        );
    }
}

#[test]
fn where_bodies_end() {
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    // Method, version, status, fields, body, whether the connection can be reused.
    #[rustfmt::skip]
    let table: [(Method, &str, u16, &str, B, bool); 34] = [
        (Method::Get, "1.1", 200, "Content-Length: 5\r\n", B::Bytes(5), true),
        (Method::Get, "1.1", 200, "Content-Length: 0\r\n", B::None, true),
        (Method::Get, "1.1", 200, CHUNKED, B::Chunked, true),
        (Method::Get, "1.1", 200, "", B::UntilClose, false),
        (Method::Get, "1.1", 200, "Connection: keep-alive\r\n", B::UntilClose, false),
        (Method::Get, "1.1", 200, "Content-Length: 5\r\nConnection: close\r\n", B::Bytes(5), false),
        (Method::Get, "1.3", 200, "Content-Length: 5\r\n", B::Bytes(5), true),
        (Method::Get, "1.0", 200, "Content-Length: 5\r\n", B::Bytes(5), false),
        (Method::Get, "1.0", 200, "Content-Length: 5\r\nConnection: keep-alive\r\n", B::Bytes(5), true),
        (Method::Get, "1.0", 200, "Content-Length: 5\r\nConnection: keep-alive, close\r\n", B::Bytes(5), false),
        (Method::Get, "1.0", 200, "Content-Length: 5\r\nProxy-Connection: keep-alive\r\n", B::Bytes(5), false),
        (Method::Get, "1.0", 200, "", B::UntilClose, false),
        (Method::Head, "1.1", 200, "Content-Length: 5\r\n", B::None, true),
        (Method::Head, "1.1", 200, CHUNKED, B::None, true),
        (Method::Head, "1.1", 200, "", B::None, true),
        (Method::Get, "1.1", 304, "Content-Length: 5\r\n", B::None, true),
        (Method::Get, "1.1", 304, "", B::None, true),
        (Method::Get, "1.1", 204, "", B::None, true),
        (Method::Get, "1.1", 204, "Content-Length: 0\r\n", B::None, true),
        (Method::Get, "1.1", 204, "Content-Length: 5\r\n", B::None, false),
        (Method::Get, "1.1", 204, CHUNKED, B::None, false),
        (Method::Get, "1.1", 205, "Content-Length: 0\r\n", B::None, true),
        (Method::Get, "1.1", 100, "", B::None, true),
        (Method::Get, "1.1", 103, "Content-Length: 5\r\n", B::None, true),
        (Method::Get, "1.1", 101, "Upgrade: websocket\r\n", B::Tunnel, false),
        (Method::Connect, "1.1", 200, "Content-Length: 5\r\n", B::Tunnel, false),
        (Method::Connect, "1.0", 299, "", B::Tunnel, false),
        (Method::Connect, "1.1", 204, "", B::Tunnel, false),
        (Method::Connect, "1.1", 407, "Content-Length: 5\r\n", B::Bytes(5), true),
        (Method::Connect, "1.1", 502, "", B::UntilClose, false),
        (Method::Post, "1.1", 999, CHUNKED, B::Chunked, true),
        (Method::Get, "1.1", 200, "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", B::Chunked, false),
        (Method::Head, "1.1", 200, "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", B::None, false),
        (Method::Get, "1.0", 200, "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n", B::Chunked, false),
    ];
    for (method, version, status, fields, body, keep_alive) in table {
        let head = accepted(
            &format!("HTTP/{version} {status} Reason\r\n{fields}\r\n"),
            method,
        );
        let seen = (head.status, head.body, head.keep_alive);
        assert_eq!(
            seen,
            (status, body, keep_alive),
            "{method:?} {version} {status} {fields:?}"
        );
    }
}

#[test]
fn reasons_of_all_kinds() {
    let table = [
        ("200 OK", "OK"),
        ("200 ", ""),
        ("200", ""),
        ("404 Not  \tfound ", "Not  \tfound "),
        ("200 \u{e9}", "\u{e9}"),
    ];
    for (line, reason) in table {
        let text = format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\nrest");
        let head = accepted(&text, Method::Get);
        assert_eq!(head.reason.of(text.as_bytes()), reason.as_bytes());
        assert_eq!(head.head_bytes, text.len() - 4);
        assert_eq!(
            head.field(text.as_bytes(), "content-length"),
            Some(&b"0"[..])
        );
    }
}

#[test]
fn limits_hold_and_interim_heads_follow_each_other() {
    let limits = HeadLimits {
        head_bytes_max: 40,
        fields_max: 2,
    };
    let mut head = ResponseHead::new();
    let long = format!("HTTP/1.1 200 {}", "x".repeat(27));
    assert_eq!(
        head.parse(&long.as_bytes()[..39], Method::Get, &limits),
        Ok(Progress::Partial)
    );
    let refusal = head
        .parse(long.as_bytes(), Method::Get, &limits)
        .unwrap_err();
    assert_eq!((refusal.status, refusal.label), (502, "head_too_long"));
    let refusal = head
        .parse(b"HTTP/1.1 200 \r\na:\r\nb:\r\nc:\r\n", Method::Get, &limits)
        .unwrap_err();
    assert_eq!((refusal.status, refusal.label), (502, "too_many_fields"));

    let two = b"HTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(
        head.parse(two, Method::Get, &limits),
        Ok(Progress::Complete)
    );
    assert!(head.is_interim());
    let rest = &two[head.head_bytes..];
    assert_eq!(
        head.parse(rest, Method::Get, &limits),
        Ok(Progress::Complete)
    );
    assert_eq!(
        (head.status, head.fields.len(), head.is_interim()),
        (200, 0, false)
    );
}

#[test]
fn bodies_that_need_a_close() {
    let (old, new) = (Version::Http10, Version::Http11);
    let table = [
        ("Content-Length: 5\r\n", old, false, false),
        ("Transfer-Encoding: chunked\r\n", new, false, false),
        ("Transfer-Encoding: chunked\r\n", old, false, true),
        ("", new, true, false),
        ("", new, false, true),
        ("", old, true, true),
    ];
    for (fields, version, add_chunked, expected) in table {
        let head = accepted(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), Method::Get);
        assert_eq!(
            head.ends_at_close(version, add_chunked),
            expected,
            "{fields:?} {version:?} {add_chunked}"
        );
    }
}
