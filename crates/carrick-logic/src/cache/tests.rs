//! A client, this cache and an origin: the checks of the public `cache-tests` suite (its names are in the rows),
//! applied to the decisions alone.
use super::test_heads::{AT_ONCE, URI, answer, at, get, lines};
use super::{
    Extents, Found, Lookup, Meta, Policy, Request, Storing, Variant, decide_storing, look_up,
    select, write_stored_fields,
};

/// How the second request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    /// The stored response is sent.
    Cached,
    /// From the store, with validation in the background.
    Background,
    /// By the origin, after a conditional request.
    Validated,
    /// By the origin, with a whole response.
    NotCached,
    /// With 504, without a request to the origin.
    Refused,
}
mod selection;

use Second::{Background, Cached, NotCached, Refused, Validated};

/// A client sends `first`, the origin answers, and some seconds later a client sends `second`.
fn play(
    first: &str,
    status: u16,
    response: &str,
    pause_s: i64,
    second: &str,
    policy: &Policy,
) -> Second {
    let (first, response, second) = (lines(first), lines(response), lines(second));
    let first = get(&first);
    let response = answer(status, &response, policy);
    let second = get(&second);
    let stored = match decide_storing(&first, &URI, &response, AT_ONCE, policy) {
        Storing::Yes(meta) => {
            Variant::of(response.fields, first.fields).map(|variant| (variant, meta))
        }
        Storing::No(_) => None,
    };
    let mut text = Vec::new();
    write_stored_fields(&mut text, &response);
    let found = match &stored {
        None => Found::Nothing,
        Some((variant, meta)) => match select([(variant, meta)].into_iter(), second.fields) {
            None => Found::OtherVariant,
            Some(_) if has_bytes(meta, second) => Found::Stored(meta),
            Some(_) => Found::PartOnly(meta),
        },
    };
    match look_up(&second, found, at(pause_s), policy) {
        Lookup::Fresh(_) | Lookup::Stale(_) => Cached,
        Lookup::StaleWhileRevalidate(_) => Background,
        Lookup::Revalidate(_) if stored.is_some_and(|(_, meta)| meta.can_be_validated()) => {
            Validated
        }
        Lookup::Revalidate(_) | Lookup::Miss(_) => NotCached,
        Lookup::GatewayTimeout => Refused,
    }
}

fn has_bytes(meta: &Meta, request: Request<'_>) -> bool {
    let extents = meta.part().map_or(Extents::whole(11), Extents::part);
    extents.satisfies(request.range, 16)
}

fn shared() -> Policy {
    Policy {
        share_set_cookie: true,
        ..Policy::default()
    }
}

#[test]
fn cache_tests_response_directives_and_freshness() {
    for (name, response, pause_s, expected) in [
        ("freshness-none", "Date: @0", 3, NotCached),
        (
            "freshness-max-age",
            "Cache-Control: max-age=3600",
            3,
            Cached,
        ),
        (
            "freshness-max-age-stale",
            "Cache-Control: max-age=2",
            3,
            NotCached,
        ),
        (
            "freshness-max-age-0",
            "Cache-Control: max-age=0",
            0,
            NotCached,
        ),
        (
            "freshness-max-age-max-plus",
            "Cache-Control: max-age=99999999999",
            3,
            Cached,
        ),
        (
            "freshness-max-age-age",
            "Date: @0|Cache-Control: max-age=3600|Age: 7200",
            0,
            NotCached,
        ),
        (
            "freshness-max-age-date",
            "Date: @-7200|Cache-Control: max-age=3600",
            0,
            NotCached,
        ),
        (
            "freshness-max-age-expires",
            "Cache-Control: max-age=3600|Expires: @-7200|Date: @0",
            0,
            Cached,
        ),
        (
            "freshness-max-age-extension",
            "Cache-Control: foobar, max-age=3600",
            0,
            Cached,
        ),
        (
            "freshness-max-age-negative",
            "Cache-Control: max-age=-3600",
            0,
            NotCached,
        ),
        (
            "freshness-expires-future",
            "Expires: @2592000|Date: @0",
            3,
            Cached,
        ),
        (
            "freshness-expires-past",
            "Expires: @-2592000|Date: @0",
            0,
            NotCached,
        ),
        (
            "freshness-expires-age-slow-date",
            "Date: @-10|Expires: @10|Age: 25",
            0,
            NotCached,
        ),
        (
            "freshness-expires-invalid-utc",
            "Expires: Thu, 18 Aug 2050 02:01:18 UTC|Date: @0",
            0,
            NotCached,
        ),
        (
            "freshness-expires-invalid-multiple-lines",
            "Expires: Thu, 18 Aug 2050 2:01:18 GMT|Expires: Thu, 18 Aug 2050 2:01:19 GMT",
            0,
            NotCached,
        ),
        (
            "cc-resp-private-shared",
            "Cache-Control: private, max-age=3600",
            0,
            NotCached,
        ),
        (
            "cc-resp-no-store-fresh",
            "Cache-Control: no-store, max-age=10000|Expires: @10000|Date: @0",
            0,
            NotCached,
        ),
        (
            "cc-resp-no-cache",
            "Cache-Control: no-cache, max-age=10000|Expires: @10000|Date: @0",
            0,
            NotCached,
        ),
        (
            "cc-resp-no-cache-revalidate",
            "Cache-Control: no-cache|ETag: \"abc\"",
            0,
            Validated,
        ),
        (
            "cc-resp-must-revalidate-fresh",
            "Cache-Control: max-age=10000, must-revalidate|ETag: \"abc\"",
            0,
            Cached,
        ),
        (
            "cc-resp-must-revalidate-stale",
            "Cache-Control: max-age=2, must-revalidate|ETag: \"abc\"",
            3,
            Validated,
        ),
        (
            "cc-resp-immutable-fresh",
            "Cache-Control: max-age=10000, immutable|ETag: \"abc\"",
            0,
            Cached,
        ),
        (
            "cc-resp-immutable-stale",
            "Cache-Control: max-age=2, immutable|ETag: \"abc\"",
            3,
            Validated,
        ),
        (
            "stale-while-revalidate",
            "Cache-Control: max-age=1, stale-while-revalidate=3600|ETag: \"abc\"",
            3,
            Background,
        ),
        (
            "stale-while-revalidate-window",
            "Cache-Control: max-age=1, stale-while-revalidate=4|ETag: \"abc\"",
            5,
            Validated,
        ),
        (
            "vary-syntax-star",
            "Cache-Control: max-age=5000|Vary: *",
            0,
            NotCached,
        ),
        (
            "vary-syntax-star-star-lines",
            "Cache-Control: max-age=5000|Vary: *|Vary: *",
            0,
            NotCached,
        ),
        (
            "vary-syntax-empty-star",
            "Cache-Control: max-age=5000|Vary: , *",
            0,
            NotCached,
        ),
        (
            "vary-syntax-empty-star-lines",
            "Cache-Control: max-age=5000|Vary:|Vary: *",
            0,
            NotCached,
        ),
        (
            "vary-syntax-star-foo",
            "Cache-Control: max-age=5000|Vary: *, Foo",
            0,
            NotCached,
        ),
        (
            "vary-syntax-foo-star",
            "Cache-Control: max-age=5000|Vary: Foo, *",
            0,
            NotCached,
        ),
        (
            "pragma-response-no-cache",
            "Cache-Control: max-age=3600|Pragma: no-cache",
            0,
            Cached,
        ),
        (
            "pragma-response-no-cache-heuristic",
            "Last-Modified: @-10000|Date: @0|Pragma: no-cache",
            3,
            Validated,
        ),
        (
            "other-set-cookie",
            "Cache-Control: max-age=3600|Set-Cookie: a=b",
            0,
            Cached,
        ),
        (
            "other-fresh-content-disposition-attachment",
            "Cache-Control: max-age=3600|Content-Disposition: attachment",
            0,
            Cached,
        ),
    ] {
        assert_eq!(
            play("", 200, response, pause_s, "", &shared()),
            expected,
            "{name}"
        );
    }
}

#[test]
fn cache_tests_request_directives() {
    let (fresh, with_tag) = (
        "Cache-Control: max-age=3600",
        "Cache-Control: max-age=3600|ETag: \"abc\"",
    );
    let aged = "Cache-Control: max-age=3600|Age: 1800|Date: @0";
    let stale = "Cache-Control: max-age=1";
    for (name, response, pause_s, request, expected) in [
        ("ccreq-ma0", fresh, 1, "Cache-Control: max-age=0", NotCached),
        ("ccreq-ma1", fresh, 3, "Cache-Control: max-age=1", NotCached),
        (
            "ccreq-magreaterage",
            aged,
            0,
            "Cache-Control: max-age=600",
            NotCached,
        ),
        (
            "ccreq-max-stale",
            stale,
            3,
            "Cache-Control: max-stale=1000",
            Cached,
        ),
        (
            "ccreq-max-stale, too stale",
            stale,
            3,
            "Cache-Control: max-stale=1",
            NotCached,
        ),
        (
            "ccreq-max-stale-age",
            "Cache-Control: max-age=1500|Age: 2000|Date: @0|ETag: \"abc\"",
            0,
            "Cache-Control: max-stale=1000",
            Cached,
        ),
        (
            "ccreq-min-fresh",
            "Cache-Control: max-age=1500",
            0,
            "Cache-Control: min-fresh=2000",
            NotCached,
        ),
        (
            "ccreq-min-fresh-age",
            "Cache-Control: max-age=1500|Age: 1000|Date: @0",
            0,
            "Cache-Control: min-fresh=1000",
            NotCached,
        ),
        (
            "ccreq-min-fresh, fresh enough",
            fresh,
            0,
            "Cache-Control: min-fresh=1000",
            Cached,
        ),
        (
            "ccreq-no-cache",
            fresh,
            0,
            "Cache-Control: no-cache",
            NotCached,
        ),
        (
            "ccreq-no-cache-etag",
            with_tag,
            0,
            "Cache-Control: no-cache",
            Validated,
        ),
        (
            "ccreq-no-cache-lm",
            "Cache-Control: max-age=3600|Last-Modified: @-10000",
            0,
            "Cache-Control: no-cache",
            Validated,
        ),
        (
            "ccreq-no-store",
            fresh,
            0,
            "Cache-Control: no-store",
            Cached,
        ),
        (
            "ccreq-oic",
            "Cache-Control: no-store",
            0,
            "Cache-Control: only-if-cached",
            Refused,
        ),
        (
            "ccreq-oic, stored",
            fresh,
            0,
            "Cache-Control: only-if-cached",
            Cached,
        ),
        (
            "pragma-request-no-cache",
            fresh,
            0,
            "Pragma: no-cache",
            NotCached,
        ),
        (
            "pragma-request-extension",
            fresh,
            0,
            "Pragma: unrecognised",
            Cached,
        ),
        ("other-cookie", fresh, 0, "Cookie: a=b", Cached),
    ] {
        assert_eq!(
            play("", 200, response, pause_s, request, &shared()),
            expected,
            "{name}"
        );
    }
}
