//! Origins that close after each response: behind a forward proxy, with and without a cache, the client's connection stays open.
use crate::support::carrick::FORWARD_TEXT;
use crate::support::{Carrick, Ending, Peer, Place, Server};

/// The origin's response, and the client's.
const ANSWERS: [(&str, &str); 5] = [
    (
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody",
        "body",
    ),
    ("HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nbody", "body"),
    ("HTTP/1.0 200 OK\r\n\r\nbody", "body"),
    ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", ""),
    (
        "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n\r\nbody",
        "body",
    ),
];

#[test]
fn the_clients_connection_stays_when_the_origin_closes() {
    for cache in ["", "[cache]\n"] {
        let place = Place::claim();
        let server = Server::listen(&place);
        let carrick = Carrick::start(&place, &format!("{cache}{FORWARD_TEXT}"));
        let mut client = carrick.connect_forward();
        for (number, (answer, body)) in ANSWERS.into_iter().enumerate() {
            client.send(format!(
                "GET http://{}/{number} HTTP/1.1\r\nHost: x\r\n\r\n",
                server.address()
            ));
            let mut upstream = server.accept();
            upstream.read_head();
            upstream.send(answer);
            drop(upstream);
            let response = client.read_response("GET");
            assert_eq!(response.text(), body, "{answer}");
            assert_eq!(response.field("connection"), None, "{answer}");
            let is_framed = response.field("transfer-encoding").as_deref() == Some("chunked");
            assert_eq!(
                is_framed,
                response.field("content-length").is_none(),
                "{answer}"
            );
        }
    }
}

/// A client that has sent a request, and the server's connection with it.
fn asked(carrick: &Carrick, server: &Server) -> (Peer, Peer) {
    let mut client = carrick.connect_forward();
    client.send(format!(
        "GET http://{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
        server.address()
    ));
    let mut upstream = server.accept();
    upstream.read_head();
    (client, upstream)
}

/// A long body arrives completely, piece by piece; no piece waits for the next one.
#[test]
fn a_body_until_close_comes_in_chunks_as_it_comes() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, FORWARD_TEXT);
    let (mut client, mut upstream) = asked(&carrick, &server);
    upstream.send("HTTP/1.0 200 OK\r\n\r\n");
    client.read_head();
    for piece in ["one", "two and more"] {
        upstream.send(piece);
        client.expect(format!("{:x}\r\n{piece}\r\n", piece.len()));
    }
    upstream.half_close();
    client.expect("0\r\n\r\n");
}

#[test]
fn a_client_of_http_1_0_and_one_that_closes_get_the_end_of_the_connection() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, FORWARD_TEXT);
    for request in [
        format!(
            "GET http://{}/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            server.address()
        ),
        format!(
            "GET http://{}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            server.address()
        ),
    ] {
        let mut client = carrick.connect_forward();
        client.send(request);
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send("HTTP/1.0 200 OK\r\n\r\nbody");
        drop(upstream);
        let response = client.read_response("GET");
        assert_eq!(response.text(), "body");
        assert_eq!(response.field("transfer-encoding"), None);
        client.expect_end();
    }
}

/// A body that breaks off has no last chunk.
#[test]
fn a_body_that_breaks_off_does_not_pass_for_whole() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, FORWARD_TEXT);
    let (mut client, mut upstream) = asked(&carrick, &server);
    upstream.send("HTTP/1.0 200 OK\r\n\r\nbody");
    client.read_head();
    client.expect("4\r\nbody\r\n");
    upstream.reset();
    assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
}
