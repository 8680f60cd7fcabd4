//! What is buffered, and how much goes on at a time.
use super::client::{connect, fetch, request, run};
use super::frames::{
    Answer, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, RawClient, SETTINGS, WINDOW_UPDATE,
    block, get,
};
use super::servers::server::Http2Server;
use super::{OK, PATIENT, ok_server, start, switch_text};
use crate::memory::{expect_return, own_bytes};
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server, wait_until};
use bytes::Bytes;
use http::HeaderValue;

const REFUSED_STREAM: u32 = 7;

/// A client sends a long field once, and it is in the head of each request.
#[test]
fn heads_of_more_than_a_megabyte_are_not_served_at_a_time() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    run(async {
        let mut client = connect(carrick.listener()).await;
        let long = HeaderValue::from_bytes(&[b'x'; 60_000]).expect("a value");
        let mut asked = Vec::new();
        for _ in 0..18 {
            let mut request = request("POST", "/");
            request.headers_mut().insert("x-long", long.clone());
            asked.push(client.send_request(request, false).expect("a stream"));
        }
        let (response, _stream) = asked.pop().expect("the last");
        let error = response.await.expect_err("no room");
        assert_eq!(error.reason(), Some(h2::Reason::REFUSED_STREAM));
    });
    carrick.wait_for_limit("http2_streams", 1.0);
}

#[test]
fn there_are_only_so_many_streams_at_a_time() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    let settings = client.read_kind(SETTINGS).content;
    let setting = |number: u8| {
        let mut pairs = settings.chunks(6);
        let pair = pairs.find(|pair| pair[1] == number).expect("a setting");
        u32::from_be_bytes(pair[2..].try_into().expect("four bytes"))
    };
    let streams = setting(3);
    assert_eq!((streams, setting(8)), (128, 1));
    for index in 0..=streams {
        client.ask(2 * index + 1, &get("/"));
    }
    let refused = client.read_kind(RST_STREAM);
    assert_eq!(
        (refused.stream, refused.error()),
        (2 * streams + 1, REFUSED_STREAM)
    );
    carrick.wait_for_limit("http2_streams", 1.0);
    // One more may come when one has gone.
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send(OK);
    loop {
        let frame = client.read_kind(DATA);
        if frame.flags & END_STREAM != 0 {
            break;
        }
    }
    client.ask(2 * streams + 3, &get("/last"));
    loop {
        let head = upstream.read_head();
        upstream.send(OK);
        if head.starts_with("GET /last ") {
            break;
        }
        if !upstream.waits_for_head() {
            upstream = server.accept();
        }
    }
    assert_eq!(
        client.read_answer(2 * streams + 3),
        Answer::Status(200, b"ok".to_vec())
    );
}

/// Some clients end the connection for it, with other servers' responses.
#[test]
fn a_head_or_trailers_that_are_too_long_for_the_client_are_not_sent() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    // SETTINGS_MAX_HEADER_LIST_SIZE
    let mut client = RawClient::connect(carrick.listener(), &[0, 6, 0, 0, 4, 0]);
    let long = "x".repeat(1000);
    let head = "HTTP/1.1 200 OK\r\n";
    let responses = [
        format!("{head}X: {long}\r\nContent-Length: 0\r\n\r\n"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: {long}\r\n\r\n"),
        String::from_utf8_lossy(OK).into_owned(),
    ];
    let answers = responses.iter().zip([1, 3, 5]).map(|(response, stream)| {
        client.ask(stream, &get("/"));
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(response.as_str());
        upstream.half_close();
        client.read_answer(stream)
    });
    let answers: Vec<_> = answers.collect();
    // 502 has no place in the static table.
    assert!(matches!(answers[0], Answer::Status(1, _)), "{answers:?}");
    assert!(matches!(answers[1], Answer::Reset(_)), "{answers:?}");
    assert_eq!(answers[2], Answer::Status(200, b"ok".to_vec()));
}

#[test]
fn a_server_that_does_not_read_stops_the_client() {
    const WINDOW_BYTES: u64 = 128 * 1024;
    let place = Place::claim();
    // The kernel has room for a little, too.
    let server = Server::listen_with_buffers(&place, 4096);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    let mut fields = get("/").to_vec();
    fields[0].1 = "POST";
    client.send(HEADERS, END_HEADERS, 1, &block(&fields));
    let mut upstream = server.accept();
    upstream.read_head();
    // As much as the windows allow, and then for as long as they are opened.
    let mut room = WINDOW_BYTES;
    let mut sent = 0_u64;
    client
        .peer
        .stream()
        .set_read_timeout(Some(std::time::Duration::from_secs(1)))
        .expect("a time-out");
    while sent < 16 << 20 {
        while room >= 8192 {
            client.send(DATA, 0, 1, &[b'x'; 8192]);
            (room, sent) = (room - 8192, sent + 8192);
        }
        match client.read() {
            Some(frame) if frame.kind == WINDOW_UPDATE && frame.stream == 1 => {
                room += u64::from(u32::from_be_bytes(
                    frame.content[..].try_into().expect("four"),
                ));
            }
            Some(_) => {}
            None => break,
        }
    }
    // The socket buffers of this machine are in between; without a limit it would go on for ever.
    assert!(sent < 16 << 20, "{sent} bytes were taken");
    drop(upstream);
}

#[test]
fn a_response_that_waits_for_its_server_takes_no_room_from_others() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    // Of the connection's window, which is no larger than a stream's.
    let mut client = RawClient::connect(carrick.listener(), b"");
    client.ask(1, &get("/slow"));
    let mut slow = server.accept();
    slow.read_head();
    slow.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    client.read_kind(HEADERS);
    slow.send("x");
    client.read_kind(DATA);
    let body = "y".repeat(60_000);
    client.ask(3, &get("/"));
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(
        client.read_answer(3),
        Answer::Status(200, body.into_bytes())
    );
}

#[test]
fn responses_that_wait_for_a_client_are_counted() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|mut peer, _| {
        if peer.waits_for_head() {
            peer.read_head();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
            // Nobody reads all of it.
            let _ = peer.try_send(vec![b'x'; 8 << 20]);
        }
    });
    let carrick = start(&place, &[server.address()]);
    // Its windows are wide open, but it does not read.
    let mut client = RawClient::connect(carrick.listener(), &[0, 4, 1, 0, 0, 0]);
    client.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 28).to_be_bytes());
    for index in 0..8 {
        client.ask(2 * index + 1, &get("/"));
    }
    carrick.wait_for_limit("http2_unsent", 1.0);
}

#[test]
fn bodies_are_paced() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| {
            let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
            answer.resize(answer.len() + 1_000_000, b'x');
            answer
        });
    });
    const CLASS: &str =
        "[pace]\ndefault = \"all\"\n[pace.classes.all]\nnetwork_ceiling = \"8 MB\"\n";
    let text = format!("{PATIENT}{}{CLASS}", switch_text("", &[server.address()]));
    let carrick = Carrick::start(&place, &text);
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let body = vec![b'y'; 300_000];
        let reply = fetch(&mut sender, request("POST", "/"), &body, None).await;
        assert_eq!(reply.expect("a response").body.len(), 1_000_000);
    });
    // Up and down.
    let paced = carrick.metric("carrick_pace_bytes_total", &["class=\"all\""]);
    assert!(paced > 1_200_000.0, "{paced}");
}

#[test]
fn clients_have_a_least_rate() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|mut peer, _| {
        if peer.waits_for_head() && peer.read_head().starts_with("GET ") {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
            while peer.try_send([b'x'; 65_536]).is_ok() {}
        }
        peer.read_ending();
    });
    // No client of a test is so fast.
    let text = format!(
        "[limits]\nrate_min = \"1 GB\"\n[timeouts]\nhead = \"3s\"\nidle = \"10m\"\n{}",
        switch_text("", &[server.address()])
    );
    let carrick = Carrick::start(&place, &text);
    run(async {
        let pause = || tokio::time::sleep(std::time::Duration::from_millis(10));
        let mut sender = connect(carrick.listener()).await;
        let (response, _) = sender
            .send_request(request("GET", "/"), true)
            .expect("a stream");
        let reading = async {
            let mut body = response.await.expect("a response").into_body();
            loop {
                match body.data().await.expect("an end before the body's") {
                    Ok(data) => {
                        let _ = body.flow_control().release_capacity(data.len());
                        pause().await;
                    }
                    Err(error) => break error,
                }
            }
        };
        let (response, mut stream) = sender
            .send_request(request("POST", "/"), false)
            .expect("a stream");
        // Until the stream is over, which the client may learn together with the response.
        let sending = async {
            while stream.send_data(Bytes::from_static(b"x"), false).is_ok() {
                pause().await;
            }
        };
        let (error, response, ()) = tokio::join!(reading, response, sending);
        assert!(error.is_reset(), "{error}");
        assert_eq!(response.expect("a response").status(), 408);
    });
    assert!(carrick.limit_reached("rate_min") > 1.5);
    let lines = carrick.access_log(2);
    let line = lines.iter().find(|line| line.status() == 200);
    assert_eq!(line.expect("the GET").text("ended"), "too_slow");
}

#[test]
fn heads_have_the_limits_of_http1() {
    let place = Place::claim();
    let server = ok_server(&place);
    let text = format!(
        "{PATIENT}[limits]\nrequest_head = \"8KiB\"\nheaders = 20\n{}",
        switch_text("", &[server.address()])
    );
    let carrick = Carrick::start(&place, &text);
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let mut many = request("GET", "/");
        for number in 0..30_u32 {
            let name = format!("x-{number}")
                .parse::<http::HeaderName>()
                .expect("a name");
            many.headers_mut().insert(name, HeaderValue::from(number));
        }
        let mut long = request("GET", "/");
        let value = HeaderValue::from_str(&"y".repeat(8200)).expect("a value");
        long.headers_mut().insert("x", value);
        let mut longer = request("GET", "/");
        let value = HeaderValue::from_str(&"y".repeat(12_000)).expect("a value");
        longer.headers_mut().insert("x", value);
        for asked in [many, long, longer] {
            let reply = fetch(&mut sender, asked, b"", None)
                .await
                .expect("a response");
            assert_eq!(reply.status, 431);
        }
        let reply = fetch(&mut sender, request("GET", "/"), b"", None).await;
        assert_eq!(reply.expect("a response").body, b"ok");
    });
    for line in &carrick.access_log(4)[..3] {
        assert_eq!(line.status(), 431);
    }
    assert!(carrick.limit_reached("head_fields") > 0.5);
    assert!(carrick.limit_reached("head_bytes") > 1.5);
}

#[test]
fn the_memory_of_five_thousand_requests_comes_back() {
    const CLIENTS: usize = 50;
    const STREAMS: u32 = 100;
    let place = Place::claim();
    // Answers none.
    let server = Http2Server::start(&place, async |_| std::future::pending().await);
    let text = switch_text("", &[server.address()]) + "http2 = true\n";
    let carrick = Carrick::start(&place, &(PATIENT.to_owned() + &text));
    let open = || {
        let mut client = RawClient::connect(carrick.listener(), b"");
        for index in 0..STREAMS {
            client.ask(2 * index + 1, &get("/"));
        }
        client
    };
    let wait_for_requests = |count: usize| {
        wait_until("the requests", || {
            let asked = carrick.metric("carrick_upstream_http2_requests_total", &[]);
            asked > (count * STREAMS as usize) as f64 - 0.5
        });
    };
    let first = open();
    wait_for_requests(1);
    let before = own_bytes(&carrick);
    let clients: Vec<RawClient> = (0..CLIENTS).map(|_| open()).collect();
    wait_for_requests(1 + CLIENTS);
    let peak = own_bytes(&carrick);
    drop((first, clients));
    expect_return(&carrick, before, peak);
}
