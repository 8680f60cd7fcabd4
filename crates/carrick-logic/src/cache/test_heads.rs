//! Heads for the tests of this module, in a short notation.
use super::{Fields, Policy, Request, Response, Times, UnixTime, Uri};
use crate::http1::Method;

/// The time of the tests: Tue, 14 Nov 2023 22:13:20 GMT.
pub(super) const NOW: UnixTime = UnixTime(1_700_000_000);

/// The requested URI.
pub(super) const URI: Uri<'_> = Uri {
    scheme: b"http",
    host: b"h",
    port: 80,
    path_and_query: b"/x",
};

/// Requested and answered at the same moment.
pub(super) const AT_ONCE: Times = Times {
    request: NOW,
    response: NOW,
};

/// `NOW` plus some seconds.
pub(super) fn at(seconds: i64) -> UnixTime {
    UnixTime(NOW.0.checked_add_signed(seconds).unwrap())
}

/// The field lines of a text in which `|` ends a line, and `@-10` is the date ten seconds before `NOW`.
pub(super) fn lines(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(mark) = rest.find('@') {
        out.extend_from_slice(&rest.as_bytes()[..mark]);
        rest = &rest[mark + 1..];
        let end = rest
            .find(|byte: char| byte != '-' && !byte.is_ascii_digit())
            .unwrap_or(rest.len());
        at(rest[..end].parse().unwrap()).write_http_date(&mut out);
        rest = &rest[end..];
    }
    out.extend_from_slice(rest.as_bytes());
    let text = String::from_utf8(out).unwrap();
    text.split('|')
        .filter(|line| !line.is_empty())
        .map(|line| format!("{line}\r\n"))
        .collect()
}

pub(super) fn get(lines: &str) -> Request<'_> {
    Request::read(Method::Get, Fields::of_text(lines.as_bytes()))
}

pub(super) fn answer<'a>(status: u16, lines: &'a str, policy: &Policy) -> Response<'a> {
    Response::read(status, Fields::of_text(lines.as_bytes()), NOW, policy)
}
