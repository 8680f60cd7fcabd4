//! Patterns, right and wrong, and what they match.
use super::NamePattern;
use proptest::prelude::*;

fn pattern(text: &str) -> NamePattern {
    NamePattern::parse(text).unwrap()
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

#[test]
fn patterns_cover_narrower_ones() {
    let covering = [
        ("*", "*"),
        ("*", "a.b"),
        ("*", "192.0.2.1"),
        ("a.b", "A.B."),
        ("*.b", "a.b"),
        ("*.b", "*.b"),
        ("*.b", "*.a.b"),
        ("*.b", ".a.b"),
        (".b", "b"),
        (".b", "a.b"),
        (".b", "*.b"),
        (".b", ".b"),
        (".b", "*.a.b"),
        (".b", ".a.b"),
        ("192.0.2.1", "::ffff:192.0.2.1"),
    ];
    for (wide, narrow) in covering {
        assert!(pattern(wide).covers(&pattern(narrow)), "{wide} {narrow}");
    }
    let not_covering = [
        ("a.b", "*"),
        (".b", "*"),
        ("a.b", "a.c"),
        ("a.b", "*.a.b"),
        ("a.b", ".a.b"),
        ("*.b", "b"),
        ("*.b", ".b"),
        ("*.b", "ab"),
        ("*.a.b", "*.b"),
        (".a.b", "*.b"),
        ("*.b", "*.ab"),
        ("192.0.2.1", "192.0.2.2"),
        ("192.0.2.1", "a"),
    ];
    for (wide, narrow) in not_covering {
        assert!(!pattern(wide).covers(&pattern(narrow)), "{wide} {narrow}");
    }
}

/// Names and patterns from few labels, so that they often match.
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
        let _ = wild.matches(&bytes);
        let _ = NamePattern::parse(&text);
    }
}
