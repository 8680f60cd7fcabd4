//! Character classes.
use super::*;

#[test]
fn tokens_are_those_of_rfc_9110() {
    let allowed = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for byte in 0..=255_u8 {
        assert_eq!(
            is_token_byte(byte),
            allowed.contains(&byte),
            "byte {byte:#x}"
        );
    }
    assert!(is_token(b"a!") && !is_token(b"") && !is_token(b"a b"));
}

#[test]
fn text_has_no_control_bytes() {
    for byte in 0..=255_u8 {
        let good = byte == 9 || (32..127).contains(&byte) || byte >= 128;
        assert_eq!(is_text(&[b'a', byte, b'b']), good, "byte {byte:#x}");
        let visible = (33..127).contains(&byte);
        assert_eq!(
            is_visible_text(&[b'a', byte, b'b']),
            visible,
            "byte {byte:#x}"
        );
    }
}

#[test]
fn numbers_have_digits_only_and_fit() {
    let table: [(&[u8], Option<u64>); 8] = [
        (b"0", Some(0)),
        (b"42", Some(42)),
        (b"999999999999999999", Some(999_999_999_999_999_999)),
        (b"1000000000000000000", None),
        (b"", None),
        (b"+5", None),
        (b"5 ", None),
        (b"0x5", None),
    ];
    for (text, number) in table {
        assert_eq!(decimal(text), number, "{}", text.escape_ascii());
    }
}

#[test]
fn lists_are_split_at_commas() {
    let all = |list: &'static [u8]| elements(list).collect::<Vec<_>>();
    assert_eq!(all(b" a ,\tb,, c"), [&b"a"[..], b"b", b"c"]);
    assert!(all(b" , ,").is_empty());
    assert_eq!(trim(b" \t a b \t"), b"a b");
}

#[test]
fn open_quotes_are_seen() {
    for closed in [&b""[..], b"for=1.2.3.4", br#"for="[::1]""#, br#"a="\"""#] {
        assert!(has_closed_quotes(closed), "{}", closed.escape_ascii());
    }
    for open in [&br#"for=""#[..], br#"a="\""#, br#"a="b" "c"#] {
        assert!(!has_closed_quotes(open), "{}", open.escape_ascii());
    }
}
