//! carrick's own responses.
use super::*;
use crate::http1::{HeadLimits, Progress, ResponseBody, ResponseHead};

const PLAIN: ErrorResponse<'static> = ErrorResponse {
    is_bare: false,
    status: 400,
    detail: "Host is given more than once",
    method: Method::Get,
    client_version: Version::Http11,
    keep_alive: false,
    date: None,
    extra_fields: &[],
};

fn written(response: &ErrorResponse<'_>) -> String {
    let mut out = Vec::new();
    write_error_response(&mut out, response);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_whole_response() {
    let expected = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
        X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nContent-Length: 45\r\nConnection: close\r\n\r\n\
        400 Bad Request\nHost is given more than once\n";
    assert_eq!(written(&PLAIN), expected);
}

#[test]
fn its_parser_agrees() {
    let limits = HeadLimits {
        head_bytes_max: 8192,
        fields_max: 100,
    };
    for method in [Method::Get, Method::Head, Method::Connect] {
        for keep_alive in [true, false] {
            let text = written(&ErrorResponse {
                method,
                keep_alive,
                ..PLAIN
            });
            let mut head = ResponseHead::new();
            assert_eq!(
                head.parse(text.as_bytes(), method, &limits),
                Ok(Progress::Complete)
            );
            let body_bytes = (text.len() - head.head_bytes) as u64;
            let expected = if method == Method::Head {
                ResponseBody::None
            } else {
                ResponseBody::Bytes(body_bytes)
            };
            assert_eq!((head.body, head.keep_alive), (expected, keep_alive));
            assert_eq!(body_bytes == 0, method == Method::Head);
        }
    }
}

#[test]
fn nothing_can_be_injected() {
    let extra_fields = [("Proxy-Authenticate", "Basic realm=\"a\r\nX: y\"")];
    let text = written(&ErrorResponse {
        detail: "a\r\n\r\nb\u{7f}\u{85}",
        extra_fields: &extra_fields,
        ..PLAIN
    });
    assert!(
        text.contains("\r\nProxy-Authenticate: Basic realm=\"a  X: y\"\r\n"),
        "{text:?}"
    );
    assert!(
        text.ends_with("\r\n\r\n400 Bad Request\na    b  \n"),
        "{text:?}"
    );
}

#[test]
fn optional_parts() {
    let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
    let kept = ErrorResponse {
        keep_alive: true,
        date,
        client_version: Version::Http10,
        ..PLAIN
    };
    assert!(
        written(&kept)
            .starts_with("HTTP/1.1 400 Bad Request\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n")
    );
    assert!(written(&kept).contains("\r\nConnection: keep-alive\r\n"));
    assert!(
        !written(&ErrorResponse {
            keep_alive: true,
            ..PLAIN
        })
        .contains("Connection")
    );
}

#[test]
fn every_status_has_a_phrase() {
    for status in 100..1000 {
        assert!(!reason_phrase(status).is_empty());
    }
    assert_eq!(
        (reason_phrase(502), reason_phrase(431)),
        ("Bad Gateway", "Request Header Fields Too Large")
    );
    assert_eq!(
        (reason_phrase(299), reason_phrase(499), reason_phrase(999)),
        ("Success", "Client Error", "Server Error")
    );
}
