//! How connections end: drains, reloads, and time limits.
use super::client::{connect, fetch, read, request, run};
use super::frames::{
    Answer, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, RawClient, SETTINGS,
    WINDOW_UPDATE, block, frame, get,
};
use super::{OK, PATIENT, ok_server, switch_text};
use crate::support::server::answer_requests;
use crate::support::{Carrick, PATIENCE, Peer, Place, Server};
use rustix::process::Signal;
use std::time::Duration;

#[test]
fn a_drain_lets_streams_end() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = PATIENT.to_owned() + &switch_text("", &[server.address()]);
    let carrick = Carrick::start(&place, &text);
    let mut client = RawClient::connect(carrick.listener(), b"");
    client.ask(1, &get("/"));
    let mut upstream = server.accept();
    upstream.read_head();
    carrick.signal(Signal::TERM);
    // It is told at once, while nothing else happens.
    assert_eq!(client.read_kind(GOAWAY).error(), 0);
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast");
    assert_eq!(client.read_answer(1), Answer::Status(200, b"last".to_vec()));
    drop(client);
    let mut carrick = carrick;
    assert!(carrick.wait().status.success());
}

#[test]
fn a_drain_lets_a_client_take_what_waits_for_it() {
    const REQUESTS: u32 = 8;
    const BODY_BYTES: usize = 32 * 1024;
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| {
            let mut response =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n").into_bytes();
            response.resize(response.len() + BODY_BYTES, b'x');
            response
        });
    });
    let text = PATIENT.to_owned() + &switch_text("", &[server.address()]);
    let mut carrick = Carrick::start(&place, &text);
    // The windows of HTTP/2 are large, that of TCP is small: responses wait for room in the kernel.
    let peer = Peer::connect_with_buffers(carrick.listener(), 4096);
    let mut client = RawClient::over(peer, &[0, 4, 0, 16, 0, 0]);
    client.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes());
    for index in 0..REQUESTS {
        client.ask(2 * index + 1, &get("/"));
    }
    // For the session, each is over.
    carrick.access_log(REQUESTS as usize);
    carrick.signal(Signal::TERM);
    while std::net::TcpStream::connect(carrick.listener()).is_ok() {
        std::thread::yield_now();
    }
    let (mut ended, mut body_bytes) = (0, 0);
    while ended < REQUESTS {
        let frame = client.read().expect("the rest of the responses");
        if frame.kind == DATA {
            body_bytes += frame.content.len();
            ended += u32::from(frame.flags & END_STREAM);
        }
    }
    assert_eq!(body_bytes, REQUESTS as usize * BODY_BYTES);
    drop(client);
    assert!(carrick.wait().status.success());
}

#[test]
fn an_idle_client_is_dismissed_by_a_drain() {
    let place = Place::claim();
    let server = ok_server(&place);
    let text = PATIENT.to_owned() + &switch_text("", &[server.address()]);
    let mut carrick = Carrick::start(&place, &text);
    let mut client = RawClient::connect(carrick.listener(), b"");
    client.ask(1, &get("/"));
    assert_eq!(client.read_answer(1), Answer::Status(200, b"ok".to_vec()));
    carrick.signal(Signal::TERM);
    assert_eq!(client.read_kind(GOAWAY).error(), 0);
    assert!(carrick.wait().status.success());
}

#[test]
fn a_reload_is_followed_by_the_next_request() {
    let place = Place::claim();
    let server = ok_server(&place);
    let text = PATIENT.to_owned() + &switch_text("", &[server.address()]);
    let carrick = Carrick::start(&place, &text);
    let busy = Server::listen(&place);
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let reply = fetch(&mut sender, request("GET", "/"), b"", None).await;
        assert_eq!(reply.expect("a response").body, b"ok");
        let next = PATIENT.to_owned() + &switch_text("", &[busy.address()]);
        carrick.reload_as(&place, &next, "ok");
        // This one is under way while another reload excludes the client.
        let (response, _) = sender
            .send_request(request("GET", "/"), true)
            .expect("a stream");
        let mut upstream = tokio::task::spawn_blocking(move || {
            let mut peer = busy.accept();
            peer.read_head();
            peer
        })
        .await
        .expect("the server");
        let excluded = switch_text("allow = [\"192.0.2.1\"]", &[server.address()]);
        carrick.reload_as(&place, &(PATIENT.to_owned() + &excluded), "ok");
        let reply = fetch(&mut sender, request("GET", "/"), b"", None).await;
        assert_eq!(reply.expect("a response").status, 403);
        upstream.send(OK);
        assert_eq!(read(response).await.expect("a response").body, b"ok");
        // After that, the connection takes no more.
        let error = loop {
            match fetch(&mut sender, request("GET", "/"), b"", None).await {
                Ok(reply) => assert_eq!(reply.status, 403),
                Err(error) => break error,
            }
        };
        assert!(
            error.is_go_away() || error.is_io() || error.reason().is_some(),
            "{error}"
        );
    });
}

#[test]
fn clients_without_requests_are_closed() {
    let places = [Place::claim(), Place::claim()];
    let server = ok_server(&places[0]);
    let start = |place: &Place, limits: &str| {
        let text = switch_text("", &[server.address()]);
        Carrick::start(place, &format!("[timeouts]\n{limits}\n{text}"))
    };
    let carrick = start(&places[0], "head = \"12s\"");
    // One that says nothing but this.
    let mut silent = RawClient::connect(carrick.listener(), b"");
    // One that stops in the preface.
    let mut cut = Peer::connect(carrick.listener());
    cut.send("PRI * HTTP/2.0\r\n\r\nSM");
    // One whose head has no end.
    let mut open = RawClient::connect(carrick.listener(), b"");
    open.send(HEADERS, 0, 1, &block(&get("/")));
    // One that has asked.
    let patient = start(&places[1], "head = \"1m\"\nidle = \"12s\"");
    let mut idle = RawClient::connect(patient.listener(), b"");
    idle.ask(1, &get("/"));
    assert_eq!(idle.read_answer(1), Answer::Status(200, b"ok".to_vec()));
    assert_eq!(silent.read_kind(GOAWAY).error(), 0);
    assert_eq!(open.read_kind(GOAWAY).error(), 0);
    assert_eq!(idle.read_kind(GOAWAY).error(), 0);
    cut.read_ending();
    assert!(carrick.limit_reached("head_timeout") > 2.5);
    assert!(patient.limit_reached("idle_timeout") > 0.5);
}

#[test]
fn a_client_that_opens_no_window_is_given_up() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| {
            let mut response = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
            response.resize(response.len() + 1_000_000, b'x');
            response
        });
    });
    let limits = "[timeouts]\nidle = \"15s\"\n";
    let carrick = Carrick::start(
        &place,
        &(limits.to_owned() + &switch_text("", &[server.address()])),
    );
    // SETTINGS_INITIAL_WINDOW_SIZE is 10.
    let mut client = RawClient::connect(carrick.listener(), &[0, 4, 0, 0, 0, 10]);
    client.ask(1, &get("/"));
    // A PING does not help it, though its answer is acknowledged.
    let wait = |client: &RawClient, time| {
        let socket = client.peer.stream();
        socket.set_read_timeout(Some(time)).expect("a time-out");
    };
    wait(&client, Duration::from_millis(200));
    loop {
        match client.read() {
            Some(frame) if frame.kind == RST_STREAM => break,
            Some(_) => {}
            None => client.send(PING, 0, 0, b"carrick!"),
        }
    }
    wait(&client, PATIENCE);
    // With a window, others are served.
    client.send(SETTINGS, 0, 0, &[0, 4, 0, 15, 255, 255]);
    client.send(WINDOW_UPDATE, 0, 0, &2_000_000_u32.to_be_bytes());
    client.ask(3, &get("/"));
    assert_eq!(carrick.access_log(1)[0].text("ended"), "idle_timeout");
    let Answer::Status(200, body) = client.read_answer(3) else {
        panic!("no response");
    };
    assert_eq!(body.len(), 1_000_000);
}

#[test]
fn a_request_whose_body_stops_is_given_up() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let limits = "[timeouts]\nidle = \"1s\"\n";
    let carrick = Carrick::start(
        &place,
        &(limits.to_owned() + &switch_text("", &[server.address()])),
    );
    let mut client = RawClient::connect(carrick.listener(), b"");
    let mut fields = get("/").to_vec();
    fields[0].1 = "POST";
    // At once: a busy machine would make a pause between them that is longer than `idle`.
    let head = frame(HEADERS, END_HEADERS, 1, &block(&fields));
    client
        .peer
        .send([head, frame(DATA, 0, 1, b"some")].concat());
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.expect("4\r\nsome\r\n");
    let answer = client.read_answer(1);
    assert!(!matches!(answer, Answer::Status(200, _)), "{answer:?}");
    // Not an end in order.
    assert_eq!(upstream.read_ending().bytes(), b"");
}
