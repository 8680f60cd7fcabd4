//! Dates in all their forms, valid and invalid; agreement with the `httpdate` crate.
use super::UnixTime;
use proptest::prelude::*;
use std::time::{Duration, UNIX_EPOCH};

const NOW: UnixTime = UnixTime(1_700_000_000);

#[test]
fn rfc_9110_5_6_7_dates() {
    for (text, expected) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
        ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
        ("Sun Nov 06 08:49:37 1994", Some(784_111_777)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
        ("Wed, 31 Dec 1969 23:59:59 GMT", Some(0)),
        ("Mon, 01 Jan 0000 00:00:00 GMT", Some(0)),
        ("Tue, 19 Jan 2038 14:14:08 GMT", Some(2_147_523_248)),
        ("Sun, 21 Nov 2286 04:46:39 GMT", Some(10_000_039_599)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
        ("Thu, 29 Feb 2024 00:00:00 GMT", Some(1_709_164_800)),
        ("Thu, 29 Feb 2023 00:00:00 GMT", None),
        ("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_799)),
        ("Sat, 31 Dec 2016 23:59:61 GMT", None),
        ("Sat, 31 Dec 2016 24:00:00 GMT", None),
        // The wrong case or day of the week does not make a date invalid.
        ("SUN, 06 NOV 1994 08:49:37 gMT", Some(784_111_777)),
        ("Mon, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
        ("Sun, 06 Nov 1994 08:49:37 UTC", None),
        ("Sun, 06 Nov 1994 08:49:37 +0000", None),
        ("Sun, 06 Nov 94 08:49:37 GMT", None),
        ("Sun 06 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06  Nov 1994 08:49:37 GMT", None),
        ("Sun, 06-Nov-1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08.49.37 GMT", None),
        ("Sun, 06 Nov 1994 8:49:37 GMT", None),
        ("Sun, 00 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("0", None),
        ("-1", None),
        ("", None),
    ] {
        let parsed = UnixTime::parse_http_date(text.as_bytes(), NOW);
        assert_eq!(parsed, expected.map(UnixTime), "{text}");
    }
}

#[test]
fn rfc_9110_5_6_7_two_digit_years_are_within_50_years() {
    let year = |text: &str, now: u64| {
        let parsed = UnixTime::parse_http_date(text.as_bytes(), UnixTime(now)).unwrap();
        let mut out = Vec::new();
        parsed.write_http_date(&mut out);
        String::from_utf8(out).unwrap()[12..16]
            .parse::<u32>()
            .unwrap()
    };
    // Read in 2023, then in 2090.
    for (digits, in_2023, in_2090) in [
        ("23", 2023, 2123),
        ("40", 2040, 2140),
        ("39", 2039, 2139),
        ("41", 2041, 2041),
        ("50", 2050, 2050),
        ("73", 2073, 2073),
        ("74", 1974, 2074),
        ("99", 1999, 2099),
    ] {
        let text = format!("Thursday, 18-Aug-{digits} 02:01:18 GMT");
        assert_eq!(year(&text, NOW.0), in_2023, "{text}");
        assert_eq!(year(&text, 3_786_912_000), in_2090, "{text}");
    }
}

#[test]
fn rfc_9111_1_2_2_time_does_not_overflow() {
    let end = UnixTime(u64::MAX);
    assert_eq!(end.plus(5), end);
    assert_eq!(end.since(UnixTime(0)), 1 << 31);
    assert_eq!(UnixTime(0).since(end), 0);
    let date = UnixTime::parse_http_date(b"Sunday, 06-Nov-94 08:49:37 GMT", end);
    assert!(date.is_some(), "a clock that is far off");
    let mut out = Vec::new();
    end.write_http_date(&mut out);
    assert_eq!(out, b"Fri, 31 Dec 9999 23:59:59 GMT");
}

proptest! {
    #[test]
    fn what_is_written_is_read_again_and_agrees_with_httpdate(seconds in 0..253_402_300_800_u64) {
        let mut out = Vec::new();
        UnixTime(seconds).write_http_date(&mut out);
        let theirs = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        prop_assert_eq!(std::str::from_utf8(&out).unwrap(), theirs);
        prop_assert_eq!(UnixTime::parse_http_date(&out, NOW), Some(UnixTime(seconds)));
    }

    #[test]
    fn any_bytes_are_a_date_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40), now in any::<u64>()) {
        let _ = UnixTime::parse_http_date(&bytes, UnixTime(now));
    }

    #[test]
    fn a_date_with_any_byte_changed_does_not_panic(place in 0..29_usize, byte in any::<u8>(), form in 0..3_usize, now in any::<u64>()) {
        let mut text = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"][form].as_bytes().to_vec();
        let place = place % text.len();
        text[place] = byte;
        let _ = UnixTime::parse_http_date(&text, UnixTime(now));
    }
}
