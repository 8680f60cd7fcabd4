//! Requests of HTTP/2: what they become, and which are malformed.
use super::*;
use crate::http1::{BodyLength, HeadLimits, Progress, RequestHead, Scheme};

const ORIGIN: RequestTranslation<'_> = RequestTranslation {
    form: RequestForm::Origin {
        http: true,
        https: true,
    },
    is_whole: true,
    websocket_key: "a2V5",
};

/// The same, with a body to come.
const OPEN: RequestTranslation<'_> = RequestTranslation {
    is_whole: false,
    ..ORIGIN
};

const GET: Pseudo<'_> = Pseudo {
    method: b"GET",
    scheme: Some(b"https"),
    authority: Some(b"a.example"),
    path: Some(b"/p?q"),
    protocol: None,
};

fn translate(
    pseudo: &Pseudo<'_>,
    fields: &[(&str, &str)],
    how: &RequestTranslation<'_>,
) -> Result<(String, RequestBody), Malformed> {
    let fields = || {
        fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
    };
    let mut out = Vec::new();
    let body = write_request(&mut out, pseudo, fields, how);
    assert!(
        body.is_ok() || out.is_empty(),
        "a part of a head was written"
    );
    Ok((String::from_utf8(out).unwrap(), body?))
}

fn with(fields: &[(&str, &str)]) -> Result<(String, RequestBody), Malformed> {
    translate(&GET, fields, &ORIGIN)
}

#[test]
fn a_request_becomes_one_of_http_1() {
    let (head, body) =
        with(&[("accept", "a"), ("te", "trailers"), ("http2-settings", "x")]).unwrap();
    assert_eq!(
        head,
        "GET /p?q HTTP/1.1\r\nhost: a.example\r\naccept: a\r\nte: trailers\r\n\r\n"
    );
    assert_eq!(body, RequestBody::None);
}

#[test]
fn crumbs_become_one_cookie() {
    let (head, _) = with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")]).unwrap();
    assert!(head.ends_with("x: y\r\ncookie: a=1; b=2\r\n\r\n"), "{head}");
}

#[test]
fn what_may_smuggle_is_malformed() {
    let cases: [(&str, &str, Malformed); 22] = [
        ("Accept", "a", Malformed::Name),
        ("", "a", Malformed::Name),
        (":path", "/b", Malformed::Name),
        ("a b", "c", Malformed::Name),
        ("a:", "c", Malformed::Name),
        ("a\r\nb", "c", Malformed::Name),
        ("a", "b\r\nc: d", Malformed::Value),
        ("a", "b\nc", Malformed::Value),
        ("a", "b\0", Malformed::Value),
        ("a", " b", Malformed::Value),
        ("a", "b\t", Malformed::Value),
        ("connection", "close", Malformed::Connection),
        ("proxy-connection", "close", Malformed::Connection),
        ("keep-alive", "1", Malformed::Connection),
        ("transfer-encoding", "chunked", Malformed::Connection),
        ("upgrade", "h2c", Malformed::Connection),
        ("te", "trailers, gzip", Malformed::Connection),
        ("host", "b.example", Malformed::Host),
        ("host", "", Malformed::Host),
        ("content-length", "+1", Malformed::Length),
        ("content-length", "1, 1", Malformed::Length),
        ("content-length", "", Malformed::Length),
    ];
    for (name, value, expected) in cases {
        assert_eq!(with(&[(name, value)]), Err(expected), "{name:?}: {value:?}");
    }
    let twice = [("content-length", "1"), ("content-length", "1")];
    assert_eq!(with(&twice), Err(Malformed::Length));
    assert_eq!(with(&[("host", "a.example"); 2]), Err(Malformed::Host));
    assert!(with(&[("host", "A.example")]).is_ok());
}

#[test]
fn pseudo_fields_have_the_values_they_may_have() {
    let path = |path| Pseudo { path, ..GET };
    let method = |method| Pseudo { method, ..GET };
    for wrong in [
        path(None),
        path(Some(b"")),
        path(Some(b"p")),
        path(Some(b"*")),
        path(Some(b"/a b")),
        path(Some(b"/ HTTP/1.1\r\nx: y")),
        method(b""),
        method(b"GET /x"),
        method(b"CONNECT"),
        Pseudo {
            scheme: Some(b"ht tp"),
            ..GET
        },
        Pseudo {
            scheme: Some(b"http://b.example/?"),
            ..GET
        },
        Pseudo {
            protocol: Some(b"websocket"),
            ..GET
        },
        Pseudo {
            method: b"CONNECT",
            path: None,
            ..GET
        },
        Pseudo {
            method: b"CONNECT",
            path: None,
            scheme: None,
            authority: None,
            protocol: None,
        },
    ] {
        assert_eq!(
            translate(&wrong, &[], &ORIGIN),
            Err(Malformed::Pseudo),
            "{wrong:?}"
        );
    }
    for authority in [&b""[..], b"a b", b"a\r\nx: y"] {
        let wrong = Pseudo {
            authority: Some(authority),
            ..GET
        };
        assert_eq!(
            translate(&wrong, &[], &ORIGIN),
            Err(Malformed::Host),
            "{wrong:?}"
        );
    }
    let unknown = Pseudo {
        method: b"CONNECT",
        protocol: Some(b"connect-udp"),
        ..GET
    };
    assert_eq!(translate(&unknown, &[], &ORIGIN), Err(Malformed::Protocol));
    let options = Pseudo {
        method: b"OPTIONS",
        path: Some(b"*"),
        ..GET
    };
    let (head, _) = translate(&options, &[], &ORIGIN).unwrap();
    assert!(head.starts_with("OPTIONS * HTTP/1.1\r\n"), "{head}");
}

#[test]
fn proxies_get_whole_urls_and_so_do_those_that_refuse_the_scheme() {
    let absolute = RequestTranslation {
        form: RequestForm::Absolute,
        ..ORIGIN
    };
    let http = Pseudo {
        scheme: Some(b"http"),
        ..GET
    };
    let unknown = Pseudo {
        scheme: None,
        authority: None,
        ..GET
    };
    let host = [("host", "a.example")];
    assert_eq!(
        translate(&unknown, &host, &absolute),
        Err(Malformed::Pseudo)
    );
    let (head, _) = translate(&unknown, &host, &ORIGIN).unwrap();
    assert_eq!(head, "GET /p?q HTTP/1.1\r\nhost: a.example\r\n\r\n");
    let (head, _) = translate(&http, &[], &absolute).unwrap();
    assert!(
        head.starts_with("GET http://a.example/p?q HTTP/1.1\r\n"),
        "{head}"
    );
    let all = Pseudo {
        method: b"OPTIONS",
        path: Some(b"*"),
        ..http
    };
    let (head, _) = translate(&all, &[], &absolute).unwrap();
    assert!(
        head.starts_with("OPTIONS http://a.example HTTP/1.1\r\n"),
        "{head}"
    );
    let only_https = RequestForm::Origin {
        http: false,
        https: true,
    };
    let only_https = RequestTranslation {
        form: only_https,
        ..ORIGIN
    };
    let (head, _) = translate(&http, &[], &only_https).unwrap();
    assert!(
        head.starts_with("GET http://a.example/p?q HTTP/1.1\r\n"),
        "{head}"
    );
    let (head, _) = translate(&GET, &[], &only_https).unwrap();
    assert!(head.starts_with("GET /p?q HTTP/1.1\r\n"), "{head}");
}

#[test]
fn a_body_has_one_length() {
    let post = Pseudo {
        method: b"POST",
        ..GET
    };
    let (head, body) = translate(&post, &[], &OPEN).unwrap();
    assert!(head.ends_with("transfer-encoding: chunked\r\n\r\n") && body == RequestBody::Chunked);
    let (head, body) = translate(&post, &[("content-length", "7")], &OPEN).unwrap();
    assert!(head.ends_with("content-length: 7\r\n\r\n") && body == RequestBody::Bytes(7));
    let (head, body) = translate(&post, &[], &ORIGIN).unwrap();
    assert!(head.ends_with("content-length: 0\r\n\r\n") && body == RequestBody::None);
}

#[test]
fn tunnels_and_web_sockets() {
    let connect = Pseudo {
        method: b"CONNECT",
        authority: Some(b"a.example:443"),
        ..Pseudo::default()
    };
    let (head, body) = translate(&connect, &[("content-length", "5")], &OPEN).unwrap();
    assert_eq!(
        head,
        "CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n\r\n"
    );
    assert_eq!(body, RequestBody::Tunnel);
    let extended = Pseudo {
        method: b"CONNECT",
        protocol: Some(b"websocket"),
        ..GET
    };
    let fields = [
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "other"),
    ];
    let (head, body) = translate(&extended, &fields, &OPEN).unwrap();
    assert_eq!(
        head,
        "GET /p?q HTTP/1.1\r\nhost: a.example\r\nsec-websocket-version: 13\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: a2V5\r\n\r\n"
    );
    assert_eq!(body, RequestBody::WebSocket);
}

#[test]
fn the_parser_reads_what_was_meant() {
    const LIMITS: HeadLimits = HeadLimits {
        head_bytes_max: 8192,
        fields_max: 100,
    };
    let (head, _) = translate(
        &Pseudo {
            method: b"PUT",
            ..GET
        },
        &[("content-length", "3"), ("cookie", "a=b")],
        &RequestTranslation {
            is_whole: false,
            ..ORIGIN
        },
    )
    .unwrap();
    let mut parsed = RequestHead::new();
    parsed.scheme = Scheme::Https;
    assert_eq!(
        parsed.parse(head.as_bytes(), &LIMITS),
        Ok(Progress::Complete)
    );
    assert_eq!(parsed.body, BodyLength::Bytes(3));
    assert_eq!(parsed.host.of(head.as_bytes()), b"a.example");
}
