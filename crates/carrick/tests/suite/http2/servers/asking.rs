//! Requests and their responses.
use super::super::client::{connect, fetch, request, run};
use super::super::frames::{END_HEADERS, END_STREAM, HEADERS, RawClient, SETTINGS};
use super::server::Http2Server;
use super::{PATIENT, start, switch_text};
use crate::clients::tool::Tool;
use crate::support::{Carrick, Peer, Place, Server, random};
use bytes::Bytes;
use h2::ext::Protocol;
use http::{HeaderMap, HeaderValue, Response};
use std::sync::Barrier;

#[test]
fn a_request_of_http1_is_asked_by_http2_and_answered_by_http1() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let head = &asked.head;
        assert_eq!(head.method, "GET");
        assert_eq!(head.uri.to_string(), "http://a.example/p?q");
        assert_eq!(asked.field("x-own"), Some("1"));
        for name in [
            "host",
            "connection",
            "keep-alive",
            "te",
            "transfer-encoding",
        ] {
            assert_eq!(asked.field(name), None, "{name}");
        }
        asked.answer(200, b"hello");
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut client = Peer::connect(carrick.listener());
    for _ in 0..3 {
        client.send("GET /p?q HTTP/1.1\r\nHost: a.example\r\nX-Own: 1\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\n\r\n");
        let head = client.read_head().to_lowercase();
        assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        client.expect("5\r\nhello\r\n0\r\n\r\n");
    }
    assert_eq!(server.connections(), 1);
    for (index, line) in carrick.access_log(3).iter().enumerate() {
        assert_eq!((line.status(), line.number("sent")), (200, 5));
        assert_eq!(line.value("reused"), (index > 0));
    }
    let count = |name| carrick.metric(name, &[]);
    assert!((count("carrick_upstream_http2_connections_total") - 1.0).abs() < 0.5);
    assert!((count("carrick_upstream_http2_requests_total") - 3.0).abs() < 0.5);
    assert!((count("carrick_upstream_connections_opened_total") - 1.0).abs() < 0.5);
}

#[test]
fn bytes_that_http2_libraries_refuse_in_targets_go_encoded() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let target = asked
            .head
            .uri
            .path_and_query()
            .expect("a target")
            .to_string();
        asked.answer(200, target.as_bytes());
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut client = Peer::connect(carrick.listener());
    let plain = r"/a!$&'()*+,;=:@-._~{|}^[]\?b={%7B%22}";
    for (target, expected) in [
        ("/a<b>`\"%3c", "/a%3Cb%3E%60%22%3c"),
        ("/?q={\"a\":<1>,`}", "/?q={%22a%22:%3C1%3E,%60}"),
        (plain, plain),
    ] {
        let response = client.ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let response = (response.status, response.text());
        assert_eq!(response, (200, expected.to_owned()));
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn what_http2_has_no_form_for_is_the_client_s_fault() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| asked.answer(200, b"ok"));
    let limits = "[limits]\nrequest_head = \"128KB\"\n";
    let text = limits.to_owned() + &switch_text(&[server.address()], "http2 = true");
    let carrick = Carrick::start(&place, &text);
    let long = "x".repeat(70_000);
    for (method, rest) in [("GET", ""), ("POST", "Content-Length: 2\r\n\r\nhi")] {
        let mut client = Peer::connect(carrick.listener());
        client.send(format!("{method} /{long} HTTP/1.1\r\nHost: a\r\n{rest}"));
        if rest.is_empty() {
            client.send("\r\n");
        }
        let response = client.read_response(method);
        assert_eq!(response.status, 400, "{}", response.text());
    }
    for line in carrick.access_log(2) {
        assert_eq!((line.status(), line.text("ended")), (400, "not_for_http2"));
    }
    for name in ["carrick_retries_total", "carrick_server_failures_total"] {
        assert!(carrick.metric(name, &[]) < 0.5, "{name}");
    }
}

/// Some servers end the connection for it, which others' requests are on.
#[test]
fn a_head_that_is_too_long_for_the_server_is_not_sent() {
    let place = Place::claim();
    let mut settings = h2::server::Builder::new();
    settings.max_header_list_size(4096);
    let server = Http2Server::with(&place, settings, async |mut asked| asked.answer(200, b"ok"));
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut client = Peer::connect(carrick.listener());
    for (bytes, status) in [(0, 200), (3000, 200), (4096, 431), (0, 200)] {
        let long = "x".repeat(bytes);
        let response = client.ask(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"));
        assert_eq!(response.status, status, "{bytes}: {}", response.text());
        // The same as a trailer field.
        let mut client = Peer::connect(carrick.listener());
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: {long}\r\n\r\n"
        ));
        let response = client.read_response("POST");
        assert_eq!(response.status, status, "{bytes}: {}", response.text());
    }
    for line in carrick.access_log(8) {
        if line.status() == 431 {
            assert_eq!(line.text("ended"), "head_too_long_for_server");
        }
    }
    assert_eq!(server.connections(), 1);
    assert!(carrick.metric("carrick_server_failures_total", &[]) < 0.5);
}

#[test]
fn bodies_and_trailers_go_both_ways() {
    let place = Place::claim();
    let up = random::Random::new(1).bytes(3_000_000);
    let down = random::Random::new(2).bytes(3_000_000);
    let (wanted, sent) = (random::hash(&up), down.clone());
    let server = Http2Server::start(&place, move |mut asked| {
        let sent = sent.clone();
        async move {
            let (body, trailers) = asked.read().await.expect("a body");
            assert_eq!(random::hash(&body), wanted);
            let sum = trailers.as_ref().and_then(|trailers| trailers.get("x-sum"));
            assert_eq!(sum, asked.head.headers.get("x-expected"));
            let mut stream = asked
                .respond
                .send_response(Response::new(()), false)
                .expect("a client");
            for piece in sent.chunks(100_000) {
                // Waits for nothing: the library keeps it.
                let piece = Bytes::copy_from_slice(piece);
                stream.send_data(piece, false).expect("a client");
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("x-end", HeaderValue::from_static("yes"));
            stream.send_trailers(trailers).expect("a client");
        }
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    run(async {
        let mut sender = connect(carrick.listener()).await;
        for has_trailers in [true, false] {
            let mut trailers = None;
            let mut asked = request("POST", "/");
            if has_trailers {
                let sum = HeaderValue::from_static("5");
                asked.headers_mut().insert("x-expected", sum.clone());
                trailers
                    .get_or_insert_with(HeaderMap::new)
                    .insert("x-sum", sum);
            }
            let reply = fetch(&mut sender, asked, &up, trailers)
                .await
                .expect("a response");
            assert_eq!(random::hash(&reply.body), random::hash(&down));
            assert_eq!(reply.trailers.expect("trailers")["x-end"], "yes");
        }
    });
}

#[test]
fn many_requests_share_a_connection_as_far_as_the_server_allows() {
    let place = Place::claim();
    let mut settings = h2::server::Builder::new();
    settings.max_concurrent_streams(10);
    let server = Http2Server::with(&place, settings, async |mut asked| asked.answer(200, b"ok"));
    let carrick = start(&place, &[server.address()], "http2 = true");
    if !crate::clients::tool::has_all(&["h2load"]) {
        return;
    }
    let done = Tool::new("h2load", &place)
        .words("--requests 3000 --clients 2 --max-concurrent-streams 20")
        .word(format!("http://{}/", carrick.listener()))
        .expect();
    assert!(done.contains("status codes: 3000 2xx"), "{done}");
    let connections = server.connections();
    assert!((1..=40).contains(&connections), "{connections}");
}

#[test]
fn connections_to_a_server_that_allows_few_requests_are_opened_at_the_same_time() {
    const REQUESTS: usize = 8;
    let place = Place::claim();
    // Allows one request on each connection. It answers the first, and begins with the others, when all connections are there.
    let all = Barrier::new(REQUESTS);
    let server = Server::listen(&place).serve(move |mut peer, number| {
        peer.read_exact(24);
        let mut raw = RawClient { peer };
        if number > 0 {
            all.wait();
        }
        raw.send(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]);
        let asked = raw.read_kind(HEADERS);
        if number == 0 {
            all.wait();
        }
        // `:status: 200`, of the static table.
        raw.send(HEADERS, END_HEADERS | END_STREAM, asked.stream, &[0x88]);
        raw.peer.read_ending();
    });
    let text = switch_text(&[server.address()], "http2 = true");
    let carrick = Carrick::start(&place, &format!("{PATIENT}connect = \"10m\"\n{text}"));
    let mut clients: Vec<_> = (0..REQUESTS).map(|_| carrick.connect()).collect();
    for client in &mut clients {
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.read_response("POST").status, 200);
    }
    assert_eq!(server.accepted(), REQUESTS);
}

#[test]
fn a_request_to_upgrade_that_opens_no_web_socket_goes_without() {
    let place = Place::claim();
    let mut settings = h2::server::Builder::new();
    settings.enable_connect_protocol();
    let server = Http2Server::with(&place, settings, async |mut asked| {
        let (body, _) = asked.read().await.expect("a body");
        let body = String::from_utf8_lossy(&body);
        let (method, upgrade) = (&asked.head.method, asked.field("upgrade"));
        let protocol = asked.head.extensions.get::<Protocol>();
        let seen = format!("{method} {protocol:?} {upgrade:?} {body}");
        asked.answer(200, seen.as_bytes());
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let length = format!("{key}Content-Length: 5\r\n");
    let chunked = format!("{key}Transfer-Encoding: chunked\r\n");
    for (method, fields, body, expected) in [
        ("POST", &*length, "hello", "POST None None hello"),
        (
            "POST",
            &chunked,
            "5\r\nhello\r\n0\r\n\r\n",
            "POST None None hello",
        ),
        ("POST", key, "", "POST None None "),
        ("GET", &length, "hello", "GET None None hello"),
        ("GET", "", "", "GET None None "),
    ] {
        let response = carrick.connect().ask(&format!("{method} /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n{fields}\r\n{body}"));
        let response = (response.status, response.text());
        assert_eq!(response, (200, expected.to_owned()), "{method} {fields}");
    }
}

#[test]
fn a_server_that_speaks_http1_is_found_out() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|mut peer, _| {
        peer.read_exact(24);
        peer.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        peer.read_ending();
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut client = Peer::connect(carrick.listener());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.read_response("GET");
    assert_eq!(response.status, 502);
    let body = String::from_utf8_lossy(&response.body);
    assert!(body.contains("does not speak HTTP/2 without TLS"), "{body}");
}
