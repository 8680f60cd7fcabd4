//! Decisions about requests, given what is stored.
use super::{Found, Lookup, Miss, Reuse, Revalidate, is_origin_failure, look_up, stale_on_error};
use crate::cache::test_heads::{AT_ONCE, NOW, URI, answer, at, get, lines};
use crate::cache::{Meta, NotStored, Policy, Request, Response, Storing, decide_storing};
use crate::http1::{HeadLimits, Method, Progress, RequestHead, ResponseHead};
use proptest::prelude::*;

fn meta(response: &str) -> Meta {
    let policy = Policy::default();
    Meta::of(&answer(200, &lines(response), &policy), AT_ONCE, &policy)
}

fn decide(request: &str, meta: &Meta, age_s: i64, policy: &Policy) -> Lookup {
    look_up(
        &get(&lines(request)),
        Found::Stored(meta),
        at(age_s),
        policy,
    )
}

#[test]
fn rfc_9111_4_reuse() {
    use Revalidate as R;
    let fresh = |age_s| {
        Lookup::Fresh(Reuse {
            age_s,
            ttl_s: 60 - i64::from(age_s),
        })
    };
    let stale = |age_s| {
        Lookup::Stale(Reuse {
            age_s,
            ttl_s: 60 - i64::from(age_s),
        })
    };
    let plain = "Cache-Control: max-age=60";
    for (request, response, age_s, expected) in [
        ("", plain, 0, fresh(0)),
        ("", plain, 59, fresh(59)),
        // Section 4.2: fresh while the lifetime exceeds the age.
        ("", plain, 60, Lookup::Revalidate(R::Expired)),
        (
            "",
            "Cache-Control: max-age=60, no-cache",
            0,
            Lookup::Revalidate(R::ResponseNoCache),
        ),
        ("", "Cache-Control: max-age=60, no-cache=\"x\"", 0, fresh(0)),
        // Section 5.2.1.
        (
            "Cache-Control: no-cache",
            plain,
            0,
            Lookup::Revalidate(R::RequestNoCache),
        ),
        ("Cache-Control: max-age=10", plain, 10, fresh(10)),
        (
            "Cache-Control: max-age=10",
            plain,
            11,
            Lookup::Revalidate(R::RequestMaxAge),
        ),
        (
            "Cache-Control: max-age=10, max-stale",
            plain,
            11,
            Lookup::Revalidate(R::RequestMaxAge),
        ),
        (
            "Cache-Control: max-age=100",
            plain,
            61,
            Lookup::Revalidate(R::Expired),
        ),
        (
            "Cache-Control: max-age=100, max-stale=9",
            plain,
            61,
            stale(61),
        ),
        ("Cache-Control: min-fresh=10", plain, 50, fresh(50)),
        (
            "Cache-Control: min-fresh=10",
            plain,
            51,
            Lookup::Revalidate(R::RequestMinFresh),
        ),
        ("Cache-Control: max-stale", plain, 100_000, stale(100_000)),
        ("Cache-Control: max-stale=5", plain, 65, stale(65)),
        (
            "Cache-Control: max-stale=5",
            plain,
            66,
            Lookup::Revalidate(R::Expired),
        ),
        (
            "Cache-Control: max-stale",
            "Cache-Control: max-age=60, must-revalidate",
            61,
            Lookup::Revalidate(R::Expired),
        ),
        (
            "Cache-Control: max-stale",
            "Cache-Control: max-age=60, proxy-revalidate",
            61,
            Lookup::Revalidate(R::Expired),
        ),
        (
            "Cache-Control: max-stale",
            "Cache-Control: s-maxage=60",
            61,
            Lookup::Revalidate(R::Expired),
        ),
        (
            "Cache-Control: max-stale",
            "Cache-Control: no-cache, max-age=60",
            61,
            Lookup::Revalidate(R::ResponseNoCache),
        ),
        ("Cache-Control: only-if-cached", plain, 0, fresh(0)),
        (
            "Cache-Control: only-if-cached",
            plain,
            61,
            Lookup::GatewayTimeout,
        ),
        (
            "Cache-Control: only-if-cached, no-cache",
            plain,
            0,
            Lookup::GatewayTimeout,
        ),
        (
            "Cache-Control: only-if-cached, max-stale",
            plain,
            61,
            stale(61),
        ),
        (
            "Cache-Control: no-store, no-transform, unknown=7",
            plain,
            0,
            fresh(0),
        ),
        // RFC 8246 section 2.
        (
            "Cache-Control: max-age=0",
            "Cache-Control: max-age=60, immutable",
            9,
            fresh(9),
        ),
        (
            "Cache-Control: no-cache",
            "Cache-Control: max-age=60, immutable",
            9,
            Lookup::Revalidate(R::RequestNoCache),
        ),
        (
            "Cache-Control: max-age=0",
            "Cache-Control: max-age=60, immutable",
            61,
            Lookup::Revalidate(R::RequestMaxAge),
        ),
        // RFC 9110 section 13.1.1: the origin must decide.
        ("If-Match: \"a\"", plain, 0, Lookup::Miss(Miss::Condition)),
        (
            "If-Unmodified-Since: @0",
            plain,
            0,
            Lookup::Miss(Miss::Condition),
        ),
        (
            "If-Match: \"a\"|Cache-Control: only-if-cached",
            plain,
            0,
            Lookup::GatewayTimeout,
        ),
    ] {
        let decision = decide(request, &meta(response), age_s, &Policy::default());
        assert_eq!(decision, expected, "{request} / {response} at {age_s}");
    }
}

#[test]
fn rfc_5861_3_stale_while_revalidate() {
    let granted = meta("Cache-Control: max-age=60, stale-while-revalidate=10");
    let used = |age_s| {
        Lookup::StaleWhileRevalidate(Reuse {
            age_s,
            ttl_s: 60 - i64::from(age_s),
        })
    };
    for (request, age_s, expected) in [
        ("", 60, used(60)),
        ("", 69, used(69)),
        ("", 70, Lookup::Revalidate(Revalidate::Expired)),
        (
            "Cache-Control: no-cache",
            60,
            Lookup::Revalidate(Revalidate::RequestNoCache),
        ),
        (
            "Cache-Control: max-age=1000",
            60,
            Lookup::Revalidate(Revalidate::Expired),
        ),
        (
            "Cache-Control: min-fresh=1",
            60,
            Lookup::Revalidate(Revalidate::Expired),
        ),
        ("Cache-Control: only-if-cached", 60, used(60)),
    ] {
        assert_eq!(
            decide(request, &granted, age_s, &Policy::default()),
            expected,
            "{request} {age_s}"
        );
    }
    let forbidden = meta("Cache-Control: max-age=60, stale-while-revalidate=10, must-revalidate");
    assert_eq!(
        decide("", &forbidden, 60, &Policy::default()),
        Lookup::Revalidate(Revalidate::Expired)
    );
}

#[test]
fn rfc_5861_4_stale_if_error() {
    let granted = "Cache-Control: max-age=60, stale-if-error=10";
    for (request, response, age_s, expected) in [
        ("", granted, 69, true),
        ("", granted, 70, false),
        ("", granted, 5, true),
        ("Cache-Control: max-age=1", granted, 5, true),
        ("Cache-Control: no-cache", granted, 5, false),
        ("", "Cache-Control: max-age=60", 61, false),
        (
            "Cache-Control: stale-if-error=10",
            "Cache-Control: max-age=60",
            61,
            true,
        ),
        (
            "Cache-Control: stale-if-error=10",
            "Cache-Control: max-age=60, must-revalidate",
            61,
            false,
        ),
        (
            "Cache-Control: stale-if-error=10",
            "Cache-Control: s-maxage=60",
            61,
            false,
        ),
        (
            "",
            "Cache-Control: s-maxage=60, stale-if-error=10",
            61,
            true,
        ),
        (
            "",
            "Cache-Control: max-age=60, stale-if-error=10, must-revalidate",
            61,
            false,
        ),
        (
            "",
            "Cache-Control: no-cache, max-age=60, stale-if-error=10",
            5,
            false,
        ),
    ] {
        let request_lines = lines(request);
        let reuse = stale_on_error(
            &get(&request_lines),
            &meta(response),
            at(age_s),
            &Policy::default(),
        );
        assert_eq!(
            reuse.is_some(),
            expected,
            "{request} / {response} at {age_s}"
        );
    }
    let failures: Vec<_> = (100..600)
        .filter(|&status| is_origin_failure(status))
        .collect();
    assert_eq!(failures, [500, 502, 503, 504]);
}

#[test]
fn clients_that_reload_are_not_heeded_where_it_is_configured() {
    let policy = Policy {
        heed_client_reload: false,
        ..Policy::default()
    };
    let stored = meta("Cache-Control: max-age=60");
    for request in [
        "Cache-Control: no-cache",
        "Pragma: no-cache",
        "Cache-Control: max-age=0",
        "Cache-Control: min-fresh=100",
    ] {
        assert!(
            matches!(decide(request, &stored, 9, &policy), Lookup::Fresh(_)),
            "{request}"
        );
    }
}

#[test]
fn what_is_not_stored_is_a_miss() {
    let stored = meta("Cache-Control: max-age=60");
    for (method, found, expected) in [
        (Method::Get, Found::Nothing, Lookup::Miss(Miss::Uri)),
        (Method::Head, Found::OtherVariant, Lookup::Miss(Miss::Vary)),
        (
            Method::Get,
            Found::PartOnly(&stored),
            Lookup::Miss(Miss::Part),
        ),
        (
            Method::Head,
            Found::Stored(&stored),
            Lookup::Fresh(Reuse {
                age_s: 0,
                ttl_s: 60,
            }),
        ),
        (
            Method::Post,
            Found::Stored(&stored),
            Lookup::Miss(Miss::Method),
        ),
        (Method::Options, Found::Nothing, Lookup::Miss(Miss::Method)),
    ] {
        let request = Request { method, ..get("") };
        assert_eq!(
            look_up(&request, found, NOW, &Policy::default()),
            expected,
            "{method:?} {found:?}"
        );
        let only = Request {
            method,
            ..get("Cache-Control: only-if-cached\r\n")
        };
        let decision = look_up(&only, found, NOW, &Policy::default());
        let is_refused = matches!(expected, Lookup::Miss(why) if why != Miss::Method);
        assert_eq!(
            decision == Lookup::GatewayTimeout,
            is_refused,
            "{method:?} {found:?}"
        );
    }
}

#[test]
fn rfc_9110_9_3_1_a_get_with_a_body_passes_the_cache_by() {
    let stored = meta("Cache-Control: max-age=60");
    let bytes = b"GET /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
    let mut head = RequestHead::new();
    let limits = HeadLimits {
        head_bytes_max: 4096,
        fields_max: 64,
    };
    assert_eq!(head.parse(bytes, &limits), Ok(Progress::Complete));
    let request = Request::of_head(&head, bytes);
    let policy = Policy::default();
    assert_eq!(
        look_up(&request, Found::Stored(&stored), NOW, &policy),
        Lookup::Miss(Miss::Body)
    );
    let fresh = answer(200, "Cache-Control: max-age=60\r\n", &policy);
    let decision = decide_storing(&request, &URI, &fresh, AT_ONCE, &policy);
    assert_eq!(decision, Storing::No(NotStored::RequestBody));
    // The response of a real head, too.
    let bytes = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n";
    let mut head = ResponseHead::new();
    assert_eq!(
        head.parse(bytes, Method::Get, &limits),
        Ok(Progress::Complete)
    );
    let response = Response::of_head(&head, bytes, NOW, &policy);
    assert_eq!(response.directives.max_age_s, Some(60));
    assert!(matches!(
        decide_storing(&get(""), &URI, &response, AT_ONCE, &policy),
        Storing::Yes(_)
    ));
}

proptest! {
    #[test]
    fn what_is_stale_is_never_called_fresh_and_time_never_makes_it_better(
        lifetime in 0..1000_u32, age in 0..1000_u32, now in 0..2000_i64, later in 0..2000_i64,
        max_age in prop::option::of(0..1000_u32), min_fresh in prop::option::of(0..1000_u32),
        max_stale in prop::option::of(0..1000_u32), grace in 0..500_u32,
    ) {
        let stored = meta(&format!("Cache-Control: max-age={lifetime}, stale-while-revalidate={grace}|Age: {age}"));
        let mut request = get("");
        request.directives.max_age_s = max_age;
        request.directives.min_fresh_s = min_fresh;
        request.directives.max_stale_s = max_stale;
        let policy = Policy::default();
        let rank = |lookup| match lookup {
            Lookup::Fresh(_) => 0,
            Lookup::Stale(_) | Lookup::StaleWhileRevalidate(_) => 1,
            _ => 2,
        };
        let first = look_up(&request, Found::Stored(&stored), at(now), &policy);
        let second = look_up(&request, Found::Stored(&stored), at(now + later), &policy);
        prop_assert!(matches!(first, Lookup::Fresh(_)) <= stored.is_fresh(at(now)));
        prop_assert!(rank(first) <= rank(second), "{:?} then {:?}", first, second);
    }
}
