//! Rules that must hold however a host, an address or a pattern is written.
use super::{Access, Denied, Literal, NamePattern, parse_ip_literal};
use ipnet::IpNet;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn networks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn pattern(text: &str) -> NamePattern {
    NamePattern::parse(text).unwrap()
}

#[test]
fn clients_are_allowed_by_network() {
    let access = Access {
        clients: networks(&[
            "127.0.0.0/8",
            "10.1.0.0/16",
            "2001:db8::/32",
            "::ffff:192.0.2.0/120",
        ]),
        ..Access::default()
    };
    let allowed = [
        "127.0.0.1",
        "10.1.255.255",
        "::ffff:10.1.0.1",
        "2001:db8::1",
        "192.0.2.255",
        "::ffff:192.0.2.1",
    ];
    for client in allowed {
        assert!(access.allows_client(address(client)), "{client}");
    }
    // A client is where it is: embedding an allowed address somewhere gives it no rights.
    let refused = [
        "10.2.0.1",
        "::1",
        "2001:db9::1",
        "192.0.3.0",
        "64:ff9b::10.1.0.1",
        "2002:a01:1::1",
        "::10.1.0.1",
        "::ffff:10.2.0.1",
    ];
    for client in refused {
        assert!(!access.allows_client(address(client)), "{client}");
    }
}

#[test]
fn without_networks_every_client_is_allowed() {
    assert!(Access::default().allows_client(address("203.0.113.9")));
    assert!(Access::default().allows_client(address("::")));
}

#[test]
fn all_of_ipv6_is_not_all_of_ipv4() {
    let access = Access {
        clients: networks(&["::/0"]),
        ..Access::default()
    };
    assert!(access.allows_client(address("2001:db8::1")));
    assert!(!access.allows_client(address("192.0.2.1")));
    assert!(!access.allows_client(address("::ffff:192.0.2.1")));
}

#[test]
fn every_way_to_a_denied_ipv4_address_is_denied() {
    let access = Access {
        deny_networks: networks(&["169.254.0.0/16"]),
        ..Access::default()
    };
    let denied = [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:fffe::169.254.169.254",
        // The three other layouts of RFC 6052 section 2.2, with something in the octets that translators ignore.
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9fe:ffa9:feff:ffff:ffff",
        "64:ff9b:1:12a9:fe:a9fe::",
        "64:ff9b:1:1234:a9:fea9:fe00:0",
        "2002:a9fe:a9fe::1",
        "2002:a9fe:a9fe:ffff:ffff:ffff:ffff:ffff",
        // Teredo inverts the bits.
        "2001:0:4136:e378:8000:63bf:5601:5601",
    ];
    for text in denied {
        assert_eq!(
            access.check_address(address(text)),
            Err(Denied::Address),
            "{text}"
        );
    }
    let allowed = [
        "169.253.255.255",
        "170.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:2::169.254.169.254",
        "64:ff9b:0:1::169.254.169.254",
        "2003:a9fe:a9fe::1",
        "2001:db8::a9fe:a9fe",
        "2001:1::5601:5601",
        "::1",
        "::",
    ];
    for text in allowed {
        assert_eq!(access.check_address(address(text)), Ok(()), "{text}");
    }
}

#[test]
fn the_unspecified_address_is_loopback() {
    let access = Access {
        deny_networks: networks(&["127.0.0.0/8", "::1/128"]),
        ..Access::default()
    };
    for text in [
        "0.0.0.0",
        "::",
        "::ffff:0.0.0.0",
        "127.0.0.1",
        "::1",
        "64:ff9b::0.0.0.0",
    ] {
        assert_eq!(
            access.check_address(address(text)),
            Err(Denied::Address),
            "{text}"
        );
    }
    let access = Access {
        deny_networks: networks(&["127.0.0.0/8"]),
        ..Access::default()
    };
    assert_eq!(access.check_address(address("::1")), Ok(()));
    assert_eq!(access.check_address(address("0.0.0.1")), Ok(()));
}

#[test]
fn denying_this_network_leaves_local_translation_usable() {
    let access = Access {
        deny_networks: networks(&["0.0.0.0/8"]),
        ..Access::default()
    };
    assert_eq!(
        access.check_address(address("64:ff9b:1::192.0.2.1")),
        Ok(())
    );
    assert_eq!(
        access.check_address(address("64:ff9b::0.1.2.3")),
        Err(Denied::Address)
    );
}

#[test]
fn a_mapped_network_denies_what_it_maps() {
    let access = Access {
        deny_networks: networks(&["::ffff:10.0.0.0/104"]),
        ..Access::default()
    };
    for text in ["10.9.8.7", "::ffff:10.9.8.7", "64:ff9b::10.9.8.7"] {
        assert_eq!(
            access.check_address(address(text)),
            Err(Denied::Address),
            "{text}"
        );
    }
    assert_eq!(access.check_address(address("11.0.0.1")), Ok(()));
}

#[test]
fn ports_count_for_connect_only() {
    let access = Access {
        connect_ports: vec![443, 8443],
        ..Access::default()
    };
    assert_eq!(access.check_name(b"example.org", 443, true), Ok(()));
    assert_eq!(access.check_name(b"example.org", 8443, true), Ok(()));
    assert_eq!(
        access.check_name(b"example.org", 25, true),
        Err(Denied::Port)
    );
    assert_eq!(
        access.check_name(b"example.org", 0, true),
        Err(Denied::Port)
    );
    assert_eq!(access.check_name(b"example.org", 25, false), Ok(()));
    assert_eq!(
        Access::default().check_name(b"example.org", 25, true),
        Ok(())
    );
}

#[test]
fn names_and_literals_are_denied_before_resolution() {
    let access = Access {
        deny_names: vec![
            pattern("*.corp.example"),
            pattern("secret.example.org"),
            pattern("192.0.2.7"),
        ],
        deny_networks: networks(&["127.0.0.0/8", "fe80::/10"]),
        ..Access::default()
    };
    let denied: [(&[u8], Denied); 14] = [
        (b"a.corp.example", Denied::Name),
        (b"A.B.Corp.EXAMPLE.", Denied::Name),
        (b"SECRET.example.org", Denied::Name),
        (b"secret.example.org.", Denied::Name),
        (b"192.0.2.7", Denied::Name),
        (b"::ffff:192.0.2.7", Denied::Name),
        (b"127.0.0.1", Denied::Address),
        (b"::ffff:127.0.0.1", Denied::Address),
        (b"[::ffff:7f00:1]", Denied::Address),
        (b"fe80::1", Denied::Address),
        (b"2130706433", Denied::Form),
        (b"127.1", Denied::Form),
        (b"fe80::1%eth0", Denied::Form),
        (b"", Denied::Form),
    ];
    for (host, why) in denied {
        assert_eq!(
            access.check_name(host, 80, false),
            Err(why),
            "{:?}",
            String::from_utf8_lossy(host)
        );
    }
    for host in [
        "corp.example",
        "xcorp.example",
        "secret.example.org.example",
        "192.0.2.8",
        "::1",
        "example.org",
    ] {
        assert_eq!(
            access.check_name(host.as_bytes(), 80, false),
            Ok(()),
            "{host}"
        );
    }
}

#[test]
fn literals_names_and_neither() {
    let odd: [&[u8]; 38] = [
        b"2130706433",
        b"0x7f000001",
        b"0X7F000001",
        b"017700000001",
        b"127.1",
        b"127.0.1",
        b"0x7f.1",
        b"0177.0.0.1",
        b"127.0.0.01",
        b"127.0.0.0x1",
        b"0",
        b"0x",
        b"1.2.3",
        b"1.2.3.4.5",
        b"256.1.1.1",
        b"1.2.3.4.",
        b"foo.1",
        b"foo.0x1f.",
        b"1.2.3.4:80",
        b"fe80::1%1",
        b"[fe80::1%25eth0]",
        b"[1.2.3.4]",
        b"[::1",
        b"::1]",
        b"[[::1]]",
        b":::",
        b"12345::",
        b"",
        b".",
        b"..",
        b".a",
        b"a..b",
        b"a b",
        b"a\0.example.org",
        b"a%2eb",
        b"b\xc3\xbccher.example",
        b"\xff",
        b"a/b",
    ];
    for host in odd {
        assert_eq!(
            parse_ip_literal(host),
            Literal::Odd,
            "{:?}",
            String::from_utf8_lossy(host)
        );
    }
    for host in [
        "a",
        "a.b.c",
        "A-1.example.",
        "_dns.x",
        "0xfg",
        "1.example",
        "0x7f.1.x",
        "1e",
        "-",
        "xn--bcher-kva.example",
    ] {
        assert_eq!(parse_ip_literal(host.as_bytes()), Literal::Name, "{host}");
    }
    for (host, expected) in [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "0.0.0.0"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
        ("2001:DB8:0::1", "2001:db8::1"),
    ] {
        assert_eq!(
            parse_ip_literal(host.as_bytes()),
            Literal::Ip(address(expected)),
            "{host}"
        );
    }
    assert_eq!(parse_ip_literal([b'a'; 64].as_slice()), Literal::Odd);
    assert_eq!(parse_ip_literal("a.".repeat(127).as_bytes()), Literal::Name);
    assert_eq!(parse_ip_literal("a.".repeat(128).as_bytes()), Literal::Odd);
}

#[test]
fn patterns_match_names() {
    let rows: [(&str, &[&str], &[&str]); 9] = [
        (
            "www.example.org",
            &["www.example.org", "WWW.Example.ORG", "www.example.org."],
            &[
                "example.org",
                "a.www.example.org",
                "www.example.org..",
                "",
                "wwwxexample.org",
            ],
        ),
        (
            "WWW.EXAMPLE.ORG.",
            &["www.example.org"],
            &["www.example.com"],
        ),
        (
            "*.example.org",
            &["a.example.org", "a.b.c.example.org", "A.EXAMPLE.ORG."],
            &[
                "example.org",
                ".example.org",
                "aexample.org",
                "example.org.a",
                "org",
                "",
            ],
        ),
        (
            ".example.org",
            &[
                "example.org",
                "Example.org.",
                "a.example.org",
                "a.b.example.org",
            ],
            &["aexample.org", ".example.org", "org", ""],
        ),
        ("*", &["a", "example.org", "", "::1", "192.0.2.1"], &[]),
        (
            "192.0.2.1",
            &["192.0.2.1", "::ffff:192.0.2.1", "[::ffff:c000:201]"],
            &["192.0.2.2", "192.0.2.1.", "::192.0.2.1"],
        ),
        (
            "[2001:db8::1]",
            &["2001:db8::1", "[2001:DB8:0:0::1]"],
            &["2001:db8::2", "[2001:db8::1"],
        ),
        ("2001:db8::1", &["[2001:db8::1]"], &["2001:db8::11"]),
        ("_x.a-b.example", &["_X.A-B.example"], &["x.a-b.example"]),
    ];
    for (text, matching, others) in rows {
        for name in matching {
            assert!(pattern(text).matches(name.as_bytes()), "{text} {name}");
        }
        for name in others {
            assert!(!pattern(text).matches(name.as_bytes()), "{text} {name}");
        }
    }
}

#[test]
fn wrong_patterns_say_what_would_be_right() {
    let long_label = format!("{}.example", "a".repeat(64));
    let long_name = "a.".repeat(128);
    let rows: [(&str, &str); 27] = [
        ("", "has no name"),
        (".", "has no name"),
        ("*.", "has no name"),
        ("..", "has no name"),
        ("**", "*.example.org"),
        ("a.*.b", "*.example.org"),
        ("*example.org", "*.example.org"),
        ("www.*", "*.example.org"),
        ("*.*.org", "*.example.org"),
        ("example.org:443", "has a port"),
        ("*.example.org:443", "has a port"),
        ("[::1]:443", "has a port"),
        ("https://example.org", "leave out the scheme"),
        ("example.org/images", "leave out the scheme and the path"),
        ("bücher.example", "xn--"),
        ("two words", "' '"),
        ("a\0b", "'\\0'"),
        ("a@b", "'@'"),
        ("a..b", "two dots"),
        ("a.b..", "two dots"),
        ("*..b", "two dots"),
        ("127.1", "192.0.2.1"),
        ("0x7f.1", "192.0.2.1"),
        ("*.10.0.0.1", "address after the dot"),
        ("2001:db8::x", "IPv6"),
        (&long_label, "too long"),
        (&long_name, "too long"),
    ];
    for (text, part) in rows {
        let fault = NamePattern::parse(text).unwrap_err();
        assert!(
            fault.contains(part) && fault.contains(&format!("{text:?}")),
            "{text:?}: {fault}"
        );
    }
}

/// Names and patterns from few labels, so that they often meet.
fn some_name() -> impl Strategy<Value = String> {
    let label = prop_oneof!["a", "b", "A", "ab", "org"];
    prop::collection::vec(label, 1..5).prop_map(|labels| labels.join("."))
}

fn some_pattern() -> impl Strategy<Value = NamePattern> {
    let prefixed =
        ("(\\*\\.|\\.)?", some_name()).prop_map(|(prefix, name)| format!("{prefix}{name}"));
    let text = prop_oneof![8 => prefixed, 1 => Just("*".to_owned()), 1 => Just("192.0.2.1".to_owned()), 1 => Just("::ffff:192.0.2.1".to_owned())];
    text.prop_map(|text| pattern(&text))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn covering_is_never_claimed_falsely(wide in some_pattern(), narrow in some_pattern(), names in prop::collection::vec(some_name(), 1..20)) {
        if wide.covers(&narrow) {
            for name in names.iter().map(String::as_str).chain(["192.0.2.1", ""]) {
                prop_assert!(!narrow.matches(name.as_bytes()) || wide.matches(name.as_bytes()), "{wide:?} {narrow:?} {name}");
            }
        }
        prop_assert!(wide.covers(&wide.clone()));
    }

    #[test]
    fn a_pattern_below_matches_by_labels(suffix in some_name(), name in some_name()) {
        let lower = name.to_lowercase();
        let below = lower.ends_with(&format!(".{}", suffix.to_lowercase()));
        prop_assert_eq!(pattern(&format!("*.{suffix}")).matches(name.as_bytes()), below);
        prop_assert_eq!(pattern(&format!(".{suffix}")).matches(name.as_bytes()), below || lower == suffix.to_lowercase());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), text in "\\PC{0,20}", wild in some_pattern()) {
        let _ = parse_ip_literal(&bytes);
        let _ = wild.matches(&bytes);
        let _ = NamePattern::parse(&text);
        let _ = Access::default().check_name(&bytes, 1, true);
    }

    /// The resolver of the C library takes these for addresses; none may pass as a name.
    #[test]
    fn what_inet_aton_reads_is_never_a_name(parts in prop::collection::vec((any::<u32>(), 0..4_u8), 1..5), dot in any::<bool>()) {
        let forms = parts.iter().map(|(number, form)| match form {
            0 => format!("{number}"),
            1 => format!("0x{number:x}"),
            2 => format!("0X{number:X}"),
            _ => format!("0{number:o}"),
        });
        let mut host = forms.collect::<Vec<_>>().join(".");
        if dot {
            host.push('.');
        }
        prop_assert_ne!(parse_ip_literal(host.as_bytes()), Literal::Name);
    }

    #[test]
    fn an_address_is_denied_in_every_embedding(bits in any::<u32>(), prefix in 1_u8..=32, suffix in any::<u32>()) {
        let v4 = Ipv4Addr::from(bits);
        let network = ipnet::Ipv4Net::new(v4, prefix).unwrap();
        let access = Access { deny_networks: vec![IpNet::V4(network)], ..Access::default() };
        let [a, b, c, d] = v4.octets();
        let [high, low] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        let mut ways = vec![
            v4.to_ipv6_mapped(),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, (suffix >> 16) as u16, suffix as u16),
            Ipv6Addr::new(0x2001, 0, 1, 2, 3, 4, !high, !low),
        ];
        if a != 0 {
            ways.push(Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low));
            ways.push(Ipv6Addr::new(0x64, 0xff9b, 1, 7, 7, 7, high, low));
            ways.push(Ipv6Addr::new(0x64, 0xff9b, 1, high, u16::from(c), u16::from(d) << 8, suffix as u16, 0));
        }
        for way in ways {
            prop_assert_eq!(access.check_address(IpAddr::V6(way)), Err(Denied::Address), "{}", way);
        }
        prop_assert_eq!(access.check_address(IpAddr::V4(v4)), Err(Denied::Address));
    }
}
