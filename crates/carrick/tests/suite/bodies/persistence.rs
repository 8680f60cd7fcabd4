//! Kept connections and pipelines.
use super::Stage;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server};

#[test]
fn connections_are_kept_on_both_sides_for_many_requests() {
    let stage = Stage::new();
    let mut client = stage.carrick.connect();
    let mut upstream = None;
    for number in 0..50 {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let upstream = upstream.get_or_insert_with(|| stage.server.accept());
        assert!(upstream.read_head().starts_with(&format!("GET /{number} ")));
        upstream.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{number:03}"
        ));
        assert_eq!(client.read_response("GET").text(), format!("{number:03}"));
    }
    stage.server.expect_no_connection();
}

#[test]
fn a_client_that_closes_is_closed_and_its_upstream_connection_serves_others() {
    let stage = Stage::with("[workers]\ncount = 1");
    let (mut client, mut upstream) =
        stage.begin("GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let head = upstream.read_head();
    assert!(
        !head.to_lowercase().contains("connection: close"),
        "close applies to this hop only: {head}"
    );
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    let response = client.read_response("GET");
    assert_eq!(response.field("connection").as_deref(), Some("close"));
    client.expect_end();
    let mut other = stage.carrick.connect();
    other.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(upstream.read_head().starts_with("GET /2 "));
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(other.read_response("GET").status, 204);
}

#[test]
fn a_server_that_closes_does_not_close_the_client() {
    let stage = Stage::new();
    let mut client = stage.carrick.connect();
    for number in 0..3 {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let mut upstream = stage.server.accept();
        upstream.read_head();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        let response = client.read_response("GET");
        assert_eq!(
            (response.text().as_str(), response.field("connection")),
            ("ok", None)
        );
        upstream.expect_reset();
    }
}

/// Requests of different kinds, and the expected answers.
fn pipeline() -> (String, Vec<(&'static str, String)>) {
    let mut requests = String::new();
    let mut expected = Vec::new();
    for number in 0..10 {
        let (method, request) = match number % 5 {
            0 => ("GET", format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n")),
            1 => (
                "POST",
                format!(
                    "POST /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nbody: {number}"
                ),
            ),
            2 => (
                "PUT",
                format!(
                    "PUT /{number} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nbody: \r\n1;x\r\n{number}\r\n0\r\nX-T: 1\r\n\r\n"
                ),
            ),
            3 => (
                "HEAD",
                format!("\r\nHEAD /{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
            ),
            _ => (
                "GET",
                format!("GET http://a/{number} HTTP/1.1\r\nHost: b\r\n\r\n"),
            ),
        };
        requests += &request;
        let body = match method {
            "HEAD" => String::new(),
            "POST" | "PUT" => format!("{method} /{number} body: {number}"),
            _ => format!("{method} /{number} "),
        };
        expected.push((method, body));
    }
    (requests, expected)
}

/// Answers with method, target and body; with a length and chunked in turn.
fn echo_server(server: Server) -> crate::support::server::Serving {
    server.serve(|mut peer, _| {
        let mut count = 0;
        while peer.waits_for_head() {
            let head = peer.read_head();
            let mut words = head.split(' ');
            let (method, target) = (words.next().unwrap(), words.next().unwrap());
            let body = if head.contains("Content-Length: 7") {
                peer.read_exact(7)
            } else if head.contains("chunked") {
                // Fixed, like the pipeline.
                let raw = String::from_utf8(peer.read_exact(32)).unwrap();
                assert!(raw.ends_with("0\r\nX-T: 1\r\n\r\n"), "{raw:?}");
                format!("body: {}", &raw[16..17]).into_bytes()
            } else {
                Vec::new()
            };
            let text = format!("{method} {target} {}", String::from_utf8(body).unwrap());
            count += 1;
            let length = text.len();
            let response = match (method, count % 2) {
                ("HEAD", _) => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"),
                (_, 0) => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}"),
                _ => format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{text}\r\n0\r\n\r\n"),
            };
            peer.send(response);
        }
    })
}

#[test]
fn ten_pipelined_requests_are_answered_in_order_whatever_the_pieces() {
    let place = Place::claim();
    let serving = echo_server(Server::listen(&place));
    let carrick = Carrick::switch(&place, &[serving.address()]);
    let (requests, expected) = pipeline();
    for sizes in [&[usize::MAX][..], &[1], &[13, 2], &[400], &[79, 80, 81]] {
        let mut client = carrick.connect();
        let mut sender = client.second();
        let requests = requests.clone();
        let sizes = sizes.to_vec();
        let sending = std::thread::spawn(move || sender.send_in_pieces(requests, &sizes));
        for (method, body) in &expected {
            let response = client.read_response(method);
            assert_eq!(
                (response.status, response.text().trim_end()),
                (200, body.trim_end())
            );
        }
        sending.join().expect("no panic");
        client.half_close();
        client.expect_end();
    }
}

/// carrick must not buffer everything from a client that sends without reading.
#[test]
fn a_pipeline_is_not_read_ahead_without_bound() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    let mut client = carrick.connect();
    client
        .stream()
        .set_write_timeout(Some(std::time::Duration::from_secs(2)))
        .unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
    let mut sent = 0;
    // The server does not answer: sending must stall once the kernel's buffers are full.
    while client.try_send(&request).is_ok() {
        sent += request.len();
        assert!(sent < 64 << 20, "{sent} bytes were taken");
    }
    let mut upstream = server.accept();
    upstream.read_head();
    assert!(!upstream.has_more());
}

#[test]
fn many_clients_at_once_get_their_own_answers() {
    let place = Place::claim();
    let serving = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |head| {
            let target = head.split(' ').nth(1).unwrap();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}",
                target.len()
            )
            .into_bytes()
        });
    });
    let carrick = Carrick::switch(&place, &[serving.address()]);
    std::thread::scope(|scope| {
        for client_number in 0..64 {
            let carrick = &carrick;
            scope.spawn(move || {
                let mut client = carrick.connect();
                for number in 0..20 {
                    let target = format!("/{client_number}/{number}");
                    let response = client.ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
                    assert_eq!(response.text(), target);
                }
            });
        }
    });
    let reused = carrick.metric("carrick_upstream_connections_reused_total", &[]);
    assert!(reused > 0.0, "upstream connections are reused");
    // Counted when the response is sent, which may be after the client has it.
    let labels = ["mode=\"switch\"", "status=\"200\""];
    let counted = carrick.wait_for_metric("carrick_requests_total", &labels, 1280.0);
    assert_eq!(counted, 1280.0);
}
