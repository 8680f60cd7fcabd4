//! Conditions and ranges as tables.

use std::mem::MaybeUninit;

use super::super::request::{FIELDS_MAX, FieldStorage, parse};
use super::*;

const BYTES: u64 = 1000;

fn verdict(method: &str, fields: &str, kind: Option<TagKind>) -> Verdict {
    let text = format!("{method} /b/1000 HTTP/1.1\r\nHost: o\r\n{fields}\r\n");
    let mut storage: FieldStorage<'_> = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let (_, head) = parse(text.as_bytes(), &mut storage).unwrap().unwrap();
    assert_eq!(head.is_conditional, !fields.is_empty(), "{fields}");
    let validators = Validators {
        tag: kind.map(|kind| Tag::new(kind, 0xabc, BYTES)),
        modified: Some(last_modified(0)),
    };
    judge(&head, &validators, BYTES)
}

const TAG: &str = "\"0000000000000abc-3e8\"";

#[test]
fn a_tag_is_made_of_seed_and_length() {
    assert_eq!(
        Tag::new(TagKind::Strong, 0xabc, BYTES).text(),
        TAG.as_bytes()
    );
    assert_eq!(
        Tag::new(TagKind::Weak, u64::MAX, u64::MAX).text(),
        b"W/\"ffffffffffffffff-ffffffffffffffff\""
    );
}

#[test]
fn conditions_follow_rfc_9110() {
    use Verdict::{NotModified, PreconditionFailed, Whole};
    let strong = Some(TagKind::Strong);
    let weak = Some(TagKind::Weak);
    // The validators' date is the first second of 2001.
    let same = "Mon, 01 Jan 2001 00:00:00 GMT";
    let earlier = "Sun, 31 Dec 2000 23:59:59 GMT";
    for (method, kind, fields, expected) in [
        ("GET", strong, String::new(), Whole),
        (
            "GET",
            strong,
            format!("If-None-Match: {TAG}\r\n"),
            NotModified,
        ),
        (
            "GET",
            strong,
            format!("If-None-Match: W/{TAG}\r\n"),
            NotModified,
        ),
        (
            "GET",
            weak,
            format!("If-None-Match: {TAG}\r\n"),
            NotModified,
        ),
        (
            "HEAD",
            strong,
            format!("If-None-Match: \"a,b\" , {TAG}\r\n"),
            NotModified,
        ),
        (
            "GET",
            strong,
            format!("If-None-Match: \"a\"\r\nIf-None-Match: {TAG}\r\n"),
            NotModified,
        ),
        (
            "POST",
            strong,
            format!("If-None-Match: {TAG}\r\n"),
            PreconditionFailed,
        ),
        ("GET", strong, "If-None-Match: \"a\", \"b\r\n".into(), Whole),
        ("GET", None, "If-None-Match: *\r\n".into(), NotModified),
        ("GET", None, format!("If-None-Match: {TAG}\r\n"), Whole),
        (
            "GET",
            strong,
            format!("If-Modified-Since: {same}\r\n"),
            NotModified,
        ),
        (
            "GET",
            strong,
            format!("If-Modified-Since: {earlier}\r\n"),
            Whole,
        ),
        (
            "GET",
            strong,
            "If-Modified-Since: Monday, 01-Jan-01 00:00:00 GMT\r\n".into(),
            NotModified,
        ),
        (
            "GET",
            strong,
            "If-Modified-Since: yesterday\r\n".into(),
            Whole,
        ),
        (
            "POST",
            strong,
            format!("If-Modified-Since: {same}\r\n"),
            Whole,
        ),
        // If-None-Match hides If-Modified-Since.
        (
            "GET",
            strong,
            format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {same}\r\n"),
            Whole,
        ),
        ("GET", strong, format!("If-Match: {TAG}\r\n"), Whole),
        (
            "GET",
            strong,
            "If-Match: \"a\"\r\n".into(),
            PreconditionFailed,
        ),
        (
            "GET",
            weak,
            format!("If-Match: W/{TAG}\r\n"),
            PreconditionFailed,
        ),
        (
            "GET",
            strong,
            format!("If-Unmodified-Since: {earlier}\r\n"),
            PreconditionFailed,
        ),
        (
            "GET",
            strong,
            format!("If-Unmodified-Since: {same}\r\n"),
            Whole,
        ),
    ] {
        assert_eq!(
            verdict(method, &fields, kind),
            expected,
            "{method} {fields}"
        );
    }
}

#[test]
fn ranges_follow_rfc_9110() {
    use Verdict::{Unsatisfiable, Whole};
    let part = |from, bytes| Verdict::Part { from, bytes };
    for (range, expected) in [
        ("bytes=0-0", part(0, 1)),
        ("bytes=10-19", part(10, 10)),
        ("bytes=990-", part(990, 10)),
        ("bytes=990-5000", part(990, 10)),
        ("bytes=-10", part(990, 10)),
        ("bytes=-5000", part(0, 1000)),
        ("bytes=5-99999999999999999999999", part(5, 995)),
        ("Bytes=1-2", part(1, 2)),
        ("bytes=1000-", Unsatisfiable),
        ("bytes=99999999999999999999999-", Unsatisfiable),
        ("bytes=-0", Unsatisfiable),
        ("bytes=5-4", Whole),
        ("bytes=-", Whole),
        ("bytes=a-b", Whole),
        ("bytes=0-1,5-6", Whole),
        ("lines=0-1", Whole),
        ("bytes", Whole),
    ] {
        let fields = format!("Range: {range}\r\n");
        assert_eq!(verdict("GET", &fields, None), expected, "{range}");
        assert_eq!(verdict("HEAD", &fields, None), Whole, "only GET has ranges");
    }
}

#[test]
fn if_range_compares_strongly() {
    let part = Verdict::Part { from: 0, bytes: 5 };
    let same = "Mon, 01 Jan 2001 00:00:00 GMT";
    for (kind, value, expected) in [
        (TagKind::Strong, TAG.to_owned(), part),
        (TagKind::Strong, "\"other\"".into(), Verdict::Whole),
        (TagKind::Weak, format!("W/{TAG}"), Verdict::Whole),
        (TagKind::Strong, same.into(), part),
        (
            TagKind::Strong,
            "Mon, 01 Jan 2001 00:00:01 GMT".into(),
            Verdict::Whole,
        ),
    ] {
        let fields = format!("Range: bytes=0-4\r\nIf-Range: {value}\r\n");
        assert_eq!(verdict("GET", &fields, Some(kind)), expected, "{value}");
    }
}
