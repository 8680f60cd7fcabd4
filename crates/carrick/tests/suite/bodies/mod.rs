//! Message bodies in every framing, whatever the segments, and whichever side speaks first.
mod early;
mod expect;
mod framing;
mod large;
mod lenient;
mod lost;
mod persistence;
mod pieces;
mod versions;

use crate::support::{Carrick, Peer, Place, Server};

/// A switch with one scripted server.
struct Stage {
    server: Server,
    carrick: Carrick,
    _place: Place,
}

impl Stage {
    fn new() -> Self {
        Self::with("")
    }

    /// With additional tables in the configuration.
    fn with(tables: &str) -> Self {
        let place = Place::claim();
        let server = Server::listen(&place);
        let text = crate::support::carrick::switch_text(&[server.address()]);
        let carrick = Carrick::start(&place, &format!("{tables}\n{text}"));
        Self {
            server,
            carrick,
            _place: place,
        }
    }

    /// A client that has sent `request`, and the upstream connection that carries it.
    fn begin(&self, request: &str) -> (Peer, Peer) {
        let mut client = self.carrick.connect();
        client.send(request);
        (client, self.server.accept())
    }
}

/// Both sides accept another request.
fn expect_reusable(client: &mut Peer, upstream: &mut Peer) {
    client.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = upstream.read_head();
    assert!(head.starts_with("GET /again HTTP/1.1\r\n"), "{head}");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain");
    assert_eq!(client.read_response("GET").text(), "again");
}
