//! Through another proxy: a second carrick, or a scripted one.
use crate::support::carrick::FORWARD_TEXT;
use crate::support::message::{field, via};
use crate::support::{Carrick, Place, Server};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

fn with_parent(place: &Place, proxy: std::net::SocketAddr, names: &str) -> Carrick {
    Carrick::start(
        place,
        &format!("{FORWARD_TEXT}parent = {{ proxy = \"{proxy}\"{names} }}\n"),
    )
}

#[test]
fn urls_and_connect_go_through_a_second_carrick() {
    let (near, far) = (Place::claim(), Place::claim());
    let server = Server::listen(&far);
    let outer = Carrick::start(
        &far,
        &FORWARD_TEXT.replace("\"all\"\n", "\"all\"\nvia_name = \"outer\"\n"),
    );
    let inner = with_parent(&near, outer.forward_address(), "");
    let address = server.address();
    let mut client = inner.connect_forward();
    client.send(format!(
        "GET http://{address}/x HTTP/1.1\r\nHost: y\r\n\r\n"
    ));
    let mut upstream = server.accept();
    let head = upstream.read_head();
    assert!(
        head.starts_with(&format!("GET /x HTTP/1.1\r\nHost: {address}\r\n")),
        "{head}"
    );
    assert_eq!(via(&head).as_deref(), Some("1.1 carrick, 1.1 outer"));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let response = client.read_response("GET");
    assert_eq!(
        (response.text().as_str(), response.field("via").as_deref()),
        ("ok", Some("1.1 outer, 1.1 carrick"))
    );
    for early in ["", "early bytes"] {
        let mut client = inner.connect_forward();
        client.send(format!(
            "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n{early}"
        ));
        assert!(client.read_head().starts_with("HTTP/1.1 200 "));
        let mut tunnel = server.accept();
        tunnel.expect(early);
        tunnel.send("hello from the server");
        client.expect("hello from the server");
        client.send("and back");
        tunnel.expect("and back");
        client.half_close();
        tunnel.expect_end();
        tunnel.send("last words");
        drop(tunnel);
        assert_eq!(client.read_to_end(), b"last words");
    }
    assert_eq!(
        outer.metric("carrick_tunnels_total", &["mode=\"forward\""]),
        2.0
    );
}

#[test]
fn a_parent_gets_the_whole_url_and_the_clients_credentials() {
    let place = Place::claim();
    let parent = Server::listen(&place);
    let carrick = with_parent(&place, parent.address(), "");
    let credentials = BASE64_STANDARD.encode("ali:open sesame");
    let mut client = carrick.connect_forward();
    client.send(format!("GET http://www.corp.example:81/x?y HTTP/1.1\r\nHost: other\r\nProxy-Authorization: Basic {credentials}\r\n\r\n"));
    let mut upstream = parent.accept();
    let head = upstream.read_head();
    assert!(
        head.starts_with(
            "GET http://www.corp.example:81/x?y HTTP/1.1\r\nHost: www.corp.example:81\r\n"
        ),
        "{head}"
    );
    assert_eq!(
        field(&head, "proxy-authorization"),
        Some(format!("Basic {credentials}"))
    );
    upstream.send("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"parent\"\r\nContent-Length: 0\r\n\r\n");
    let response = client.read_response("GET");
    assert_eq!(response.status, 407);
    assert_eq!(
        response.field("proxy-authenticate").as_deref(),
        Some("Basic realm=\"parent\"")
    );
    // CONNECT is relayed as it is, and so is its refusal.
    client.send("CONNECT www.corp.example:443 HTTP/1.1\r\nHost: www.corp.example:443\r\n\r\n");
    let head = upstream.read_head();
    assert!(
        head.starts_with("CONNECT www.corp.example:443 HTTP/1.1\r\nHost: www.corp.example:443\r\n"),
        "{head}"
    );
    upstream.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    let response = client.read_response("CONNECT");
    assert_eq!((response.status, response.text().as_str()), (403, "no"));
}

/// As with carrick's own refusal: bytes behind the CONNECT were for the tunnel.
#[test]
fn bytes_behind_a_connect_that_the_parent_refuses_are_no_requests() {
    let place = Place::claim();
    let parent = Server::listen(&place);
    let carrick = with_parent(&place, parent.address(), "");
    let mut client = carrick.connect_forward();
    client.send("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\nGET http://a.example/smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut upstream = parent.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(client.read_response("CONNECT").status, 403);
    client.expect_end();
    assert!(!upstream.has_more() || upstream.read_ending().bytes().is_empty());
    parent.expect_no_connection();
}

#[test]
fn only_the_named_destinations_go_through_the_parent() {
    let place = Place::claim();
    let (parent, server) = (Server::listen(&place), Server::listen(&place));
    let carrick = with_parent(
        &place,
        parent.address(),
        ", for = [\"*.corp.example\", \"intranet\"]",
    );
    for (target, expected, line) in [
        (
            "http://a.corp.example/".to_owned(),
            &parent,
            "GET http://a.corp.example/ HTTP/1.1".to_owned(),
        ),
        (
            "http://INTRANET/x".to_owned(),
            &parent,
            "GET http://INTRANET/x HTTP/1.1".to_owned(),
        ),
        (
            format!("http://{}/y", server.address()),
            &server,
            "GET /y HTTP/1.1".to_owned(),
        ),
    ] {
        let mut client = carrick.connect_forward();
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        ));
        let mut upstream = expected.accept();
        let head = upstream.read_head();
        assert!(head.starts_with(&line), "{head}");
        upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response("GET").status, 204);
    }
}

#[test]
fn rules_on_destinations_hold_before_the_parent_is_asked() {
    let place = Place::claim();
    let parent = Server::listen(&place);
    let carrick = Carrick::start(
        &place,
        &format!(
            "{FORWARD_TEXT}deny_to = [\"*.evil.example\", \"192.0.2.0/24\"]\nparent = {{ proxy = \"{}\" }}\n",
            parent.address()
        ),
    );
    for target in [
        "a.evil.example:443",
        "192.0.2.1:443",
        "[::ffff:192.0.2.1]:443",
    ] {
        assert_eq!(
            carrick
                .connect_forward()
                .ask(&format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n"))
                .status,
            403,
            "{target}"
        );
        assert_eq!(
            carrick
                .connect_forward()
                .ask(&format!("GET http://{target}/ HTTP/1.1\r\nHost: x\r\n\r\n"))
                .status,
            403,
            "{target}"
        );
    }
    parent.expect_no_connection();
}

#[test]
fn a_parent_that_cannot_be_reached_is_502() {
    let place = Place::claim();
    let (refusing, _guard) = place.refusing();
    let carrick = with_parent(&place, refusing, "");
    for request in [
        "GET http://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        assert_eq!(carrick.connect_forward().ask(request).status, 502);
    }
}
