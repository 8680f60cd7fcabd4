//! Requests with a whole URL.
use crate::support::carrick::FORWARD_TEXT;
use crate::support::message::{field, via};
use crate::support::{Carrick, Place, Server};

#[test]
fn a_url_leads_to_its_origin_in_origin_form() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::forward(&place);
    let address = server.address();
    let mut client = carrick.connect_forward();
    client.send(format!(
        "POST http://{address}/a/b?c=d HTTP/1.1\r\nHost: other.example\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 5\r\n\r\nhello"
    ));
    let mut upstream = server.accept();
    let head = upstream.read_head();
    assert!(
        head.starts_with(&format!("POST /a/b?c=d HTTP/1.1\r\nHost: {address}\r\n")),
        "{head}"
    );
    assert_eq!(field(&head, "proxy-connection"), None);
    assert_eq!(
        field(&head, "proxy-authorization"),
        None,
        "it is for this proxy"
    );
    assert_eq!(
        field(&head, "x-forwarded-for").as_deref(),
        Some("192.0.2.1"),
        "the client's address is not forwarded by default"
    );
    assert_eq!(via(&head).as_deref(), Some("1.1 carrick"));
    upstream.expect("hello");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.read_response("POST").text(), "ok");
    let line = &carrick.access_log(1)[0];
    assert_eq!(
        (line.text("mode"), line.text("target")),
        ("forward", format!("http://{address}/a/b?c=d").as_str())
    );
    assert_eq!(line.text("server"), address.to_string());
}

#[test]
fn connections_to_origins_are_kept_apart_and_used_again() {
    let place = Place::claim();
    let servers = [Server::listen(&place), Server::listen(&place)];
    let carrick = Carrick::start(&place, &format!("[workers]\ncount = 1\n{FORWARD_TEXT}"));
    let mut upstreams = [None, None];
    for round in 0..3 {
        let mut client = carrick.connect_forward();
        for (server, upstream) in servers.iter().zip(&mut upstreams) {
            client.send(format!(
                "GET http://{}/{round} HTTP/1.1\r\nHost: x\r\n\r\n",
                server.address()
            ));
            let upstream = upstream.get_or_insert_with(|| server.accept());
            assert!(upstream.read_head().starts_with(&format!("GET /{round} ")));
            upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
            assert_eq!(client.read_response("GET").status, 204);
        }
    }
    assert_eq!(
        carrick.metric("carrick_upstream_connections_opened_total", &[]),
        2.0
    );
    assert_eq!(
        carrick.metric("carrick_upstream_connections_reused_total", &[]),
        4.0
    );
}

#[test]
fn a_request_for_the_proxy_itself_is_400_with_a_hint() {
    let place = Place::claim();
    let carrick = Carrick::forward(&place);
    let mut client = carrick.connect_forward();
    for request in [
        "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
    ] {
        let response = client.ask(request);
        assert_eq!(response.status, 400);
        assert!(
            response.text().contains("forward proxy") && response.text().contains("curl -x"),
            "{}",
            response.text()
        );
    }
}

#[test]
fn names_of_this_machine_are_resolved() {
    let place = Place::claim();
    // localhost is 127.0.0.1, outside the test's addresses: any free port.
    let server = Server::listen_at(([127, 0, 0, 1], 0).into());
    let carrick = Carrick::forward(&place);
    let port = server.address().port();
    for host in ["localhost", "LocalHost", "localhost."] {
        let mut client = carrick.connect_forward();
        client.send(format!(
            "GET http://{host}:{port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        ));
        let mut upstream = server.accept();
        let head = upstream.read_head();
        assert!(head.contains(&format!("Host: {host}:{port}\r\n")), "{head}");
        upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response("GET").status, 204);
    }
}

/// Address literals, too: IPv6 in brackets.
#[test]
fn ipv6_literals_are_connected_to() {
    let Ok(listener) = std::net::TcpListener::bind("[::1]:0") else {
        carrick_test::lacks!("there is no IPv6 on loopback");
        return;
    };
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let server = Server::listen_at(format!("[::1]:{port}").parse().unwrap());
    let place = Place::claim();
    let carrick = Carrick::forward(&place);
    let mut client = carrick.connect_forward();
    client.send(format!(
        "GET http://[::1]:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n"
    ));
    let mut upstream = server.accept();
    assert!(
        upstream
            .read_head()
            .contains(&format!("Host: [::1]:{port}\r\n"))
    );
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
}
