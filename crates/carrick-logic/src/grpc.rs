//! What carrick has to know of gRPC: the status of its own answers, deadlines, and the health checking protocol.
use std::time::Duration;

/// Statuses (the gRPC document "Status codes and their use in gRPC").
const CANCELLED: u8 = 1;
const UNKNOWN: u8 = 2;
const DEADLINE_EXCEEDED: u8 = 4;
const PERMISSION_DENIED: u8 = 7;
const RESOURCE_EXHAUSTED: u8 = 8;
const UNIMPLEMENTED: u8 = 12;
const INTERNAL: u8 = 13;
const UNAVAILABLE: u8 = 14;
const UNAUTHENTICATED: u8 = 16;

/// Length of what is before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Whether a request or response with this `Content-Type` is one of gRPC.
#[must_use]
pub fn is_grpc(content_type: &[u8]) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    content_type
        .get(..TYPE.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(TYPE))
        && matches!(
            content_type.get(TYPE.len()),
            None | Some(b'+' | b';' | b' ')
        )
}

/// The status that corresponds to one of HTTP (the gRPC document "HTTP to gRPC Status Code Mapping"); `is_late`: the call's deadline
/// is over.
#[must_use]
pub fn status(http: u16, is_late: bool) -> u8 {
    match http {
        408 | 502..=504 if is_late => DEADLINE_EXCEEDED,
        400 => INTERNAL,
        401 => UNAUTHENTICATED,
        403 => PERMISSION_DENIED,
        404 => UNIMPLEMENTED,
        413 | 431 => RESOURCE_EXHAUSTED,
        429 | 502..=504 => UNAVAILABLE,
        _ => UNKNOWN,
    }
}

/// The status of a call whose server has reset its stream with this code (the gRPC document "gRPC over HTTP2", section
/// "Errors").
#[must_use]
pub fn status_of_reset(code: u32, is_late: bool) -> u8 {
    match code {
        // REFUSED_STREAM
        7 => UNAVAILABLE,
        // CANCEL
        8 if is_late => DEADLINE_EXCEEDED,
        8 => CANCELLED,
        // ENHANCE_YOUR_CALM
        11 => RESOURCE_EXHAUSTED,
        // INADEQUATE_SECURITY
        12 => PERMISSION_DENIED,
        _ => INTERNAL,
    }
}

/// The value of `grpc-timeout`: at most 8 digits and a unit.
#[must_use]
pub fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Appends an answer that has no message: a status in the head, "trailers only". `fields` are lines with CR LF each.
pub fn write_status(out: &mut Vec<u8>, status: u8, message: &str, fields: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\ngrpc-status: ");
    out.extend_from_slice(status.to_string().as_bytes());
    out.extend_from_slice(b"\r\ngrpc-message: ");
    for byte in message.bytes() {
        match byte {
            b'%' | 0..=0x1f | 0x7f.. => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(fields);
    out.extend_from_slice(b"Content-Length: 0\r\nConnection: close\r\n\r\n");
}

/// A `grpc.health.v1.HealthCheckRequest` with its prefix; an empty `service` is the whole server.
#[must_use]
pub fn health_request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        // Field 1, with a length.
        message.push(1 << 3 | 2);
        write_varint(&mut message, service.len() as u64);
        message.extend_from_slice(service.as_bytes());
    }
    let mut out = vec![0];
    out.extend_from_slice(
        &u32::try_from(message.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    out.append(&mut message);
    out
}

/// What a `grpc.health.v1.HealthCheckResponse` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the protocol's")]
pub enum Health {
    Unknown,
    Serving,
    NotServing,
    ServiceUnknown,
}

/// Reads such a response with its prefix; `None`: it is none.
#[must_use]
pub fn health(body: &[u8]) -> Option<Health> {
    let (prefix, message) = body.split_at_checked(PREFIX_BYTES)?;
    let &[0, a, b, c, d] = prefix else {
        return None;
    };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    let mut rest = message.get(..length)?;
    let mut status = 0;
    while !rest.is_empty() {
        let tag = read_varint(&mut rest)?;
        match (tag >> 3, tag & 7) {
            (1, 0) => status = read_varint(&mut rest)?,
            (_, 0) => drop(read_varint(&mut rest)?),
            (_, 1) => rest = rest.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(read_varint(&mut rest)?).ok()?;
                rest = rest.get(length..)?;
            }
            (_, 5) => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    Some(match status {
        1 => Health::Serving,
        2 => Health::NotServing,
        3 => Health::ServiceUnknown,
        _ => Health::Unknown,
    })
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for index in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_type() {
        for yes in [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC;x=y",
        ] {
            assert!(is_grpc(yes.as_bytes()), "{yes}");
        }
        for no in [
            "application/grpc-web",
            "application/json",
            "application/grp",
            "",
        ] {
            assert!(!is_grpc(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn timeouts_have_a_unit_and_few_digits() {
        let table = [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("250m", Some(Duration::from_millis(250))),
            ("99999999u", Some(Duration::from_micros(99_999_999))),
            ("5n", Some(Duration::from_nanos(5))),
            ("123456789S", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1x", None),
        ];
        for (text, expected) in table {
            assert_eq!(timeout(text.as_bytes()), expected, "{text}");
        }
        assert!(timeout(b"99999999H").is_some());
    }

    #[test]
    fn an_answer_of_our_own_is_a_head_alone() {
        let table = [
            (502, false, 14),
            (503, false, 14),
            (504, false, 14),
            (504, true, 4),
            (401, true, 16),
            (403, false, 7),
            (404, false, 12),
            (429, false, 14),
            (413, false, 8),
            (400, false, 13),
            (418, false, 2),
        ];
        for (http, is_late, expected) in table {
            assert_eq!(status(http, is_late), expected, "{http}");
        }
        let codes = [
            (0, 13),
            (1, 13),
            (2, 13),
            (7, 14),
            (8, 1),
            (11, 8),
            (12, 7),
            (13, 13),
        ];
        for (code, expected) in codes {
            assert_eq!(status_of_reset(code, false), expected, "{code}");
        }
        assert_eq!(status_of_reset(8, true), 4);
        let mut out = Vec::new();
        write_status(&mut out, 14, "50% of\n\u{e9}", b"Date: x\r\n");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\ngrpc-status: 14\r\ngrpc-message: 50%25 of%0A%C3%A9\r\nDate: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn health_is_asked_for_and_told() {
        assert_eq!(health_request(""), [0, 0, 0, 0, 0]);
        assert_eq!(health_request("ab"), [0, 0, 0, 0, 4, 10, 2, b'a', b'b']);
        let long = "x".repeat(300);
        assert_eq!(health_request(&long)[5..8], [10, 0xac, 2]);
        let table: &[(&[u8], Option<Health>)] = &[
            (&[0, 0, 0, 0, 2, 8, 1], Some(Health::Serving)),
            (&[0, 0, 0, 0, 2, 8, 2], Some(Health::NotServing)),
            (&[0, 0, 0, 0, 2, 8, 3], Some(Health::ServiceUnknown)),
            (&[0, 0, 0, 0, 0], Some(Health::Unknown)),
            // A field that is not known.
            (&[0, 0, 0, 0, 6, 18, 2, 9, 9, 8, 1], Some(Health::Serving)),
            (&[0, 0, 0, 0, 3, 8, 1], None),
            (&[0, 0, 0, 0, 1, 8], None),
            (&[1, 0, 0, 0, 2, 8, 1], None),
            (&[0, 0, 0, 0, 4, 18, 255, 255, 3], None),
            (&[0, 0, 0], None),
        ];
        for (bytes, expected) in table {
            assert_eq!(health(bytes), *expected, "{bytes:?}");
        }
    }
}
