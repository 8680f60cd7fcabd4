//! The sender of a request as stated by trusted proxies.
use super::*;
use crate::http1::{HeadLimits, Progress};

const TRUSTED: [&str; 3] = ["10.", "fd00:", "192.168.0.1"];

/// The client of a request with these field lines: an address with port, `sender`, or the label of a refusal.
fn client(fields: &str, stated_in: StatedIn) -> String {
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let limits = HeadLimits {
        head_bytes_max: 1 << 20,
        fields_max: 500,
    };
    let mut head = RequestHead::new();
    let parsed = head.parse(text.as_bytes(), &limits);
    assert_eq!(parsed, Ok(Progress::Complete), "{text}");
    let is_trusted = |address: IpAddr| {
        let address = address.to_string();
        TRUSTED.iter().any(|network| address.starts_with(network))
    };
    match head.stated_client(text.as_bytes(), stated_in, is_trusted) {
        Ok(Some(client)) => client.to_string(),
        Ok(None) => "sender".to_owned(),
        Err(refusal) => {
            assert_eq!(refusal.status, 400);
            refusal.label.to_owned()
        }
    }
}

#[test]
fn the_client_is_the_last_address_that_is_no_trusted_proxys() {
    #[rustfmt::skip]
    let table = [
        ("", "sender"),
        ("203.0.113.9", "203.0.113.9:0"),
        ("203.0.113.9:4711", "203.0.113.9:4711"),
        ("198.51.100.1, 203.0.113.9", "203.0.113.9:0"),
        ("198.51.100.1, 203.0.113.9, 10.0.0.1, 10.0.0.2", "203.0.113.9:0"),
        ("198.51.100.1,203.0.113.9 ,\t10.0.0.1", "203.0.113.9:0"),
        (",, 203.0.113.9,, ,10.0.0.1, ,", "203.0.113.9:0"),
        (",", "sender"),
        // All are trusted: the first of them is the client.
        ("10.0.0.7, 10.0.0.1", "10.0.0.7:0"),
        ("2001:db8::1", "[2001:db8::1]:0"),
        ("[2001:db8::1]", "[2001:db8::1]:0"),
        ("[2001:DB8::1]:443, fd00::1", "[2001:db8::1]:443"),
        ("::ffff:203.0.113.9", "203.0.113.9:0"),
        ("203.0.113.9, ::ffff:10.0.0.1", "203.0.113.9:0"),
        // Hidden by a trusted proxy: nothing more is known.
        ("unknown", "sender"),
        ("203.0.113.9, unknown", "sender"),
        ("203.0.113.9, UNKNOWN, 10.0.0.1", "10.0.0.1:0"),
        ("203.0.113.9, _hidden, 10.0.0.1", "10.0.0.1:0"),
        // Entries before the client are the client's own claims.
        ("10.0.0.9, garbage, \", 203.0.113.9, 10.0.0.1", "203.0.113.9:0"),
        ("garbage, 10.0.0.1", "bad_forwarded"),
        ("203.0.113.9:", "bad_forwarded"),
        ("203.0.113.9:99999", "bad_forwarded"),
        ("203.0.113.9:-1", "bad_forwarded"),
        ("203.0.113.9:+1", "bad_forwarded"),
        ("203.0.113.09", "bad_forwarded"),
        ("203.0.113.9.", "bad_forwarded"),
        ("203.0.113.9 10.0.0.1", "bad_forwarded"),
        ("[2001:db8::1", "bad_forwarded"),
        ("[2001:db8::1]x", "bad_forwarded"),
        ("[203.0.113.9]", "bad_forwarded"),
        ("[fe80::1%eth0]", "bad_forwarded"),
        ("2130706433", "bad_forwarded"),
        ("0x7f.1", "bad_forwarded"),
        ("\"203.0.113.9\"", "bad_forwarded"),
        ("_", "bad_forwarded"),
        ("_a b", "bad_forwarded"),
        ("a.example", "bad_forwarded"),
    ];
    for (value, expected) in table {
        let line = format!("X-Forwarded-For: {value}\r\nForwarded: for=192.0.2.66\r\n");
        let found = client(&line, StatedIn::XForwardedFor);
        assert_eq!(found, expected, "{value}");
        // However the list is split into lines.
        if !value.contains('"') {
            let lines = value.replace(',', "\r\nX-FORWARDED-FOR: ");
            let lines = format!("x-forwarded-for: {lines}\r\n");
            assert_eq!(client(&lines, StatedIn::XForwardedFor), expected, "{lines}");
        }
    }
}

#[test]
fn the_client_is_found_in_the_standard_field() {
    #[rustfmt::skip]
    let table = [
        ("", "sender"),
        ("for=203.0.113.9", "203.0.113.9:0"),
        ("For=\"203.0.113.9:4711\"", "203.0.113.9:4711"),
        ("for=203.0.113.9:4711", "203.0.113.9:4711"),
        ("for=\"[2001:db8::1]\"", "[2001:db8::1]:0"),
        ("for=\"[2001:db8::1]:_port\";proto=https", "[2001:db8::1]:0"),
        ("for=[2001:db8::1]", "[2001:db8::1]:0"),
        ("for=\"2001:db8::1\"", "[2001:db8::1]:0"),
        ("for=198.51.100.1, for=203.0.113.9;proto=https;by=10.0.0.1 ,for=10.0.0.2", "203.0.113.9:0"),
        ("proto=https ; FOR=203.0.113.9;host=\"a,b;c\"", "203.0.113.9:0"),
        ("for=203.0.113.9;host=\"a\\\",for=10.0.0.1\"", "203.0.113.9:0"),
        ("for=\"203.0.113.\\9\"", "203.0.113.9:0"),
        (", ,for=203.0.113.9,,", "203.0.113.9:0"),
        (";;for=203.0.113.9;;", "203.0.113.9:0"),
        ("for=unknown", "sender"),
        ("for=203.0.113.9, for=\"_gazonk\", for=10.0.0.1", "10.0.0.1:0"),
        ("for=203.0.113.9, proto=https", "sender"),
        ("for=garbage, for=203.0.113.9", "203.0.113.9:0"),
        ("for=203.0.113.9;for=10.0.0.1", "bad_forwarded"),
        ("for=203.0.113.9;proto=http;Proto=https", "bad_forwarded"),
        ("for=\"203.0.113.9", "bad_forwarded"),
        ("for=\"a, for=203.0.113.9", "bad_forwarded"),
        ("for=203.0.113.9\"", "bad_forwarded"),
        ("for=\"203.0.113.9\"x", "bad_forwarded"),
        ("for=", "bad_forwarded"),
        ("for = 203.0.113.9", "bad_forwarded"),
        ("for", "bad_forwarded"),
        ("203.0.113.9", "bad_forwarded"),
        ("for=203.0.113.9 10.0.0.1", "bad_forwarded"),
        ("for=a.example", "bad_forwarded"),
    ];
    for (value, expected) in table {
        let line = format!("Forwarded: {value}\r\nX-Forwarded-For: 192.0.2.66\r\n");
        assert_eq!(client(&line, StatedIn::Forwarded), expected, "{value}");
    }
    // An unterminated line from a client does not swallow the line that the proxy has added.
    let lines = "Forwarded: for=\"x\r\nForwarded: for=203.0.113.9\r\n";
    assert_eq!(client(lines, StatedIn::Forwarded), "203.0.113.9:0");
}

#[test]
fn long_lists_cost_no_more_than_they_must() {
    for (stated_in, name, before) in [
        (StatedIn::XForwardedFor, "X-Forwarded-For", ""),
        (StatedIn::Forwarded, "Forwarded", "for="),
    ] {
        let list = |address: &str, count: usize| {
            let element = format!("{before}{address}");
            format!(
                "{name}: {}{element}\r\n",
                format!("{element}, ").repeat(count - 1)
            )
        };
        let of = |lines: &str| client(lines, stated_in);
        assert_eq!(of(&list("203.0.113.9", 10_000)), "203.0.113.9:0");
        assert_eq!(of(&list("10.0.0.1", TRUSTED_HOPS_MAX)), "10.0.0.1:0");
        assert_eq!(of(&list("10.0.0.1", TRUSTED_HOPS_MAX + 1)), "bad_forwarded");
        assert_eq!(of(&list("10.0.0.1", 10_000)), "bad_forwarded");
        let line = list("10.0.0.1", 1);
        assert_eq!(of(&line.repeat(TRUSTED_HOPS_MAX)), "10.0.0.1:0");
        assert_eq!(of(&line.repeat(TRUSTED_HOPS_MAX + 1)), "bad_forwarded");
    }
}

#[test]
fn the_scheme_is_that_of_the_last_proxy() {
    for (fields, stated_in, expected) in [
        ("X-Forwarded-Proto: https", StatedIn::XForwardedFor, true),
        (
            "X-Forwarded-Proto: http, HTTPS",
            StatedIn::XForwardedFor,
            true,
        ),
        (
            "X-Forwarded-Proto: https, http",
            StatedIn::XForwardedFor,
            false,
        ),
        ("X-Forwarded-Proto: https", StatedIn::Forwarded, false),
        (
            "Forwarded: for=192.0.2.1;proto=https",
            StatedIn::Forwarded,
            true,
        ),
        (
            "Forwarded: for=192.0.2.1;proto=https, for=192.0.2.2",
            StatedIn::Forwarded,
            false,
        ),
        ("A: b", StatedIn::XForwardedFor, false),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let mut head = RequestHead::new();
        let limits = crate::http1::HeadLimits {
            head_bytes_max: 8192,
            fields_max: 100,
        };
        assert!(head.parse(text.as_bytes(), &limits).is_ok());
        assert_eq!(
            head.states_https(text.as_bytes(), stated_in),
            expected,
            "{fields}"
        );
    }
}
