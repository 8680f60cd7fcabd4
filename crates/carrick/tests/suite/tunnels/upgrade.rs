//! `Upgrade` (RFC 9110 section 7.8): after 101 the connection is a tunnel.
use crate::support::carrick::switch_text;
use crate::support::{Carrick, Ending, Peer, Place, Server};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

struct Stage {
    server: Server,
    carrick: Carrick,
    _place: Place,
}

impl Stage {
    fn new() -> Self {
        Self::with_engine("auto")
    }

    fn with_engine(engine: &str) -> Self {
        let place = Place::claim();
        let server = Server::listen(&place);
        let text = format!(
            "[splice]\nengine = \"{engine}\"\n{}",
            switch_text(&[server.address()])
        );
        let carrick = Carrick::start(&place, &text);
        Self {
            server,
            carrick,
            _place: place,
        }
    }

    fn begin(&self, request: impl AsRef<[u8]>) -> (Peer, Peer) {
        let mut client = self.carrick.connect();
        client.send(request);
        (client, self.server.accept())
    }
}

#[test]
fn an_upgraded_connection_is_a_tunnel_with_data_right_behind_both_heads() {
    for engine in ["auto", "socket"] {
        upgrade_with_data(&Stage::with_engine(engine));
    }
}

fn upgrade_with_data(stage: &Stage) {
    for sizes in [&[usize::MAX][..], &[1], &[190, 3]] {
        let mut client = stage.carrick.connect();
        client.send_in_pieces(format!("{UPGRADE}early from the client"), sizes);
        let mut upstream = stage.server.accept();
        let head = upstream.read_head();
        assert!(
            head.contains("Upgrade: websocket\r\n") && head.contains("Connection: Upgrade\r\n"),
            "{head}"
        );
        assert!(
            head.contains("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
            "{head}"
        );
        upstream.send_in_pieces(format!("{SWITCHING}early from the server"), sizes);
        let head = client.read_head();
        assert!(
            head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
            "{head}"
        );
        assert!(
            head.contains("Upgrade: websocket\r\n") && head.contains("Connection: Upgrade\r\n"),
            "{head}"
        );
        assert!(
            head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
            "{head}"
        );
        upstream.expect("early from the client");
        client.expect("early from the server");
        // The tunnel's bytes are not HTTP.
        client.send("\x00\u{fe}GET / HTTP/1.1\r\n\r\n");
        upstream.expect("\x00\u{fe}GET / HTTP/1.1\r\n\r\n");
        upstream.send("HTTP/1.1 500 No\r\n\r\n");
        client.expect("HTTP/1.1 500 No\r\n\r\n");
        client.half_close();
        upstream.expect_end();
        upstream.send("last words");
        drop(upstream);
        assert_eq!(client.read_to_end(), b"last words");
    }
    let lines = stage.carrick.access_log(3);
    for line in lines {
        assert_eq!(
            (line.status(), line.text("method"), line.text("target")),
            (101, "GET", "/chat")
        );
        assert_eq!(line.number("received"), 21 + 21);
        assert_eq!(line.number("sent"), 21 + 19 + 10);
    }
    assert_eq!(
        stage
            .carrick
            .metric("carrick_tunnels_total", &["mode=\"switch\""]),
        3.0
    );
}

#[test]
fn a_refused_upgrade_goes_on_as_http() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin(UPGRADE);
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhttp");
    assert_eq!(client.read_response("GET").text(), "http");
    client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = upstream.read_head();
    assert!(
        head.starts_with("GET /2 ") && !head.contains("Upgrade"),
        "{head}"
    );
    upstream.send("HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 426);
}

#[test]
fn an_upgrade_that_is_not_complete_is_not_passed_on() {
    let stage = Stage::new();
    for fields in [
        // Without `Connection: upgrade` it is a field for this hop only (RFC 9110 section 7.8).
        "Upgrade: websocket\r\n",
        "Connection: upgrade\r\n",
        // HTTP in the tunnel would bypass the routes.
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        "Connection: Upgrade\r\nUpgrade: HTTP/3.0\r\n",
        "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n",
    ] {
        let (mut client, mut upstream) =
            stage.begin(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let head = upstream.read_head().to_lowercase();
        assert!(
            !head.contains("upgrade") && !head.contains("http2-settings"),
            "{fields:?}: {head}"
        );
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        assert_eq!(client.read_response("GET").text(), "ok");
    }
    // HTTP/1.0 has no upgrades.
    let (mut client, mut upstream) = stage
        .begin("GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(!upstream.read_head().to_lowercase().contains("upgrade"));
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
}

#[test]
fn a_request_with_a_body_may_be_upgraded_after_it() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: thing/1\r\nContent-Length: 5\r\n\r\nhellotunnel",
    );
    upstream.read_head();
    upstream.expect("hello");
    upstream.send(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: thing/1\r\n\r\nback",
    );
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    client.expect("back");
    upstream.expect("tunnel");
    upstream.reset();
    assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
}

#[test]
fn an_upgraded_connection_is_not_used_again() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin(UPGRADE);
    upstream.read_head();
    upstream.send(SWITCHING);
    client.read_head();
    drop(client);
    upstream.expect_end();
    let (mut other, mut fresh) = stage
        .carrick
        .asked(&stage.server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    fresh.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(other.read_response("GET").status, 204);
}
