//! A response of HTTP/2 as HTTP/1.1 has it (RFC 9113 section 8). The parser of HTTP/1.1 reads it again.
use super::request::check_field;
use super::{Malformed, RequestBody};
use crate::grpc::is_grpc;
use crate::http1::{reason_phrase, syntax};

/// What a response's translation depends on besides its head.
#[derive(Debug, Clone, Copy)]
pub struct ResponseTranslation<'a> {
    /// Whether the request was a `HEAD`.
    pub is_for_head: bool,
    /// Whether the response has ended with its head (`END_STREAM`).
    pub is_whole: bool,
    /// The `Sec-WebSocket-Accept` of the upgrade that the request asked for by an extended CONNECT (RFC 8441).
    pub websocket_accept: Option<&'a str>,
}

/// Appends the head in the form of HTTP/1.1 to `out`; what is to follow it.
///
/// # Errors
/// See [`Malformed`]. `out` has no part of the head then.
pub fn write_response<'f, F>(
    out: &mut Vec<u8>,
    status: u16,
    fields: impl Fn() -> F,
    how: &ResponseTranslation<'_>,
) -> Result<RequestBody, Malformed>
where
    F: Iterator<Item = (&'f [u8], &'f [u8])>,
{
    let length = check(fields())?;
    let accept = how
        .websocket_accept
        .filter(|_| (200..300).contains(&status));
    // RFC 9113 section 8.6: there is no 101.
    if !(100..1000).contains(&status) || status == 101 {
        return Err(Malformed::Pseudo);
    }
    let status = accept.map_or(status, |_| 101);
    let is_bodiless = how.is_for_head || status < 200 || matches!(status, 204 | 304);
    // HTTP/1.1 has room for trailers behind chunks only.
    let has_trailers = |(name, value): (&[u8], &[u8])| match name {
        b"trailer" => true,
        b"content-type" => is_grpc(value),
        _ => false,
    };
    let is_chunked = !is_bodiless && !how.is_whole && fields().any(has_trailers);
    let length = length.filter(|_| !is_chunked);
    let body = match length {
        _ if accept.is_some() => RequestBody::WebSocket,
        _ if is_bodiless => RequestBody::None,
        Some(0) => RequestBody::None,
        Some(length) => RequestBody::Bytes(length),
        None if how.is_whole => RequestBody::None,
        None => RequestBody::Chunked,
    };
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason_phrase(status).as_bytes());
    out.extend_from_slice(b"\r\n");
    // RFC 9110 section 8.6: neither has a length.
    let drops_length = accept.is_some() || status < 200 || status == 204;
    let is_kept = |name: &[u8]| match name {
        b"content-length" => !drops_length && !is_chunked,
        b"sec-websocket-accept" => accept.is_none(),
        _ => true,
    };
    for (name, value) in fields().filter(|(name, _)| is_kept(name)) {
        for part in [name, b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    if let Some(accept) = accept {
        out.extend_from_slice(
            b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ",
        );
        out.extend_from_slice(accept.as_bytes());
        out.extend_from_slice(b"\r\n");
    } else if body == RequestBody::Chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    } else if !is_bodiless && length.is_none() {
        out.extend_from_slice(b"content-length: 0\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(body)
}

/// What `content-length` says (RFC 9113 sections 8.1.1 and 8.2).
fn check<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Result<Option<u64>, Malformed> {
    let mut length = None;
    for (name, value) in fields {
        check_field(name, value)?;
        match name {
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding"
            | b"upgrade" => return Err(Malformed::Connection),
            b"content-length" => {
                let one = syntax::decimal(value).ok_or(Malformed::Length)?;
                if length.replace(one).is_some_and(|before| before != one) {
                    return Err(Malformed::Length);
                }
            }
            _ => {}
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and values.
    type Fields = &'static [(&'static str, &'static str)];

    const PLAIN: ResponseTranslation<'_> = ResponseTranslation {
        is_for_head: false,
        is_whole: false,
        websocket_accept: None,
    };

    fn translate(
        status: u16,
        fields: &[(&str, &str)],
        how: &ResponseTranslation<'_>,
    ) -> Result<(String, RequestBody), Malformed> {
        let mut out = Vec::new();
        let fields = || {
            let fields = fields.iter();
            fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        };
        let result = write_response(&mut out, status, fields, how);
        if result.is_err() {
            assert!(out.is_empty());
        }
        Ok((String::from_utf8(out).unwrap(), result?))
    }

    #[test]
    fn what_follows_a_head() {
        let whole = ResponseTranslation {
            is_whole: true,
            ..PLAIN
        };
        let for_head = ResponseTranslation {
            is_for_head: true,
            ..whole
        };
        let length = [("content-length", "5")];
        let none: Fields = &[];
        let table = [
            (
                200,
                none,
                PLAIN,
                "transfer-encoding: chunked\r\n",
                RequestBody::Chunked,
            ),
            (200, none, whole, "content-length: 0\r\n", RequestBody::None),
            (200, none, for_head, "", RequestBody::None),
            (
                200,
                &length,
                PLAIN,
                "content-length: 5\r\n",
                RequestBody::Bytes(5),
            ),
            (
                200,
                &length,
                for_head,
                "content-length: 5\r\n",
                RequestBody::None,
            ),
            (
                304,
                &length,
                PLAIN,
                "content-length: 5\r\n",
                RequestBody::None,
            ),
            (
                204,
                &[("content-length", "0")],
                PLAIN,
                "",
                RequestBody::None,
            ),
            (
                200,
                &[("content-length", "0")],
                PLAIN,
                "content-length: 0\r\n",
                RequestBody::None,
            ),
            (103, none, PLAIN, "", RequestBody::None),
            (
                200,
                &[("trailer", "x"), ("content-length", "5")],
                PLAIN,
                "trailer: x\r\ntransfer-encoding: chunked\r\n",
                RequestBody::Chunked,
            ),
            (
                200,
                &[("trailer", "x"), ("content-length", "0")],
                whole,
                "trailer: x\r\ncontent-length: 0\r\n",
                RequestBody::None,
            ),
        ];
        for (status, fields, how, lines, body) in table {
            let (head, followed) = translate(status, fields, &how).unwrap();
            assert_eq!(followed, body, "{head}");
            let (_, rest) = head.split_once("\r\n").unwrap();
            assert_eq!(rest, format!("{lines}\r\n"), "{status}");
        }
        let (head, _) = translate(404, &[("x", "a b")], &PLAIN).unwrap();
        assert!(
            head.starts_with("HTTP/1.1 404 Not Found\r\nx: a b\r\n"),
            "{head}"
        );
    }

    #[test]
    fn a_tunnel_that_was_granted_is_an_upgrade() {
        let how = ResponseTranslation {
            websocket_accept: Some("word"),
            ..PLAIN
        };
        let fields = [
            ("sec-websocket-protocol", "chat"),
            ("content-length", "3"),
            ("sec-websocket-accept", "another"),
        ];
        let (head, body) = translate(200, &fields, &how).unwrap();
        assert_eq!(body, RequestBody::WebSocket);
        assert_eq!(
            head,
            "HTTP/1.1 101 Switching Protocols\r\nsec-websocket-protocol: chat\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: word\r\n\r\n"
        );
        let (head, body) = translate(403, &fields, &how).unwrap();
        assert_eq!(body, RequestBody::Bytes(3));
        assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    }

    #[test]
    fn malformed_heads_are_refused() {
        let table: &[(u16, Fields, Malformed)] = &[
            (101, &[], Malformed::Pseudo),
            (99, &[], Malformed::Pseudo),
            (200, &[("connection", "close")], Malformed::Connection),
            (
                200,
                &[("transfer-encoding", "chunked")],
                Malformed::Connection,
            ),
            (200, &[("upgrade", "h2c")], Malformed::Connection),
            (200, &[("keep-alive", "5")], Malformed::Connection),
            (200, &[("X", "a")], Malformed::Name),
            (200, &[("x y", "a")], Malformed::Name),
            (200, &[("x", "a\r\nb: c")], Malformed::Value),
            (200, &[("x", "a\0")], Malformed::Value),
            (200, &[("x", " a")], Malformed::Value),
            (200, &[("content-length", "+1")], Malformed::Length),
            (
                200,
                &[("content-length", "1"), ("content-length", "2")],
                Malformed::Length,
            ),
        ];
        for (status, fields, expected) in table {
            assert_eq!(
                translate(*status, fields, &PLAIN),
                Err(*expected),
                "{fields:?}"
            );
        }
    }
}
