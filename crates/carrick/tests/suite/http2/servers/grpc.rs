//! gRPC end to end.
use super::super::client::{connect, fetch, request, run};
use super::server::{Asked, Http2Server};
use super::{start, switch_text};
use crate::clients::tool::{Tool, has_all};
use crate::support::{Carrick, Place, wait_for, wait_until};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

pub(super) fn call(path: &str) -> Request<()> {
    let mut asked = request("POST", path);
    let fields = asked.headers_mut();
    fields.insert("content-type", HeaderValue::from_static("application/grpc"));
    fields.insert("te", HeaderValue::from_static("trailers"));
    asked
}

fn status(code: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    trailers
}

fn head_of_call() -> Response<()> {
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(()).expect("a response")
}

#[test]
fn messages_pass_at_once_in_both_directions() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        assert_eq!(asked.field("te"), Some("trailers"));
        assert_eq!(asked.field("content-type"), Some("application/grpc"));
        let mut stream = (asked.respond)
            .send_response(head_of_call(), false)
            .expect("a client");
        while let Some(data) = asked.body.data().await {
            let data = data.expect("data");
            let _ = asked.body.flow_control().release_capacity(data.len());
            stream.send_data(data, false).expect("a client");
        }
        stream.send_trailers(status("0")).expect("a client");
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    run(async {
        let mut client = connect(carrick.listener()).await;
        let (response, mut stream) = client
            .send_request(call("/a.B/C"), false)
            .expect("a stream");
        // The head comes before any message.
        let mut body = response.await.expect("a response").into_body();
        for text in ["one", "two", "three"] {
            stream
                .send_data(Bytes::from_static(text.as_bytes()), false)
                .expect("a stream");
            assert_eq!(body.data().await.expect("data").expect("data"), text);
        }
        stream.send_data(Bytes::new(), true).expect("a stream");
        assert!(body.data().await.is_none());
        let trailers = body.trailers().await.expect("trailers").expect("trailers");
        assert_eq!(trailers["grpc-status"], "0");
    });
    let line = &carrick.access_log(1)[0];
    assert_eq!((line.status(), line.text("ended")), (200, "complete"));
    assert_eq!(line.text("server_version"), "HTTP/2.0");
}

#[test]
fn trailers_may_be_as_long_as_a_head() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let (_, trailers) = asked.read().await.expect("a body");
        let mut stream = (asked.respond)
            .send_response(head_of_call(), false)
            .expect("a client");
        stream
            .send_trailers(trailers.expect("trailers"))
            .expect("a client");
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut trailers = status("0");
    for (name, bytes) in [("grpc-message", 30_000), ("x-debug", 20_000)] {
        let value = "x".repeat(bytes).parse().expect("a value");
        trailers.insert(name, value);
    }
    run(async {
        let mut client = connect(carrick.listener()).await;
        let sent = Some(trailers.clone());
        let reply = fetch(&mut client, call("/a.B/C"), b"question", sent).await;
        assert!(reply.expect("a response").trailers == Some(trailers));
    });
    let line = &carrick.access_log(1)[0];
    assert_eq!((line.status(), line.text("ended")), (200, "complete"));
}

#[test]
fn a_status_without_a_message_stays_one() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let mut response = head_of_call();
        response.headers_mut().extend(status("5"));
        (asked.respond)
            .send_response(response, true)
            .expect("a client");
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    run(async {
        let mut client = connect(carrick.listener()).await;
        let (response, mut stream) = client
            .send_request(call("/a.B/C"), false)
            .expect("a stream");
        stream
            .send_data(Bytes::from_static(b"question"), true)
            .expect("a stream");
        let response = response.await.expect("a response");
        assert_eq!(response.headers()["grpc-status"], "5");
        assert!(response.body().is_end_stream());
    });
}

#[test]
fn calls_whose_head_is_refused_get_a_status_and_a_line_of_their_own() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| asked.answer(200, b""));
    let limits = "[limits]\nrequest_head = \"2KB\"\n";
    let text = limits.to_owned() + &switch_text(&[server.address()], "http2 = true");
    let carrick = Carrick::start(&place, &text);
    let long = "x".repeat(3000);
    let cases = [
        ("a.example", "x", &*long, (431, "8")),
        ("a.example", "expect", "much", (417, "2")),
        ("a,b", "x", "y", (400, "13")),
    ];
    run(async {
        let mut client = connect(carrick.listener()).await;
        for (host, name, value, (_, status)) in cases {
            let mut asked = call("/a.B/C");
            *asked.uri_mut() = format!("http://{host}/a.B/C").parse().expect("a URL");
            let value = HeaderValue::from_str(value).expect("a value");
            asked.headers_mut().insert(name, value);
            let reply = fetch(&mut client, asked, b"", None);
            let reply = reply.await.expect("a response");
            let told = (reply.status.as_u16(), reply.field("grpc-status"));
            assert_eq!(told, (200, Some(status)), "{name}");
        }
    });
    for (line, (_, name, _, (status, _))) in carrick.access_log(3).iter().zip(cases) {
        assert_eq!(line.status(), status, "{name}");
        for (key, expected) in [
            ("method", "POST"),
            ("target", "/a.B/C"),
            ("version", "HTTP/2.0"),
        ] {
            assert_eq!(line.text(key), expected, "{name}");
        }
    }
}

#[test]
fn a_call_keeps_its_status_whatever_else_the_server_says() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let mut head = head_of_call();
        (head.headers_mut()).insert("content-length", HeaderValue::from_static("3"));
        let mut stream = (asked.respond)
            .send_response(head, false)
            .expect("a client");
        let message = Bytes::from_static(b"one");
        stream.send_data(message, false).expect("a client");
        // It has no place there (RFC 9110 section 6.5.1).
        let mut trailers = status("16");
        trailers.insert("www-authenticate", HeaderValue::from_static("Bearer"));
        stream.send_trailers(trailers).expect("a client");
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    run(async {
        let mut client = connect(carrick.listener()).await;
        let reply = fetch(&mut client, call("/a.B/C"), b"question", None);
        let reply = reply.await.expect("a response");
        assert_eq!(reply.body, b"one");
        assert_eq!(reply.trailers, Some(status("16")));
    });
}

#[test]
fn carricks_own_errors_are_told_in_grpc() {
    let place = Place::claim();
    let (closed, _reserved) = place.refusing();
    let carrick = start(&place, &[closed], "http2 = true");
    run(async {
        let mut client = connect(carrick.listener()).await;
        let reply = fetch(&mut client, call("/a.B/C"), b"question", None);
        let reply = reply.await.expect("a response");
        assert_eq!(reply.status, 200);
        assert_eq!(reply.field("grpc-status"), Some("14"));
        let message = reply.field("grpc-message").expect("a message");
        assert!(
            message.starts_with("Cannot reach the upstream: connect to "),
            "{message}"
        );
        assert_eq!((reply.body.len(), reply.trailers), (0, None));
        // Of a call whose deadline is over that is said.
        let mut late = call("/a.B/C");
        late.headers_mut()
            .insert("grpc-timeout", HeaderValue::from_static("1n"));
        let reply = fetch(&mut client, late, b"question", None);
        assert_eq!(
            reply.await.expect("a response").field("grpc-status"),
            Some("4")
        );
        let reply = fetch(&mut client, request("POST", "/"), b"question", None);
        assert_eq!(reply.await.expect("a response").status, 502);
    });
    for line in carrick.access_log(3) {
        assert_eq!(line.status(), 502);
    }
}

#[test]
fn health_is_what_the_server_says() {
    let place = Place::claim();
    let said = Arc::new(AtomicU8::new(1));
    let says = Arc::clone(&said);
    let server = Http2Server::start(&place, move |mut asked: Asked| {
        let says = says.load(Relaxed);
        async move {
            assert_eq!(asked.head.uri.path(), "/grpc.health.v1.Health/Check");
            assert_eq!(asked.field("te"), Some("trailers"));
            let (body, _) = asked.read().await.expect("a body");
            assert_eq!(body, [0, 0, 0, 0, 5, 10, 3, b'a', b'.', b'B']);
            let mut stream = (asked.respond)
                .send_response(head_of_call(), false)
                .expect("a client");
            let message = Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, says]);
            stream.send_data(message, false).expect("a client");
            stream.send_trailers(status("0")).expect("a client");
        }
    });
    let keys = "http2 = true\nhealth = { grpc = \"a.B\", every = \"1s\", fall = 1, rise = 1 }";
    let carrick = start(&place, &[server.address()], keys);
    carrick.wait_for_metric("carrick_health_checks_total", &["result=\"good\""], 1.0);
    carrick.wait_for_metric("carrick_server_up", &[], 1.0);
    wait_until("the server is down, because it says so", || {
        let is_up = carrick.metric("carrick_server_up", &[]) > 0.5;
        // If it is down since a check took too long on a busy machine, it has to come up first.
        said.store(if is_up { 2 } else { 1 }, Relaxed);
        let text = carrick.standard_error().text();
        !is_up && text.contains("the server says NOT_SERVING")
    });
    carrick.wait_for_metric("carrick_server_up", &[], 1.0);
}

/// The cases of gRPC's own suite.
const CASES: &str = "empty_unary large_unary client_streaming server_streaming ping_pong empty_stream \
    cancel_after_begin cancel_after_first_response timeout_on_sleeping_server status_code_and_message \
    special_status_message custom_metadata unimplemented_method unimplemented_service";

#[test]
fn programs_of_grpc_understand_each_other() {
    if !has_all(&["grpc-interop-client", "grpc-interop-server"]) {
        return;
    }
    let place = Place::claim();
    let address = place.at(place.port_on_all_addresses());
    let _server = Tool::new("grpc-interop-server", &place)
        .words(&format!("--port {}", address.port()))
        .start();
    wait_for("the server", || TcpStream::connect(address).ok());
    let carrick: Carrick = start(&place, &[address], "http2 = true");
    let listener = carrick.listener();
    for case in CASES.split_whitespace() {
        Tool::new("grpc-interop-client", &place)
            .words(&format!(
                "--server_host {} --server_port {}",
                listener.ip(),
                listener.port()
            ))
            .words(&format!("--test_case {case}"))
            .expect();
    }
    // A call that is given up without a word from the server in a second ends its connection. On a slow machine, two of the cases do that.
    assert!(carrick.metric("carrick_upstream_http2_connections_total", &[]) < 3.5);
}
