//! Age and freshness: the RFC's arithmetic as tables, and properties for all numbers.
use super::{LifetimeFrom as From, Meta, Validator};
use crate::cache::test_heads::{AT_ONCE, NOW, answer, at, lines};
use crate::cache::{Policy, SECONDS_MAX, Times, UnixTime};
use proptest::prelude::*;

fn meta(status: u16, text: &str, times: Times, policy: &Policy) -> Meta {
    Meta::of(&answer(status, &lines(text), policy), times, policy)
}

#[test]
fn rfc_9111_4_2_3_age() {
    // Fields, seconds between request and response, age on arrival.
    for (text, delay_s, expected) in [
        ("Date: @0", 0, 0),
        ("Date: @0", 5, 5),
        ("Date: @-10", 0, 10),
        ("Date: @-10", 5, 10),
        ("Date: @-10|Age: 7", 5, 12),
        ("Date: @-10|Age: 3", 2, 10),
        // A clock that is ahead does not make a response younger.
        ("Date: @100", 0, 0),
        ("Date: @100|Age: 4", 3, 7),
        // Without a date, it counts as made on arrival.
        ("", 3, 3),
        ("Date: yesterday|Age: 4", 3, 7),
        // Section 5.1: unintelligible values are ignored, and the first of several counts.
        ("Date: @0|Age: abc", 0, 0),
        ("Date: @0|Age: -7200", 0, 0),
        ("Date: @0|Age: 7200.0", 0, 0),
        ("Date: @0|Age: 7200, 0", 0, 7200),
        ("Date: @0|Age: 0, 7200", 0, 0),
        ("Date: @0|Age: 7200|Age: 0", 0, 7200),
        ("Date: @0|Age: 0|Age: 7200", 0, 0),
        ("Date: @0|Age: x|Age: 7200", 0, 0),
        ("Date: @0|Age: 7200;foo=bar", 0, 0),
        ("Date: @0|Age: 2147483647", 0, SECONDS_MAX - 1),
        ("Date: @0|Age: 2147483648", 0, SECONDS_MAX),
        ("Date: @0|Age: 99999999999999999999", 9, SECONDS_MAX),
        ("Date: Thu, 01 Jan 1970 00:00:00 GMT", 0, 1_700_000_000),
    ] {
        let times = Times {
            request: at(-delay_s),
            response: NOW,
        };
        let meta = meta(200, text, times, &Policy::default());
        assert_eq!(meta.initial_age_s, expected, "{text}");
        assert_eq!(meta.age_s(NOW), expected, "{text}");
        assert_eq!(
            meta.age_s(at(10)),
            (expected + 10).min(SECONDS_MAX),
            "{text}"
        );
        assert_eq!(meta.age_s(at(-10)), expected, "{text}: a clock set back");
    }
}

#[test]
fn rfc_9111_4_2_1_lifetime() {
    for (text, expected, from) in [
        (
            "Cache-Control: s-maxage=1, max-age=2|Expires: @3|Date: @0",
            1,
            From::SMaxage,
        ),
        (
            "Cache-Control: max-age=2|Cache-Control: s-maxage=100|Expires: @-3",
            100,
            From::SMaxage,
        ),
        (
            "Cache-Control: max-age=2|Expires: @3|Date: @0",
            2,
            From::MaxAge,
        ),
        (
            "Cache-Control: max-age=0|Expires: @3|Date: @0",
            0,
            From::MaxAge,
        ),
        ("Cache-Control: max-age=2|Expires: 0", 2, From::MaxAge),
        ("Expires: @3|Date: @0", 3, From::Expires),
        ("Expires: @3|Date: @-10", 13, From::Expires),
        ("Expires: @3", 3, From::Expires),
        ("Expires: @3|Date: nonsense", 3, From::Expires),
        ("Expires: @-3|Date: @0", 0, From::Expires),
        ("Expires: @0|Date: @0", 0, From::Expires),
        // Section 5.3: an invalid date is in the past.
        (
            "Expires: 0|Date: @0|Last-Modified: @-1000",
            0,
            From::Expires,
        ),
        ("Expires: -1|Date: @0", 0, From::Expires),
        ("Expires:|Date: @0", 0, From::Expires),
        ("Expires: @3|Expires: @100|Date: @0", 3, From::Expires),
        ("Expires: 0|Expires: @100|Date: @0", 0, From::Expires),
        // Section 4.2.2.
        ("Last-Modified: @-1000|Date: @0", 100, From::Heuristic),
        ("Last-Modified: @-1000", 100, From::Heuristic),
        (
            "Last-Modified: @-99999999|Date: @0",
            86_400,
            From::Heuristic,
        ),
        ("Last-Modified: @1000|Date: @0", 0, From::Nothing),
        ("Last-Modified: @0|Date: @0", 0, From::Nothing),
        ("Last-Modified: some day|Date: @0", 0, From::Nothing),
        (
            "Last-Modified: @-1000|Date: @0|Pragma: no-cache",
            0,
            From::Nothing,
        ),
        (
            "Last-Modified: @-1000|Date: @0|Pragma: no-cache|Cache-Control: foo",
            100,
            From::Heuristic,
        ),
        ("Cache-Control: max-age=9|Pragma: no-cache", 9, From::MaxAge),
        ("Date: @0", 0, From::Nothing),
        ("Cache-Control: public|Date: @0", 0, From::Nothing),
    ] {
        let meta = meta(200, text, AT_ONCE, &Policy::default());
        assert_eq!(
            (meta.lifetime_s, meta.lifetime_from),
            (expected, from),
            "{text}"
        );
    }
}

#[test]
fn rfc_9110_15_1_statuses_that_may_be_guessed_about() {
    let guessable = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501];
    for status in 200..600 {
        let guessed = meta(
            status,
            "Last-Modified: @-1000|Date: @0",
            AT_ONCE,
            &Policy::default(),
        );
        assert_eq!(
            guessed.lifetime_s == 100,
            guessable.contains(&status),
            "{status}"
        );
        let public = meta(
            status,
            "Cache-Control: public|Last-Modified: @-1000|Date: @0",
            AT_ONCE,
            &Policy::default(),
        );
        assert_eq!(public.lifetime_s, 100, "{status}");
    }
}

#[test]
fn lifetimes_by_configuration() {
    let policy = Policy {
        default_ttl_s: 60,
        negative_ttl_s: 5,
        heuristic_percent: 50,
        heuristic_max_s: 400,
        ..Policy::default()
    };
    for (status, text, expected, from) in [
        (200, "", 60, From::Configuration),
        (302, "", 0, From::Nothing),
        (301, "", 60, From::Configuration),
        (404, "", 5, From::Configuration),
        (503, "", 5, From::Configuration),
        (404, "Cache-Control: max-age=9", 9, From::MaxAge),
        (401, "", 0, From::Nothing),
        // What a client can provoke for others.
        (400, "", 0, From::Nothing),
        (403, "", 0, From::Nothing),
        (414, "", 0, From::Nothing),
        (501, "", 0, From::Nothing),
        (200, "Last-Modified: @-100|Date: @0", 50, From::Heuristic),
        (200, "Last-Modified: @-1000|Date: @0", 400, From::Heuristic),
        (200, "Pragma: no-cache", 0, From::Nothing),
    ] {
        let meta = meta(status, text, AT_ONCE, &policy);
        assert_eq!(
            (meta.lifetime_s, meta.lifetime_from),
            (expected, from),
            "{status} {text}"
        );
    }
}

#[test]
fn rfc_9213_2_2_a_targeted_field_hides_expires() {
    let policy = Policy {
        targeted: vec![b"cdn-cache-control".to_vec()],
        ..Policy::default()
    };
    let meta = meta(
        200,
        "CDN-Cache-Control: foo|Expires: @50|Date: @0",
        AT_ONCE,
        &policy,
    );
    assert_eq!(meta.lifetime_from, From::Nothing);
}

#[test]
fn rfc_9111_4_2_4_when_it_may_be_sent_stale() {
    let policy = Policy {
        stale_if_error_s: 7,
        stale_while_revalidate_s: 3,
        ..Policy::default()
    };
    for (value, client, while_s, error_s) in [
        ("max-age=1", true, 3, 7),
        (
            "max-age=1, stale-while-revalidate=20, stale-if-error=30",
            true,
            20,
            30,
        ),
        ("max-age=1, stale-while-revalidate=0", true, 0, 7),
        ("max-age=1, stale-while-revalidate=x", true, 0, 7),
        (
            "max-age=1, must-revalidate, stale-while-revalidate=20, stale-if-error=30",
            false,
            0,
            0,
        ),
        (
            "max-age=1, proxy-revalidate, stale-while-revalidate=20, stale-if-error=30",
            false,
            0,
            0,
        ),
        (
            "no-cache, stale-while-revalidate=20, stale-if-error=30",
            false,
            0,
            0,
        ),
        ("s-maxage=1", false, 0, 0),
        (
            "s-maxage=1, stale-while-revalidate=20, stale-if-error=30",
            false,
            20,
            30,
        ),
    ] {
        let meta = meta(200, &format!("Cache-Control: {value}"), AT_ONCE, &policy);
        let found = (
            meta.client_may_take_stale,
            meta.stale_while_revalidate_s,
            meta.stale_if_error_s,
        );
        assert_eq!(found, (client, while_s, error_s), "{value}");
    }
}

#[test]
fn rfc_9110_8_8_validators() {
    for (text, expected) in [
        (
            "ETag: \"a\"|Last-Modified: @-9|Date: @0",
            Validator::StrongTag,
        ),
        (
            "ETag: W/\"a\"|Last-Modified: @-9|Date: @0",
            Validator::WeakTag,
        ),
        ("ETag: a|Last-Modified: @-9|Date: @0", Validator::StrongDate),
        ("ETag: \"a\"|ETag: \"b\"", Validator::None),
        ("Last-Modified: @-1|Date: @0", Validator::StrongDate),
        ("Last-Modified: @0|Date: @0", Validator::WeakDate),
        ("Last-Modified: @-9", Validator::WeakDate),
        ("", Validator::None),
    ] {
        assert_eq!(
            meta(200, text, AT_ONCE, &Policy::default()).validator,
            expected,
            "{text}"
        );
    }
}

#[test]
fn the_later_response_counts_and_of_one_the_validated_one() {
    let made = |date: u64, text: &str| Meta {
        date: UnixTime(date),
        ..meta(200, text, AT_ONCE, &Policy::default())
    };
    let (fresh, stale) = ("Cache-Control: max-age=60", "Cache-Control: max-age=0");
    for (ours, other, gives_way) in [
        (made(1, fresh), made(2, fresh), true),
        (made(1, stale), made(2, stale), true),
        (made(2, stale), made(1, fresh), false),
        (made(1, stale), made(1, fresh), true),
        (made(1, stale), made(1, stale), false),
        (made(1, fresh).outdated(), made(1, fresh), false),
        (made(1, fresh).outdated(), made(2, fresh), true),
    ] {
        assert_eq!(
            ours.gives_way_to(&other, NOW),
            gives_way,
            "{ours:?} {other:?}"
        );
    }
}

#[test]
fn what_is_kept_is_small() {
    assert_eq!(size_of::<Meta>(), 64);
}

proptest! {
    #[test]
    fn age_grows_with_time_and_freshness_never_returns(
        request in any::<u64>(), response in any::<u64>(), date in any::<Option<u64>>(), age in any::<Option<u32>>(),
        lifetime in 0..200_000_u32, first in any::<u64>(), later in any::<u32>(),
    ) {
        let policy = Policy::default();
        let mut read = answer(200, "", &policy);
        read.date = date.map(UnixTime);
        read.age_s = age;
        read.directives.max_age_s = Some(lifetime);
        let times = Times { request: UnixTime(request), response: UnixTime(response) };
        let meta = Meta::of(&read, times, &policy);
        let (now, then) = (UnixTime(first), UnixTime(first).plus(later));
        prop_assert!(meta.age_s(now) >= age.unwrap_or(0).min(SECONDS_MAX));
        prop_assert!(meta.age_s(now) <= meta.age_s(then));
        prop_assert!(meta.age_s(then) - meta.age_s(now) <= later);
        prop_assert!(meta.ttl_s(now) >= meta.ttl_s(then));
        prop_assert!(meta.is_fresh(now) || !meta.is_fresh(then));
        prop_assert!(!meta.is_fresh(meta.fresh_until()));
        prop_assert!(!meta.outdated().is_fresh(now));
    }

    #[test]
    fn a_longer_lifetime_is_never_less_fresh(short in any::<u32>(), more in any::<u32>(), age in any::<u32>(), resident in any::<u32>()) {
        let policy = Policy::default();
        let fresh = |lifetime: u32| {
            let text = format!("Cache-Control: max-age={lifetime}|Age: {age}");
            meta(200, &text, AT_ONCE, &policy).is_fresh(NOW.plus(resident))
        };
        prop_assert!(!fresh(short) || fresh(short.saturating_add(more)));
    }
}

#[test]
fn an_error_that_the_configuration_keeps_leaves_alone_what_is_fresh() {
    let policy = Policy {
        negative_ttl_s: 60,
        default_ttl_s: 60,
        ..Policy::default()
    };
    let meta = |status, text| meta(status, text, AT_ONCE, &policy);
    let fresh = [
        meta(200, "Cache-Control: max-age=60"),
        meta(200, ""),
        meta(404, "Cache-Control: max-age=60"),
    ];
    for stored in &fresh {
        assert!(meta(404, "").leaves_alone(stored, NOW));
        assert!(meta(503, "").leaves_alone(stored, NOW));
        assert!(!meta(404, "").leaves_alone(stored, NOW.plus(60)));
        assert!(!meta(404, "Cache-Control: max-age=1").leaves_alone(stored, NOW));
        assert!(!meta(200, "").leaves_alone(stored, NOW));
        assert!(!meta(404, "").leaves_alone(&stored.outdated(), NOW));
    }
    for stored in [
        meta(500, ""),
        meta(200, "Cache-Control: max-age=60, no-cache"),
    ] {
        assert!(!meta(404, "").leaves_alone(&stored, NOW));
    }
}
