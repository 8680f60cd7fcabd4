//! Messages that must not be relayed: each row is sent to a real carrick; no part may reach the upstream, and the connection ends.
mod body;
mod length;
mod request;
mod response;

use crate::support::{Carrick, Peer, Server};

/// A valid request that the upstream answers: a refused one must not affect those after it.
fn expect_healthy(carrick: &Carrick, server: &Server) {
    let mut client = carrick.connect();
    client.send("GET /healthy HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut upstream = server.accept();
    // The first connection is that of this request: no earlier one arrived.
    let head = upstream.read_head();
    assert!(head.starts_with("GET /healthy HTTP/1.1\r\n"), "{head}");
    upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
}

/// The refusal as the client sees it: a complete response of carrick's own with this status, and then the end.
fn expect_refusal(client: &mut Peer, status: u16, what: &str) {
    let response = client.read_response("GET");
    assert_eq!(response.status, status, "{what}: {}", response.head);
    assert_eq!(
        response.field("connection").as_deref(),
        Some("close"),
        "{what}: {}",
        response.head
    );
    assert!(
        response.text().starts_with(&status.to_string()),
        "{what}: {}",
        response.text()
    );
    client.expect_end();
}

/// A refusal may arrive before everything is sent; then sending fails, and only the response matters.
fn send_what_it_takes(client: &mut Peer, bytes: &[u8], piece_bytes: usize) {
    for piece in bytes.chunks(piece_bytes) {
        if client.try_send(piece).is_err() {
            return;
        }
    }
}
