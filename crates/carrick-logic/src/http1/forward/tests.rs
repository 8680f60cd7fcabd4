//! Request heads on their way to the next hop: bytes in, bytes out.
use super::*;
use crate::http1::{HeadLimits, Progress};

const ORIGIN: RequestRewrite<'static> = RequestRewrite {
    form: TargetForm::Origin,
    default_host: "",
    name: "carrick",
    named_in: NamedIn::Nothing,
    mark: None,
    client: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    forwarded: Forwarded::Unchanged,
    stated_in: StatedIn::XForwardedFor,
    pass_proxy_authorization: false,
    pass_upgrade: false,
    pass_te_trailers: false,
    drop_expect: false,
    omitted: &[],
    added: &[],
};

fn rewritten(text: &str, how: &RequestRewrite<'_>) -> String {
    let mut head = RequestHead::new();
    let limits = HeadLimits {
        head_bytes_max: 8192,
        fields_max: 100,
    };
    assert_eq!(
        head.parse(text.as_bytes(), &limits),
        Ok(Progress::Complete),
        "{text:?}"
    );
    let mut out = b"kept".to_vec();
    write_request(&mut out, text.as_bytes(), &head, how);
    String::from_utf8(out)
        .unwrap()
        .strip_prefix("kept")
        .unwrap()
        .to_owned()
}

/// The remaining fields after `Host`, for `fields` with `POST / HTTP/1.1`.
fn fields_left(fields: &str, how: &RequestRewrite<'_>) -> String {
    let out = rewritten(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"), how);
    let left = out.strip_prefix("POST / HTTP/1.1\r\nHost: a\r\n").unwrap();
    left.strip_suffix("\r\n").unwrap().to_owned()
}

#[test]
fn a_cache_asks_in_its_own_words() {
    let how = RequestRewrite {
        omitted: &[b"if-none-match", b"range"],
        added: b"If-None-Match: \"b\"\r\n",
        ..ORIGIN
    };
    let text = "GET / HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"a\"\r\nAccept: x\r\nRANGE: bytes=0-1\r\n\r\n";
    let expected = "GET / HTTP/1.1\r\nHost: h\r\nAccept: x\r\nIf-None-Match: \"b\"\r\n\r\n";
    assert_eq!(rewritten(text, &how), expected);
}

#[test]
fn targets_and_hosts() {
    // Request line and host, the form for an origin, the form for a parent proxy.
    #[rustfmt::skip]
    let table = [
        ("GET /a?b HTTP/1.1\r\nhost:h:1", "GET /a?b HTTP/1.1\r\nHost: h:1", "GET http://h:1/a?b HTTP/1.1\r\nHost: h:1"),
        ("GET http://x:81/a HTTP/1.1\r\nHost: h", "GET /a HTTP/1.1\r\nHost: x:81", "GET http://x:81/a HTTP/1.1\r\nHost: x:81"),
        ("GET HTTP://x HTTP/1.1\r\nHost: h", "GET / HTTP/1.1\r\nHost: x", "GET http://x/ HTTP/1.1\r\nHost: x"),
        ("GET http://x?q HTTP/1.1\r\nHost: h", "GET /?q HTTP/1.1\r\nHost: x", "GET http://x/?q HTTP/1.1\r\nHost: x"),
        ("GET http://[::1]:8/ HTTP/1.1\r\nHost: h", "GET / HTTP/1.1\r\nHost: [::1]:8", "GET http://[::1]:8/ HTTP/1.1\r\nHost: [::1]:8"),
        ("OPTIONS * HTTP/1.1\r\nHost: h", "OPTIONS * HTTP/1.1\r\nHost: h", "OPTIONS http://h HTTP/1.1\r\nHost: h"),
        ("OPTIONS http://x HTTP/1.1\r\nHost: h", "OPTIONS * HTTP/1.1\r\nHost: x", "OPTIONS http://x HTTP/1.1\r\nHost: x"),
        ("OPTIONS http://x/ HTTP/1.1\r\nHost: h", "OPTIONS / HTTP/1.1\r\nHost: x", "OPTIONS http://x/ HTTP/1.1\r\nHost: x"),
        ("OPTIONS http://x?q HTTP/1.1\r\nHost: h", "OPTIONS /?q HTTP/1.1\r\nHost: x", "OPTIONS http://x/?q HTTP/1.1\r\nHost: x"),
        ("CONNECT x:443 HTTP/1.1\r\nHost: h", "CONNECT x:443 HTTP/1.1\r\nHost: x:443", "CONNECT x:443 HTTP/1.1\r\nHost: x:443"),
        ("GET /a HTTP/1.0\r\nHost: h", "GET /a HTTP/1.1\r\nHost: h", "GET http://h/a HTTP/1.1\r\nHost: h"),
        ("GET /a HTTP/1.0", "GET /a HTTP/1.1\r\nHost: ", "GET /a HTTP/1.1\r\nHost: "),
        ("PURGE /a HTTP/1.5\r\nHost: h", "PURGE /a HTTP/1.1\r\nHost: h", "PURGE http://h/a HTTP/1.1\r\nHost: h"),
    ];
    let parent = RequestRewrite {
        form: TargetForm::Absolute,
        ..ORIGIN
    };
    for (head, origin_form, absolute_form) in table {
        let text = format!("{head}\r\n\r\nbody");
        assert_eq!(rewritten(&text, &ORIGIN), format!("{origin_form}\r\n\r\n"));
        assert_eq!(
            rewritten(&text, &parent),
            format!("{absolute_form}\r\n\r\n")
        );
    }
}

#[test]
fn host_goes_first_and_order_is_kept() {
    let text = "GET / HTTP/1.1\r\nB: 1\r\nA: 2\r\nConnection: keep-alive\r\nC:3\r\nHOST:  h  \r\nD: 4\r\nB: 5\r\n\r\n";
    let expected = "GET / HTTP/1.1\r\nHost: h\r\nB: 1\r\nA: 2\r\nC: 3\r\nD: 4\r\nB: 5\r\n\r\n";
    assert_eq!(rewritten(text, &ORIGIN), expected);
}

#[test]
fn field_lines_get_one_form() {
    #[rustfmt::skip]
    let table = [
        ("A:b\r\n", "A: b\r\n"),
        ("A: b\r\n", "A: b\r\n"),
        ("A:\tb\r\n", "A: b\r\n"),
        ("A:   b \t\r\n", "A: b\r\n"),
        ("A:\r\n", "A: \r\n"),
        ("A: \r\nB: c\r\n", "A: \r\nB: c\r\n"),
        ("A: b  c\r\nB:d\r\nC: e\r\nD: f\r\n", "A: b  c\r\nB: d\r\nC: e\r\nD: f\r\n"),
        ("a-B: \u{e9}\r\n", "a-B: \u{e9}\r\n"),
    ];
    for (fields, left) in table {
        assert_eq!(fields_left(fields, &ORIGIN), left, "{fields:?}");
    }
}

#[test]
fn hop_by_hop_fields_go() {
    #[rustfmt::skip]
    let table = [
        ("Connection: close\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTE: trailers\r\nUpgrade: h2c\r\n", ""),
        ("Proxy-Authorization: Basic eDp5\r\n", ""),
        ("Connection: X-One, x-two\r\nX-ONE: 1\r\nX-Two: 2\r\nX-Three: 3\r\n", "X-Three: 3\r\n"),
        ("X-One: 1\r\nConnection: close\r\nConnection: x-one\r\n", ""),
        ("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n", ""),
        ("Transfer-Encoding: CHUNKED\r\nTrailer: x\r\n", "Transfer-Encoding: chunked\r\nTrailer: x\r\n"),
        ("Trailer: x\r\n", ""),
        ("Content-Length: 3\r\n", "Content-Length: 3\r\n"),
        ("Expect: 100-continue\r\nContent-Length: 3\r\n", "Expect: 100-continue\r\nContent-Length: 3\r\n"),
        ("Expect: 100-continue\r\n", ""),
    ];
    for (fields, left) in table {
        assert_eq!(fields_left(fields, &ORIGIN), left, "{fields:?}");
    }
}

#[test]
fn connection_cannot_take_away_what_others_rely_on() {
    let protected = [
        "Content-Length: 3",
        "Cookie: a=b",
        "Authorization: x",
        "X-Forwarded-For: 1.2.3.4",
        "Forwarded: for=x",
        "Content-Type: x",
        "Via: 1.1 x",
        "Range: bytes=0-1",
        "Cache-Control: no-cache",
        "Max-Forwards: 3",
        "Origin: x",
    ];
    for line in protected {
        let name = line.split(':').next().unwrap();
        let fields = format!(
            "Connection: close, {}, host\r\n{line}\r\n",
            name.to_lowercase()
        );
        assert_eq!(fields_left(&fields, &ORIGIN), format!("{line}\r\n"));
    }
    let chunked = "Connection: transfer-encoding, trailer\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(
        fields_left(chunked, &ORIGIN),
        "Transfer-Encoding: chunked\r\n"
    );
}

#[test]
fn options_of_the_rewriting() {
    let authorized = RequestRewrite {
        pass_proxy_authorization: true,
        ..ORIGIN
    };
    assert_eq!(
        fields_left("Proxy-Authorization: x\r\n", &authorized),
        "Proxy-Authorization: x\r\n"
    );

    let upgrading = RequestRewrite {
        pass_upgrade: true,
        ..ORIGIN
    };
    let websocket =
        "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n";
    let kept = "Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nConnection: Upgrade\r\n";
    assert_eq!(fields_left(websocket, &upgrading), kept);
    assert_eq!(fields_left(websocket, &ORIGIN), "Sec-WebSocket-Key: x\r\n");
    assert_eq!(fields_left("Upgrade: websocket\r\n", &upgrading), "");
    assert_eq!(
        fields_left("Connection: upgrade\r\nUpgrade: h2c\r\n", &upgrading),
        ""
    );

    let with_trailers = RequestRewrite {
        pass_te_trailers: true,
        ..ORIGIN
    };
    let table = [
        ("TE: trailers\r\n", "TE: trailers\r\nConnection: TE\r\n"),
        (
            "TE: gzip;q=0.5, Trailers\r\n",
            "TE: trailers\r\nConnection: TE\r\n",
        ),
        ("TE: gzip\r\n", ""),
        ("TE: trailers;q=0\r\n", ""),
        ("", ""),
    ];
    for (fields, kept) in table {
        assert_eq!(fields_left(fields, &with_trailers), kept, "{fields}");
        assert_eq!(fields_left(fields, &ORIGIN), "");
    }

    let continued = RequestRewrite {
        drop_expect: true,
        ..ORIGIN
    };
    assert_eq!(
        fields_left("Expect: 100-continue\r\nContent-Length: 1\r\n", &continued),
        "Content-Length: 1\r\n"
    );

    let named = RequestRewrite {
        named_in: NamedIn::Via,
        ..ORIGIN
    };
    assert_eq!(
        fields_left("Via: 1.0 a\r\n", &named),
        "Via: 1.0 a\r\nVia: 1.1 carrick\r\n"
    );
    let hosted = RequestRewrite {
        default_host: "10.0.0.1:80",
        ..ORIGIN
    };
    let old = rewritten("GET / HTTP/1.0\r\n\r\n", &hosted);
    assert_eq!(old, "GET / HTTP/1.1\r\nHost: 10.0.0.1:80\r\n\r\n");
    assert_eq!(fields_left("", &hosted), "");
    let old = rewritten("GET / HTTP/1.0\r\n\r\n", &named);
    assert_eq!(old, "GET / HTTP/1.1\r\nHost: \r\nVia: 1.0 carrick\r\n\r\n");
}

#[test]
fn forwarded_fields_of_the_client() {
    let with = |forwarded, client: &str| RequestRewrite {
        forwarded,
        client: client.parse().unwrap(),
        ..ORIGIN
    };
    // Fields in the head are believed: see `RequestHead::forget_claims`.
    let old = "X-Forwarded-For: 10.0.0.1, 10.0.0.2\r\nX-Forwarded-Proto: https\r\nForwarded: for=x\r\nX-Forwarded-Host: y\r\nX-Real-IP: z\r\nX-Forwarded-Port: 443\r\n";
    assert_eq!(
        fields_left(old, &with(Forwarded::Unchanged, "192.0.2.1")),
        old
    );
    assert_eq!(fields_left(old, &with(Forwarded::Remove, "192.0.2.1")), "");
    assert_eq!(
        fields_left(old, &with(Forwarded::XForwarded, "::ffff:192.0.2.1")),
        "X-Forwarded-Proto: https\r\nForwarded: for=x\r\nX-Forwarded-Host: y\r\nX-Real-IP: z\r\nX-Forwarded-Port: 443\r\nX-Forwarded-For: 10.0.0.1, 10.0.0.2, 192.0.2.1\r\n"
    );
    assert_eq!(
        fields_left(
            "X-Forwarded-For: 1\r\nX-Forwarded-For:\r\nX-Forwarded-For: 2\r\nX-Forwarded-Proto:\r\n",
            &with(Forwarded::XForwarded, "::1")
        ),
        "X-Forwarded-For: 1, 2, ::1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n"
    );
    assert_eq!(
        fields_left(
            "Forwarded: for=x\r\nX-Forwarded-For: 1\r\n",
            &with(Forwarded::Standard, "2001:db8::1")
        ),
        "X-Forwarded-For: 1\r\nForwarded: for=x, for=\"[2001:db8::1]\";host=\"a\";proto=http\r\n"
    );
    let open_quote = "Forwarded: for=\"x\r\nForwarded: for=\"y\"\r\n";
    assert_eq!(
        fields_left(open_quote, &with(Forwarded::Standard, "192.0.2.1")),
        "Forwarded: for=\"y\", for=192.0.2.1;host=\"a\";proto=http\r\n"
    );
    assert_eq!(
        rewritten(
            "GET / HTTP/1.0\r\n\r\n",
            &with(Forwarded::Standard, "192.0.2.1")
        ),
        "GET / HTTP/1.1\r\nHost: \r\nForwarded: for=192.0.2.1;proto=http\r\n\r\n"
    );
}

#[test]
fn the_claims_of_trusted_proxies_are_written_in_both_forms() {
    let how = |forwarded, stated_in| RequestRewrite {
        forwarded,
        stated_in,
        ..ORIGIN
    };
    let to_standard = how(Forwarded::Standard, StatedIn::XForwardedFor);
    assert_eq!(
        fields_left(
            "X-Forwarded-For: 10.0.0.1, ::1, [2001:db8::1]:80\r\nX-Forwarded-For: unknown, x;y\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b:81\r\n",
            &to_standard
        ),
        "X-Forwarded-For: 10.0.0.1, ::1, [2001:db8::1]:80\r\nX-Forwarded-For: unknown, x;y\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b:81\r\n\
         Forwarded: for=10.0.0.1, for=\"[::1]\", for=\"[2001:db8::1]\", for=unknown, for=unknown;host=\"b:81\";proto=https, for=192.0.2.1;host=\"a\";proto=http\r\n"
    );
    // A value cannot escape its quotes, and invalid tokens are omitted.
    assert_eq!(
        fields_left(
            "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: a;b\r\nX-Forwarded-Host: b\"c\r\n",
            &to_standard
        ),
        "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: a;b\r\nX-Forwarded-Host: b\"c\r\nForwarded: for=10.0.0.1, for=192.0.2.1;host=\"a\";proto=http\r\n"
    );
    let to_old = how(Forwarded::XForwarded, StatedIn::Forwarded);
    assert_eq!(
        fields_left(
            "Forwarded: for=10.0.0.1, for=\"[::1]:80\"\r\nForwarded: for=_x;proto=https;host=\"b:81\"\r\n",
            &to_old
        ),
        "Forwarded: for=10.0.0.1, for=\"[::1]:80\"\r\nForwarded: for=_x;proto=https;host=\"b:81\"\r\n\
         X-Forwarded-For: 10.0.0.1, ::1, unknown, 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b:81\r\n"
    );
    // Trusted proxies do not use this field, so its content is not theirs.
    let only_old = how(Forwarded::XForwarded, StatedIn::XForwardedFor);
    assert_eq!(
        fields_left("Forwarded: for=10.0.0.1;proto=https\r\n", &only_old),
        "Forwarded: for=10.0.0.1;proto=https\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n"
    );
}

#[test]
fn requests_can_be_known_when_they_come_back() {
    let mark = Some(Mark::new(0xabc));
    let named = RequestRewrite {
        named_in: NamedIn::Via,
        mark,
        ..ORIGIN
    };
    assert_eq!(
        fields_left("Via: 1.1 a\r\n", &named),
        "Via: 1.1 a\r\nVia: 1.1 carrick (0000000000000abc)\r\n"
    );
    let unnamed = RequestRewrite {
        named_in: NamedIn::CdnLoop,
        ..named
    };
    assert_eq!(
        fields_left("Connection: CDN-Loop\r\nCDN-Loop: a\r\n", &unnamed),
        "CDN-Loop: a\r\nCDN-Loop: 0000000000000abc\r\n"
    );
    let first = RequestRewrite {
        mark: None,
        ..unnamed
    };
    assert_eq!(fields_left("", &first), "CDN-Loop: carrick\r\n");
}

#[test]
fn max_forwards_counts_down() {
    let table = [
        ("TRACE", "5", "4"),
        ("OPTIONS", "1", "0"),
        ("OPTIONS", "0", "0"),
        ("TRACE", "x", "x"),
        ("GET", "5", "5"),
    ];
    for (method, before, after) in table {
        let out = rewritten(
            &format!("{method} / HTTP/1.1\r\nHost: a\r\nMax-Forwards: {before}\r\n\r\n"),
            &ORIGIN,
        );
        assert_eq!(
            out,
            format!("{method} / HTTP/1.1\r\nHost: a\r\nMax-Forwards: {after}\r\n\r\n")
        );
    }
}

#[test]
fn connect_has_no_length() {
    let out = rewritten(
        "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 0\r\nA: b\r\n\r\n",
        &ORIGIN,
    );
    assert_eq!(out, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nA: b\r\n\r\n");
}
