//! Bodies of every kind and length, through the store.
use super::{Play, get, ok, status};
use crate::support::random::{Random, hash};

#[test]
fn bodies_of_every_length_come_back_as_they_were() {
    let play = Play::begin("");
    for (number, length) in [
        0, 1, 4095, 4096, 8192, 8193, 16_384, 16_385, 70_000, 1_000_001, 5_000_000,
    ]
    .into_iter()
    .enumerate()
    {
        let body = Random::new(length as u64).bytes(length);
        let path = format!("/{number}");
        let (mut client, mut upstream) = play.carrick.asked(&play.server, get(&path, ""));
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nCache-Control: max-age=60\r\nConnection: close\r\n\r\n"
        );
        upstream.send([head.as_bytes(), &body].concat());
        let first = client.read_response("GET");
        assert_eq!(hash(&first.body), hash(&body), "{length}");
        for _ in 0..2 {
            let found = play.find(&path);
            assert_eq!(hash(&found.body), hash(&body), "{length}");
            assert!(status(&found).contains("hit"), "{length}: {}", found.head);
        }
    }
}

#[test]
fn chunked_bodies_are_kept_without_their_framing() {
    let play = Play::begin("");
    let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\nConnection: close\r\n\r\n");
    for piece in [
        "5\r\nhel",
        "lo\r",
        "\n6;x=y\r\n world\r\n",
        "0\r\nA: b\r\n\r\n",
    ] {
        upstream.send(piece);
    }
    let first = client.read_response("GET");
    assert_eq!(first.text(), "hello world");
    drop(upstream);
    let found = play.find("/a");
    assert_eq!(
        (found.text(), found.field("content-length").as_deref()),
        ("hello world".into(), Some("11"))
    );
    assert_eq!(found.field("transfer-encoding"), None);
}

#[test]
fn long_chunks_are_kept_too() {
    let play = Play::begin("");
    let body = Random::new(1).bytes(600_000);
    let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
    let mut raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\nConnection: close\r\n\r\n".to_vec();
    for piece in body.chunks(200_000) {
        raw.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        raw.extend_from_slice(piece);
        raw.extend_from_slice(b"\r\n");
    }
    raw.extend_from_slice(b"0\r\n\r\n");
    upstream.send(raw);
    assert_eq!(hash(&client.read_response("GET").body), hash(&body));
    drop(upstream);
    assert_eq!(hash(&play.find("/a").body), hash(&body));
}

#[test]
fn a_body_that_ends_with_its_connection_is_kept() {
    let play = Play::begin("");
    let first = play.fetch(
        "/a",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nto the end",
    );
    assert_eq!(first.text(), "to the end");
    assert_eq!(play.find("/a").text(), "to the end");
}

#[test]
fn what_is_larger_than_allowed_passes_and_is_not_kept() {
    let play = Play::begin("object_max = \"10 KB\"");
    let body = "x".repeat(40_000);
    let lines = "Cache-Control: max-age=60\r\n";
    for _ in 0..2 {
        assert_eq!(play.fetch("/a", &ok(lines, &body)).text(), body);
        let chunked = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n{lines}\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        assert_eq!(play.fetch("/b", &chunked).text(), body);
        let until_close = format!("HTTP/1.1 200 OK\r\n{lines}\r\n{body}");
        assert_eq!(play.fetch("/c", &until_close).text(), body);
    }
}

#[test]
fn clients_of_http_1_0_get_it_too() {
    let play = Play::begin("");
    play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", "hello"));
    let mut old = play.carrick.connect();
    old.send("GET /a HTTP/1.0\r\nHost: a.example\r\n\r\n");
    let response = old.read_response("GET");
    assert_eq!((response.status, response.text()), (200, "hello".into()));
    old.expect_end();
    let mut kept = play.carrick.connect();
    for _ in 0..2 {
        let response =
            kept.ask("GET /a HTTP/1.0\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(response.field("connection").as_deref(), Some("keep-alive"));
    }
    play.server.expect_no_connection();
}

/// The content is stored, whatever its framing was; the next client gets it with a length.
#[test]
fn a_stored_response_has_nothing_of_its_servers_old_habits() {
    let play = Play::begin("");
    let head = "HTTP/1.1 200 OK\nCache-Control : max-age=60\nConnection: close\n";
    for (path, rest) in [
        (
            "/length",
            "Content-Length: 5, 5\nContent-Length: 5\n\nhello",
        ),
        (
            "/chunks",
            "Transfer-Encoding: chunked\n\n0000000000000000000003 \r\nhel\r\n02\t\r\nlo\r\n000 \r\n\r\n",
        ),
    ] {
        let first = play.fetch(path, &format!("{head}{rest}"));
        assert_eq!(
            (first.status, first.text()),
            (200, "hello".into()),
            "{}",
            first.head
        );
        let second = play.find(path);
        assert_eq!(
            (second.status, second.text()),
            (200, "hello".into()),
            "{}",
            second.head
        );
        let lengths = second
            .head
            .to_lowercase()
            .matches("content-length: 5\r\n")
            .count();
        assert_eq!(lengths, 1, "{}", second.head);
        assert!(
            !second.head.replace("\r\n", "").contains('\n'),
            "{:?}",
            second.head
        );
    }
    // A client of HTTP/1.0 gets only the content, and it is stored all the same.
    let (mut client, mut upstream) = play
        .carrick
        .asked(&play.server, "GET /old HTTP/1.0\r\nHost: a.example\r\n\r\n");
    upstream.send(format!(
        "{head}Transfer-Encoding: chunked\n\n05 \r\nhello\r\n00\r\n\r\n"
    ));
    assert_eq!(client.read_response("GET").text(), "hello");
    client.expect_end();
    assert_eq!(play.find("/old").text(), "hello");
}

/// No byte was sent, so the client can get the stored response instead.
#[test]
fn a_malformed_first_chunk_leaves_a_client_with_what_is_stored() {
    let play = Play::begin("");
    let stored = "Cache-Control: max-age=0, stale-if-error=60\r\nETag: \"a\"\r\n";
    play.fetch("/a", &ok(stored, "hello"));
    let wrong =
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    let response = play.fetch("/a", wrong);
    assert_eq!((response.status, response.text()), (200, "hello".into()));
    let response = play.fetch("/b", wrong);
    assert_eq!(response.status, 502);
    assert_eq!(
        play.fetch("/b", &ok("", "b")).text(),
        "b",
        "no part of it is stored"
    );
}
