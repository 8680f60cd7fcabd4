//! Requests and responses of HTTP/2: what is written is one head of HTTP/1.1, with the fields that were there and one length.
use super::LIMITS;
use carrick_logic::http1::{BodyLength, Method, Progress, RequestHead, ResponseBody, ResponseHead};
use carrick_logic::http2::{
    Pseudo, RequestBody, RequestForm, RequestTranslation, ResponseTranslation, write_request,
    write_response,
};

/// A name and a value.
type Field<'b> = (&'b [u8], &'b [u8]);

/// Fields are separated by `|`, a name and its value by `=`.
fn read(bytes: &[u8]) -> (Pseudo<'_>, Vec<Field<'_>>) {
    let (mut pseudo, mut fields) = (Pseudo::default(), Vec::new());
    for field in bytes.split(|&byte| byte == b'|') {
        let at = memchr(b'=', field).unwrap_or(field.len());
        let (name, value) = (&field[..at], field.get(at + 1..).unwrap_or_default());
        match name {
            b":method" => pseudo.method = value,
            b":scheme" => pseudo.scheme = Some(value),
            b":authority" => pseudo.authority = Some(value),
            b":path" => pseudo.path = Some(value),
            b":protocol" => pseudo.protocol = Some(value),
            _ => fields.push((name, value)),
        }
    }
    (pseudo, fields)
}

fn memchr(wanted: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == wanted)
}

/// Whatever is written is read as one message by others, too.
pub fn http2_request(bytes: &[u8]) {
    let (pseudo, fields) = read(bytes);
    let forms = [
        RequestForm::Absolute,
        RequestForm::Origin {
            http: true,
            https: true,
        },
        RequestForm::Origin {
            http: false,
            https: true,
        },
    ];
    for form in forms {
        for is_whole in [false, true] {
            let how = RequestTranslation {
                form,
                is_whole,
                websocket_key: "a2V5",
            };
            let mut head = Vec::new();
            let written = write_request(&mut head, &pseudo, || fields.iter().copied(), &how);
            match written {
                Ok(body) => check(&head, body, &fields),
                Err(_) => assert!(head.is_empty(), "a part of a head"),
            }
        }
    }
}

/// The same for responses; `:method` is the status.
pub fn http2_response(bytes: &[u8]) {
    let (pseudo, fields) = read(bytes);
    let status = std::str::from_utf8(pseudo.method).ok();
    let status = status.and_then(|text| text.parse().ok()).unwrap_or(200);
    for is_for_head in [false, true] {
        for is_whole in [false, true] {
            for websocket_accept in [None, Some("d29yZA==")] {
                let how = ResponseTranslation {
                    is_for_head,
                    is_whole,
                    websocket_accept,
                };
                let mut head = Vec::new();
                let fields_of = || fields.iter().copied();
                match write_response(&mut head, status, fields_of, &how) {
                    Ok(body) => check_response(&head, body, is_for_head, &fields),
                    Err(_) => assert!(head.is_empty(), "a part of a head"),
                }
            }
        }
    }
}

fn check_response(head: &[u8], body: RequestBody, is_for_head: bool, fields: &[Field<'_>]) {
    check_lines(head, fields);
    let mut parsed = ResponseHead::new();
    let method = match is_for_head {
        true => Method::Head,
        false => Method::Get,
    };
    match parsed.parse(head, method, &LIMITS) {
        Ok(Progress::Complete) => {
            assert_eq!(parsed.head_bytes, head.len());
            let expected = match body {
                RequestBody::Bytes(length) => ResponseBody::Bytes(length),
                RequestBody::Chunked => ResponseBody::Chunked,
                RequestBody::None => ResponseBody::None,
                RequestBody::Tunnel | RequestBody::WebSocket => ResponseBody::Tunnel,
            };
            assert_eq!(parsed.body, expected);
        }
        Ok(Progress::Partial) => panic!("a part of a head was written"),
        Err(_) => {}
    }
}

/// The head's lines end as they should, and are not more than there should be.
fn check_lines(head: &[u8], fields: &[Field<'_>]) -> usize {
    let end = head.windows(4).position(|window| window == b"\r\n\r\n");
    assert_eq!(end, Some(head.len() - 4), "a head ends once");
    let line_ends = head.windows(2).filter(|window| window == b"\r\n").count();
    for byte in [b'\r', b'\n'] {
        assert_eq!(head.iter().filter(|&&one| one == byte).count(), line_ends);
    }
    assert!(!head.contains(&0));
    // The request line, Host, the end, and at most three that are added.
    assert!(line_ends <= fields.len() + 6);
    line_ends
}

fn check(head: &[u8], body: RequestBody, fields: &[Field<'_>]) {
    let line_ends = check_lines(head, fields);
    let mut room = [httparse::EMPTY_HEADER; 256];
    let mut other = httparse::Request::new(&mut room);
    if line_ends < 256 && !head.iter().any(|&byte| byte >= 0x80) {
        assert_eq!(
            other.parse(head),
            Ok(httparse::Status::Complete(head.len()))
        );
    }
    let mut parsed = RequestHead::new();
    match parsed.parse(head, &LIMITS) {
        Ok(Progress::Complete) => {
            assert_eq!(parsed.head_bytes, head.len());
            let expected = match body {
                RequestBody::Bytes(length) => BodyLength::Bytes(length),
                RequestBody::Chunked => BodyLength::Chunked,
                RequestBody::None | RequestBody::Tunnel | RequestBody::WebSocket => {
                    BodyLength::None
                }
            };
            assert_eq!(parsed.body, expected);
            assert_eq!(parsed.wants_upgrade, body == RequestBody::WebSocket);
        }
        Ok(Progress::Partial) => panic!("a part of a head was written"),
        Err(_) => {}
    }
}
