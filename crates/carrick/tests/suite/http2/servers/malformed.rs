//! Responses of servers that break the rules.
use super::super::client::{connect, fetch, request, run};
use super::super::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, RawClient};
use super::server::Http2Server;
use super::start;
use crate::support::{Place, Server};
use http::{HeaderValue, Response};

/// `:status: 200`, of the static table.
const OK: &[u8] = &[0x88];

#[test]
fn a_malformed_response_is_refused_alone_and_the_reason_said() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let mut response = Response::new(());
        let (name, value) = match asked.head.uri.path() {
            "/length" => ("content-length", "5"),
            "/value" => ("x", " a"),
            _ => return asked.answer(200, b"ok"),
        };
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
        let _ = asked.respond.send_response(response, true);
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let cases = [
        ("/value", "control bytes, or white space at an end"),
        ("/length", "breaks a rule of HTTP/2"),
    ];
    run(async {
        let mut client = connect(carrick.listener()).await;
        for (path, reason) in cases {
            let reply = fetch(&mut client, request("GET", path), b"", None).await;
            let reply = reply.expect("a response");
            let text = String::from_utf8_lossy(&reply.body);
            assert_eq!(reply.status, 502, "{text}");
            assert!(text.contains(reason), "{text}");
        }
        let reply = fetch(&mut client, request("GET", "/"), b"", None).await;
        assert_eq!(reply.expect("a response").body, b"ok");
    });
    assert_eq!(server.connections(), 1);
    let log = carrick.standard_error();
    for (line, (_, reason)) in carrick.access_log(3).iter().zip(cases) {
        assert_eq!((line.status(), line.text("ended")), (502, "bad_response"));
        log.wait_for(reason).expect("a warning");
    }
}

#[test]
fn who_lost_a_connection_by_another_s_response_asks_again() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, number| {
        let mut raw = RawClient::accept(peer, &[]);
        let answer = |raw: &mut RawClient, stream: u32| {
            raw.send(HEADERS, END_HEADERS, stream, OK);
            raw.send(DATA, END_STREAM, stream, b"ok");
        };
        if number == 0 {
            let first = raw.read_kind(HEADERS);
            answer(&mut raw, first.stream);
            raw.read_kind(HEADERS);
            let third = raw.read_kind(HEADERS);
            // A name in capitals, for which the library ends a connection.
            let head = [OK, &[0, 1, b'X', 1, b'a']].concat();
            raw.send(HEADERS, END_HEADERS | END_STREAM, third.stream, &head);
        }
        while let Some(frame) = raw.read() {
            if frame.kind == HEADERS {
                answer(&mut raw, frame.stream);
            }
        }
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    run(async {
        let mut client = connect(carrick.listener()).await;
        let mut again = client.clone();
        let first = fetch(&mut client, request("GET", "/1"), b"", None).await;
        let (second, third) = tokio::join!(
            fetch(&mut client, request("GET", "/2"), b"", None),
            fetch(&mut again, request("GET", "/3"), b"", None)
        );
        for reply in [first, second, third] {
            assert_eq!(reply.expect("a response").body, b"ok");
        }
    });
    let log = carrick.standard_error();
    log.wait_for("the server broke a rule of HTTP/2 (PROTOCOL_ERROR)")
        .expect("a warning");
}
