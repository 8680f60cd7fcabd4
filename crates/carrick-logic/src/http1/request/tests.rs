//! Request heads: which are refused and how, which are accepted and what they mean.
use super::*;
use crate::http1::Method as M;

mod refusals;

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 8192,
    fields_max: 100,
};

/// Parses `text`, and checks that every split into two reads, and single bytes, give the same result.
fn parse(text: &[u8]) -> Result<(RequestHead, Progress), Refusal> {
    let mut head = RequestHead::new();
    let whole = head.parse(text, &LIMITS);
    let mut trickled = RequestHead::new();
    let mut last = Ok(Progress::Partial);
    for length in 1..=text.len() {
        last = trickled.parse(&text[..length], &LIMITS);
        if last != Ok(Progress::Partial) {
            break;
        }
    }
    assert_eq!(last, whole, "byte by byte: {}", text.escape_ascii());
    whole.map(|progress| (head, progress))
}

fn accepted(text: &str) -> RequestHead {
    match parse(text.as_bytes()) {
        Ok((head, Progress::Complete)) => head,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn refused(text: &[u8]) -> (u16, &'static str) {
    match parse(text) {
        Err(refusal) => (refusal.status, refusal.label),
        other => panic!("{}: {other:?}", text.escape_ascii()),
    }
}

#[test]
fn targets_and_hosts_that_are_accepted() {
    let long_method = "M".repeat(32);
    // Request line, host field, host, port, path, query.
    type Row<'a> = (
        &'a str,
        &'a str,
        &'a str,
        Option<u16>,
        &'a str,
        Option<&'a str>,
    );
    #[rustfmt::skip]
    let table: [Row<'_>; 19] = [
        ("GET / HTTP/1.1", "example.org", "example.org", None, "/", None),
        ("GET /a/b?c=d?e HTTP/1.1", "Example.ORG:8080", "Example.ORG", Some(8080), "/a/b", Some("c=d?e")),
        ("GET //a HTTP/1.1", "a_b.example.", "a_b.example.", None, "//a", None),
        ("GET /? HTTP/1.1", "[2001:db8::1]:80", "2001:db8::1", Some(80), "/", Some("")),
        ("GET /|{}^\"\\ HTTP/1.2", "[::ffff:1.2.3.4]", "::ffff:1.2.3.4", None, "/|{}^\"\\", None),
        ("GET http://example.org HTTP/1.1", "other", "example.org", None, "", None),
        ("GET HTTP://example.org:8080/x?y HTTP/1.1", "other", "example.org", Some(8080), "/x", Some("y")),
        ("GET http://example.org?y HTTP/1.1", "other", "example.org", None, "", Some("y")),
        ("GET http://[::1]:81/ HTTP/1.1", "other", "::1", Some(81), "/", None),
        ("GET http://a/http://b/ HTTP/1.1", "other", "a", None, "/http://b/", None),
        ("GET / HTTP/1.1", "example.org:", "example.org", None, "/", None),
        ("GET / HTTP/1.1", "[::1]:", "::1", None, "/", None),
        ("GET http://a:/ HTTP/1.1", "other", "a", None, "/", None),
        ("CONNECT example.org:443 HTTP/1.1", "example.org", "example.org", Some(443), "", None),
        ("CONNECT [::1]:65535 HTTP/1.1", "x:443", "::1", Some(65535), "", None),
        ("CONNECT 10.0.0.1:1 HTTP/1.1", "x", "10.0.0.1", Some(1), "", None),
        ("OPTIONS * HTTP/1.1", "x", "x", None, "", None),
        ("OPTIONS http://a:1 HTTP/1.1", "x", "a", Some(1), "", None),
        (&format!("{long_method} / HTTP/1.1"), "x", "x", None, "/", None),
    ];
    for (line, field, host, port, path, query) in table {
        let text = format!("{line}\r\nHost: {field}\r\n\r\n");
        let head = accepted(&text);
        let bytes = text.as_bytes();
        let query_text = head.query.map(|query| query.of(bytes));
        assert_eq!(head.head_bytes, text.len());
        assert_eq!(head.host.of(bytes), host.as_bytes(), "{line}");
        assert_eq!(
            (head.port, head.path.of(bytes)),
            (port, path.as_bytes()),
            "{line}"
        );
        assert_eq!(query_text, query.map(str::as_bytes), "{line}");
        assert!(!head.host_and_port.of(bytes).ends_with(b":"), "{line}");
        assert_eq!(head.version, Version::Http11);
    }
}

#[test]
fn methods_are_told_apart() {
    use Method as M;
    let table = [
        ("GET", M::Get),
        ("HEAD", M::Head),
        ("POST", M::Post),
        ("PUT", M::Put),
        ("DELETE", M::Delete),
        ("OPTIONS", M::Options),
        ("TRACE", M::Trace),
        ("PATCH", M::Patch),
        ("purge", M::Other),
        ("PROPFIND", M::Other),
        ("M-SEARCH", M::Other),
    ];
    for (name, method) in table {
        let text = format!("{name} / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = accepted(&text);
        assert_eq!(head.method, method);
        assert_eq!(head.method_text.of(text.as_bytes()), name.as_bytes());
    }
    assert_eq!(accepted("CONNECT a:1 HTTP/1.0\r\n\r\n").method, M::Connect);
}

#[test]
fn what_fields_mean() {
    // Version, fields, body, keep-alive, Expect, Upgrade.
    #[rustfmt::skip]
    let table: [(&str, &str, BodyLength, bool, bool, bool); 30] = [
        ("1.1", "", BodyLength::None, true, false, false),
        ("1.1", "Content-Length: 0", BodyLength::None, true, false, false),
        ("1.1", "content-LENGTH:5", BodyLength::Bytes(5), true, false, false),
        ("1.1", "Content-Length: \t5 \t", BodyLength::Bytes(5), true, false, false),
        ("1.1", "Transfer-Encoding: CHUNKED", BodyLength::Chunked, true, false, false),
        ("1.1", "Connection: close", BodyLength::None, false, false, false),
        ("1.1", "Connection: x, Close", BodyLength::None, false, false, false),
        ("1.1", "Connection: keep-alive\r\nConnection: close", BodyLength::None, false, false, false),
        ("1.1", "Connection: , ,", BodyLength::None, true, false, false),
        ("1.1", "Proxy-Connection: close", BodyLength::None, true, false, false),
        ("1.0", "", BodyLength::None, false, false, false),
        ("1.0", "Connection: Keep-Alive", BodyLength::None, true, false, false),
        ("1.0", "Proxy-Connection: keep-alive", BodyLength::None, true, false, false),
        ("1.0", "Connection: close\r\nProxy-Connection: keep-alive", BodyLength::None, false, false, false),
        ("1.0", "Connection: keep-alive, close", BodyLength::None, false, false, false),
        ("1.0", "Content-Length: 7", BodyLength::Bytes(7), false, false, false),
        ("1.1", "Expect: 100-Continue\r\nContent-Length: 1", BodyLength::Bytes(1), true, true, false),
        ("1.1", "Expect: 100-continue", BodyLength::None, true, false, false),
        ("1.0", "Expect: 100-continue\r\nContent-Length: 1", BodyLength::Bytes(1), false, false, false),
        ("1.0", "Expect: something", BodyLength::None, false, false, false),
        ("1.1", "Connection: Upgrade\r\nUpgrade: websocket", BodyLength::None, true, false, true),
        ("1.1", "Connection: keep-alive, upgrade\r\nUpgrade: a/1, b", BodyLength::None, true, false, true),
        ("1.1", "Upgrade: websocket", BodyLength::None, true, false, false),
        ("1.1", "Connection: Upgrade", BodyLength::None, true, false, false),
        ("1.0", "Connection: Upgrade\r\nUpgrade: websocket", BodyLength::None, false, false, false),
        ("1.1", "Connection: Upgrade\r\nUpgrade: h2c", BodyLength::None, true, false, false),
        ("1.1", "Connection: Upgrade\r\nUpgrade: h2c\u{a0}", BodyLength::None, true, false, false),
        ("1.1", "Connection: Upgrade\r\nUpgrade: websocket, h2c\u{85}", BodyLength::None, true, false, false),
        ("1.1", "Connection: Upgrade\r\nUpgrade: h2c;x", BodyLength::None, true, false, false),
        ("1.1", "Connection: Upgrade\r\nUpgrade: websocket, HTTP/2.0", BodyLength::None, true, false, false),
    ];
    for (version, fields, body, keep_alive, expects_continue, wants_upgrade) in table {
        let separator = if fields.is_empty() { "" } else { "\r\n" };
        let head = accepted(&format!(
            "POST / HTTP/{version}\r\nHost: a\r\n{fields}{separator}\r\n"
        ));
        let seen = (
            head.body,
            head.keep_alive,
            head.expects_continue,
            head.wants_upgrade,
        );
        assert_eq!(
            seen,
            (body, keep_alive, expects_continue, wants_upgrade),
            "{version} {fields:?}"
        );
    }
}

#[test]
fn http10_may_have_no_host() {
    assert!(accepted("GET / HTTP/1.0\r\n\r\n").host.is_empty());
    assert!(accepted("GET / HTTP/1.0\r\nHost:\r\n\r\n").host.is_empty());
    assert_eq!(
        refused(b"GET / HTTP/1.0\r\nHost: a b\r\n\r\n"),
        (400, "bad_host")
    );
}

#[test]
fn limits_hold_exactly() {
    let limits = HeadLimits {
        head_bytes_max: 64,
        fields_max: 3,
    };
    let parse = |text: &[u8]| {
        RequestHead::new()
            .parse(text, &limits)
            .map_err(|refusal| (refusal.status, refusal.label))
    };
    let padded = |length: usize| {
        let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
        format!("{start}{}\r\n\r\n", "x".repeat(length - start.len() - 4)).into_bytes()
    };
    assert_eq!(parse(&padded(64)), Ok(Progress::Complete));
    assert_eq!(parse(&padded(65)), Err((431, "head_too_long")));
    assert_eq!(parse(&padded(65)[..63]), Ok(Progress::Partial));
    assert_eq!(parse(&padded(65)[..64]), Err((431, "head_too_long")));
    assert_eq!(
        parse(format!("GET /{}", "x".repeat(58)).as_bytes()),
        Ok(Progress::Partial)
    );
    assert_eq!(
        parse(format!("GET /{}", "x".repeat(59)).as_bytes()),
        Err((414, "request_line_too_long"))
    );
    assert_eq!(
        parse(b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\n\r\n"),
        Ok(Progress::Complete)
    );
    assert_eq!(
        parse(b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\nE:"),
        Ok(Progress::Partial)
    );
    assert_eq!(
        parse(b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\nE: f\r\n"),
        Err((431, "too_many_fields"))
    );
}

#[test]
fn any_number_of_fields_up_to_the_cap() {
    let limits = HeadLimits {
        head_bytes_max: 1 << 20,
        fields_max: usize::MAX,
    };
    for count in [1, 15, 16, 17, 47, 48, 49, 511, 512] {
        let mut text = "GET / HTTP/1.1\r\nHost: a\r\n".to_owned();
        (1..count).for_each(|index| text.push_str(&format!("x-{index}: {index}\r\n")));
        text.push_str("\r\n");
        let mut head = RequestHead::new();
        assert_eq!(
            head.parse(text.as_bytes(), &limits),
            Ok(Progress::Complete),
            "{count}"
        );
        assert_eq!(head.fields.len(), count);
        let more = text.replace("Host", "y: z\r\nHost");
        let result = head.parse(more.as_bytes(), &limits);
        assert_eq!(result.is_ok(), count < 512, "{count}");
    }
}

#[test]
fn a_head_can_be_filled_again_and_given_up() {
    let mut head = RequestHead::new();
    let first = b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: x\r\n\r\n";
    assert_eq!(head.parse(first, &LIMITS), Ok(Progress::Complete));
    let second = b"GET /2 HTTP/1.1\r\nHost: bb\r\n\r\nGET /3";
    assert_eq!(head.parse(&second[..20], &LIMITS), Ok(Progress::Partial));
    head.restart();
    assert_eq!(head.parse(second, &LIMITS), Ok(Progress::Complete));
    assert_eq!(head.head_bytes, second.len() - 6);
    assert_eq!(
        (head.fields.len(), head.body, head.keep_alive),
        (1, BodyLength::None, true)
    );
    assert!(!head.connection_names_fields);
    assert_eq!(
        head.parse(b"nonsense\r\n", &LIMITS)
            .map_err(|refusal| refusal.status),
        Err(400)
    );
    assert_eq!(head.parse(second, &LIMITS), Ok(Progress::Complete));
    assert_eq!(head.path.of(second), b"/2");
}

#[test]
fn empty_lines_before_a_request() {
    let table: [(&[u8], usize); 7] = [
        (b"", 0),
        (b"GET", 0),
        (b"\r", 0),
        (b"\r\nGET", 2),
        (b"\r\n\r\n\r", 4),
        (b"\r\n\r\n\r\n\r\n\r\n", 8),
        (b"\n\r\n", 0),
    ];
    for (bytes, skipped) in table {
        assert_eq!(
            RequestHead::leading_empty_lines(bytes),
            skipped,
            "{}",
            bytes.escape_ascii()
        );
    }
    // A lone CR may be the start of an empty line.
    let mut head = RequestHead::new();
    assert_eq!(head.parse(b"\r", &LIMITS), Ok(Progress::Partial));
    assert_eq!(
        head.parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &LIMITS),
        Ok(Progress::Complete)
    );
}

#[test]
fn fields_and_cookies_are_found() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx-a: 2\r\nEmpty:\r\nCookie: session=\"q\"; b = c ;d\r\nCookie: e==f\r\n\r\n";
    let head = accepted(text);
    let bytes = text.as_bytes();
    assert_eq!(head.field(bytes, "x-a"), Some(&b"1"[..]));
    assert_eq!(head.field(bytes, "empty"), Some(&b""[..]));
    assert_eq!(head.field(bytes, "x-b"), None);
    let table: [(&str, Option<&[u8]>); 6] = [
        ("session", Some(b"\"q\"")),
        ("b", Some(b"c")),
        ("d", None),
        ("e", Some(b"=f")),
        ("Session", None),
        ("", None),
    ];
    for (name, value) in table {
        assert_eq!(head.cookie(bytes, name), value, "{name}");
    }
}

#[test]
fn max_forwards_is_for_trace_and_options() {
    let table = [
        ("TRACE", "0", Some(0)),
        ("OPTIONS", "12", Some(12)),
        ("OPTIONS", "x", None),
        ("GET", "3", None),
    ];
    for (method, value, number) in table {
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\nMax-Forwards: {value}\r\n\r\n");
        assert_eq!(
            accepted(&text).max_forwards(text.as_bytes()),
            number,
            "{method} {value}"
        );
    }
}

#[test]
fn idempotent_methods() {
    assert!(M::Get.is_idempotent() && M::Delete.is_idempotent());
    assert!(!M::Post.is_idempotent() && !M::Patch.is_idempotent() && !M::Connect.is_idempotent());
}

/// The remaining names, comma-separated, or the label of the refusal.
fn names_left(fields: &str, policy: OddNames, is_believed: bool) -> String {
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let mut head = accepted(&text);
    if let Err(refusal) = head.apply_name_policy(policy) {
        return refusal.label.to_owned();
    }
    if !is_believed {
        head.forget_claims(text.as_bytes());
    }
    let names = head
        .fields
        .iter()
        .map(|field| field.name.of(text.as_bytes()));
    let names: Vec<_> = names
        .map(|name| std::str::from_utf8(name).unwrap())
        .collect();
    names.join(",")
}

#[test]
fn names_that_gateways_take_for_others_do_not_pass() {
    let fields = "X_Forwarded_Host: a\r\nX-B: b\r\nx.y: c\r\nX!~z: d\r\n";
    assert_eq!(names_left(fields, OddNames::Drop, true), "Host,X-B");
    assert_eq!(names_left(fields, OddNames::Refuse, true), "odd_field_name");
    assert_eq!(
        names_left(fields, OddNames::Pass, true),
        "Host,X_Forwarded_Host,X-B,x.y,X!~z"
    );
    // An untrusted sender is not trusted under another field name either.
    assert_eq!(
        names_left(fields, OddNames::Pass, false),
        "Host,X-B,x.y,X!~z"
    );
    for byte in "!#$%&'*+.^_`|~".chars() {
        let fields = format!("X{byte}Real{byte}IP: a\r\n");
        assert_eq!(names_left(&fields, OddNames::Drop, true), "Host");
        assert_eq!(names_left(&fields, OddNames::Pass, false), "Host");
    }
    assert_eq!(names_left("X-9: a\r\n", OddNames::Refuse, true), "Host,X-9");
}

#[test]
fn the_whole_family_of_claims_is_forgotten() {
    for name in [
        "Forwarded",
        "X-Forwarded",
        "X-Forwarded-For",
        "x-forwarded-host",
        "X-FORWARDED-PROTO",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X-Forwarded-Server",
        "X-Forwarded-Ssl",
        "X-Forwarded-Scheme",
        "X-Forwarded-Anything",
        "Forwarded-For",
        "forwarded-for-IP",
        "X-Real-IP",
        "X-Client-IP",
        "Client-IP",
        "X-Cluster-Client-IP",
        "True-Client-IP",
        "CF-Connecting-IP",
        "Fastly-Client-IP",
        "X-Original-Host",
        "X-Original-Forwarded-For",
        "X-Originating-IP",
        "X-Remote-Addr",
        "X-Host",
        "X-Scheme",
        "Front-End-Https",
        "WL-Proxy-Client-IP",
        "Proxy-Client-IP",
        "Fly-Client-IP",
        "X-Vercel-Forwarded-For",
        "Ali-CDN-Real-IP",
        "X-SSL-Client-Verify",
        "X-SSL-Client-S-DN",
        "SSL-Client-Cert",
        "Client-Cert",
        "Client-Cert-Chain",
        "X-ARR-ClientCert",
        "X-Amzn-Mtls-Clientcert",
    ] {
        let fields = format!("{name}: a\r\nX-B: b\r\n");
        assert_eq!(
            names_left(&fields, OddNames::Drop, false),
            "Host,X-B",
            "{name}"
        );
        assert_eq!(
            names_left(&fields, OddNames::Drop, true),
            format!("Host,{name},X-B")
        );
    }
    for name in [
        "X-Forward",
        "X-Realm",
        "Cookie",
        "Content-Type",
        "From",
        "TE",
        "X-Hosts",
        "Client-I",
        "X",
    ] {
        let fields = format!("{name}: a\r\n");
        assert_eq!(
            names_left(&fields, OddNames::Drop, false),
            format!("Host,{name}")
        );
    }
}

#[test]
fn rfc_9112_3_2_2_a_whole_url_has_the_scheme_of_the_connection() {
    let parse = |scheme, url: &str| {
        let mut head = RequestHead::new();
        head.scheme = scheme;
        let text = format!("GET {url} HTTP/1.1\r\nHost: a\r\n\r\n");
        let parsed = head.parse(text.as_bytes(), &LIMITS);
        head.restart();
        assert_eq!(head.scheme, scheme, "it is the connection's");
        parsed.map_err(|refusal| refusal.label)
    };
    for (scheme, url, is_right) in [
        (Scheme::Http, "http://a/", true),
        (Scheme::Http, "https://a/", false),
        (Scheme::Https, "HTTPS://a/", true),
        (Scheme::Https, "http://a/", false),
        (Scheme::Https, "/", true),
    ] {
        let expected = match is_right {
            true => Ok(Progress::Complete),
            false => Err("unsupported_scheme"),
        };
        assert_eq!(parse(scheme, url), expected, "{scheme:?} {url}");
    }
}
