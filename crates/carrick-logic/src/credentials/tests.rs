//! Basic credentials, valid and invalid.
use super::{Credentials, read_basic};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

fn basic(plain: &[u8]) -> Vec<u8> {
    format!("Basic {}", STANDARD.encode(plain)).into_bytes()
}

fn credentials(user: &str, password: &str) -> Credentials {
    Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    }
}

#[test]
fn reads_the_examples_of_rfc_7617() {
    assert_eq!(
        read_basic(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        Some(credentials("Aladdin", "open sesame"))
    );
    assert_eq!(
        read_basic(b"Basic dGVzdDoxMjPCow=="),
        Some(credentials("test", "123£"))
    );
}

#[test]
fn the_first_colon_ends_the_user() {
    assert_eq!(read_basic(&basic(b"a:b:c")), Some(credentials("a", "b:c")));
    assert_eq!(read_basic(&basic(b"a::")), Some(credentials("a", ":")));
    assert_eq!(read_basic(&basic(b":")), Some(credentials("", "")));
    assert_eq!(read_basic(&basic(b"a:")), Some(credentials("a", "")));
    assert_eq!(
        read_basic(&basic(b"a b: c ")),
        Some(credentials("a b", " c "))
    );
}

#[test]
fn the_scheme_has_no_case_and_spaces_may_follow() {
    for scheme in ["basic", "BASIC", "bAsIc", "Basic  "] {
        assert_eq!(
            read_basic(format!("{scheme} YTpi").as_bytes()),
            Some(credentials("a", "b")),
            "{scheme}"
        );
    }
}

#[test]
fn refuses_what_is_not_basic_or_malformed() {
    let rows: [&[u8]; 22] = [
        b"",
        b"Basic",
        b"Basic ",
        b"BasicYTpi",
        b"Basic\tYTpi",
        b"Basic \tYTpi",
        b" Basic YTpi",
        b"Bearer YTpi",
        b"Basi YTpi",
        b"Basic YTpi ",
        b"Basic YT pi",
        b"Basic YTpi,",
        b"Basic YTp",
        b"Basic YTo",
        b"Basic YTpi====",
        b"Basic =",
        b"Basic YTpi\0",
        // URL alphabet, non-zero padding bits, quotes, parameters.
        b"Basic _-8=",
        b"Basic YTp=",
        b"Basic \"YTpi\"",
        b"Basic realm=\"x\"",
        b"Basic \xc3\xbc",
    ];
    for value in rows {
        assert_eq!(
            read_basic(value),
            None,
            "{:?}",
            String::from_utf8_lossy(value)
        );
    }
    for plain in [
        b"ab".as_slice(),
        b"",
        b"a\n:b",
        b"a:b\0",
        b"a:\x7f",
        b"\t:b",
        b"a:b\r\n",
        b"\xfc:b",
        b"a:\xc3",
    ] {
        assert_eq!(
            read_basic(&basic(plain)),
            None,
            "{:?}",
            String::from_utf8_lossy(plain)
        );
    }
}

#[test]
fn debug_shows_no_password() {
    let shown = format!(
        "{:?} {:#?}",
        credentials("alice", "sesame"),
        credentials("alice", "sesame")
    );
    assert!(
        shown.contains("alice") && !shown.contains("sesame"),
        "{shown}"
    );
}

proptest! {
    #[test]
    fn what_is_encoded_is_read(user in "[^:\\pC]{0,12}", password in "\\PC{0,12}") {
        let value = basic(format!("{user}:{password}").as_bytes());
        prop_assert_eq!(read_basic(&value), Some(credentials(&user, &password)));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), token in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = read_basic(&bytes);
        let _ = read_basic(&basic(&token));
        let _ = read_basic(&[b"basic ".as_slice(), &token].concat());
    }
}
