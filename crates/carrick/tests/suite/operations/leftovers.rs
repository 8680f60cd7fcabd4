//! A partial message from one client or server does not affect the next one, nor do its segments: buffers and parsers are reused.
use crate::support::carrick::{switch_text, upstream_text};
use crate::support::{Carrick, Place, Server};

/// One worker, so that all clients get the same buffers.
fn carrick(place: &Place, server: &Server) -> Carrick {
    let text = switch_text(&[server.address()]);
    Carrick::start(place, &format!("[workers]\ncount = 1\n{text}"))
}

#[test]
fn half_a_request_is_not_the_beginning_of_the_next_clients() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = carrick(&place, &server);
    let whole = "GET /second?of=another HTTP/1.1\r\nHost: second.example\r\nX-Second: 2\r\n\r\n";
    let first =
        "POST /first HTTP/1.1\r\nHost: first.example\r\nX-First: 1\r\nContent-Length: 5\r\n";
    // Cut everywhere: before, in and behind the request line.
    for cut in 1..first.len() {
        let mut gone = carrick.connect();
        gone.send(&first[..cut]);
        gone.half_close();
        gone.expect_end();
        let mut client = carrick.connect();
        client.send(whole);
        let mut upstream = server.accept();
        let head = upstream.read_head();
        assert!(
            head.starts_with("GET /second?of=another HTTP/1.1\r\n")
                && head.contains("Host: second.example\r\n")
                && head.contains("X-Second: 2\r\n")
                && !head.contains("irst"),
            "after {cut} bytes of another request: {head}"
        );
        upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response("GET").status, 204);
    }
}

#[test]
fn half_a_request_does_not_make_a_refused_one_right() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = carrick(&place, &server);
    let first = "GET /a HTTP/1.1\r\nHost: a.example\r\n";
    for cut in 1..first.len() {
        let mut gone = carrick.connect();
        gone.send(&first[..cut]);
        gone.half_close();
        gone.expect_end();
        let mut client = carrick.connect();
        client.send("GET /a\tb HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(client.read_response("GET").status, 400, "after {cut} bytes");
    }
    server.expect_no_connection();
}

#[test]
fn half_a_response_is_not_the_beginning_of_the_next() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = switch_text(&[]);
    let text = text.replace(
        &upstream_text("u", &[]),
        &(upstream_text("u", &[server.address()]) + "failures_max = 0\n"),
    );
    let carrick = Carrick::start(&place, &format!("[workers]\ncount = 1\n{text}"));
    let first = "HTTP/1.1 404 Not Found\r\nX-First: 1\r\nContent-Length: 7\r\n";
    let ask = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    for cut in 1..first.len() {
        // On one connection, and on two.
        let (mut client, mut upstream) = carrick.asked(&server, ask);
        upstream.send(&first[..cut]);
        drop(upstream);
        assert_eq!(client.read_response("GET").status, 502, "after {cut} bytes");
        for mut client in [client, carrick.connect()] {
            client.send(ask);
            let mut upstream = server.accept();
            upstream.read_head();
            upstream.send("HTTP/1.1 200 Fine by me\r\nX-Second: 2\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            let response = client.read_response("GET");
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, "ok"),
                "after {cut} bytes: {}",
                response.head
            );
            assert_eq!(response.field("x-second").as_deref(), Some("2"));
            assert_eq!(response.field("x-first"), None);
        }
    }
}

#[test]
fn empty_lines_before_a_request_are_counted_in_whatever_pieces_they_come() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = carrick(&place, &server);
    let ask = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    for piece_bytes in [1, 2, 3, 4, 7] {
        let mut client = carrick.connect();
        client.send_in_pieces("\r\n".repeat(5) + ask, &[piece_bytes]);
        assert_eq!(
            client.read_response("GET").status,
            400,
            "in pieces of {piece_bytes}"
        );
        server.expect_no_connection();
        let mut client = carrick.connect();
        client.send_in_pieces("\r\n".repeat(4) + ask, &[piece_bytes]);
        let mut upstream = server.accept();
        assert!(upstream.read_head().starts_with("GET / HTTP/1.1\r\n"));
        upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response("GET").status, 204);
    }
}
