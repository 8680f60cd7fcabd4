//! Requests and their responses.
use super::super::client::{connect, fetch, request, run};
use super::server::Http2Server;
use super::start;
use crate::clients::tool::Tool;
use crate::support::{Peer, Place, Server, random};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};

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
