//! Response heads on their way to the client: bytes in, bytes out.
use super::*;
use crate::http1::{HeadLimits, Method, Progress};

const KEPT: ResponseRewrite<'static> = ResponseRewrite {
    via: "",
    client_version: Version::Http11,
    keep_alive: true,
    add_chunked: false,
    pass_upgrade: false,
};
const CLOSED: ResponseRewrite<'static> = ResponseRewrite {
    keep_alive: false,
    ..KEPT
};
const OLD: ResponseRewrite<'static> = ResponseRewrite {
    client_version: Version::Http10,
    ..KEPT
};
const CHUNKING: ResponseRewrite<'static> = ResponseRewrite {
    add_chunked: true,
    ..KEPT
};
const UPGRADING: ResponseRewrite<'static> = ResponseRewrite {
    pass_upgrade: true,
    ..KEPT
};

fn rewritten(text: &str, method: Method, how: &ResponseRewrite<'_>) -> String {
    let mut head = ResponseHead::new();
    let limits = HeadLimits {
        head_bytes_max: 8192,
        fields_max: 100,
    };
    assert_eq!(
        head.parse(text.as_bytes(), method, &limits),
        Ok(Progress::Complete),
        "{text:?}"
    );
    let mut out = b"kept".to_vec();
    write_response(&mut out, text.as_bytes(), &head, how);
    String::from_utf8(out)
        .unwrap()
        .strip_prefix("kept")
        .unwrap()
        .to_owned()
}

#[test]
fn responses_to_get() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let length = "Content-Length: 5\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let close = "Connection: close\r\n";
    let keep = "Connection: keep-alive\r\n";
    // Status line and fields in, options, status line and fields out.
    #[rustfmt::skip]
    let table: [(&[&str], &ResponseRewrite<'_>, &[&str]); 27] = [
        (&[ok, "A: b\r\n", length, "B:c\r\n"], &KEPT, &[ok, "A: b\r\n", length, "B: c\r\n"]),
        (&["HTTP/1.0 200\r\n", length], &KEPT, &["HTTP/1.1 200 \r\n", length]),
        (&["HTTP/1.1 599 Odd one\r\n", length], &KEPT, &["HTTP/1.1 599 Odd one\r\n", length]),
        (&[ok, length], &CLOSED, &[ok, length, close]),
        (&[ok, length], &OLD, &[ok, length, keep]),
        (&[ok, length], &CHUNKING, &[ok, length]),
        (&[ok, keep, length, "Keep-Alive: 5\r\n", "Proxy-Connection: x\r\n"], &KEPT, &[ok, length]),
        (&[ok, close, length], &KEPT, &[ok, length]),
        (&[ok, length, "Upgrade: h2c\r\n", "Connection: upgrade\r\n"], &KEPT, &[ok, length]),
        (&[ok, length, "Upgrade: h2c\r\n", "Connection: upgrade\r\n"], &UPGRADING, &[ok, length]),
        (&[ok, length, "Connection: x-a, set-cookie\r\n", "X-A: b\r\n", "Set-Cookie: c\r\n"], &KEPT, &[ok, length, "Set-Cookie: c\r\n"]),
        (&[ok, "Transfer-Encoding: Chunked\r\n", "Trailer: x\r\n"], &KEPT, &[ok, "Trailer: x\r\n", chunked]),
        (&[ok, chunked], &CLOSED, &[ok, chunked, close]),
        (&[ok, chunked, "Trailer: x\r\n"], &OLD, &[ok, close]),
        (&[ok, chunked], &CHUNKING, &[ok, chunked]),
        (&[ok], &KEPT, &[ok, close]),
        (&[ok], &CHUNKING, &[ok, chunked]),
        (&[ok], &ResponseRewrite { add_chunked: true, ..OLD }, &[ok, close]),
        (&[ok, length, "Trailer: x\r\n"], &KEPT, &[ok, length]),
        (&["HTTP/1.1 204 No\r\n", length], &KEPT, &["HTTP/1.1 204 No\r\n"]),
        (&["HTTP/1.1 204 No\r\n", chunked], &CHUNKING, &["HTTP/1.1 204 No\r\n"]),
        (&["HTTP/1.1 304 Same\r\n", length], &KEPT, &["HTTP/1.1 304 Same\r\n", length]),
        (&["HTTP/1.1 304 Same\r\n", chunked], &KEPT, &["HTTP/1.1 304 Same\r\n", chunked]),
        (&["HTTP/1.1 103 Early\r\n", "Link: x\r\n", length], &CLOSED, &["HTTP/1.1 103 Early\r\n", "Link: x\r\n"]),
        (&["HTTP/1.1 407 Auth\r\n", length, "Proxy-Authenticate: Basic\r\n"], &KEPT, &["HTTP/1.1 407 Auth\r\n", length, "Proxy-Authenticate: Basic\r\n"]),
        (&[ok, length, "Proxy-Authenticate: Basic\r\n"], &KEPT, &[ok, length]),
        (&[ok, length, "Via: 1.0 a\r\n"], &ResponseRewrite { via: "carrick", ..CLOSED }, &[ok, length, "Via: 1.0 a\r\n", close, "Via: 1.1 carrick\r\n"]),
    ];
    for (before, how, after) in table {
        let out = rewritten(&format!("{}\r\nbody", before.concat()), Method::Get, how);
        assert_eq!(out, format!("{}\r\n", after.concat()), "{before:?} {how:?}");
    }
}

#[test]
fn responses_to_head_have_the_fields_of_get() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(rewritten(text, Method::Head, &KEPT), text);
    let old = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(rewritten(text, Method::Head, &OLD), old);
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(rewritten(text, Method::Head, &KEPT), text);
}

#[test]
fn tunnels_have_no_length_and_no_connection_options() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTrailer: x\r\nA: b\r\n\r\n";
    assert_eq!(
        rewritten(text, Method::Connect, &CLOSED),
        "HTTP/1.1 200 OK\r\nA: b\r\n\r\n"
    );
    let text =
        "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nA: b\r\n\r\n";
    let kept =
        "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nA: b\r\nConnection: Upgrade\r\n\r\n";
    assert_eq!(rewritten(text, Method::Get, &UPGRADING), kept);
}

#[test]
fn what_deviates_is_put_into_the_usual_form() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let table = [
        (
            "HTTP/1.1 200 OK\nA: b\nContent-Length:5\n\n",
            "A: b\r\nContent-Length: 5\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nA: b\nC: d\r\nContent-Length: 5\r\n\n",
            "A: b\r\nC: d\r\nContent-Length: 5\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length\t : 5\r\nA : b\r\n\r\n",
            "Content-Length: 5\r\nA: b\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\nContent-length: 5\r\n\r\n",
            "A: b\r\nContent-Length: 5\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5 ,5\r\nA: b\r\n\r\n",
            "A: b\r\nContent-Length: 5\r\n",
        ),
        (
            "HTTP/1.1 200 OK\nTransfer-Encoding : chunked\nA: b\n\n",
            "A: b\r\nTransfer-Encoding: chunked\r\n",
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection : x\r\nX: y\r\nContent-Length: 5\r\n\r\n",
            "Content-Length: 5\r\n",
        ),
    ];
    for (text, fields) in table {
        assert_eq!(
            rewritten(text, Method::Get, &KEPT),
            format!("{ok}{fields}\r\n"),
            "{text:?}"
        );
    }
    let text = "HTTP/1.1 204 No\r\nContent-Length: 5, 5\r\n\r\n";
    assert_eq!(
        rewritten(text, Method::Get, &KEPT),
        "HTTP/1.1 204 No\r\n\r\n"
    );
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n";
    assert_eq!(
        rewritten(text, Method::Connect, &KEPT),
        ok.to_owned() + "\r\n"
    );
}

/// RFC 9110 section 15.5.22: clients that did not ask for an upgrade still learn which one is required.
#[test]
fn upgrade_required_names_the_protocol_to_every_client() {
    let fields = "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n";
    let start = "HTTP/1.1 426 Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n";
    let closing = ResponseRewrite {
        keep_alive: false,
        ..KEPT
    };
    for (how, connection) in [
        (&KEPT, "Upgrade"),
        (&UPGRADING, "Upgrade"),
        (&closing, "close, Upgrade"),
        (&OLD, "keep-alive, Upgrade"),
    ] {
        assert_eq!(
            rewritten(
                &format!("HTTP/1.1 426 Upgrade\r\n{fields}"),
                Method::Get,
                how
            ),
            format!("{start}Connection: {connection}\r\n\r\n"),
        );
        assert_eq!(
            rewritten(
                &format!("HTTP/1.1 403 No\r\n{fields}"),
                Method::Get,
                &UPGRADING
            ),
            "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"
        );
    }
    let text = "HTTP/1.1 426 Upgrade\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(rewritten(text, Method::Get, &UPGRADING), text);
    let text = format!("HTTP/1.1 101 Switching\r\n{fields}");
    assert!(!rewritten(&text, Method::Get, &KEPT).contains("Upgrade:"));
}
