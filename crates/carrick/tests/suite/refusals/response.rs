//! Responses that must not be relayed: the client gets 502, and the upstream's connection is closed.
use crate::support::{Carrick, Ending, Place, Server};

const RESPONSES: &[(&str, &[u8])] = &[
    ("HTTP/0.9", b"hello"),
    ("no HTTP at all", b"220 mail.example ESMTP\r\n"),
    ("HTTP/2.0", b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
    (
        "small letters in the version",
        b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ),
    ("two digits", b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
    (
        "four digits",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "status 099",
        b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "status -10",
        b"HTTP/1.1 -10 OK\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "two spaces before the status",
        b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "NUL in the reason",
        b"HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "CR in the reason",
        b"HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "an empty line first",
        b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "bare CR in a value",
        b"HTTP/1.1 200 OK\r\nX: 1\rY: 2\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "obs-fold",
        b"HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "no colon",
        b"HTTP/1.1 200 OK\r\nX\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "NUL in a value",
        b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "two lengths",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    ),
    ("+5", b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello"),
    (
        "a length beyond 64 bits",
        b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551621\r\n\r\nhello",
    ),
    (
        "gzip as transfer coding",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "chunked twice",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "Transfer_Encoding",
        b"HTTP/1.1 200 OK\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "an interim response and then rubbish",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nrubbish",
    ),
    (
        "an unsolicited 101",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    ),
];

/// Valid heads, with bodies that are invalid from the start.
const BODIES: &[&str] = &[
    "zz\r\n",
    "5\nhello\r\n0\r\n\r\n",
    "5\r\nhello!\r\n0\r\n\r\n",
    "5\r\nhello\r\n-1\r\n",
    "5 5\r\nhello\r\n0\r\n\r\n",
    "0\r\nX : 1\r\n\r\n",
    "0\r\nContent-Length: 1\r\n\r\n",
];

/// As long as the client has got no byte of the response, it can get a 502.
#[test]
fn a_malformed_chunk_that_comes_with_the_head_becomes_502_and_the_log_says_so() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    for body in BODIES {
        for version in ["1.1", "1.0"] {
            let (mut client, mut upstream) =
                carrick.asked(&server, format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
            upstream.send(format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
            ));
            let response = client.read_response("GET");
            assert_eq!(response.status, 502, "{body:?}: {}", response.head);
            assert!(response.text().starts_with("502 Bad Gateway\n"), "{body:?}");
            assert!(upstream.read_ending().bytes().is_empty(), "{body:?}");
        }
    }
    for line in carrick.access_log(2 * BODIES.len()) {
        assert_eq!((line.status(), line.text("ended")), (502, "bad_response"));
    }
    server.expect_no_connection();
}

/// The same while the request's body is still being sent.
#[test]
fn a_malformed_chunk_of_an_early_response_becomes_502() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    let (mut client, mut upstream) = carrick.asked(
        &server,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello",
    );
    upstream.expect("hello");
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    assert_eq!(client.read_response("POST").status, 502);
    client.expect_end();
    let lines = carrick.access_log(1);
    assert_eq!(
        (lines[0].status(), lines[0].text("ended")),
        (502, "bad_response")
    );
}

#[test]
fn every_malformed_response_becomes_502_and_its_connection_is_closed() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    for (what, bytes) in RESPONSES {
        for piece_bytes in [4096, 1] {
            let mut client = carrick.connect();
            // A POST, so that nothing is retried.
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
            let mut upstream = server.accept();
            upstream.read_head();
            upstream.expect("hi");
            for piece in bytes.chunks(piece_bytes) {
                if upstream.try_send(piece).is_err() {
                    break;
                }
            }
            let response = client.read_response("POST");
            assert_eq!(response.status, 502, "{what}: {}", response.head);
            assert!(
                response.text().starts_with("502 Bad Gateway\n"),
                "{what}: {}",
                response.text()
            );
            // carrick has not read everything, so closing may be a reset.
            match upstream.read_ending() {
                Ending::Closed(rest) | Ending::Reset(rest) => {
                    assert!(rest.is_empty(), "{what}: {rest:?}")
                }
            }
        }
    }
    server.expect_no_connection();
}

#[test]
fn response_heads_that_are_too_long_become_502() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = crate::support::carrick::switch_text(&[server.address()]);
    let carrick = Carrick::start(
        &place,
        &format!("[limits]\nrequest_head = 4096\nheaders = 20\n{text}"),
    );
    for response in [
        format!("HTTP/1.1 200 {}\r\n\r\n", "a".repeat(10_000)),
        format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "b".repeat(10_000)),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: 1\r\n".repeat(21)),
        format!("HTTP/1.1 200 {}", "a".repeat(10_000)),
    ] {
        let (mut client, mut upstream) =
            carrick.asked(&server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        upstream.send(&response);
        assert_eq!(client.read_response("GET").status, 502);
    }
}

#[test]
fn interim_responses_without_end_do_not_hold_a_client_for_ever() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = crate::support::carrick::switch_text(&[server.address()]);
    let carrick = Carrick::start(&place, &text);
    let (mut client, mut upstream) = carrick.asked(&server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let sending =
        std::thread::spawn(
            move || {
                while upstream.try_send("HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
            },
        );
    let response = client.read_response("GET");
    assert_eq!(response.status, 502, "{}", response.head);
    sending.join().expect("no panic");
    assert!(!response.interim.is_empty());
}

/// The client has already got a part: it must notice that the rest is missing.
#[test]
fn a_response_whose_body_breaks_is_not_whole_for_the_client() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    let long = "x".repeat(100_000);
    for (what, head, part) in [
        ("a short body", "Content-Length: 10", "hello"),
        (
            "a long short body",
            "Content-Length: 1000000",
            long.as_str(),
        ),
        (
            "a chunk that is cut",
            "Transfer-Encoding: chunked",
            "a\r\nhello",
        ),
        (
            "no last chunk",
            "Transfer-Encoding: chunked",
            "5\r\nhello\r\n",
        ),
        (
            "no end of trailers",
            "Transfer-Encoding: chunked",
            "5\r\nhello\r\n0\r\n",
        ),
        (
            "a long chunk that is cut",
            "Transfer-Encoding: chunked",
            &format!("fffff\r\n{long}"),
        ),
    ] {
        for with_reset in [false, true] {
            for version in ["1.1", "1.0"] {
                let (mut client, mut upstream) =
                    carrick.asked(&server, format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
                upstream.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{part}"));
                client.read_head();
                // The content arrives before the connection breaks.
                let content = if part.contains('h') {
                    "hello"
                } else {
                    long.as_str()
                };
                if version == "1.0" {
                    client.expect(content);
                } else {
                    client.expect(part);
                }
                if with_reset {
                    upstream.reset();
                } else {
                    drop(upstream);
                }
                match client.read_ending() {
                    Ending::Reset(rest) => assert!(rest.is_empty(), "{what}: {rest:?}"),
                    // With a length or chunks the client sees that more should have come; only the reset tells a 1.0
                    // client of a chunked response.
                    Ending::Closed(rest) => {
                        assert!(rest.is_empty(), "{what}: {rest:?}");
                        assert!(
                            version == "1.1" || head.starts_with("Content"),
                            "{what}: a clean end"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_malformed_chunk_in_a_response_is_not_passed_on_as_whole() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    for body in [
        "zz\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX : 1\r\n\r\n",
    ] {
        let (mut client, mut upstream) =
            carrick.asked(&server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
        client.read_head();
        client.expect("5\r\nfirst\r\n");
        upstream.send(body);
        let ending = client.read_ending();
        let text = String::from_utf8_lossy(ending.bytes()).into_owned();
        assert!(matches!(ending, Ending::Reset(_)), "{body:?}: a clean end");
        assert!(
            !text.contains("0\r\n\r\n") && !text.contains("X : 1"),
            "{body:?}: {text:?}"
        );
        assert!(upstream.read_ending().bytes().is_empty());
    }
    let lines = carrick.access_log(4);
    assert!(
        lines
            .iter()
            .all(|line| (line.status(), line.text("ended")) == (200, "bad_chunk")),
        "{lines:?}"
    );
}
