//! `CONNECT`: tunnels to the client's destination, and the allowed ports.
use crate::support::carrick::FORWARD_TEXT;
use crate::support::{Carrick, Ending, Place, Server};

fn connect_to(server: &Server) -> String {
    let address = server.address();
    format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n")
}

#[test]
fn connect_makes_a_tunnel_also_with_data_right_behind_the_head() {
    for engine in ["copy", "pipe", "auto", "socket"] {
        let place = Place::claim();
        let server = Server::listen(&place);
        let carrick = Carrick::start(
            &place,
            &format!("[splice]\nengine = \"{engine}\"\n{FORWARD_TEXT}"),
        );
        for (early, sizes) in [
            ("", &[usize::MAX][..]),
            ("early bytes", &[usize::MAX]),
            ("early bytes", &[1]),
            ("early bytes", &[50, 4]),
        ] {
            let mut client = carrick.connect_forward();
            client.send_in_pieces(connect_to(&server) + early, sizes);
            let head = client.read_head();
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            assert!(
                !head.to_lowercase().contains("content-length")
                    && !head.to_lowercase().contains("transfer-encoding"),
                "{head}"
            );
            let mut upstream = server.accept();
            upstream.expect(early);
            for _ in 0..20 {
                client.send("GET / HTTP/1.1\r\n\r\n");
                upstream.expect("GET / HTTP/1.1\r\n\r\n");
                upstream.send("\0\x01\x02");
                client.expect("\0\x01\x02");
            }
            client.half_close();
            upstream.expect_end();
            upstream.send("last words");
            upstream.half_close();
            assert_eq!(client.read_to_end(), b"last words");
        }
        let mut lines = carrick.access_log(4);
        lines.sort_by_key(|line| line.number("received"));
        let line = &lines[0];
        assert_eq!(
            (line.text("method"), line.status(), line.text("target")),
            ("CONNECT", 200, server.address().to_string().as_str())
        );
        assert_eq!(
            (line.number("received"), line.number("sent")),
            (20 * 18, 20 * 3 + 10)
        );
    }
}

#[test]
fn a_server_that_speaks_first_and_closes_at_once_loses_nothing() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::forward(&place);
    let mut client = carrick.connect_forward();
    client.send(connect_to(&server));
    let mut upstream = server.accept();
    upstream.send("220 go away\r\n");
    drop(upstream);
    assert!(client.read_head().starts_with("HTTP/1.1 200 "));
    assert_eq!(client.read_to_end(), b"220 go away\r\n");
}

#[test]
fn a_tunnels_reset_goes_through() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::forward(&place);
    let mut client = carrick.connect_forward();
    client.send(connect_to(&server));
    let upstream = server.accept();
    client.read_head();
    upstream.reset();
    assert_eq!(client.read_ending(), Ending::Reset(Vec::new()));
}

#[test]
fn only_the_listed_ports_can_be_connected_to() {
    let place = Place::claim();
    let (allowed, other) = (Server::listen(&place), Server::listen(&place));
    let text = FORWARD_TEXT.replace("\"all\"", &format!("[443, {}]", allowed.address().port()));
    let carrick = Carrick::start(&place, &text);
    let mut client = carrick.connect_forward();
    let response = client.ask(&connect_to(&other));
    assert_eq!(response.status, 403);
    assert!(response.text().contains("port"), "{}", response.text());
    client.expect_end();
    let mut client = carrick.connect_forward();
    // The rule is for CONNECT: a plain request may go there.
    client.send(format!(
        "GET http://{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
        other.address()
    ));
    let mut upstream = other.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
    client.send(connect_to(&allowed));
    assert!(client.read_head().starts_with("HTTP/1.1 200 "));
    for (ports, expected) in [("\"none\"", 403), ("[]", 403)] {
        let place = Place::claim();
        let carrick = Carrick::start(&place, &FORWARD_TEXT.replace("\"all\"", ports));
        assert_eq!(
            carrick.connect_forward().ask(&connect_to(&allowed)).status,
            expected
        );
    }
    // By default: only 443.
    let place = Place::claim();
    let carrick = Carrick::start(
        &place,
        &FORWARD_TEXT.replace("connect_ports = \"all\"\n", ""),
    );
    assert_eq!(
        carrick.connect_forward().ask(&connect_to(&allowed)).status,
        403
    );
    other.expect_no_connection();
}

/// Bytes behind a CONNECT are meant for the tunnel. If it is refused, they must not be taken for requests.
#[test]
fn bytes_behind_a_refused_connect_are_no_requests() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let (refusing, _guard) = place.refusing();
    let text = format!("{FORWARD_TEXT}deny_to = [\"127.0.0.66\", \"denied.example\"]\n");
    let carrick = Carrick::start(&place, &text);
    for (target, status) in [
        (refusing.to_string(), 502),
        ("127.0.0.66:443".to_owned(), 403),
        ("denied.example:443".to_owned(), 403),
    ] {
        let mut client = carrick.connect_forward();
        client.send(format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nGET http://{}/smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
            server.address()
        ));
        assert_eq!(client.read_response("CONNECT").status, status);
        client.expect_end();
        server.expect_no_connection();
    }
    // Later bytes may have been in flight: the connection ends anyway, except after 407.
    let mut client = carrick.connect_forward();
    let response = client.ask(&format!(
        "CONNECT {refusing} HTTP/1.1\r\nHost: {refusing}\r\n\r\n"
    ));
    assert_eq!(
        (response.status, response.field("connection").as_deref()),
        (502, Some("close"))
    );
    client.expect_end();
}
