//! What 304 and HEAD change, and what they never change.
use super::{Freshened, HeadEffect, freshen, head_effect, may_combine};
use crate::cache::test_heads::{AT_ONCE, URI, answer, at, get, lines};
use crate::cache::{Fields, LifetimeFrom, Meta, NotStored, Policy, Stored, Times, Validator};

fn update(
    request: &str,
    stored: &str,
    status: u16,
    response: &str,
    policy: &Policy,
) -> (String, Freshened) {
    let (request, stored_lines, response) = (lines(request), lines(stored), lines(response));
    let meta = Meta::of(&answer(200, &stored_lines, policy), AT_ONCE, policy);
    let stored = Stored {
        meta: meta.clone(),
        fields: Fields::of_text(stored_lines.as_bytes()),
    };
    let times = Times {
        request: at(100),
        response: at(101),
    };
    let mut out = Vec::new();
    let result = freshen(
        &mut out,
        &get(&request),
        &URI,
        &stored,
        &answer(status, &response, policy),
        times,
        policy,
    );
    (String::from_utf8(out).unwrap(), result)
}

#[test]
fn rfc_9111_3_2_fields_that_an_update_replaces() {
    let base = "Cache-Control: max-age=60|ETag: \"a\"";
    for (stored, response, expected) in [
        ("X: 1|Y: 2", "X: 3", "Y: 2|X: 3"),
        ("X: 1|x: 2|Y: 2", "X: 3|X: 4", "Y: 2|X: 3|X: 4"),
        ("X: 1", "Y: 2", "X: 1|Y: 2"),
        (
            "Content-Type: a|Content-Location: /a|Content-Foo: a",
            "Content-Type: b|Content-Location: /b|Content-Foo: b",
            "Content-Type: b|Content-Location: /b|Content-Foo: b",
        ),
        (
            "Content-Encoding: gzip|Content-Range: bytes 0-1/2|Content-MD5: a",
            "Content-Encoding: br|Content-Range: bytes 1-1/2|Content-MD5: b|Content-Digest: d|Content-Length: 9",
            "Content-Encoding: gzip|Content-Range: bytes 0-1/2|Content-MD5: a",
        ),
        (
            "X: 1",
            "Connection: z, close|Z: 1|Keep-Alive: 5|Transfer-Encoding: chunked|Age: 5|Proxy-Authenticate: b|Upgrade: u",
            "X: 1",
        ),
        ("X: 1", "Set-Cookie: a=b", "X: 1"),
    ] {
        let (text, result) = update(
            "",
            &format!("{base}|{stored}"),
            304,
            response,
            &Policy::default(),
        );
        assert_eq!(
            text,
            lines(&format!("{base}|{expected}|Date: @101")),
            "{stored} / {response}"
        );
        assert!(
            matches!(result, Freshened::Updated(_)),
            "{stored} / {response}"
        );
    }
    let sharing = Policy {
        share_set_cookie: true,
        ..Policy::default()
    };
    assert_eq!(
        update("", base, 304, "Set-Cookie: a=b", &sharing).0,
        lines(&format!("{base}|Set-Cookie: a=b|Date: @101"))
    );
}

/// What was compared weakly does not say that the bytes are the same.
#[test]
fn an_update_does_not_make_a_weak_tag_strong() {
    for (stored, new, expected, validator) in [
        ("W/\"a\"", "\"a\"", "W/\"a\"", Validator::WeakTag),
        ("W/\"a\"", "W/\"a\"", "W/\"a\"", Validator::WeakTag),
        ("\"a\"", "W/\"a\"", "W/\"a\"", Validator::WeakTag),
        ("\"a\"", "\"a\"", "\"a\"", Validator::StrongTag),
    ] {
        let (text, result) = update(
            "",
            &format!("Cache-Control: max-age=60|ETag: {stored}"),
            304,
            &format!("ETag: {new}"),
            &Policy::default(),
        );
        let tags = Fields::of_text(text.as_bytes());
        let tags: Vec<_> = tags.values(b"etag").collect();
        assert_eq!(tags, [expected.as_bytes()], "{stored} {new}");
        let Freshened::Updated(meta) = result else {
            panic!("{stored} {new}: {result:?}");
        };
        assert_eq!(meta.validator, validator, "{stored} {new}");
    }
}

#[test]
fn rfc_9111_4_3_4_a_304_gives_a_new_lifetime() {
    for (stored, response, lifetime_s, from, age_s) in [
        (
            "Cache-Control: max-age=60|Date: @0",
            "Date: @100",
            60,
            LifetimeFrom::MaxAge,
            1,
        ),
        (
            "Cache-Control: max-age=60|Date: @0",
            "Cache-Control: max-age=7|Date: @100|Age: 4",
            7,
            LifetimeFrom::MaxAge,
            5,
        ),
        (
            "Expires: @50|Date: @0",
            "Expires: @150|Date: @100",
            50,
            LifetimeFrom::Expires,
            1,
        ),
        // A 304 without a date counts from its arrival: otherwise a server without a clock could never refresh anything.
        (
            "Cache-Control: max-age=60|Date: @0",
            "",
            60,
            LifetimeFrom::MaxAge,
            1,
        ),
    ] {
        let (_, result) = update(
            "",
            &format!("ETag: \"a\"|{stored}"),
            304,
            response,
            &Policy::default(),
        );
        let Freshened::Updated(meta) = result else {
            panic!("{stored} / {response}: {result:?}");
        };
        assert_eq!(
            (meta.lifetime_s, meta.lifetime_from, meta.initial_age_s),
            (lifetime_s, from, age_s),
            "{stored} / {response}"
        );
        assert_eq!((meta.status, meta.response_time), (200, at(101)));
    }
}

#[test]
fn updates_with_other_names_each_time_do_not_make_a_head_grow_for_ever() {
    let names = |count: usize| (0..count).map(|n| format!("|X{n}: 1")).collect::<String>();
    let stored = format!("Cache-Control: max-age=60|ETag: \"a\"{}", names(400));
    let (_, result) = update("", &stored, 304, "Y: 1", &Policy::default());
    assert!(matches!(result, Freshened::Updated(_)), "{result:?}");
    let other = names(200).replace('X', "Y");
    let (_, result) = update("", &stored, 304, &other[1..], &Policy::default());
    assert_eq!(result, Freshened::Remove(NotStored::LongHead));
}

#[test]
fn an_update_that_forbids_storing_removes() {
    let stored = "Cache-Control: max-age=60|ETag: \"a\"|Secret: 1";
    for (request, response, expected) in [
        (
            "",
            "Cache-Control: no-store",
            Some(Freshened::Remove(NotStored::ResponseNoStore)),
        ),
        (
            "",
            "Cache-Control: private",
            Some(Freshened::Remove(NotStored::Private)),
        ),
        (
            "",
            "Vary: *",
            Some(Freshened::Remove(NotStored::VaryEverything)),
        ),
        ("Cache-Control: no-store", "", Some(Freshened::Unchanged)),
        ("Authorization: x", "", Some(Freshened::Unchanged)),
        ("Authorization: x", "Cache-Control: public", None),
    ] {
        let (_, result) = update(request, stored, 304, response, &Policy::default());
        match expected {
            Some(expected) => assert_eq!(result, expected, "{request} / {response}"),
            None => assert!(
                matches!(result, Freshened::Updated(_)),
                "{request} / {response}"
            ),
        }
    }
    // Fields that the update forbids to store are removed.
    let (text, _) = update(
        "",
        stored,
        304,
        "Cache-Control: max-age=9, private=\"secret\"",
        &Policy::default(),
    );
    assert_eq!(
        text,
        lines("ETag: \"a\"|Cache-Control: max-age=9, private=\"secret\"|Date: @101")
    );
}

#[test]
fn rfc_9111_4_3_5_head() {
    let stored = "ETag: \"a\"|Last-Modified: @-9|Date: @0|Cache-Control: max-age=60";
    let (stored_lines, policy) = (lines(stored), Policy::default());
    let meta = Meta::of(&answer(200, &stored_lines, &policy), AT_ONCE, &policy);
    let stored = Stored {
        meta: meta.clone(),
        fields: Fields::of_text(stored_lines.as_bytes()),
    };
    for (status, response, expected) in [
        (
            200,
            "ETag: \"a\"|Last-Modified: @-9|Content-Length: 10",
            HeadEffect::Freshen,
        ),
        (200, "Cache-Control: max-age=1000", HeadEffect::Freshen),
        (200, "ETag: \"b\"", HeadEffect::Outdated),
        (200, "ETag: W/\"a\"", HeadEffect::Outdated),
        (200, "ETag: \"a\"|Last-Modified: @-8", HeadEffect::Outdated),
        (200, "ETag: \"a\"|Content-Length: 11", HeadEffect::Outdated),
        (410, "ETag: \"b\"", HeadEffect::Nothing),
        (304, "", HeadEffect::Nothing),
    ] {
        let response_lines = lines(response);
        assert_eq!(
            head_effect(&stored, Some(10), &answer(status, &response_lines, &policy)),
            expected,
            "{status} {response}"
        );
    }
    let gone = Meta {
        status: 404,
        ..meta.clone()
    };
    let gone = Stored {
        meta: gone.clone(),
        ..stored
    };
    assert_eq!(
        head_effect(&gone, None, &answer(200, "", &policy)),
        HeadEffect::Nothing
    );
}

#[test]
fn rfc_9111_3_4_parts_that_go_together() {
    let policy = Policy::default();
    let part = "Content-Range: bytes 0-4/10";
    let rest = "Content-Range: bytes 5-9/10";
    for (stored, status, response, expected) in [
        ("ETag: \"a\"", 206, "ETag: \"a\"", true),
        ("ETag: \"a\"", 206, "ETag: \"b\"", false),
        ("ETag: W/\"a\"", 206, "ETag: W/\"a\"", false),
        (
            "ETag: \"a\"|Last-Modified: @-9|Date: @0",
            206,
            "Last-Modified: @-9|Date: @0",
            false,
        ),
        (
            "Last-Modified: @-9|Date: @0",
            206,
            "Last-Modified: @-9|Date: @0",
            true,
        ),
        (
            "Last-Modified: @-9|Date: @0",
            206,
            "Last-Modified: @-8|Date: @0",
            false,
        ),
        (
            "Last-Modified: @0|Date: @0",
            206,
            "Last-Modified: @0|Date: @0",
            false,
        ),
        ("ETag: \"a\"", 200, "ETag: \"a\"", false),
        (
            "ETag: \"a\"|Content-Encoding: gzip",
            206,
            "ETag: \"a\"",
            false,
        ),
        ("", 206, "", false),
    ] {
        let stored_lines = lines(&format!("{part}|{stored}"));
        let response_lines = lines(&format!("{rest}|{response}"));
        let stored_meta = Meta::of(&answer(206, &stored_lines, &policy), AT_ONCE, &policy);
        let read = answer(status, &response_lines, &policy);
        let meta = Meta::of(&read, AT_ONCE, &policy);
        let stored_view = Stored {
            meta: stored_meta.clone(),
            fields: Fields::of_text(stored_lines.as_bytes()),
        };
        assert_eq!(
            may_combine(&stored_view, &read, &meta),
            expected,
            "{stored} / {status} {response}"
        );
        let longer = lines(&format!("Content-Range: bytes 5-9/11|{response}"));
        let longer = answer(status, &longer, &policy);
        let longer_meta = Meta::of(&longer, AT_ONCE, &policy);
        assert!(
            !may_combine(&stored_view, &longer, &longer_meta),
            "{stored} / {status} {response}: another length"
        );
    }
}
