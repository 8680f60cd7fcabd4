//! Stored parts, compared with a naive model; the request for the rest; bodies that ended early.
use super::{EXTENTS_MAX, Extents, truncated, write_range_conditions};
use crate::cache::test_heads::{AT_ONCE, answer, lines};
use crate::cache::{ContentRange, Fields, Meta, Policy, Stored};
use proptest::prelude::*;

fn part(start: u64, end: u64, total_bytes: Option<u64>) -> ContentRange {
    ContentRange {
        start,
        end,
        total_bytes,
    }
}

#[test]
fn rfc_9111_3_4_parts_become_a_whole() {
    let mut extents = Extents::part(part(5, 8, None));
    assert!(!extents.is_whole());
    assert!(extents.add(part(0, 2, Some(10))));
    assert_eq!(extents.held(), [0..2, 5..8]);
    assert_eq!(extents.missing(0..10), [2..5, 8..10]);
    assert_eq!(extents.missing(6..9).first(), Some(&(8..9)));
    assert!(extents.add(part(2, 5, Some(10))) && extents.add(part(7, 10, None)));
    assert!(extents.is_whole() && extents.missing(0..10).is_empty());
    assert_eq!(extents, Extents::whole(10));
    // A part that contradicts the length is rejected.
    let before = extents.clone();
    for wrong in [
        part(0, 1, Some(11)),
        part(9, 11, None),
        part(3, 3, Some(10)),
    ] {
        assert!(!extents.add(wrong), "{wrong:?}");
        assert_eq!(extents, before);
    }
    let mut open = Extents::part(part(5, 8, None));
    assert!(
        !open.add(part(0, 2, Some(7))),
        "shorter than the stored bytes"
    );
    assert!(Extents::whole(0).is_whole());
    let mut many = Extents::part(part(0, 1, None));
    for number in 1..EXTENTS_MAX as u64 {
        assert!(many.add(part(number * 2, number * 2 + 1, None)));
    }
    assert!(!many.add(part(1000, 1001, None)));
    assert!(many.add(part(1, 2, None)), "it joins two");
}

#[test]
fn what_a_request_asks_for_is_there_or_not() {
    let held = Extents::part(part(5, 10, Some(10)));
    let open = Extents::part(part(5, 10, None));
    for (extents, range, expected) in [
        (&held, None, false),
        (&held, Some("bytes=-5"), true),
        (&held, Some("bytes=-6"), false),
        (&held, Some("bytes=6-8"), true),
        (&held, Some("bytes=6-"), true),
        (&held, Some("bytes=5-5,9-9"), true),
        (&held, Some("bytes=0-0,9-9"), false),
        (&held, Some("bytes=10-"), true),
        (&held, Some("lines=1-2"), false),
        (&open, Some("bytes=6-8"), true),
        (&open, Some("bytes=6-"), false),
        (&open, Some("bytes=-1"), false),
        (&open, Some("bytes=6-6,8-8"), false),
        (&Extents::whole(10), None, true),
        (&Extents::whole(10), Some("nonsense"), true),
    ] {
        assert_eq!(
            extents.satisfies(range.map(str::as_bytes), 16),
            expected,
            "{extents:?} {range:?}"
        );
    }
}

#[test]
fn rfc_9110_13_1_5_asking_for_the_rest() {
    for (response, expected) in [
        (
            "ETag: \"a\"|Last-Modified: @-9|Date: @0",
            Some("Range: bytes=5-9|If-Range: \"a\""),
        ),
        (
            "Last-Modified: @-9|Date: @0",
            Some("Range: bytes=5-9|If-Range: @-9"),
        ),
        ("ETag: W/\"a\"|Last-Modified: @-9|Date: @0", None),
        ("Last-Modified: @0|Date: @0", None),
        ("", None),
    ] {
        let (text, policy) = (lines(response), Policy::default());
        let meta = Meta::of(&answer(206, &text, &policy), AT_ONCE, &policy);
        let stored = Stored {
            meta: meta.clone(),
            fields: Fields::of_text(text.as_bytes()),
        };
        let mut out = Vec::new();
        assert_eq!(
            write_range_conditions(&mut out, &stored, &(5..10)),
            expected.is_some(),
            "{response}"
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            lines(expected.unwrap_or_default()),
            "{response}"
        );
    }
}

#[test]
fn rfc_9111_3_3_bodies_that_ended_early() {
    let (policy, tag) = (Policy::default(), "ETag: \"a\"|Cache-Control: max-age=9");
    for (status, response, received, announced, expected) in [
        (200, tag, 5, Some(10), Some(part(0, 5, Some(10)))),
        (200, tag, 5, None, Some(part(0, 5, None))),
        (200, tag, 0, Some(10), None),
        (200, tag, 11, Some(10), None),
        (200, "ETag: W/\"a\"", 5, Some(10), None),
        (200, "", 5, Some(10), None),
        (404, tag, 5, Some(10), None),
        (
            206,
            "ETag: \"a\"|Content-Range: bytes 10-19/30",
            5,
            Some(10),
            Some(part(10, 15, Some(30))),
        ),
        (
            206,
            "ETag: \"a\"|Content-Range: bytes 10-19/30",
            11,
            None,
            None,
        ),
        (206, "ETag: \"a\"", 5, Some(10), None),
    ] {
        let text = lines(response);
        let meta = Meta::of(&answer(status, &text, &policy), AT_ONCE, &policy);
        let left = truncated(&meta, received, announced);
        assert_eq!(
            left.as_ref().and_then(|meta| meta.part()),
            expected,
            "{status} {response} {received} {announced:?}"
        );
        assert!(left.is_none_or(|meta| meta.status == 206));
    }
}

proptest! {
    #[test]
    fn parts_add_up_as_a_naive_model_says(parts in prop::collection::vec((0..30_u64, 1..10_u64), 1..12), from in 0..40_u64, length in 0..40_u64) {
        let (start, bytes) = parts[0];
        let mut extents = Extents::part(part(start, start + bytes, Some(40)));
        let mut model = [false; 40];
        for &(start, bytes) in &parts {
            prop_assert!(extents.add(part(start, start + bytes, Some(40))));
            for place in start..start + bytes {
                model[place as usize] = true;
            }
        }
        let is_there = |place: u64| model[place as usize];
        for place in 0..40 {
            prop_assert_eq!(extents.held().iter().any(|range| range.contains(&place)), is_there(place));
        }
        prop_assert!(extents.held().windows(2).all(|pair| pair[0].end < pair[1].start));
        let wanted = from..(from + length).min(40).max(from);
        prop_assert_eq!(extents.has(&wanted), wanted.clone().all(is_there));
        let missing = extents.missing(wanted.clone());
        for place in 0..40 {
            let is_missing = wanted.contains(&place) && !is_there(place);
            prop_assert_eq!(missing.iter().any(|range| range.contains(&place)), is_missing, "{}", place);
        }
    }
}
