//! Dictionaries, valid and invalid.
use super::{Item, dictionary};
use proptest::prelude::*;

#[test]
fn rfc_9651_4_2_2_dictionaries() {
    for (text, expected) in [
        ("", Some(vec![])),
        ("  a", Some(vec![("a", Item::Boolean(true))])),
        (
            "a=?1, b=?0",
            Some(vec![
                ("a", Item::Boolean(true)),
                ("b", Item::Boolean(false)),
            ]),
        ),
        (
            "a=1,b=-999999999999999",
            Some(vec![
                ("a", Item::Integer(1)),
                ("b", Item::Integer(-999_999_999_999_999)),
            ]),
        ),
        (
            "a=1, b, a=2",
            Some(vec![("a", Item::Integer(2)), ("b", Item::Boolean(true))]),
        ),
        (
            "a=\"x\\\"y\" \t,\t b=tok/en:*",
            Some(vec![
                ("a", Item::Text(b"x\\\"y")),
                ("b", Item::Text(b"tok/en:*")),
            ]),
        ),
        (
            "a=1.5;p=\"q\";r, b=(1 2;x \"y\");z",
            Some(vec![("a", Item::Other), ("b", Item::Other)]),
        ),
        (
            "a=:aGk=:, b=@-7, c=%\"f%c3%bc\", d=()",
            Some(vec![
                ("a", Item::Other),
                ("b", Item::Other),
                ("c", Item::Other),
                ("d", Item::Other),
            ]),
        ),
        ("*a_-.0=1", Some(vec![("*a_-.0", Item::Integer(1))])),
        ("A=1", None),
        ("1=1", None),
        ("a=", None),
        ("a =1", None),
        ("a= 1", None),
        ("a b", None),
        ("a,", None),
        ("a,,b", None),
        (",a", None),
        ("a=1234567890123456", None),
        ("a=1.", None),
        ("a=1.2345", None),
        ("a=1234567890123.1", None),
        ("a=-", None),
        ("a=?2", None),
        ("a=?", None),
        ("a=\"", None),
        ("a=\"\\x\"", None),
        ("a=\"\u{fc}\"", None),
        ("a=(1", None),
        ("a=(1\"x\")", None),
        ("a=:x", None),
        ("a=@1.5", None),
        ("a=%\"%C3\"", None),
        ("a=%x", None),
        ("a;", None),
        ("a;=1", None),
    ] {
        let expected = expected.map(|members| {
            members
                .into_iter()
                .map(|(key, item)| (key.as_bytes(), item))
                .collect::<Vec<_>>()
        });
        assert_eq!(dictionary(text.as_bytes()), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_dictionary_or_none(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = dictionary(&bytes);
    }

    #[test]
    fn any_likely_text_is_a_dictionary_or_none(text in "[a-c=?01.\\-\"\\\\ ,;():@%*\\t]{0,30}") {
        let _ = dictionary(text.as_bytes());
    }
}

#[test]
fn a_dictionary_with_more_members_than_must_be_understood_is_none() {
    let of = |count: usize| -> Vec<String> { (0..count).map(|key| format!("a{key}")).collect() };
    let members = dictionary(of(1024).join(",").as_bytes()).map(|members| members.len());
    assert_eq!(members, Some(1024));
    assert_eq!(dictionary(of(1025).join(",").as_bytes()), None);
    assert_eq!(dictionary(vec!["a"; 1025].join(",").as_bytes()), None);
}
