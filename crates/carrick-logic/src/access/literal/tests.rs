//! What counts as an address, as a name, and as neither.
use super::{Literal, parse_ip_literal};
use proptest::prelude::*;

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
            Literal::Ip(expected.parse().unwrap()),
            "{host}"
        );
    }
    assert_eq!(parse_ip_literal([b'a'; 64].as_slice()), Literal::Odd);
    assert_eq!(parse_ip_literal("a.".repeat(127).as_bytes()), Literal::Name);
    assert_eq!(parse_ip_literal("a.".repeat(128).as_bytes()), Literal::Odd);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), text in "[0-9a-fx:.\\[\\]]{0,20}") {
        let _ = parse_ip_literal(&bytes);
        let _ = parse_ip_literal(text.as_bytes());
    }

    /// The C library's resolver takes these for addresses; none may pass for a name.
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
}
