//! Responses with deviations that are unambiguous: clients get them in the usual form.
use super::{Stage, expect_reusable};

/// What a server sends, and what its client gets.
const RESPONSES: &[(&str, &str, &str)] = &[
    (
        "lines that end with LF",
        "HTTP/1.1 200 OK\nDate: x\nContent-Length: 5\n\nhello",
        "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "one line that ends with LF",
        "HTTP/1.1 200 OK\r\nDate: x\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "spaces before the colon",
        "HTTP/1.1 200 OK\r\nDate : x\r\nContent-Length\t: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "the same length twice",
        "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "a list of the same length",
        "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5, 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "many zeros before a chunk's size",
        "HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n000000000000000000000005\r\nhello\r\n00000000000000000000\r\n\r\n",
        "HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
    (
        "white space behind a chunk's size",
        "HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n5  \r\nhello\r\n3\t\r\n5 \n\r\n0 \r\nA: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\n5 \n\r\n0\r\nA: b\r\n\r\n",
    ),
];

#[test]
fn servers_with_old_habits_are_served_and_their_clients_see_none_of_them() {
    let stage = Stage::new();
    for (what, sent, expected) in RESPONSES {
        for sizes in [&[4096][..], &[1], &[3, 11]] {
            let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            upstream.read_head();
            upstream.send_in_pieces(sent, sizes);
            let seen = client.read_exact(expected.len());
            assert_eq!(
                String::from_utf8_lossy(&seen),
                *expected,
                "{what} {sizes:?}"
            );
            // Both connections are in step, and no bytes are left over.
            expect_reusable(&mut client, &mut upstream);
        }
    }
}

#[test]
fn a_long_chunk_behind_a_lax_size_line_is_spliced_and_ends_where_it_should() {
    let stage = Stage::new();
    let long = "x".repeat(300_000);
    let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\nDate : x\nTransfer-Encoding : chunked\n\n");
    client.read_head();
    upstream.send(format!("00000000000000000{:x} \r\n{long}", long.len()));
    client.expect(format!("{:x}\r\n{long}", long.len()));
    upstream.send(format!("\r\n{:X}\t\r\n{long}\r\n0 \r\n\r\n", long.len()));
    client.expect(format!("\r\n{:x}\r\n{long}\r\n0\r\n\r\n", long.len()));
    expect_reusable(&mut client, &mut upstream);
}

/// RFC 9112 sections 6.1 and 6.3: such a response ends with its last chunk, and its connection is not used again.
#[test]
fn chunks_go_before_a_length_and_before_a_version_without_chunks() {
    let stage = Stage::new();
    for (version, fields) in [
        (1, "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
        (1, "Transfer-Encoding: chunked\r\nContent-Length: 900\r\n"),
        (
            0,
            "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
        ),
        (0, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
    ] {
        let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        upstream.read_head();
        upstream.send(format!(
            "HTTP/1.{version} 200 OK\r\nDate: x\r\n{fields}\r\n5\r\nhello\r\n0\r\n\r\n"
        ));
        client.expect("HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        upstream.expect_reset();
        client.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut upstream = stage.server.accept();
        upstream.read_head();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain");
        assert_eq!(client.read_response("GET").text(), "again", "{fields}");
    }
}

#[test]
fn differing_lengths_are_refused() {
    let stage = Stage::new();
    for lengths in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: 5, 5\r\nContent-Length: 4",
    ] {
        let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        upstream.read_head();
        upstream.send(format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\nhello"));
        assert_eq!(client.read_response("GET").status, 502, "{lengths}");
    }
}

/// RFC 9110 section 15.5.22.
#[test]
fn a_426_tells_a_client_what_to_upgrade_to() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let asked = upstream.read_head();
    assert!(!asked.to_lowercase().contains("upgrade"), "{asked}");
    upstream.send("HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n");
    let response = client.read_response("GET");
    assert_eq!(response.status, 426);
    assert_eq!(response.field("upgrade").as_deref(), Some("websocket"));
    assert_eq!(response.field("connection").as_deref(), Some("Upgrade"));
    expect_reusable(&mut client, &mut upstream);
}
