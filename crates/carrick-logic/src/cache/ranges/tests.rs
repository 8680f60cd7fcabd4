//! Ranges: the RFC's examples, and arithmetic against a naive model.
use super::{Ranges, if_range_holds, resolve};
use crate::cache::test_heads::{AT_ONCE, NOW, answer, lines};
use crate::cache::{Fields, Meta, Policy, Stored};
use proptest::prelude::*;

#[test]
fn rfc_9110_14_1_2_byte_ranges() {
    for (value, expected) in [
        ("bytes=0-499", Ranges::Single(0..500)),
        ("bytes=500-999", Ranges::Single(500..1000)),
        ("bytes=-500", Ranges::Single(9500..10_000)),
        ("bytes=9500-", Ranges::Single(9500..10_000)),
        ("bytes=0-0,-1", Ranges::Multiple(vec![0..1, 9999..10_000])),
        (" bytes=0-0", Ranges::Whole),
        ("bytes= 0-0 , 2-2 ,", Ranges::Multiple(vec![0..1, 2..3])),
        ("BYTES=0-0", Ranges::Single(0..1)),
        ("bytes=500-600,601-999", Ranges::Single(500..1000)),
        ("bytes=500-700,601-999", Ranges::Single(500..1000)),
        (
            "bytes=601-999,0-5,500-600",
            Ranges::Multiple(vec![500..1000, 0..6]),
        ),
        ("bytes=0-1,4-5,2-3", Ranges::Single(0..6)),
        ("bytes=-99999", Ranges::Single(0..10_000)),
        (
            "bytes=9999-99999999999999999999999999",
            Ranges::Single(9999..10_000),
        ),
        ("bytes=10000-", Ranges::Unsatisfiable),
        ("bytes=99999999999999999999999999-", Ranges::Unsatisfiable),
        ("bytes=-0", Ranges::Unsatisfiable),
        ("bytes=10000-,-0", Ranges::Unsatisfiable),
        ("bytes=10000-,0-0", Ranges::Single(0..1)),
        // Malformed, or of another unit: ignored.
        ("bytes=5-4", Ranges::Whole),
        ("bytes=0-0,5-4", Ranges::Whole),
        ("bytes=", Ranges::Whole),
        ("bytes", Ranges::Whole),
        ("bytes=,", Ranges::Whole),
        ("bytes=-", Ranges::Whole),
        ("bytes=a-b", Ranges::Whole),
        ("bytes=1-2-3", Ranges::Whole),
        ("bytes=+1-2", Ranges::Whole),
        ("bytes=0x1-2", Ranges::Whole),
        ("bytes=1 -2", Ranges::Whole),
        ("lines=0-1", Ranges::Whole),
        ("", Ranges::Whole),
        // Too many ranges.
        ("bytes=0-0,2-2,4-4,6-6,8-8", Ranges::Whole),
    ] {
        assert_eq!(resolve(value.as_bytes(), 10_000, 4), expected, "{value}");
    }
    assert_eq!(resolve(b"bytes=0-", 0, 4), Ranges::Unsatisfiable);
    assert_eq!(resolve(b"bytes=-5", 0, 4), Ranges::Unsatisfiable);
}

#[test]
fn rfc_9110_13_1_5_if_range() {
    for (response, value, expected) in [
        ("ETag: \"a\"", "\"a\"", true),
        ("ETag: \"a\"", "W/\"a\"", false),
        ("ETag: W/\"a\"", "W/\"a\"", false),
        ("ETag: \"a\"", "\"b\"", false),
        ("", "\"a\"", false),
        ("Last-Modified: @-9|Date: @0", "@-9", true),
        ("ETag: \"a\"|Last-Modified: @-9|Date: @0", "@-9", true),
        ("Last-Modified: @-9|Date: @0", "@-8", false),
        ("Last-Modified: @-9|Date: @0", "@-10", false),
        ("Last-Modified: @0|Date: @0", "@0", false),
        ("Last-Modified: @-9", "@-9", false),
        ("Date: @0", "@0", false),
        ("Date: @0", "nonsense", false),
    ] {
        let (response_lines, policy) = (lines(response), Policy::default());
        let meta = Meta::of(&answer(200, &response_lines, &policy), AT_ONCE, &policy);
        let stored = Stored {
            meta: meta.clone(),
            fields: Fields::of_text(response_lines.as_bytes()),
        };
        let value = lines(value);
        assert_eq!(
            if_range_holds(value.trim_end().as_bytes(), &stored, NOW),
            expected,
            "{response} / {value}"
        );
    }
}

proptest! {
    #[test]
    fn ranges_are_what_a_naive_model_says(total in 0..40_u64, specs in prop::collection::vec((0..3_u8, 0..45_u64, 0..45_u64), 1..6)) {
        let mut wanted = vec![false; total as usize];
        let mut texts = Vec::new();
        for &(form, a, b) in &specs {
            let (low, high) = (a.min(b), a.max(b));
            let is_wanted: Box<dyn Fn(u64) -> bool> = match form {
                0 => {
                    texts.push(format!("{low}-{high}"));
                    Box::new(move |place| (low..=high).contains(&place))
                }
                1 => {
                    texts.push(format!("{low}-"));
                    Box::new(move |place| place >= low)
                }
                _ => {
                    texts.push(format!("-{low}"));
                    Box::new(move |place| place + low >= total)
                }
            };
            for place in 0..total {
                wanted[place as usize] |= is_wanted(place);
            }
        }
        let ranges = match resolve(format!("bytes={}", texts.join(", ")).as_bytes(), total, 16) {
            Ranges::Whole => return Err(TestCaseError::fail("ignored")),
            Ranges::Single(range) => vec![range],
            Ranges::Multiple(ranges) => ranges,
            Ranges::Unsatisfiable => vec![],
        };
        for place in 0..total {
            let times = ranges.iter().filter(|range| range.contains(&place)).count();
            prop_assert_eq!(times, usize::from(wanted[place as usize]), "byte {} of {:?}", place, ranges);
        }
        for (index, range) in ranges.iter().enumerate() {
            prop_assert!(range.start < range.end && range.end <= total);
            prop_assert!(ranges[index + 1..].iter().all(|other| other.end < range.start || range.end < other.start));
        }
    }

    #[test]
    fn any_bytes_are_a_range_or_none(value in prop::collection::vec(any::<u8>(), 0..40), total in any::<u64>()) {
        let _ = resolve(&value, total, 8);
        let _ = resolve(&[b"bytes=".as_slice(), &value].concat(), total, 8);
    }
}
