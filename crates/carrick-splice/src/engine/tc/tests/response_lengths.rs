//! The kernel sees the end of a response only where the process, which reads the same head, sees it, too.

use super::lab::*;
use super::model::answering;
use super::spliced::{S, down};
use crate::engine::tc::skeleton::types::packet_response;

const GET: u32 = 0;
const HEAD: u32 = 1;

/// Delivers a response; returns its length as the kernel sees it.
fn length_of(lab: &Lab, method: u32, packets: &[&[u8]]) -> Option<u64> {
    lab.set(&answering(lab));
    lab.set_record(&packet_response {
        sent_bytes: 1000,
        head_at: 1000,
        method,
        ..packet_response::default()
    });
    let mut at = 0;
    for payload in packets {
        let (packet, _) = down(lab, |packet| {
            packet.seq = S.wrapping_add(at);
            packet.payload = payload.to_vec();
        });
        lab.run(Arriving, &packet.bytes(), &[]);
        at += payload.len() as u32;
    }
    lab.record().whole_end.checked_sub(1000)
}

#[test]
fn a_response_ends_where_its_head_says_so_without_a_doubt() {
    let Some(lab) = Lab::v4() else { return };
    let long = format!(
        "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 5\r\n\r\n",
        "x".repeat(1390)
    );
    let ok = b"HTTP/1.1 200 OK\r\n".as_slice();
    let lines = |rest: &str| [ok, rest.as_bytes(), b"\r\n"].concat();
    let head = |rest: &str| lines(rest).len() as u64;
    let cases: &[(&str, u32, Option<u64>)] = &[
        ("Content-Length: 5\r\n", GET, Some(5)),
        ("content-length:5\r\n", GET, Some(5)),
        ("A: b\r\nCONTENT-LENGTH: 0\r\nC: d e;f\r\n", GET, Some(0)),
        (
            "Content-Length: 123456789012\r\n",
            GET,
            Some(123_456_789_012),
        ),
        (
            "Access-Control-Allow-Credentials-And-More: x\r\nContent-Length: 5\r\n",
            GET,
            Some(5),
        ),
        ("Content-Length: 5\r\n", HEAD, Some(0)),
        ("", HEAD, Some(0)),
        ("", GET, None),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", GET, None),
        ("Content-Length: 5, 5\r\n", GET, None),
        ("Content-Length:  5\r\n", GET, None),
        ("Content-Length: 5 \r\n", GET, None),
        ("Content-Length: +5\r\n", GET, None),
        ("Content-Length: 0x5\r\n", GET, None),
        ("Content-Length: \r\n", GET, None),
        ("Content-Length:\r\n", GET, None),
        ("Content-Length : 5\r\n", GET, None),
        ("Content-Length: 1234567890123\r\n", GET, None),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            GET,
            None,
        ),
        ("Transfer-Encoding: chunked\r\n", GET, None),
        ("Content-Length: 5\r\n folded\r\n", GET, None),
        ("Content-Length: 5\r\nA: \tb\r\n", GET, None),
        ("A: b\nContent-Length: 5\r\n", GET, None),
        ("A: b\rContent-Length: 5\r\n", GET, None),
    ];
    for (rest, method, body) in cases {
        let wanted = body.map(|body| head(rest) + body);
        assert_eq!(
            length_of(&lab, *method, &[&lines(rest)]),
            wanted,
            "{rest:?}"
        );
    }
    let whole = lines("Content-Length: 5\r\n");
    let length = Some(whole.len() as u64 + 5);
    let continued = b"HTTP/1.1 100 Continue\r\n\r\n".as_slice();
    let plays: &[(&[&[u8]], Option<u64>)] = &[
        (&[&whole, b"hello"], length),
        (&[&[&whole, b"hello".as_slice()].concat()], length),
        (&[continued], None),
        (
            &[continued, &whole],
            length.map(|length| length + continued.len() as u64),
        ),
        // The head behind an interim one in the same packet is not searched for.
        (&[&[continued, &whole].concat()], None),
        (&[&whole[..20], &whole[20..]], None),
        (&[long.as_bytes()], Some(long.len() as u64 + 5)),
        (&[&long.as_bytes()[..1400], &long.as_bytes()[1400..]], None),
        (&[b"HTTP/1.1 204 No Content\r\n\r\n"], Some(27)),
        (
            &[b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"],
            Some(48),
        ),
        (
            &[b"HTTP/1.1 101 Switching Protocols\r\nContent-Length: 9\r\n\r\n"],
            None,
        ),
        (&[b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n"], None),
        (&[b"HTTP/1.1 2x0 OK\r\nContent-Length: 9\r\n\r\n"], None),
        (
            &[b"hello HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"],
            None,
        ),
        (&[b"HTTP/1.1 200"], None),
    ];
    for (packets, wanted) in plays {
        let text: Vec<_> = packets
            .iter()
            .map(|packet| packet.escape_ascii().to_string())
            .collect();
        assert_eq!(length_of(&lab, GET, packets), *wanted, "{text:?}");
    }
}
