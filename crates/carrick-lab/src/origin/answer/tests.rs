//! From request to answer, as a table: status line, fields, and what is left of the body.

use std::mem::MaybeUninit;
use std::time::UNIX_EPOCH;

use super::super::request::{FIELDS_MAX, FieldStorage, parse};
use super::*;

/// Head and plan of the answer to a request whose first line lacks its version and whose fields lack `Host`.
fn ask(request: &str, version: &str, fields: &str, is_last: bool) -> (String, Answer) {
    let text = format!("{request} HTTP/{version}\r\nHost: o\r\n{fields}\r\n");
    let mut storage: FieldStorage<'_> = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let (_, request) = parse(text.as_bytes(), &mut storage).unwrap().unwrap();
    let mut head = Vec::new();
    let date = Date::of(UNIX_EPOCH);
    let answer = answer(&request, Received::default(), &date, is_last, &mut head);
    (String::from_utf8_lossy(&head).into_owned(), answer)
}

#[test]
fn a_plain_answer_is_this() {
    let (head, answer) = ask("GET /b/1024/x.gif", "1.1", "", false);
    assert_eq!(
        head,
        "HTTP/1.1 200 OK\r\nServer: carrick-lab\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: 1024\r\n\r\n"
    );
    let body = Body::of_seed(body_seed("/b/1024/x.gif"));
    assert_eq!(answer.source, Source::Seeded(body));
    assert_eq!((answer.from, answer.bytes, answer.closes), (0, 1024, false));
}

/// Request, version, fields; status, parts of the head that are there, one that is not (`x`: any may be), bytes sent
/// (`u64::MAX`: those of some text), whether the connection closes.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    u16,
    &'static [&'static str],
    &'static str,
    u64,
    bool,
);

#[test]
fn requests_and_their_answers() {
    let cases: &[Case] = &[
        (
            "GET /b/1024.gif",
            "1.1",
            "",
            200,
            &["Content-Length: 1024"],
            "Connection",
            1024,
            false,
        ),
        (
            "GET /b/5",
            "1.0",
            "",
            200,
            &["Content-Length: 5", "Connection: close"],
            "x",
            5,
            true,
        ),
        (
            "GET /b/5",
            "1.0",
            "Connection: keep-alive\r\n",
            200,
            &["Connection: keep-alive"],
            "close",
            5,
            false,
        ),
        (
            "GET /b/5",
            "1.1",
            "Connection: close\r\n",
            200,
            &["Connection: close"],
            "x",
            5,
            true,
        ),
        (
            "HEAD /b/5",
            "1.1",
            "",
            200,
            &["Content-Length: 5"],
            "Connection",
            0,
            false,
        ),
        (
            "HEAD /b/5?framing=chunked",
            "1.1",
            "",
            200,
            &["Transfer-Encoding: chunked"],
            "Content-Length",
            0,
            false,
        ),
        (
            "POST /b/5",
            "1.1",
            "Content-Length: 0\r\n",
            200,
            &["Content-Length: 5"],
            "x",
            5,
            false,
        ),
        (
            "GET /any",
            "1.1",
            "X-Lab-Length: 7\r\n",
            200,
            &["Content-Length: 7"],
            "x",
            7,
            false,
        ),
        (
            "GET /b/5?length=6",
            "1.1",
            "X-Lab-Length: 7\r\n",
            200,
            &["Content-Length: 7"],
            "x",
            7,
            false,
        ),
        (
            "GET /b/5?length=6",
            "1.1",
            "",
            200,
            &["Content-Length: 6"],
            "x",
            6,
            false,
        ),
        (
            "GET /b/5?framing=chunked",
            "1.1",
            "",
            200,
            &["Transfer-Encoding: chunked"],
            "Content-Length",
            5,
            false,
        ),
        (
            "GET /b/5?framing=chunked",
            "1.0",
            "",
            200,
            &["Connection: close"],
            "Transfer-Encoding",
            5,
            true,
        ),
        (
            "GET /b/5?framing=close",
            "1.1",
            "",
            200,
            &["Connection: close"],
            "Content-Length",
            5,
            true,
        ),
        (
            "GET /b/5?trailers=2",
            "1.1",
            "",
            200,
            &["Transfer-Encoding: chunked", "Trailer: X-Lab-Trailer-2"],
            "Content-Length",
            5,
            false,
        ),
        (
            "GET /b/5?cache=max-age=60",
            "1.1",
            "",
            200,
            &["Cache-Control: max-age=60"],
            "Vary",
            5,
            false,
        ),
        (
            "GET /b/5?vary=Cookie&type=a/b",
            "1.1",
            "",
            200,
            &["Vary: Cookie", "Content-Type: a/b"],
            "ETag",
            5,
            false,
        ),
        (
            "GET /b/5?status=503",
            "1.1",
            "",
            503,
            &["503 Service Unavailable", "Content-Length: 5"],
            "x",
            5,
            false,
        ),
        (
            "GET /b/5?status=204",
            "1.1",
            "",
            204,
            &["204 No Content"],
            "Content-Length",
            0,
            false,
        ),
        (
            "GET /b/5?status=205",
            "1.1",
            "",
            205,
            &["Content-Length: 0"],
            "x",
            0,
            false,
        ),
        (
            "GET /b/5?status=304&framing=close",
            "1.1",
            "",
            304,
            &["304 Not Modified"],
            "close",
            0,
            false,
        ),
        (
            "GET /b/5?status=404&etag=1",
            "1.1",
            "If-None-Match: *\r\n",
            404,
            &["ETag: \""],
            "x",
            5,
            false,
        ),
        (
            "GET /b/5?etag=1",
            "1.1",
            "If-None-Match: *\r\n",
            304,
            &["ETag: \""],
            "Content-Length",
            0,
            false,
        ),
        (
            "GET /b/5",
            "1.1",
            "If-Match: \"a\"\r\n",
            412,
            &["Content-Length: 0"],
            "x",
            0,
            false,
        ),
        (
            "GET /b/500",
            "1.1",
            "Range: bytes=7-9\r\n",
            206,
            &["Content-Range: bytes 7-9/500", "Content-Length: 3"],
            "x",
            3,
            false,
        ),
        (
            "GET /b/500",
            "1.1",
            "Range: bytes=500-\r\n",
            416,
            &["Content-Range: bytes */500", "Content-Length: 0"],
            "x",
            0,
            false,
        ),
        (
            "GET /b/0",
            "1.1",
            "Range: bytes=0-\r\n",
            416,
            &["Content-Range: bytes */0"],
            "x",
            0,
            false,
        ),
        (
            "GET /page/2/10000",
            "1.1",
            "",
            200,
            &["Content-Type: text/html", "Content-Length: 3334"],
            "x",
            3334,
            false,
        ),
        (
            "GET /a1/1",
            "1.1",
            "",
            200,
            &["Content-Length: 2560"],
            "x",
            2560,
            false,
        ),
        (
            "GET /a1/30/2.gif",
            "1.1",
            "",
            200,
            &["Content-Length: 5461"],
            "x",
            5461,
            false,
        ),
        (
            "GET /b/5?fault=refuse",
            "1.1",
            "",
            200,
            &[],
            "HTTP",
            0,
            true,
        ),
        (
            "GET /b/5?fault=garbage",
            "1.1",
            "",
            200,
            &[],
            "HTTP",
            0,
            true,
        ),
        (
            "GET /b/5?fault=close&after=2",
            "1.1",
            "",
            200,
            &["Content-Length: 5"],
            "x",
            5,
            true,
        ),
        (
            "GET /b/5?fault=stall&stall_ms=1",
            "1.1",
            "",
            200,
            &["Content-Length: 5"],
            "close",
            5,
            false,
        ),
        (
            "GET /b/5?fault=bad-chunk",
            "1.1",
            "",
            200,
            &["Transfer-Encoding: chunked"],
            "x",
            5,
            true,
        ),
        (
            "GET /b/5?lenght=3",
            "1.1",
            "",
            400,
            &["text/plain"],
            "close",
            u64::MAX,
            false,
        ),
        (
            "GET /b/5?trailers=1&framing=length",
            "1.1",
            "",
            400,
            &[],
            "close",
            u64::MAX,
            false,
        ),
        (
            "GET /b/5?fault=long&framing=chunked",
            "1.1",
            "",
            400,
            &[],
            "close",
            u64::MAX,
            false,
        ),
        (
            "GET /b/5?after=3",
            "1.1",
            "",
            400,
            &[],
            "close",
            u64::MAX,
            false,
        ),
        (
            "GET /b/5?fault=reset&stall_ms=3",
            "1.1",
            "",
            400,
            &[],
            "close",
            u64::MAX,
            false,
        ),
        (
            "GET /b/x",
            "1.1",
            "",
            404,
            &["text/plain"],
            "close",
            u64::MAX,
            false,
        ),
        (
            "GET /b/1125899906842625",
            "1.1",
            "",
            404,
            &[],
            "close",
            u64::MAX,
            false,
        ),
        ("GET /", "1.1", "", 404, &[], "close", u64::MAX, false),
        ("HEAD /", "1.1", "", 404, &[], "close", 0, false),
        (
            "CONNECT o:443",
            "1.1",
            "",
            501,
            &["Connection: close"],
            "x",
            u64::MAX,
            true,
        ),
    ];
    for &(request, version, fields, status, there, not_there, bytes, closes) in cases {
        let (head, answer) = ask(request, version, fields, false);
        assert_eq!(answer.status, status, "{request} {fields}");
        for part in there {
            assert!(
                head.contains(part),
                "{request} {fields}: {part} is missing in {head}"
            );
        }
        assert!(
            !head
                .lines()
                .any(|line| line.contains(not_there) && not_there != "x"),
            "{request} {fields}: {head}"
        );
        // Of a text, any length will do.
        let sent = if bytes == u64::MAX {
            answer.bytes.max(1)
        } else {
            bytes
        };
        assert_eq!(
            (answer.bytes, answer.closes),
            (sent, closes),
            "{request} {fields}"
        );
    }
}

#[test]
fn the_last_request_of_a_connection_closes_it() {
    let (head, answer) = ask("GET /b/5", "1.1", "", true);
    assert!(head.contains("Connection: close\r\n") && answer.closes);
    assert!(answer.lingers, "the client may have sent more");
    let (_, answer) = ask("GET /b/5", "1.1", "Connection: close\r\n", true);
    assert!(!answer.lingers, "the client said that there is no more");
}

#[test]
fn bodies_vary_as_the_fields_that_vary_names() {
    let source = |query: &str, fields: &str| {
        ask(&format!("GET /b/9{query}"), "1.1", fields, false)
            .1
            .source
    };
    let plain = source("", "Accept: a\r\n");
    let first = source("?vary=Accept", "Accept: a\r\n");
    assert_ne!(first, plain);
    assert_eq!(first, source("?vary=accept", "ACCEPT: a\r\nCookie: 1\r\n"));
    assert_ne!(first, source("?vary=Accept", "Accept: b\r\n"));
    assert_ne!(first, source("?vary=Accept,Cookie", "Accept: a\r\n"));
    let seeded = Source::Seeded(Body::of_seed(5));
    assert_eq!(source("?vary=Accept&seed=5", "Accept: b\r\n"), seeded);
}
