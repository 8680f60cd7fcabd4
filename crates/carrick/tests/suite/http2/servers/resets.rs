//! Streams that a server resets: what their clients are told.
use super::super::client::{connect, fetch, read, request, run};
use super::grpc::call;
use super::server::{Asked, Http2Server};
use super::start;
use crate::support::{Peer, Place};
use bytes::Bytes;
use h2::Reason;
use http::Response;

/// The code that a request's path asks for: `/8` for `CANCEL`.
fn asked_code(asked: &Asked) -> Reason {
    let path = asked.head.uri.path();
    let code: u32 = path[1..].parse().expect("a code");
    code.into()
}

#[test]
fn the_code_of_a_response_that_is_cut_reaches_its_client_if_it_speaks_of_the_request() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let response = Response::new(());
        let mut stream = (asked.respond)
            .send_response(response, false)
            .expect("a client");
        let part = Bytes::from_static(b"part");
        stream.send_data(part, false).expect("a client");
        // The client says when it has that.
        let _ = asked.body.data().await;
        stream.send_reset(asked_code(&asked));
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let codes = [
        (Reason::CANCEL, Reason::CANCEL),
        (Reason::ENHANCE_YOUR_CALM, Reason::ENHANCE_YOUR_CALM),
        (Reason::INTERNAL_ERROR, Reason::INTERNAL_ERROR),
        (Reason::NO_ERROR, Reason::INTERNAL_ERROR),
        (Reason::REFUSED_STREAM, Reason::INTERNAL_ERROR),
        (Reason::HTTP_1_1_REQUIRED, Reason::INTERNAL_ERROR),
    ];
    run(async {
        let mut client = connect(carrick.listener()).await;
        for (sent, expected) in codes {
            let path = format!("/{}", u32::from(sent));
            let (response, mut stream) = client
                .send_request(request("POST", &path), false)
                .expect("a stream");
            let mut body = response.await.expect("a response").into_body();
            assert_eq!(body.data().await.expect("data").expect("data"), "part");
            let go = Bytes::from_static(b"go");
            stream.send_data(go, false).expect("a stream");
            let error = body.data().await.expect("an end").expect_err("a reset");
            assert!(error.is_reset(), "{sent:?}: {error}");
            assert_eq!(error.reason(), Some(expected), "{sent:?}");
        }
    });
    for line in carrick.access_log(codes.len()) {
        assert_eq!(line.text("ended"), "upstream_reset");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_call_that_is_reset_has_the_status_of_the_code() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let _ = asked.read().await;
        let code = asked_code(&asked);
        asked.respond.send_reset(code);
    });
    let carrick = start(
        &place,
        &[server.address()],
        "http2 = true\nfailures_max = 0",
    );
    run(async {
        let mut client = connect(carrick.listener()).await;
        for (code, status) in [
            (Reason::CANCEL, "1"),
            (Reason::ENHANCE_YOUR_CALM, "8"),
            (Reason::INADEQUATE_SECURITY, "7"),
            (Reason::PROTOCOL_ERROR, "13"),
        ] {
            let path = format!("/{}", u32::from(code));
            let reply = fetch(&mut client, call(&path), b"question", None);
            let reply = reply.await.expect("a response");
            assert_eq!(reply.field("grpc-status"), Some(status), "{code:?}");
            let message = reply.field("grpc-message").expect("a message");
            assert!(message.contains(&format!("{code:?}")), "{message}");
        }
        // Others get what a lost connection would give them.
        let reply = fetch(&mut client, request("POST", "/8"), b"question", None);
        assert_eq!(reply.await.expect("a response").status, 502);
    });
    // Those that were cancelled say nothing against the server.
    let failures = carrick.metric("carrick_server_failures_total", &[]);
    assert_eq!(failures, 3.0);
}

/// What a handler that answers at once goes on reading.
#[test]
fn a_body_whose_response_is_over_arrives_whole() {
    const BYTES: usize = 1_000_000;
    let place = Place::claim();
    let (sender, bodies) = std::sync::mpsc::channel();
    let server = Http2Server::start(&place, move |mut asked| {
        let sender = sender.clone();
        async move {
            asked.answer(202, b"accepted");
            let (body, _) = asked.read().await.expect("a body");
            sender.send(body.len()).expect("the test");
        }
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut client = carrick.connect();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n"
    ));
    assert_eq!(client.read_response("POST").status, 202);
    client.send(vec![b'x'; BYTES]);
    let bytes = bodies.recv_timeout(crate::support::PATIENCE);
    assert_eq!(bytes, Ok(BYTES));
}

#[test]
fn an_early_response_is_whole_and_its_client_need_send_no_more() {
    let place = Place::claim();
    // The library asks the client with NO_ERROR to send no more (RFC 9113 section 8.1).
    let server = Http2Server::start(&place, async |mut asked| asked.answer(200, b"enough"));
    let carrick = start(&place, &[server.address()], "http2 = true");
    run(async {
        let mut client = connect(carrick.listener()).await;
        let (response, mut stream) = client
            .send_request(request("POST", "/"), false)
            .expect("a stream");
        let reply = read(response).await.expect("a response");
        assert_eq!(
            (reply.status.as_u16(), &reply.body[..]),
            (200, &b"enough"[..])
        );
        let reset = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
        assert_eq!(reset.ok(), Some(Reason::NO_ERROR));
    });
    let line = &carrick.access_log(1)[0];
    assert_eq!((line.status(), line.text("ended")), (200, "complete"));
}

#[test]
fn what_was_refused_and_cannot_be_asked_again_may_be_by_the_client() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let _ = asked.read().await;
        asked.respond.send_reset(Reason::REFUSED_STREAM);
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let long = vec![b'x'; 100_000];
    run(async {
        let mut client = connect(carrick.listener()).await;
        let reply = fetch(&mut client, request("POST", "/"), &long, None).await;
        let error = reply.expect_err("a reset");
        assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM));
        // Of what was short carrick has asked as often as it may.
        let reply = fetch(&mut client, request("POST", "/"), b"short", None);
        assert_eq!(reply.await.expect("a response").status, 502);
    });
    let mut client = Peer::connect(carrick.listener());
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        long.len()
    ));
    client.send(&long[..]);
    assert_eq!(client.read_response("POST").status, 502);
    for line in carrick.access_log(3) {
        let ends = (line.status(), line.text("ended"));
        assert_eq!(ends, (502, "upstream_refused"));
    }
}
