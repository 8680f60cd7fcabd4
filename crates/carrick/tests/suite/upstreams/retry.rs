//! Retries on another server, and when there are none.
use crate::support::carrick::switch_text;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_refused_connection_leads_to_another_server_whatever_the_method() {
    let place = Place::claim();
    let serving = Server::listen(&place).serve(|mut peer, _| {
        while peer.waits_for_head() {
            if peer.read_head().contains("Content-Length: 2\r\n") {
                peer.expect("hi");
            }
            peer.send(OK);
        }
    });
    let (refusing, _guard) = place.refusing();
    let carrick = Carrick::start(
        &place,
        &format!(
            "{}keepalive = 0\n",
            switch_text(&[refusing, serving.address(), refusing_too(refusing)])
        ),
    );
    for number in 0..20 {
        let mut client = carrick.connect();
        let request = match number % 2 {
            0 => "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            _ => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        };
        assert_eq!(client.ask(request).status, 200, "request {number}");
    }
    assert_eq!(serving.accepted(), 20);
    assert!(carrick.metric("carrick_upstream_connections_failed_total", &[]) > 0.0);
}

/// Another port without a listener: the test's own reserved port is on another address.
fn refusing_too(address: std::net::SocketAddr) -> std::net::SocketAddr {
    // No test uses 127.255.255.254.
    (std::net::Ipv4Addr::new(127, 255, 255, 254), address.port()).into()
}

#[test]
fn when_all_servers_refuse_the_client_gets_502_and_goes_on() {
    let place = Place::claim();
    let (first, _guard_1) = place.refusing();
    let (second, _guard_2) = place.refusing();
    let carrick = Carrick::switch(&place, &[first, second]);
    let mut client = carrick.connect();
    for _ in 0..3 {
        let response = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(response.status, 502);
        assert!(
            response.text().contains("Cannot reach the upstream"),
            "{}",
            response.text()
        );
        assert!(
            response.text().to_lowercase().contains("refused"),
            "{}",
            response.text()
        );
        assert_eq!(response.field("connection"), None);
        // The servers' addresses are for the log.
        for server in [first, second] {
            assert!(!response.text().contains(&server.to_string()));
        }
    }
    for line in carrick.access_log(3) {
        assert_eq!(line.text("ended"), "connect");
        let server = line.text("server");
        assert!(
            [first, second]
                .iter()
                .any(|address| address.to_string() == server)
        );
    }
}

#[test]
fn no_more_than_attempts_are_made() {
    let place = Place::claim();
    // Each server reads the request and resets: a GET may be retried this often.
    for attempts in [1, 2, 3, 5] {
        let servers: Vec<Server> = (0..6).map(|_| Server::listen(&place)).collect();
        let addresses: Vec<_> = servers.iter().map(Server::address).collect();
        let servings: Vec<_> = servers
            .into_iter()
            .map(|server| {
                server.serve(|mut peer, _| {
                    peer.read_head();
                    peer.reset();
                })
            })
            .collect();
        let carrick = Carrick::start(
            &place,
            &format!(
                "[limits]\nattempts = {attempts}\n{}",
                switch_text(&addresses)
            ),
        );
        let mut client = carrick.connect();
        assert_eq!(client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 502);
        let accepted: Vec<usize> = servings
            .iter()
            .map(crate::support::server::Serving::accepted)
            .collect();
        assert_eq!(accepted.iter().sum::<usize>(), attempts, "{accepted:?}");
        assert!(
            accepted.iter().all(|count| *count <= 1),
            "each attempt to another server: {accepted:?}"
        );
        assert_eq!(carrick.limit_reached("attempts"), 1.0);
    }
}

/// Connecting counts as an attempt, too.
#[test]
fn refused_connections_count_as_attempts() {
    let place = Place::claim();
    let guards: Vec<_> = (0..6).map(|_| place.refusing()).collect();
    let addresses: Vec<_> = guards.iter().map(|(address, _)| *address).collect();
    let carrick = Carrick::start(
        &place,
        &format!("[limits]\nattempts = 2\n{}", switch_text(&addresses)),
    );
    let mut client = carrick.connect();
    assert_eq!(client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 502);
    assert_eq!(
        carrick.metric("carrick_upstream_connections_failed_total", &[]),
        2.0
    );
    assert_eq!(carrick.limit_reached("attempts"), 1.0);
    drop(carrick);
    // Where no other server is left, the limit is not why.
    let carrick = Carrick::start(
        &place,
        &format!("[limits]\nattempts = 2\n{}", switch_text(&addresses[..2])),
    );
    let mut client = carrick.connect();
    assert_eq!(client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 502);
    assert_eq!(carrick.limit_reached("attempts"), 0.0);
}

/// Sent only once, then 502: the server may have acted on it.
#[test]
fn a_post_that_a_fresh_server_drops_is_sent_once_only() {
    let place = Place::claim();
    let server = || {
        Server::listen(&place).serve(|mut peer, _| {
            peer.read_head();
            peer.reset();
        })
    };
    let servings = [server(), server(), server()];
    let addresses: Vec<_> = servings
        .iter()
        .map(crate::support::server::Serving::address)
        .collect();
    let carrick = Carrick::switch(&place, &addresses);
    for (number, request) in [
        "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
        "LOCK / HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = carrick.connect();
        assert_eq!(client.ask(request).status, 502);
        let accepted: usize = servings
            .iter()
            .map(crate::support::server::Serving::accepted)
            .sum();
        assert_eq!(accepted, number + 1, "{request:?}");
    }
}

#[test]
fn idempotent_methods_are_tried_on_another_server() {
    let place = Place::claim();
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
        let bad = Server::listen(&place).serve(|mut peer, _| {
            peer.read_head();
            peer.reset();
        });
        let good = Server::listen(&place)
            .serve(|peer, _| answer_requests(peer, |_| b"HTTP/1.1 204 No Content\r\n\r\n".into()));
        let carrick = Carrick::start(
            &place,
            &format!(
                "{}keepalive = 0\n",
                switch_text(&[bad.address(), good.address()])
            ),
        );
        for _ in 0..2 {
            let mut client = carrick.connect();
            assert_eq!(
                client
                    .ask(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"))
                    .status,
                204,
                "{method}"
            );
        }
        assert_eq!(good.accepted(), 2);
        assert!(bad.accepted() >= 1);
    }
}
