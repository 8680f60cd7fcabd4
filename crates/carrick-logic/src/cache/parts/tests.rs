//! Which requests stored parts can answer, and what is requested in addition.
use super::{has_all, is_same_version, missing};
use crate::cache::test_heads::{AT_ONCE, NOW, answer, get, lines};
use crate::cache::{ContentRange, Extents, Fields, Meta, Policy, Stored};
use proptest::prelude::*;
use std::ops::Range;

fn extents(held: &[Range<u64>], total_bytes: Option<u64>) -> Extents {
    let part = |range: &Range<u64>| ContentRange {
        start: range.start,
        end: range.end,
        total_bytes,
    };
    let mut extents = Extents::part(part(&held[0]));
    for range in &held[1..] {
        assert!(extents.add(part(range)));
    }
    extents
}

/// The result of `missing` for a request with these lines, or whether `held` has everything.
fn ask(request: &str, fields: &str, held: &Extents) -> Result<(), Option<Range<u64>>> {
    let (request, fields) = (lines(request), lines(fields));
    let policy = Policy::default();
    let meta = Meta::of(&answer(206, &fields, &policy), AT_ONCE, &policy);
    let stored = Stored {
        meta: meta.clone(),
        fields: Fields::of_text(fields.as_bytes()),
    };
    let request = get(&request);
    if has_all(&request, &stored, held, NOW, &policy) {
        return Ok(());
    }
    Err(missing(&request, &stored, held, NOW, &policy))
}

#[test]
fn what_is_missing_is_asked_for() {
    let strong = "ETag: \"a\"";
    let held = [0..10, 20..30, 40..50];
    let known = extents(&held, Some(100));
    let open = extents(&held[..1], None);
    for (request, fields, extents, expected) in [
        ("", strong, &known, Err(Some(10..100))),
        ("Range: bytes=0-9", strong, &known, Ok(())),
        ("Range: bytes=5-9,22-23", strong, &known, Ok(())),
        ("Range: bytes=5-24", strong, &known, Err(Some(10..20))),
        ("Range: bytes=5-44", strong, &known, Err(Some(10..40))),
        ("Range: bytes=45-", strong, &known, Err(Some(50..100))),
        ("Range: bytes=0-4,60-69", strong, &known, Err(Some(10..70))),
        // A request for the rest would save nothing.
        ("Range: bytes=12-15", strong, &known, Err(None)),
        ("Range: bytes=15-35", strong, &known, Err(None)),
        ("Range: bytes=100-", strong, &known, Ok(())),
        // The client has another version, so it gets the whole response.
        (
            "Range: bytes=0-9|If-Range: \"b\"",
            strong,
            &known,
            Err(Some(10..100)),
        ),
        ("Range: bytes=0-9|If-Range: \"a\"", strong, &known, Ok(())),
        ("Authorization: x", strong, &known, Err(None)),
        ("Cache-Control: no-store", strong, &known, Err(None)),
        ("If-None-Match: \"b\"", strong, &known, Err(None)),
        ("If-Modified-Since: @-9", strong, &known, Err(None)),
        ("", "ETag: W/\"a\"", &known, Err(None)),
        (
            "",
            "Last-Modified: @-9|Date: @0",
            &known,
            Err(Some(10..100)),
        ),
        ("", strong, &open, Err(Some(10..u64::MAX))),
        ("Range: bytes=2-4", strong, &open, Ok(())),
        ("Range: bytes=2-", strong, &open, Err(None)),
        ("Range: bytes=-2", strong, &open, Err(None)),
    ] {
        assert_eq!(
            ask(request, fields, extents),
            expected,
            "{request} {fields}"
        );
    }
}

#[test]
fn versions_are_distinguished() {
    for (one, other, expected) in [
        ("ETag: \"a\"", "ETag: \"a\"", true),
        ("ETag: \"a\"", "ETag: \"b\"", false),
        ("ETag: \"a\"", "ETag: W/\"a\"", false),
        ("ETag: W/\"a\"", "ETag: W/\"a\"", false),
        ("ETag: \"a\"", "", false),
        ("", "", false),
        (
            "Last-Modified: @-9|Date: @0",
            "Last-Modified: @-9|Date: @5",
            true,
        ),
        (
            "Last-Modified: @-9|Date: @0",
            "Last-Modified: @-8|Date: @0",
            false,
        ),
        ("Last-Modified: @-9", "Last-Modified: @-9", false),
        ("ETag: \"a\"|Content-Encoding: gzip", "ETag: \"a\"", false),
        (
            "ETag: \"a\"|Content-Range: bytes 0-1/9",
            "ETag: \"a\"|Content-Range: bytes 2-3/9",
            true,
        ),
        (
            "ETag: \"a\"|Content-Range: bytes 0-1/9",
            "ETag: \"a\"|Content-Range: bytes 2-3/8",
            false,
        ),
    ] {
        let policy = Policy::default();
        let (one, other) = (lines(one), lines(other));
        let metas =
            [&one, &other].map(|text| Meta::of(&answer(206, text, &policy), AT_ONCE, &policy));
        let stored = |meta: &Meta, text: &'static str| Stored {
            meta: meta.clone(),
            fields: Fields::of_text(text.as_bytes()),
        };
        let leaked = [one.leak() as &'static str, other.leak()];
        let (one, other) = (stored(&metas[0], leaked[0]), stored(&metas[1], leaked[1]));
        assert_eq!(is_same_version(&one, &other), expected, "{leaked:?}");
        assert_eq!(is_same_version(&other, &one), expected, "{leaked:?}");
    }
}

proptest! {
    #[test]
    fn what_is_held_and_what_is_asked_for_are_enough(
        held in prop::collection::vec((0..95_u64, 1..20_u64), 1..6), range in prop::option::of((0..99_u64, 0..40_u64)),
    ) {
        let mut extents: Option<Extents> = None;
        for (start, length) in held {
            let part = ContentRange { start, end: (start + length).min(100), total_bytes: Some(100) };
            match &mut extents {
                None => extents = Some(Extents::part(part)),
                Some(extents) => prop_assert!(extents.add(part)),
            }
        }
        let mut extents = extents.unwrap();
        let request = range.map_or(String::new(), |(first, more)| format!("Range: bytes={first}-{}", first + more));
        if let Err(Some(missing)) = ask(&request, "ETag: \"a\"", &extents) {
            prop_assert!(!extents.has(&missing));
            let part = ContentRange { start: missing.start, end: missing.end, total_bytes: Some(100) };
            prop_assert!(extents.add(part));
            prop_assert_eq!(ask(&request, "ETag: \"a\"", &extents), Ok(()));
        }
    }
}
