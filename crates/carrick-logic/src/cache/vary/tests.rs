//! Variants: which requests are equal with respect to `Vary`, and which variant is selected.
use super::{Variant, select};
use crate::cache::test_heads::{AT_ONCE, answer, lines};
use crate::cache::{Fields, Meta, Policy};
use proptest::prelude::*;

fn variant(vary: &str, request: &str) -> Option<Variant> {
    let (response, request) = (lines(vary), lines(request));
    Variant::of(
        Fields::of_text(response.as_bytes()),
        Fields::of_text(request.as_bytes()),
    )
}

fn is_same(name: &str, one: &str, two: &str) -> bool {
    let two = lines(two);
    variant(&format!("Vary: {name}"), one)
        .unwrap()
        .matches(Fields::of_text(two.as_bytes()))
}

#[test]
fn rfc_9111_4_1_values_that_mean_the_same() {
    for (name, one, two, expected) in [
        ("foo", "Foo: 1", "foo: 1", true),
        ("foo", "Foo: a", "Foo: A", false),
        ("foo", "Foo: 1, 2", "Foo: 1|Bar: x|Foo: 2", true),
        ("foo", "Foo: 1, 2", "Foo: 2, 1", false),
        ("foo", "Foo: 1 ,\t2", "Foo: 1,2", true),
        ("foo", "Foo: 1", "Foo: 1,", false),
        ("foo", "Foo: 1", "Foo: 1|Foo:", false),
        ("foo", "Foo:", "Foo: ,", false),
        ("foo", "Foo: ,1", "Foo: ,1", true),
        ("foo", "Foo: \"1, 2\"", "Foo: \"1,2\"", false),
        ("foo", "Foo: a b", "Foo: a  b", false),
        // An absent field differs from an empty one.
        ("foo", "", "Foo:", false),
        ("foo", "Foo:", "Foo:", true),
        ("foo", "Foo: 1", "", false),
        ("foo, bar", "Foo: 1", "Bar: 1", false),
        ("foo, bar", "Foo: 1|Bar: 2", "Bar: 2|Foo: 1", true),
        ("BAR,foo, foo", "Foo: 1", "Foo: 1", true),
        ("cookie", "Cookie: a=1,b", "Cookie: a=1, b", false),
        (
            "user-agent",
            "User-Agent: x (a, b)",
            "User-Agent: x (a,b)",
            false,
        ),
        (
            "accept-encoding",
            "Accept-Encoding: gzip, br",
            "Accept-Encoding: BR|Accept-Encoding:  gzip;q=1.0",
            true,
        ),
        (
            "accept-encoding",
            "Accept-Encoding: gzip;q=0.50, br",
            "Accept-Encoding: br;q=1, gzip ; Q = 0.5",
            true,
        ),
        (
            "accept-encoding",
            "Accept-Encoding: gzip;q=0",
            "Accept-Encoding: gzip",
            false,
        ),
        (
            "accept-encoding",
            "Accept-Encoding: gzip;q=0",
            "Accept-Encoding: gzip;q=0.000",
            true,
        ),
        (
            "accept-encoding",
            "Accept-Encoding: gzip",
            "Accept-Encoding: gzip;q=1.0000",
            false,
        ),
        (
            "accept-encoding",
            "Accept-Encoding: gzip;q=0",
            "Accept-Encoding: gzip;q=1;q=0",
            false,
        ),
        (
            "accept-encoding",
            "Accept-Encoding: gzip;q=0",
            "Accept-Encoding: gzip;q=0;q=1",
            false,
        ),
        (
            "accept-encoding",
            "Accept-Encoding: gzip",
            "Accept-Encoding: gzip, gzip",
            true,
        ),
        (
            "accept-language",
            "Accept-Language: de, en;q=0.5",
            "Accept-Language: DE;q=1,EN;q=0.50,en;q=0.5",
            true,
        ),
        (
            "accept-language",
            "Accept-Language: de, en",
            "Accept-Language: en, de",
            false,
        ),
        (
            "accept",
            "Accept: text/html, text/plain",
            "Accept: text/plain, text/html",
            false,
        ),
        (
            "accept-language",
            "Accept-Language: de",
            "Accept-Language: de-AT",
            false,
        ),
        (
            "accept",
            "Accept: text/html;v=A",
            "Accept: TEXT/HTML;v=A;q=1",
            true,
        ),
        (
            "accept",
            "Accept: text/html;v=A",
            "Accept: text/html;v=a",
            false,
        ),
    ] {
        assert_eq!(is_same(name, one, two), expected, "{name}: {one} / {two}");
        assert_eq!(is_same(name, two, one), expected, "{name}: {two} / {one}");
    }
}

/// One form of them would take a worker long.
#[test]
fn long_preferences_are_compared_as_they_are() {
    let list = |count: usize| vec!["a"; count].join(",");
    let same = |one: &str, two: &str| {
        is_same(
            "accept-encoding",
            &format!("Accept-Encoding: {one}"),
            &format!("Accept-Encoding: {two}"),
        )
    };
    assert!(same(&list(64), "A"));
    assert!(!same(&list(65), "A"));
    assert!(!same(&list(65), &list(66)));
    assert!(same(&list(65), &list(65)));
    let long = |bytes: usize| "a".repeat(bytes);
    assert!(same(&long(1024), &long(1024).to_uppercase()));
    assert!(!same(&long(1025), &long(1025).to_uppercase()));
    assert!(same(&long(1025), &long(1025)));
    assert!(same(
        &format!("{}, b", list(64)),
        &format!("{}|Accept-Encoding: b", list(64))
    ));
}

#[test]
fn rfc_9111_4_1_lists_that_match_nothing() {
    for vary in [
        "*",
        "*, foo",
        "foo, *",
        "foo|Vary: *",
        "a b",
        "a;b",
        "\"a\"",
    ] {
        assert_eq!(variant(&format!("Vary: {vary}"), "Foo: 1"), None, "{vary}");
    }
    for vary in ["", "Vary:", "Vary: ,"] {
        let variant = variant(vary, "Foo: 1").unwrap();
        assert!(
            variant.names().is_empty() && variant.matches(Fields::of_text(b"")),
            "{vary}"
        );
    }
    let many: String = (0..33).map(|number| format!("n{number},")).collect();
    assert_eq!(variant(&format!("Vary: {many}"), ""), None);
}

#[test]
fn rfc_9111_4_1_the_most_recent_of_those_that_match() {
    let policy = Policy::default();
    let meta = |date: i64| {
        Meta::of(
            &answer(200, &lines(&format!("Date: @{date}")), &policy),
            AT_ONCE,
            &policy,
        )
    };
    let stored = [
        (variant("Vary: foo", "Foo: 1").unwrap(), meta(-20)),
        (variant("Vary: foo", "Foo: 1").unwrap(), meta(-10)),
        (variant("Vary: foo", "Foo: 2").unwrap(), meta(0)),
        (variant("Vary: bar", "Bar: 1").unwrap(), meta(-30)),
        (variant("Vary: foo", "Foo: 1").unwrap(), meta(-10)),
    ];
    for (request, expected) in [
        ("Foo: 1", Some(1)),
        ("Foo: 2", Some(2)),
        ("Foo: 2|Bar: 1", Some(2)),
        ("Bar: 1", Some(3)),
        ("", None),
    ] {
        let text = lines(request);
        let chosen = select(
            stored.iter().map(|(variant, meta)| (variant, meta)),
            Fields::of_text(text.as_bytes()),
        );
        assert_eq!(chosen, expected, "{request}");
    }
    let (names, values) = stored[3].0.parts();
    assert_eq!(Variant::from_parts(names, values), stored[3].0);
}

proptest! {
    #[test]
    fn a_request_matches_the_variant_that_it_made(
        names in prop::collection::vec(prop_oneof!["[a-c]", Just("accept".to_owned()), Just("cookie".to_owned()), Just("accept-language".to_owned())], 0..5),
        fields in prop::collection::vec(("[A-Ca-c]|accept|cookie|accept-language", "[a-b,;=q0.1 \"]{0,9}"), 0..6),
    ) {
        let vary = format!("Vary: {}", names.join(", "));
        let request: String = fields.iter().map(|(name, value)| format!("{name}: {value}|")).collect();
        let made = variant(&vary, &request).unwrap();
        let text = lines(&request);
        prop_assert!(made.matches(Fields::of_text(text.as_bytes())));
    }

    #[test]
    fn different_values_of_an_unknown_field_never_match(one in "[a-z0-9/]{1,6}", two in "[a-z0-9/]{1,6}") {
        prop_assert_eq!(is_same("foo, bar", &format!("Foo: {one}|Bar: {two}"), &format!("Foo: {two}|Bar: {one}")), one == two);
    }
}
