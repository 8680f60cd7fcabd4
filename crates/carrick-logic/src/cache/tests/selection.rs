//! Credentials, statuses, variants, parts, targeted fields and POST.
use super::Second::{Cached, NotCached};
use super::{play, shared};
use crate::cache::test_heads::{AT_ONCE, URI, answer, lines};
use crate::cache::{Fields, Policy, Request, Storing, decide_storing};
use crate::http1::Method;

#[test]
fn cache_tests_authorization() {
    for (name, response, expected) in [
        (
            "other-authorization",
            "Cache-Control: max-age=3600",
            NotCached,
        ),
        (
            "other-authorization-public",
            "Cache-Control: max-age=3600, public",
            Cached,
        ),
        (
            "other-authorization-must-revalidate",
            "Cache-Control: max-age=3600, must-revalidate",
            Cached,
        ),
        (
            "other-authorization-smaxage",
            "Cache-Control: s-maxage=3600",
            Cached,
        ),
    ] {
        assert_eq!(
            play("Authorization: FOO", 200, response, 0, "", &shared()),
            expected,
            "{name}"
        );
    }
}

#[test]
fn cache_tests_statuses() {
    for status in [
        200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599,
    ] {
        assert_eq!(
            play("", status, "Cache-Control: max-age=3600", 3, "", &shared()),
            Cached,
            "status-{status}-fresh"
        );
        assert_eq!(
            play("", status, "Cache-Control: max-age=2", 3, "", &shared()),
            NotCached,
            "status-{status}-stale"
        );
    }
    let careful = "Cache-Control: max-age=3600, no-store, must-understand";
    assert_eq!(
        play("", 599, careful, 0, "", &shared()),
        NotCached,
        "status-599-must-understand"
    );
    assert_eq!(
        play("", 200, careful, 0, "", &shared()),
        Cached,
        "status-200-must-understand"
    );
    let guess = "Last-Modified: @-86400|Date: @0";
    for (status, expected) in [
        (200, Cached),
        (201, NotCached),
        (202, NotCached),
        (203, Cached),
        (204, Cached),
        (403, NotCached),
        (404, Cached),
        (405, Cached),
        (410, Cached),
        (414, Cached),
        (501, Cached),
        (502, NotCached),
        (503, NotCached),
        (504, NotCached),
        (599, NotCached),
    ] {
        assert_eq!(
            play("", status, guess, 3, "", &shared()),
            expected,
            "heuristic-{status}"
        );
    }
    assert_eq!(
        play(
            "",
            599,
            "Last-Modified: @-86400|Date: @0|Cache-Control: public",
            3,
            "",
            &shared()
        ),
        Cached
    );
}

#[test]
fn cache_tests_vary() {
    let vary = |names: &str| {
        format!("Cache-Control: max-age=5000|Last-Modified: @-3000|Date: @0|Vary: {names}")
    };
    for (name, first, names, second, expected) in [
        ("vary-match", "Foo: 1", "Foo", "Foo: 1", Cached),
        ("vary-no-match", "Foo: 1", "Foo", "Foo: 2", NotCached),
        ("vary-omit-stored", "", "Foo", "Foo: 1", NotCached),
        ("vary-omit", "Foo: 1", "Foo", "", NotCached),
        (
            "vary-cache-key",
            "Foo: 1|Other: 2",
            "Foo",
            "Foo: 1|Other: 3",
            Cached,
        ),
        (
            "vary-2-match",
            "Foo: 1|Bar: abc",
            "Foo, Bar",
            "Foo: 1|Bar: abc",
            Cached,
        ),
        (
            "vary-2-no-match",
            "Foo: 1|Bar: abc",
            "Foo, Bar",
            "Foo: 2|Bar: abc",
            NotCached,
        ),
        (
            "vary-2-match-omit",
            "Foo: 1|Bar: abc",
            "Foo, Bar",
            "Foo: 1",
            NotCached,
        ),
        (
            "vary-3-order",
            "Foo: 1|Baz: 789|Bar: abcde",
            "Foo, Bar, Baz",
            "Foo: 1|Bar: abcde|Baz: 789",
            Cached,
        ),
        (
            "vary-3-omit",
            "Foo: 1|Baz: 789",
            "Foo, Bar, Baz",
            "Foo: 1|Baz: 789",
            Cached,
        ),
        (
            "vary-normalise-combine",
            "Foo: 1, 2",
            "Foo",
            "Foo: 1|Foo: 2",
            Cached,
        ),
        // There it is desirable that this is a hit. Servers that send the first language would not agree.
        (
            "vary-normalise-lang-order",
            "Accept-Language: en, de",
            "Accept-Language",
            "Accept-Language: de, en",
            NotCached,
        ),
        (
            "vary-normalise-lang-case",
            "Accept-Language: en, de",
            "Accept-Language",
            "Accept-Language: eN, De",
            Cached,
        ),
        (
            "vary-normalise-lang-space",
            "Accept-Language: en, de",
            "Accept-Language",
            "Accept-Language:   en ,   de",
            Cached,
        ),
        (
            "vary-normalise-space",
            "Foo: 1,2",
            "Foo",
            "Foo:  1 ,  2 ",
            Cached,
        ),
    ] {
        assert_eq!(
            play(first, 200, &vary(names), 0, second, &shared()),
            expected,
            "{name}"
        );
    }
}

#[test]
fn cache_tests_partial() {
    let part = "Cache-Control: max-age=3600|Content-Range: bytes 5-9/10|ETag: \"a\"";
    for (name, first, status, response, second, expected) in [
        (
            "partial-store-partial-reuse-partial",
            "Range: bytes=-5",
            206,
            part,
            "Range: bytes=-5",
            Cached,
        ),
        (
            "partial-store-complete-reuse-partial",
            "",
            200,
            "Cache-Control: max-age=3600",
            "Range: bytes=0-1",
            Cached,
        ),
        (
            "partial-store-complete-reuse-partial-no-last",
            "",
            200,
            "Cache-Control: max-age=3600",
            "Range: bytes=1-",
            Cached,
        ),
        (
            "partial-store-complete-reuse-partial-suffix",
            "",
            200,
            "Cache-Control: max-age=3600",
            "Range: bytes=-1",
            Cached,
        ),
        (
            "partial-store-partial-reuse-partial-byterange",
            "Range: bytes=-5",
            206,
            part,
            "Range: bytes=6-8",
            Cached,
        ),
        (
            "partial-store-partial-reuse-partial-absent",
            "Range: bytes=-5",
            206,
            part,
            "Range: bytes=6-",
            Cached,
        ),
        (
            "partial-store-partial-reuse-partial-suffix",
            "Range: bytes=-5",
            206,
            part,
            "Range: bytes=-1",
            Cached,
        ),
        (
            "bytes that are not there",
            "Range: bytes=-5",
            206,
            part,
            "Range: bytes=4-8",
            NotCached,
        ),
        (
            "the whole, of a part",
            "Range: bytes=-5",
            206,
            part,
            "",
            NotCached,
        ),
    ] {
        assert_eq!(
            play(first, status, response, 0, second, &shared()),
            expected,
            "{name}"
        );
    }
}

#[test]
fn cache_tests_cdn() {
    let cdn = Policy {
        targeted: vec![b"cdn-cache-control".to_vec()],
        ..shared()
    };
    for (name, response, pause_s, expected) in [
        ("cdn-max-age", "CDN-Cache-Control: max-age=3600", 3, Cached),
        (
            "cdn-max-age-age",
            "CDN-Cache-Control: max-age=3600|Age: 7200|Date: @0",
            0,
            NotCached,
        ),
        (
            "cdn-max-age-expires",
            "CDN-Cache-Control: max-age=3600|Expires: @-10000|Date: @0",
            0,
            Cached,
        ),
        (
            "cdn-max-age-short-cc-max-age",
            "Cache-Control: max-age=1|CDN-Cache-Control: max-age=3600",
            3,
            Cached,
        ),
        (
            "cdn-max-age-long-cc-max-age",
            "Cache-Control: max-age=3600|CDN-Cache-Control: max-age=1",
            3,
            NotCached,
        ),
        (
            "cdn-private",
            "CDN-Cache-Control: private|Cache-Control: max-age=10000",
            0,
            NotCached,
        ),
        (
            "cdn-no-cache",
            "CDN-Cache-Control: no-cache|Cache-Control: max-age=10000",
            0,
            NotCached,
        ),
        (
            "cdn-fresh-cc-nostore",
            "Cache-Control: no-store|CDN-Cache-Control: max-age=10000",
            0,
            Cached,
        ),
        (
            "cdn-cc-invalid-sh-type-wrong",
            "CDN-Cache-Control: max-age=\"10000\"|Cache-Control: no-store",
            0,
            NotCached,
        ),
        (
            "cdn-max-age-case-insensitive",
            "CDN-Cache-Control: MaX-aGe=3600|Cache-Control: max-age=1",
            3,
            NotCached,
        ),
    ] {
        assert_eq!(
            play("", 200, response, pause_s, "", &cdn),
            expected,
            "{name}"
        );
    }
}

#[test]
fn cache_tests_method_post_answers_later_gets() {
    let policy = Policy::default();
    for (response, status, is_stored) in [
        (
            "Cache-Control: max-age=3600|Content-Location: /x|Date: @0",
            200,
            true,
        ),
        (
            "Cache-Control: max-age=3600|Content-Location: http://h/x",
            200,
            true,
        ),
        (
            "Cache-Control: max-age=3600|Content-Location: /y",
            200,
            false,
        ),
        (
            "Cache-Control: max-age=3600|Content-Location: http://other/x",
            200,
            false,
        ),
        ("Cache-Control: max-age=3600", 200, false),
        (
            "Content-Location: /x|Last-Modified: @-1000|Date: @0",
            200,
            false,
        ),
        (
            "Cache-Control: max-age=3600|Content-Location: /x",
            404,
            false,
        ),
    ] {
        let response_lines = lines(response);
        let request = Request::read(Method::Post, Fields::of_text(b""));
        let decision = decide_storing(
            &request,
            &URI,
            &answer(status, &response_lines, &policy),
            AT_ONCE,
            &policy,
        );
        assert_eq!(matches!(decision, Storing::Yes(_)), is_stored, "{response}");
    }
}
