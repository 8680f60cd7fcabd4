//! Bodies with invalid framing: the upstream must not get a complete request, and the bytes behind it must not become one.
use super::expect_refusal;
use crate::support::{Carrick, Ending, Place, Server};

const BODIES: &[(&str, &[u8])] = &[
    ("no size", b"\r\nhello\r\n0\r\n\r\n"),
    ("a size that is no number", b"g\r\nhello\r\n0\r\n\r\n"),
    ("0x in front", b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("a plus in front", b"+5\r\nhello\r\n0\r\n\r\n"),
    ("a minus in front", b"-5\r\nhello\r\n0\r\n\r\n"),
    ("a space in front", b" 5\r\nhello\r\n0\r\n\r\n"),
    ("a space behind", b"5 \r\nhello\r\n0\r\n\r\n"),
    ("2^64 + 5", b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("2^64 - 1", b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    (
        "zeros without end",
        b"00000000000000000000000000000005\r\nhello\r\n0\r\n\r\n",
    ),
    ("LF ends the size line", b"5\nhello\r\n0\r\n\r\n"),
    ("CR ends the size line", b"5\rhello\r\n0\r\n\r\n"),
    ("LF in an extension", b"5;a\nhello\r\n0\r\n\r\n"),
    ("CR in an extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    ("NUL in an extension", b"5;a=\0\r\nhello\r\n0\r\n\r\n"),
    ("an extension without a name", b"5;=b\r\nhello\r\n0\r\n\r\n"),
    ("content shorter than its size", b"6\r\nhello\r\n0\r\n\r\n"),
    ("content longer than its size", b"4\r\nhello\r\n0\r\n\r\n"),
    ("LF ends the content", b"5\r\nhello\n0\r\n\r\n"),
    ("nothing ends the content", b"5\r\nhello0\r\n\r\n"),
    ("LF ends the body", b"5\r\nhello\r\n0\r\n\n"),
    ("LF ends the last size line", b"5\r\nhello\r\n0\n\r\n"),
    ("a trailer without a colon", b"5\r\nhello\r\n0\r\nX\r\n\r\n"),
    (
        "a trailer with a space before the colon",
        b"5\r\nhello\r\n0\r\nX : 1\r\n\r\n",
    ),
    ("a folded trailer", b"5\r\nhello\r\n0\r\nX: 1\r\n 2\r\n\r\n"),
    (
        "a trailer that ends with LF",
        b"5\r\nhello\r\n0\r\nX: 1\n\r\n",
    ),
    ("NUL in a trailer", b"5\r\nhello\r\n0\r\nX: \0\r\n\r\n"),
    (
        "Content-Length as a trailer",
        b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
    ),
    (
        "Transfer-Encoding as a trailer",
        b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    ("Host as a trailer", b"5\r\nhello\r\n0\r\nHost: b\r\n\r\n"),
    (
        "Authorization as a trailer",
        b"5\r\nhello\r\n0\r\nAuthorization: x\r\n\r\n",
    ),
];

#[test]
fn every_malformed_chunked_body_is_refused_and_never_whole_upstream() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    for (what, body) in BODIES {
        for piece_bytes in [4096, 1] {
            let mut client = carrick.connect();
            let mut bytes =
                b"POST /refused HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            bytes.extend_from_slice(body);
            bytes.extend_from_slice(b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
            client.send(&bytes[..bytes.len() - 20]);
            let _ = bytes[bytes.len() - 20..]
                .chunks(piece_bytes)
                .try_for_each(|piece| client.try_send(piece));
            expect_refusal(&mut client, 400, what);
            // What came before the mistake may have been sent, but not the body's end, and the connection is not reused.
            if let Some(mut upstream) = server.try_accept() {
                let ending = upstream.read_ending();
                let text = String::from_utf8_lossy(ending.bytes()).into_owned();
                assert!(!text.contains("\r\n0\r\n\r\n"), "{what}: {text:?}");
                assert!(!text.contains("smuggled"), "{what}: {text:?}");
            }
        }
    }
    server.expect_no_connection();
}

#[test]
fn a_body_that_the_client_does_not_finish_is_never_whole_upstream() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    for (framing, part) in [
        ("Content-Length: 10", "hello"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n"),
        ("Transfer-Encoding: chunked", "a\r\nhello"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n"),
        ("Content-Length: 1000000", "hello"),
    ] {
        for with_reset in [false, true] {
            let mut client = carrick.connect();
            client.send(format!(
                "POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{part}"
            ));
            let mut upstream = server.accept();
            upstream.read_head();
            upstream.expect(part);
            if with_reset {
                client.reset();
                let ending = upstream.read_ending();
                assert!(ending.bytes().is_empty(), "{framing}: {ending:?}");
            } else {
                client.half_close();
                match upstream.read_ending() {
                    Ending::Closed(bytes) | Ending::Reset(bytes) => {
                        assert!(bytes.is_empty(), "{framing}")
                    }
                }
                assert!(
                    client.read_ending().bytes().is_empty(),
                    "{framing}: there was nothing to answer"
                );
            }
        }
    }
}
