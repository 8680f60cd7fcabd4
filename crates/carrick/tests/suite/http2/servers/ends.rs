//! Streams and connections that end otherwise than with a response.
use super::super::client::{connect, connect_with, fetch, read, request, run};
use super::super::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, RawClient, SETTINGS,
    block, frame, get,
};
use super::server::{Asked, Http2Server};
use super::{PATIENT, start, switch_text};
use crate::support::{Carrick, Peer, Place, Server};
use bytes::Bytes;
use h2::Reason;
use http::Response;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Echoes a body.
async fn echo(mut asked: Asked) {
    let (body, _) = asked.read().await.expect("a body");
    asked.answer(200, &body);
}

#[test]
fn what_a_server_has_refused_is_asked_again_whatever_it_is() {
    let place = Place::claim();
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let server = Http2Server::start(&place, move |mut asked| {
        let is_first = seen.fetch_add(1, Relaxed) == 0;
        async move {
            if is_first {
                // Its body is here: the server has not begun with it all the same.
                let _ = asked.read().await;
                return asked.respond.send_reset(Reason::REFUSED_STREAM);
            }
            echo(asked).await;
        }
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let reply = fetch(&mut sender, request("POST", "/"), b"hello", None);
        let reply = reply.await.expect("a response");
        assert_eq!(
            (reply.status.as_u16(), &reply.body[..]),
            (200, &b"hello"[..])
        );
    });
    assert_eq!(count.load(Relaxed), 2);
    let line = &carrick.access_log(1)[0];
    assert_eq!((line.status(), line.number("received")), (200, 5));
}

#[test]
fn a_server_that_goes_away_has_not_begun_with_later_streams() {
    let place = Place::claim();
    // Says after the first request that it will answer none, and stays.
    let first = Server::listen(&place).serve(|peer, number| {
        let mut raw = RawClient::accept(peer, &[]);
        while let Some(frame) = raw.read() {
            if frame.kind == HEADERS && number == 0 {
                raw.send(GOAWAY, 0, 0, &[0; 8]);
            } else if frame.kind == HEADERS {
                // `:status: 200`, of the static table.
                raw.send(HEADERS, END_HEADERS, frame.stream, &[0x88]);
                raw.send(DATA, END_STREAM, frame.stream, b"ok");
            }
        }
    });
    let carrick = start(&place, &[first.address()], "http2 = true");
    let mut client = Peer::connect(carrick.listener());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    let response = client.read_response("POST");
    assert_eq!((response.status, &response.body[..]), (200, &b"ok"[..]));
    assert_eq!(first.accepted(), 2);
}

#[test]
fn a_server_that_says_nothing_keeps_no_connection() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = format!(
        "[timeouts]\nconnect = \"1s\"\n{}",
        switch_text(&[server.address()], "http2 = true\nfailures_max = 0")
    );
    let carrick = Carrick::start(&place, &text);
    let mut client = Peer::connect(carrick.listener());
    assert_eq!(client.ask(GET).status, 504);
    server.accept().read_ending();
    carrick.wait_until_metric("carrick_upstream_connections_open", &[], 0.0);
}

#[test]
fn a_lost_connection_is_no_answer_to_what_may_not_be_repeated() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, _| {
        let mut raw = RawClient::accept(peer, &[]);
        while let Some(frame) = raw.read() {
            if frame.kind == HEADERS {
                return;
            }
        }
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut client = Peer::connect(carrick.listener());
    let response = client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(response.status, 502);
    assert_eq!(server.accepted(), 1);
}

#[test]
fn a_response_that_is_cut_is_seen_to_be() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        let response = Response::new(());
        let mut stream = asked
            .respond
            .send_response(response, false)
            .expect("a client");
        let part = Bytes::from_static(b"part");
        stream.send_data(part, false).expect("a client");
        if asked.head.uri.path() == "/later" {
            // What was sent before is not lost with the reset.
            let _ = asked.body.data().await;
            tokio::task::yield_now().await;
        }
        stream.send_reset(Reason::INTERNAL_ERROR);
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let asked = sender.send_request(request("GET", "/"), true);
        let (response, _) = asked.expect("a stream");
        let reply = read(response).await;
        // Either the head and a reset, or, if all came at once, 502.
        match reply {
            Err(error) => assert!(error.is_reset(), "{error}"),
            Ok(reply) => assert_eq!(reply.status, 502),
        }
    });
    let line = &carrick.access_log(1)[0];
    assert_ne!(line.text("ended"), "complete");
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_client_that_gives_up_frees_the_server_at_once() {
    let place = Place::claim();
    let (sender, events) = mpsc::channel();
    let server = Http2Server::start(&place, move |mut asked| {
        let sender = sender.clone();
        let tell = move |event| sender.send(event).expect("the test");
        async move {
            if asked.head.uri.path() == "/ok" {
                let sent = asked.respond.send_response(Response::new(()), true);
                return drop(sent);
            }
            tell(None);
            if asked.head.uri.path() == "/head" {
                let reset = std::future::poll_fn(|cx| asked.respond.poll_reset(cx)).await;
                return tell(reset.ok());
            }
            let response = Response::new(());
            let mut stream = asked
                .respond
                .send_response(response, false)
                .expect("a client");
            stream
                .send_data(Bytes::from_static(b"a"), false)
                .expect("a client");
            let reset = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
            tell(reset.ok());
        }
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    run(async {
        let events = Arc::new(std::sync::Mutex::new(events));
        let next = async || {
            let events = Arc::clone(&events);
            let waiting = tokio::task::spawn_blocking(move || {
                let events = events.lock().expect("the events");
                events
                    .recv_timeout(crate::support::PATIENCE)
                    .expect("an event")
            });
            waiting.await.expect("an event")
        };
        let mut client = connect(carrick.listener()).await;
        for (path, is_whole) in [
            ("/head", true),
            ("/head", false),
            ("/body", true),
            ("/body", false),
        ] {
            let (response, mut stream) = client
                .send_request(request("POST", path), is_whole)
                .expect("a stream");
            assert_eq!(next().await, None);
            if !is_whole {
                // More than the server, which reads nothing, has a window for; it is there before the next request.
                let sent = stream.send_data(vec![b'x'; 200_000].into(), false);
                sent.expect("a client");
            }
            if path == "/body" {
                let mut body = response.await.expect("a response").into_body();
                assert_eq!(body.data().await.expect("data").expect("data"), "a");
            }
            // A connection on which nothing has come for a second would be given up with its request.
            let answer = fetch(&mut client, request("GET", "/ok"), b"", None).await;
            assert_eq!(answer.expect("a response").status, 200);
            stream.send_reset(Reason::CANCEL);
            assert_eq!(next().await, Some(Reason::CANCEL), "{path} {is_whole}");
        }
    });
    assert_eq!(server.connections(), 1);
    // What the two got before they gave up is counted.
    let lines = carrick.access_log(8);
    let sent: u64 = lines.iter().map(|line| line.number("sent")).sum();
    assert_eq!(sent, 2);
}

#[test]
fn clients_that_do_not_read_hold_up_nobody_else() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        if asked.head.uri.path() == "/short" {
            return asked.answer(200, b"ok");
        }
        let response = Response::new(());
        let mut stream = asked
            .respond
            .send_response(response, false)
            .expect("a client");
        loop {
            stream.reserve_capacity(1 << 20);
            let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
            let Some(Ok(room)) = room else { return };
            if stream.send_data(vec![b'x'; room].into(), false).is_err() {
                return;
            }
        }
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut deaf: Vec<Peer> = (0..20)
        .map(|_| {
            let mut peer = Peer::connect(carrick.listener());
            peer.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
            peer
        })
        .collect();
    for peer in &mut deaf {
        peer.read_head();
    }
    let mut client = Peer::connect(carrick.listener());
    for _ in 0..20 {
        let response = client.ask("GET /short HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(&response.body[..], b"ok");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn requests_under_way_outlive_a_reload_that_removes_their_server() {
    let place = Place::claim();
    let old = Http2Server::start(&place, async |mut asked| {
        let response = Response::new(());
        let mut stream = asked
            .respond
            .send_response(response, false)
            .expect("a client");
        let (body, _) = asked.read().await.expect("a body");
        stream.send_data(body.into(), true).expect("a client");
    });
    let new = Http2Server::start(&place, async |mut asked| asked.answer(200, b"new"));
    let carrick = start(&place, &[old.address()], "http2 = true");
    run(async {
        let mut client = connect(carrick.listener()).await;
        let (response, mut stream) = client
            .send_request(request("POST", "/"), false)
            .expect("a stream");
        let mut body = response.await.expect("a response").into_body();
        let text = PATIENT.to_owned() + &switch_text(&[new.address()], "http2 = true");
        carrick.reload_as(&place, &text, "ok");
        let reply = fetch(&mut client, request("GET", "/"), b"", None);
        assert_eq!(reply.await.expect("a response").body, b"new");
        let sent = stream.send_data(Bytes::from_static(b"old"), true);
        sent.expect("a stream");
        assert_eq!(body.data().await.expect("data").expect("data"), "old");
        while let Some(data) = body.data().await {
            assert!(data.expect("data").is_empty());
        }
    });
    // The old connection closes after its last request.
    carrick.wait_for_metric("carrick_upstream_connections_open", &[], 1.0);
}

#[test]
fn clients_that_give_up_end_nobody_elses_responses() {
    const CLIENTS: usize = 3;
    /// All that a connection carries, but for the one that waits.
    const GIVEN_UP: usize = 99;
    let place = Place::claim();
    let server = Server::listen(&place);
    let address = server.address();
    let (sender, waits) = mpsc::channel();
    let serving = server.serve(move |peer, number| {
        let mut raw = RawClient::accept(peer, &[]);
        let (mut waiting, mut given_up) = (None, Vec::new());
        while let Some(frame) = raw.read() {
            match (frame.kind, waiting) {
                (HEADERS, None) => {
                    waiting = Some(frame.stream);
                    sender.send(number).expect("the test");
                    if number > 0 {
                        raw.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, &[0x88]);
                    }
                }
                (HEADERS, Some(_)) => {
                    raw.send(HEADERS, END_HEADERS, frame.stream, &[0x88]);
                }
                (RST_STREAM, Some(stream)) => {
                    given_up.push(frame.stream);
                    if given_up.len() < GIVEN_UP {
                        continue;
                    }
                    // It may still send on all of them, most of which the library has forgotten by now, and much on the last one.
                    for given_up in given_up.iter().chain([frame.stream; 10_000].iter()) {
                        raw.send(DATA, 0, *given_up, b"x");
                    }
                    raw.send(HEADERS, END_HEADERS, stream, &[0x88]);
                    raw.send(DATA, END_STREAM, stream, b"ok");
                }
                _ => {}
            }
        }
    });
    std::mem::forget(serving);
    let carrick = start(&place, &[address], "http2 = true");
    let mut client = carrick.connect();
    client.send(GET);
    waits.recv_timeout(crate::support::PATIENCE).expect("it");
    let mut impatient = [(); CLIENTS].map(|()| RawClient::connect(carrick.listener(), &[]));
    let streams = || (1..).step_by(2).take(GIVEN_UP / CLIENTS);
    for client in &mut impatient {
        for stream in streams() {
            client.ask(stream, &get("/"));
            client.read_kind(HEADERS);
        }
    }
    for client in &mut impatient {
        for stream in streams() {
            client.send(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        }
    }
    assert_eq!(&client.read_response("GET").body[..], b"ok");
    // The server might end this connection at the next: another request goes by another one, whose first it is.
    client.send(GET);
    let number = waits.recv_timeout(crate::support::PATIENCE);
    assert_eq!(number, Ok(1));
    assert_eq!(client.read_response("GET").body, b"");
}

/// A connection's window is for all requests: one body that its server does not read could keep those of others.
#[test]
fn a_body_that_its_server_does_not_read_keeps_no_others_waiting() {
    /// All that a server takes that never says more (RFC 9113 section 6.9.2).
    const WINDOW_BYTES: usize = 65_535;
    let place = Place::claim();
    let server = Server::listen(&place);
    let address = server.address();
    let (sender, full) = mpsc::channel();
    let serving = server.serve(move |peer, number| {
        let mut raw = RawClient::accept(peer, &[]);
        let mut bytes = 0;
        while let Some(frame) = raw.read() {
            match frame.kind {
                HEADERS if number > 0 => {
                    raw.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, &[0x88]);
                }
                DATA => bytes += frame.content.len(),
                _ => {}
            }
            if bytes == WINDOW_BYTES {
                let _ = sender.send(());
            }
        }
    });
    std::mem::forget(serving);
    let carrick = start(&place, &[address], "http2 = true");
    let mut stuck = carrick.connect();
    stuck.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    stuck.send(vec![b'x'; 100_000]);
    full.recv_timeout(crate::support::PATIENCE).expect("it");
    let mut client = carrick.connect();
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(client.ask(post).status, 200);
    stuck.reset();
}

#[test]
fn requests_that_are_given_up_at_once_are_not_sent() {
    const REQUESTS: u32 = 25;
    let place = Place::claim();
    let server = Server::listen(&place);
    let address = server.address();
    let heads = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&heads);
    let serving = server.serve(move |peer, _| {
        let mut raw = RawClient::accept(peer, &[]);
        while let Some(frame) = raw.read() {
            if frame.kind == HEADERS {
                seen.fetch_add(1, Relaxed);
                raw.send(HEADERS, END_HEADERS | END_STREAM, frame.stream, &[0x88]);
            }
        }
    });
    std::mem::forget(serving);
    let carrick = start(&place, &[address], "http2 = true");
    let mut client = carrick.connect();
    // They may come one by one.
    crate::support::wait_until("requests that come with their resets", || {
        assert_eq!(client.ask(GET).status, 200);
        let before = heads.load(Relaxed);
        let mut impatient = RawClient::connect(carrick.listener(), &[]);
        let mut burst = Vec::new();
        for stream in (1..).step_by(2).take(REQUESTS as usize) {
            let head = block(&get("/"));
            burst.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
            burst.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }
        impatient.peer.send(burst);
        impatient.ask(2 * REQUESTS + 1, &get("/"));
        impatient.read_kind(HEADERS);
        heads.load(Relaxed) == before + 1
    });
}

#[test]
fn clients_that_do_not_read_small_messages_end_nobody_elses_responses() {
    const MESSAGES: usize = 15_000;
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| {
        if asked.head.uri.path() == "/short" {
            return asked.answer(200, b"ok");
        }
        let response = Response::new(());
        let sent = asked.respond.send_response(response, false);
        let mut stream = sent.expect("a client");
        for index in 0..MESSAGES {
            let message = index.to_be_bytes().to_vec();
            let sent = stream.send_data(message.into(), index + 1 == MESSAGES);
            sent.expect("a client");
        }
    });
    let carrick = start(&place, &[server.address()], "http2 = true");
    let all: Vec<u8> = (0..MESSAGES).flat_map(usize::to_be_bytes).collect();
    run(async {
        // It gets little before it reads.
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(100);
        let mut deaf = connect_with(carrick.listener(), &builder).await;
        let mut responses = Vec::new();
        for _ in 0..3 {
            let (response, _) = deaf
                .send_request(request("GET", "/messages"), true)
                .expect("a stream");
            responses.push(response.await.expect("a response"));
        }
        let mut client = connect(carrick.listener()).await;
        for _ in 0..20 {
            let reply = fetch(&mut client, request("GET", "/short"), b"", None);
            assert_eq!(reply.await.expect("a response").body, b"ok");
        }
        for response in responses {
            let mut body = response.into_body();
            let mut read = Vec::new();
            while read.len() < all.len() {
                let data = body.data().await.expect("data").expect("data");
                let released = body.flow_control().release_capacity(data.len());
                released.expect("a stream");
                read.extend_from_slice(&data);
            }
            assert_eq!(read, all);
        }
    });
    assert_eq!(server.connections(), 1);
}

/// A server that sends this on each connection, again and again.
fn flooded_by(place: &Place, flood: Vec<u8>) -> Carrick {
    let server = Server::listen(place);
    let address = server.address();
    let serving = server.serve(move |mut peer, _| {
        peer.read_exact(24);
        let mut other = peer.second();
        let mut raw = RawClient { peer };
        raw.send(SETTINGS, 0, 0, &[]);
        raw.read_kind(HEADERS);
        // What carrick says further is nothing to this server.
        std::thread::spawn(move || other.read_ending());
        while raw.peer.try_send(&flood).is_ok() {}
    });
    std::mem::forget(serving);
    start(place, &[address], "http2 = true\nfailures_max = 0")
}

#[test]
fn a_server_that_floods_is_let_go() {
    let interim = frame(HEADERS, END_HEADERS, 1, &[8, 3, b'1', b'0', b'3']);
    for flood in [
        frame(PING, 0, 0, &[0; 8]),
        frame(PING, ACK, 0, &[0; 8]),
        frame(SETTINGS, 0, 0, &[]),
        interim,
    ] {
        let place = Place::claim();
        let carrick = flooded_by(&place, flood);
        let mut client = Peer::connect(carrick.listener());
        client.send(GET);
        let mut head = client.read_head();
        while head.starts_with("HTTP/1.1 103 ") {
            head = client.read_head();
        }
        assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
        assert!(carrick.limit_reached("http2_flood") > 0.5);
    }
}
