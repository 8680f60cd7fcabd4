//! How a stored response is sent.
use super::{Answer, plan_answer, write_answer_fields};
use crate::cache::test_heads::{self as heads, AT_ONCE, NOW, answer, get, lines};
use crate::cache::{Fields, Meta, Policy, Request, Stored};
use crate::http1::Method;

fn plan(method: Method, status: u16, response: &str, request: &str) -> Answer {
    let (request, response, policy) = (lines(request), lines(response), Policy::default());
    let meta = Meta::of(&answer(status, &response, &policy), AT_ONCE, &policy);
    let stored = Stored {
        meta: meta.clone(),
        fields: Fields::of_text(response.as_bytes()),
    };
    plan_answer(
        &Request {
            method,
            ..get(&request)
        },
        &stored,
        10,
        NOW,
        &policy,
    )
}

#[test]
fn rfc_9110_13_2_2_order_of_conditions() {
    let stored = "ETag: \"a\"|Last-Modified: @-9|Date: @0";
    for (request, expected) in [
        ("", Answer::Whole),
        ("Range: bytes=0-1", Answer::Range(0..2)),
        ("Range: bytes=0-1,5-6", Answer::Ranges(vec![0..2, 5..7])),
        ("Range: bytes=10-", Answer::Unsatisfiable),
        ("Range: bytes=0-1|Range: bytes=2-3", Answer::Whole),
        ("Range: bytes=0-1|If-None-Match: \"a\"", Answer::NotModified),
        ("Range: bytes=0-1|If-None-Match: \"b\"", Answer::Range(0..2)),
        ("Range: bytes=0-1|If-Range: \"a\"", Answer::Range(0..2)),
        ("Range: bytes=0-1|If-Range: \"b\"", Answer::Whole),
        ("Range: bytes=10-|If-Range: \"b\"", Answer::Whole),
        ("Range: bytes=0-1|If-Range: @-9", Answer::Range(0..2)),
        ("If-Range: \"b\"", Answer::Whole),
        ("If-Modified-Since: @-9", Answer::NotModified),
    ] {
        assert_eq!(
            plan(Method::Get, 200, stored, request),
            expected,
            "{request}"
        );
    }
    assert_eq!(
        plan(Method::Head, 200, stored, "Range: bytes=0-1"),
        Answer::Whole
    );
    assert_eq!(
        plan(Method::Head, 200, stored, "If-None-Match: \"a\""),
        Answer::NotModified
    );
    assert_eq!(
        plan(Method::Get, 404, stored, "Range: bytes=0-1"),
        Answer::Whole
    );
    let many: String = (0..17)
        .map(|number| format!("{0}-{0},", number * 2))
        .collect();
    assert_eq!(
        plan(Method::Get, 200, stored, &format!("Range: bytes={many}")),
        Answer::Whole
    );
}

#[test]
fn rfc_9110_15_4_5_fields_of_each_answer() {
    let policy = Policy::default();
    let stored = "Date: @0|Content-Type: t|Content-Encoding: gzip|Content-Range: bytes 0-1/2|Last-Modified: @-9|Vary: x|Cache-Control: max-age=9|Content-Location: /l";
    let tagged = format!("{stored}|ETag: \"a\"");
    let common = "Vary: x|Cache-Control: max-age=9|Content-Location: /l";
    for (stored, answer, expected) in [
        (
            stored,
            Answer::NotModified,
            format!("Date: @0|Last-Modified: @-9|{common}|Age: 7"),
        ),
        (
            &tagged,
            Answer::NotModified,
            format!("Date: @0|{common}|ETag: \"a\"|Age: 7"),
        ),
        (
            stored,
            Answer::Whole,
            format!(
                "Date: @0|Content-Type: t|Content-Encoding: gzip|Last-Modified: @-9|{common}|Age: 7"
            ),
        ),
        (
            stored,
            Answer::Range(0..1),
            format!(
                "Date: @0|Content-Type: t|Content-Encoding: gzip|Last-Modified: @-9|{common}|Age: 7"
            ),
        ),
        (
            stored,
            Answer::Ranges(vec![]),
            format!("Date: @0|Content-Encoding: gzip|Last-Modified: @-9|{common}|Age: 7"),
        ),
        (
            stored,
            Answer::Unsatisfiable,
            format!("Date: @0|Last-Modified: @-9|{common}|Age: 7"),
        ),
    ] {
        let mut out = Vec::new();
        let stored = lines(stored);
        let meta = Meta::of(&heads::answer(206, &stored, &policy), AT_ONCE, &policy);
        let fields = Fields::of_text(stored.as_bytes());
        let stored = Stored {
            meta: meta.clone(),
            fields,
        };
        write_answer_fields(&mut out, &stored, &answer, Some(7));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            lines(&expected),
            "{answer:?}"
        );
    }
}

/// RFC 9110 section 14.4: the field has no meaning there, but that is no reason to remove it.
#[test]
fn content_range_of_what_is_stored_whole_stays() {
    let policy = Policy::default();
    let text = lines("Content-Range: bytes 0-1/2|Cache-Control: max-age=9");
    let fields = Fields::of_text(text.as_bytes());
    for (answer, stays) in [
        (Answer::Whole, true),
        (Answer::NotModified, false),
        (Answer::Range(0..1), false),
        (Answer::Ranges(vec![]), false),
        (Answer::Unsatisfiable, false),
    ] {
        let meta = Meta::of(&heads::answer(200, &text, &policy), AT_ONCE, &policy);
        let stored = Stored {
            meta: meta.clone(),
            fields,
        };
        let mut out = Vec::new();
        write_answer_fields(&mut out, &stored, &answer, None);
        let kept = Fields::of_text(&out).has(b"content-range");
        assert_eq!(kept, stays, "{answer:?}");
    }
}

/// RFC 9530 section 2, RFC 1864: they are of all bytes that were sent with them.
#[test]
fn checksums_of_the_content_go_with_the_whole_only() {
    let policy = Policy::default();
    let digests = "Repr-Digest: r|Content-Digest: c|Content-MD5: m|Digest: d";
    let text = lines(&format!("Cache-Control: max-age=9|{digests}"));
    let fields = Fields::of_text(text.as_bytes());
    for (status, answer, stays) in [
        (200, Answer::Whole, true),
        (200, Answer::NotModified, false),
        (200, Answer::Range(0..1), false),
        (200, Answer::Ranges(vec![]), false),
        (200, Answer::Unsatisfiable, false),
        (206, Answer::Whole, false),
        (206, Answer::Range(0..1), false),
    ] {
        let part = lines("Content-Range: bytes 0-1/2");
        let part = if status == 206 { part.as_str() } else { "" };
        let of_part = format!("{text}{part}");
        let meta = Meta::of(&heads::answer(status, &of_part, &policy), AT_ONCE, &policy);
        let stored = Stored { meta, fields };
        let mut out = Vec::new();
        write_answer_fields(&mut out, &stored, &answer, None);
        let sent = Fields::of_text(&out);
        let is_sent = |name: &[u8]| sent.has(name);
        assert_eq!(is_sent(b"content-digest"), stays, "{status} {answer:?}");
        assert_eq!(is_sent(b"content-md5"), stays, "{status} {answer:?}");
        assert!(
            is_sent(b"repr-digest") && is_sent(b"digest"),
            "{status} {answer:?}"
        );
    }
}
