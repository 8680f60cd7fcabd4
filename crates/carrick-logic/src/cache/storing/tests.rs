//! What may be stored, and which fields of it.
use super::{NotStored, Storing, decide_storing, withheld_fields, write_stored_fields};
use crate::cache::test_heads::{AT_ONCE, URI, answer, get, lines};
use crate::cache::{Fields, Policy, Request};
use crate::http1::Method;
use proptest::prelude::*;

fn why_not(
    method: Method,
    request: &str,
    status: u16,
    response: &str,
    policy: &Policy,
) -> Option<NotStored> {
    let (request, response) = (lines(request), lines(response));
    let request = Request {
        method,
        ..get(&request)
    };
    match decide_storing(
        &request,
        &URI,
        &answer(status, &response, policy),
        AT_ONCE,
        policy,
    ) {
        Storing::Yes(_) => None,
        Storing::No(why) => Some(why),
    }
}

#[test]
fn rfc_9111_3_what_may_be_stored() {
    use NotStored as N;
    let fresh = "Cache-Control: max-age=60";
    for (request, status, response, expected) in [
        ("", 200, fresh, None),
        (
            "Cache-Control: no-store",
            200,
            fresh,
            Some(N::RequestNoStore),
        ),
        (
            "",
            200,
            "Cache-Control: max-age=60, no-store",
            Some(N::ResponseNoStore),
        ),
        (
            "",
            200,
            "Cache-Control: max-age=60, private",
            Some(N::Private),
        ),
        ("", 200, "Cache-Control: max-age=60, private=\"x\"", None),
        (
            "",
            200,
            "Cache-Control: max-age=60, private, public",
            Some(N::Private),
        ),
        ("Authorization: x", 200, fresh, Some(N::Authorization)),
        (
            "Authorization: x",
            200,
            "Expires: @60",
            Some(N::Authorization),
        ),
        (
            "Authorization: x",
            200,
            "Cache-Control: max-age=60, proxy-revalidate",
            Some(N::Authorization),
        ),
        (
            "Authorization: x",
            200,
            "Cache-Control: public, max-age=60",
            None,
        ),
        // Section 5.2.2.3.
        (
            "",
            200,
            "Cache-Control: max-age=60, no-store, must-understand",
            None,
        ),
        (
            "",
            299,
            "Cache-Control: max-age=60, must-understand",
            Some(N::NotUnderstood),
        ),
        ("", 299, fresh, None),
        (
            "",
            200,
            "Cache-Control: max-age=60|Vary: a, *",
            Some(N::VaryEverything),
        ),
        (
            "",
            200,
            "Cache-Control: max-age=60|Set-Cookie: a=b",
            Some(N::SetCookie),
        ),
        (
            "",
            200,
            "Cache-Control: max-age=60, public|Set-Cookie: a=b",
            Some(N::SetCookie),
        ),
        (
            "",
            200,
            "Cache-Control: max-age=60, no-cache=\"set-cookie\"|Set-Cookie: a=b",
            None,
        ),
        (
            "",
            200,
            "Cache-Control: max-age=60, private=\"set-cookie\"|Set-Cookie: a=b|Set-Cookie2: c",
            None,
        ),
        // RFC 6265 section 9.4: obsolete.
        ("", 200, "Cache-Control: max-age=60|Set-Cookie2: c", None),
        // Nothing allows it, or it would be useless.
        ("", 200, "", Some(N::NoLifetime)),
        ("", 200, "ETag: \"a\"", None),
        ("", 200, "Last-Modified: @-10", None),
        ("", 403, "ETag: \"a\"", Some(N::NoLifetime)),
        ("", 403, "ETag: \"a\"|Cache-Control: public", None),
        ("", 302, "", Some(N::NoLifetime)),
        ("", 302, fresh, None),
        ("", 200, "Cache-Control: max-age=0", Some(N::Useless)),
        ("", 200, "Cache-Control: max-age=0|ETag: \"a\"", None),
        (
            "",
            200,
            "Cache-Control: no-cache, max-age=60",
            Some(N::Useless),
        ),
        (
            "",
            200,
            "Cache-Control: max-age=60|Age: 60",
            Some(N::Useless),
        ),
        (
            "",
            200,
            "Cache-Control: max-age=60, stale-if-error=60|Age: 60",
            None,
        ),
        // Specific to this request.
        ("", 304, fresh, Some(N::Status)),
        ("", 103, fresh, Some(N::Status)),
        ("", 101, fresh, Some(N::Status)),
        ("Range: bytes=9-", 416, fresh, Some(N::Status)),
        ("If-Match: \"a\"", 412, fresh, Some(N::Status)),
        ("", 407, fresh, Some(N::Status)),
        ("", 431, fresh, Some(N::Status)),
        // Section 3.3.
        (
            "Range: bytes=0-4",
            206,
            "Cache-Control: max-age=60|ETag: \"a\"|Content-Range: bytes 0-4/10",
            None,
        ),
        (
            "Range: bytes=0-4",
            206,
            "Cache-Control: max-age=60|ETag: W/\"a\"|Content-Range: bytes 0-4/10",
            Some(N::Part),
        ),
        (
            "Range: bytes=0-4",
            206,
            "Cache-Control: max-age=60|Content-Range: bytes 0-4/10",
            Some(N::Part),
        ),
        (
            "Range: bytes=0-4",
            206,
            "Cache-Control: max-age=60|Content-Range: bytes 0-4/5",
            None,
        ),
        (
            "Range: bytes=0-4",
            206,
            "Cache-Control: max-age=60|ETag: \"a\"|Content-Type: multipart/byteranges",
            Some(N::Part),
        ),
        (
            "Range: bytes=0-4",
            206,
            "Cache-Control: max-age=60|ETag: \"a\"|Content-Range: lines 0-4/10",
            Some(N::Part),
        ),
        (
            "Range: bytes=0-4",
            206,
            "Cache-Control: max-age=60|ETag: \"a\"|Content-Range: bytes 0-4/9|Content-Range: bytes 1-4/9",
            Some(N::Part),
        ),
        ("Range: bytes=0-4", 200, fresh, None),
    ] {
        let found = why_not(Method::Get, request, status, response, &Policy::default());
        assert_eq!(found, expected, "{request} / {status} {response}");
    }
    for method in [
        Method::Head,
        Method::Put,
        Method::Delete,
        Method::Options,
        Method::Connect,
        Method::Trace,
        Method::Patch,
        Method::Other,
        Method::Post,
    ] {
        assert_eq!(
            why_not(method, "", 200, fresh, &Policy::default()),
            Some(NotStored::Method),
            "{method:?}"
        );
    }
}

#[test]
fn storing_by_configuration() {
    let policy = Policy {
        negative_ttl_s: 5,
        default_ttl_s: 9,
        share_set_cookie: true,
        ..Policy::default()
    };
    for (status, response, expected) in [
        (200, "", None),
        (404, "", None),
        (503, "", None),
        (401, "", Some(NotStored::NoLifetime)),
        (200, "Set-Cookie: a=b", None),
        (
            503,
            "Cache-Control: no-store",
            Some(NotStored::ResponseNoStore),
        ),
    ] {
        assert_eq!(
            why_not(Method::Get, "", status, response, &policy),
            expected,
            "{status} {response}"
        );
    }
}

#[test]
fn rfc_9111_3_1_fields_that_are_stored() {
    for (response, expected) in [
        (
            "A: 1|a: 2|Content-Type: t|Set-Cookie: c",
            "A: 1|a: 2|Content-Type: t|Set-Cookie: c",
        ),
        ("Connection: a, B, close|a: 1|b: 2|c: 3", "c: 3"),
        (
            "Connection: cache-control, vary, etag|Cache-Control: max-age=1|Vary: x|ETag: \"a\"",
            "Cache-Control: max-age=1|Vary: x|ETag: \"a\"",
        ),
        (
            "Keep-Alive: 1|Proxy-Authenticate: 1|Proxy-Authentication-Info: 1|Proxy-Authorization: 1|Proxy-Connection: 1|c: 3",
            "c: 3",
        ),
        (
            "TE: 1|Trailer: 1|Transfer-Encoding: chunked|Upgrade: 1|Age: 7|Content-Length: 5|c: 3",
            "c: 3",
        ),
        (
            "Cache-Control: no-cache=\"a, Set-Cookie\", private=\"b\"|A: 1|b: 2|set-cookie: 4|c: 3",
            "Cache-Control: no-cache=\"a, Set-Cookie\", private=\"b\"|c: 3",
        ),
    ] {
        let text = lines(response);
        let read = answer(200, &text, &Policy::default());
        let mut out = Vec::new();
        write_stored_fields(&mut out, &read);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            lines(expected),
            "{response}"
        );
    }
}

#[test]
fn checksums_of_the_content_of_a_part_are_not_stored() {
    let text = lines("Content-Digest: c|Content-MD5: m|Content-Range: bytes 0-1/2|Repr-Digest: r");
    for (status, expected) in [
        (206, "Repr-Digest: r"),
        (
            200,
            "Content-Digest: c|Content-MD5: m|Content-Range: bytes 0-1/2|Repr-Digest: r",
        ),
    ] {
        let mut out = Vec::new();
        write_stored_fields(&mut out, &answer(status, &text, &Policy::default()));
        assert_eq!(String::from_utf8(out).unwrap(), lines(expected), "{status}");
    }
}

#[test]
fn what_is_withheld_from_caches_is_for_one_client_only() {
    let directives = "Cache-Control: private=\"a, b, content-range\", no-cache=\"connection, age\"";
    let rest = "Connection: b|a: 1|B: 2|A: 3|Age: 1|Content-Range: bytes 0-1/2|c: 4";
    let text = lines(&format!("{directives}|{rest}"));
    let own = withheld_fields(&answer(200, &text, &Policy::default()), &Policy::default());
    assert_eq!(String::from_utf8(own).unwrap(), lines("a: 1|A: 3"));
    let text = lines("ETag: \"v\"|Set-Cookie: a=b|Set-Cookie: c=d");
    for (share_set_cookie, expected) in [(false, "Set-Cookie: a=b|Set-Cookie: c=d"), (true, "")] {
        let policy = Policy {
            share_set_cookie,
            ..Policy::default()
        };
        let own = withheld_fields(&answer(304, &text, &policy), &policy);
        assert_eq!(String::from_utf8(own).unwrap(), lines(expected));
    }
}

#[test]
fn rfc_9110_15_5_22_a_426_is_stored_with_what_to_upgrade_to() {
    let text = lines("Connection: Upgrade|Upgrade: websocket|Keep-Alive: 1|c: 3");
    for (status, expected) in [(426, "Upgrade: websocket|c: 3"), (404, "c: 3")] {
        let mut out = Vec::new();
        write_stored_fields(&mut out, &answer(status, &text, &Policy::default()));
        assert_eq!(String::from_utf8(out).unwrap(), lines(expected), "{status}");
    }
}

proptest! {
    #[test]
    fn nothing_with_no_store_or_private_is_stored(
        before in "[a-z=\" ,0-9-]{0,20}", word in prop_oneof![Just("no-store"), Just("private"), Just("No-Store")],
        after in "(,[a-z=\" ,0-9-]{0,20})?", other in "[A-Za-z=, 0-9-]{0,20}", status in 100..600_u16,
    ) {
        // Quotes around the word would make it something other than a directive.
        prop_assume!(before.matches('"').count() == 0 && !format!("{before}{after}").contains("must-understand"));
        let text = format!("Cache-Control: {other}\r\nCache-Control: {before},{word}{after}\r\nETag: \"x\"\r\n");
        let policy = Policy { negative_ttl_s: 60, default_ttl_s: 60, ..Policy::default() };
        let request = get("");
        let decision = decide_storing(&request, &URI, &answer(status, &text, &policy), AT_ONCE, &policy);
        prop_assert!(matches!(decision, Storing::No(_)), "{}", text);
    }

    #[test]
    fn stored_fields_are_read_as_they_were_written(names in prop::collection::vec("[A-Za-z-]{1,9}", 0..9)) {
        let text: String = names.iter().map(|name| format!("X{name}: v {name}\r\n")).collect();
        let read = answer(200, &text, &Policy::default());
        let mut out = Vec::new();
        write_stored_fields(&mut out, &read);
        let again: Vec<_> = Fields::of_text(&out).iter().collect();
        prop_assert_eq!(again, read.fields.iter().collect::<Vec<_>>());
    }
}
