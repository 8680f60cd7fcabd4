//! Conditions to the origin, conditions of the client, and the meaning of the origin's responses.
use super::{Conditions, Stored, Validated, after_validation, client_has_it, write_conditions};
use crate::cache::test_heads::{AT_ONCE, NOW, answer, at, get, lines};
use crate::cache::{Fields, Meta, Policy, Reuse};

struct Kept {
    meta: Meta,
    text: String,
}

fn kept(status: u16, response: &str) -> Kept {
    let (text, policy) = (lines(response), Policy::default());
    let meta = Meta::of(&answer(status, &text, &policy), AT_ONCE, &policy);
    Kept { meta, text }
}

impl Kept {
    fn stored(&self) -> Stored<'_> {
        Stored {
            meta: self.meta.clone(),
            fields: Fields::of_text(self.text.as_bytes()),
        }
    }
}

fn conditions(request: &str, responses: &[&str]) -> (String, Conditions) {
    let kept: Vec<_> = responses
        .iter()
        .map(|response| kept(200, response))
        .collect();
    let stored: Vec<_> = kept.iter().map(Kept::stored).collect();
    let mut out = Vec::new();
    let request = lines(request);
    let sent = write_conditions(&mut out, &get(&request), &stored);
    (String::from_utf8(out).unwrap(), sent)
}

#[test]
fn rfc_9111_4_3_1_conditions_to_the_origin() {
    for (request, stored, expected, clients) in [
        ("", vec!["ETag: \"a\""], "If-None-Match: \"a\"", false),
        (
            "",
            vec!["ETag: W/\"a\"|Last-Modified: @-9"],
            "If-None-Match: W/\"a\"|If-Modified-Since: @-9",
            false,
        ),
        (
            "",
            vec!["Last-Modified: @-9"],
            "If-Modified-Since: @-9",
            false,
        ),
        ("", vec!["Last-Modified: some day"], "", false),
        ("", vec![""], "", false),
        ("", vec![], "", false),
        (
            "",
            vec!["ETag: \"a\"|Last-Modified: @-9", "ETag: \"b\""],
            "If-None-Match: \"a\", \"b\"",
            false,
        ),
        (
            "If-None-Match: \"b\", W/\"a\"",
            vec!["ETag: \"a\""],
            "If-None-Match: \"a\", \"b\"",
            true,
        ),
        (
            "If-None-Match: \"a\"",
            vec!["ETag: \"a\""],
            "If-None-Match: \"a\"",
            false,
        ),
        (
            "If-None-Match: *",
            vec!["ETag: \"a\""],
            "If-None-Match: \"a\"",
            false,
        ),
        (
            "If-None-Match: \"b\"|If-Modified-Since: @-5",
            vec!["Last-Modified: @-9"],
            "If-Modified-Since: @-9",
            false,
        ),
    ] {
        let (written, sent) = conditions(request, &stored);
        assert_eq!(written, lines(expected), "{request} {stored:?}");
        assert_eq!(
            sent,
            Conditions {
                any: !expected.is_empty(),
                with_clients_tags: clients
            },
            "{request} {stored:?}"
        );
    }
    let many: Vec<String> = (0..50)
        .map(|number| format!("ETag: \"{number}\""))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(
        conditions("If-None-Match: \"x\"", &many)
            .0
            .matches(", ")
            .count(),
        31
    );
}

#[test]
fn rfc_9111_4_3_2_conditions_of_the_client() {
    for (status, response, request, expected) in [
        (200, "ETag: \"a\"", "If-None-Match: \"a\"", true),
        (200, "ETag: \"a\"", "If-None-Match: W/\"a\"", true),
        (200, "ETag: W/\"a\"", "If-None-Match: \"b\", \"a\"", true),
        (
            200,
            "ETag: \"a\"",
            "If-None-Match: \"b\"|If-None-Match: \"a\"",
            true,
        ),
        (200, "ETag: \"a\"", "If-None-Match: \"b\"", false),
        (200, "ETag: \"a\"", "If-None-Match: a", false),
        (200, "ETag: \"a\"", "If-None-Match: *", true),
        // RFC 9110 section 13.1.3: If-None-Match takes precedence.
        (
            200,
            "ETag: \"a\"|Last-Modified: @-50",
            "If-None-Match: \"a\"|If-Modified-Since: @-100",
            true,
        ),
        (
            200,
            "ETag: \"a\"|Last-Modified: @-50",
            "If-None-Match: \"b\"|If-Modified-Since: @-10",
            false,
        ),
        (200, "Last-Modified: @-50", "If-Modified-Since: @-50", true),
        (200, "Last-Modified: @-50", "If-Modified-Since: @-10", true),
        (200, "Last-Modified: @-50", "If-Modified-Since: @-51", false),
        (
            200,
            "Last-Modified: @-50",
            "If-Modified-Since: whenever",
            false,
        ),
        // Without Last-Modified: Date, else the time of arrival.
        (200, "Date: @-20", "If-Modified-Since: @-20", true),
        (200, "Date: @-20", "If-Modified-Since: @-21", false),
        (200, "", "If-Modified-Since: @0", true),
        (200, "", "If-Modified-Since: @-1", false),
        (200, "ETag: \"a\"", "", false),
        (404, "ETag: \"a\"", "If-None-Match: \"a\"", false),
        (301, "Last-Modified: @-50", "If-Modified-Since: @0", false),
    ] {
        let request_lines = lines(request);
        let found = client_has_it(&get(&request_lines), &kept(status, response).stored(), NOW);
        assert_eq!(found, expected, "{status} {response} / {request}");
    }
}

#[test]
fn rfc_9111_4_3_3_and_4_what_the_answer_means() {
    use Validated as V;
    let stale = V::Stale(Reuse {
        age_s: 65,
        ttl_s: -5,
    });
    let lenient = "ETag: \"a\"|Cache-Control: max-age=60, stale-if-error=10";
    for (request, stored, status, response, expected) in [
        ("", vec!["ETag: \"a\""], 304, "ETag: \"a\"", V::Freshen(0)),
        (
            "",
            vec!["ETag: W/\"a\""],
            304,
            "ETag: W/\"a\"",
            V::Freshen(0),
        ),
        ("", vec!["ETag: W/\"a\""], 304, "ETag: \"a\"", V::Freshen(0)),
        ("", vec!["ETag: \"a\""], 304, "ETag: \"b\"", V::AskAgain),
        (
            "",
            vec![
                "ETag: \"a\"|Date: @-9",
                "ETag: \"b\"|Date: @-5",
                "ETag: \"c\"",
            ],
            304,
            "ETag: \"b\"",
            V::Freshen(1),
        ),
        (
            "",
            vec!["ETag: W/\"a\"|Date: @-9", "ETag: W/\"a\"|Date: @-5"],
            304,
            "ETag: W/\"a\"",
            V::Freshen(1),
        ),
        (
            "",
            vec!["Last-Modified: @-9"],
            304,
            "Last-Modified: @-9",
            V::Freshen(0),
        ),
        (
            "",
            vec!["Last-Modified: @-9"],
            304,
            "Last-Modified: @-8",
            V::AskAgain,
        ),
        (
            "",
            vec!["Last-Modified: @-9"],
            304,
            "Last-Modified: @-9|ETag: \"n\"",
            V::Freshen(0),
        ),
        (
            "",
            vec!["Last-Modified: @-9"],
            304,
            "Date: @0",
            V::Freshen(0),
        ),
        ("", vec!["ETag: \"a\""], 304, "Date: @0", V::Freshen(0)),
        (
            "",
            vec!["ETag: \"a\"", "ETag: \"b\""],
            304,
            "Date: @0",
            V::AskAgain,
        ),
        // The client's condition is relayed, too.
        (
            "If-None-Match: \"c\"",
            vec!["ETag: \"a\""],
            304,
            "ETag: \"c\"",
            V::PassOn,
        ),
        (
            "If-None-Match: \"c\"",
            vec!["ETag: \"a\""],
            304,
            "ETag: \"a\"",
            V::Freshen(0),
        ),
        (
            "If-None-Match: \"c\"",
            vec!["ETag: \"a\""],
            304,
            "ETag: \"d\"",
            V::AskAgain,
        ),
        (
            "If-None-Match: \"c\"",
            vec!["ETag: \"a\""],
            304,
            "",
            V::AskAgain,
        ),
        // The request had none of the cache's conditions.
        ("If-None-Match: \"c\"", vec![], 304, "", V::PassOn),
        ("", vec!["ETag: \"a\""], 200, "ETag: \"a\"", V::Replace),
        ("", vec!["ETag: \"a\""], 404, "", V::Replace),
        (
            "",
            vec!["ETag: \"a\"|Cache-Control: max-age=60"],
            503,
            "",
            V::Replace,
        ),
        ("", vec![lenient], 503, "", stale),
        ("", vec![lenient], 500, "", stale),
        ("", vec![lenient], 501, "", V::Replace),
        (
            "Cache-Control: no-cache",
            vec![lenient],
            503,
            "",
            V::Replace,
        ),
    ] {
        let kept: Vec<_> = stored.iter().map(|response| kept(200, response)).collect();
        let places: Vec<_> = kept.iter().map(Kept::stored).collect();
        let (request_lines, response_lines, policy) =
            (lines(request), lines(response), Policy::default());
        let request_read = get(&request_lines);
        let sent = write_conditions(&mut Vec::new(), &request_read, &places);
        let meaning = after_validation(
            &request_read,
            &places,
            sent,
            &answer(status, &response_lines, &policy),
            at(65),
            &policy,
        );
        assert_eq!(
            meaning, expected,
            "{request} {stored:?} / {status} {response}"
        );
    }
}
