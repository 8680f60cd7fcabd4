//! The origin as raw sockets see it: faults, pipelines, handshakes, and what is no HTTP.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use carrick_lab::content::Body;
use carrick_lab::origin::body_seed;
use carrick_lab::origin::handshake::{Exchange, Handshake, Party, Step};
use carrick_lab::origin::page::Page;
use carrick_lab::origin::quota::RequestsPerConnection;
use carrick_lab::origin::server::{Running, Settings};

use super::{connect, get, is_body_of, start};

/// Sends a request on a connection of its own, and reads to its end: head, body, and whether it ended by a reset.
fn raw(origin: &Running, request: &str) -> (String, Vec<u8>, bool) {
    let mut stream = connect(origin.addresses()[0]);
    stream.write_all(request.as_bytes()).unwrap();
    let mut received = Vec::new();
    let is_reset = match stream.read_to_end(&mut received) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(
                error.kind(),
                ErrorKind::ConnectionReset,
                "{request}: {error}"
            );
            true
        }
    };
    let end = received.windows(4).position(|four| four == b"\r\n\r\n");
    let body = received.split_off(end.map_or(0, |end| end + 4));
    (
        String::from_utf8_lossy(&received).into_owned(),
        body,
        is_reset,
    )
}

#[test]
fn pages_have_the_bytes_that_they_promise() {
    let origin = start();
    for page in [
        Page::of_table_a1(35).unwrap(),
        Page::new(3, 30_001).unwrap(),
    ] {
        let (head, base, _) = raw(&origin, &get(page.path()));
        assert!(head.contains("Content-Type: text/html"), "{head}");
        assert_eq!(base, page.base());
        for number in 1..=page.embedded() {
            let path = page.object_path(number);
            let (_, object, _) = raw(&origin, &get(&path));
            assert_eq!(object.len() as u64, page.object_bytes());
            is_body_of(&path, 0, &object);
        }
    }
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let origin = start();
    let mut stream = connect(origin.addresses()[0]);
    let paths: Vec<String> = (0..200)
        .map(|number| format!("/b/{}", number * 997))
        .collect();
    let mut sender = stream.try_clone().unwrap();
    let requests: Vec<String> = paths
        .iter()
        .map(|path| get(path).replace("close", "keep-alive"))
        .collect();
    let sending = std::thread::spawn(move || {
        sender.write_all(requests.concat().as_bytes()).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    sending.join().unwrap();
    let mut rest = &received[..];
    for (number, path) in paths.iter().enumerate() {
        let end = rest
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap()
            + 4;
        let body = &rest[end..end + number * 997];
        is_body_of(path, 0, body);
        rest = &rest[end + number * 997..];
    }
    assert!(rest.is_empty());
    assert_eq!(origin.stop().unwrap().requests, 200);
}

#[test]
fn faults_look_as_described() {
    let origin = start();
    let path = "/b/100000";
    for after in [0, 5000, 99_999] {
        for framing in ["length", "chunked", "close"] {
            let target =
                format!("{path}?fault=reset&after={after}&framing={framing}&chunk_bytes=30000");
            let (head, body, is_reset) = raw(&origin, &get(&target));
            assert!(is_reset && head.starts_with("HTTP/1.1 200"), "{target}");
            if framing != "chunked" {
                assert_eq!(body.len(), after, "{target}");
                is_body_of(path, 0, &body);
            }
        }
        let (head, body, is_reset) =
            raw(&origin, &get(&format!("{path}?fault=close&after={after}")));
        assert!(head.contains("Content-Length: 100000\r\n") && !is_reset);
        assert_eq!(body.len(), after);
        is_body_of(path, 0, &body);
    }
    // Longer than any buffer of a socket.
    let (_, body, is_reset) = raw(&origin, &get("/b/9000000?fault=reset&after=4000001"));
    assert_eq!((body.len(), is_reset), (4_000_001, true));
    is_body_of("/b/9000000", 0, &body);

    let started = Instant::now();
    let (_, body, _) = raw(
        &origin,
        &get(&format!("{path}?fault=stall&after=7&stall_ms=300")),
    );
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(body.len(), 100_000);
    is_body_of(path, 0, &body);

    let (_, garbage, is_reset) = raw(&origin, &get("/b/5?fault=garbage"));
    assert_eq!((garbage.len(), is_reset), (256, false));
    is_body_of("/b/5", 0, &garbage);
    let (head, nothing, is_reset) = raw(&origin, &get("/b/5?fault=refuse"));
    assert_eq!((head.len(), nothing.len(), is_reset), (0, 0, false));
    let (head, body, _) = raw(&origin, &get("/b/5?fault=long&after=3"));
    assert!(head.contains("Content-Length: 5\r\n"));
    assert_eq!(body.len(), 8);
    let (_, body, is_reset) = raw(&origin, &get("/b/50?fault=bad-chunk&after=10"));
    let expected = [
        b"a\r\n",
        Body::of_seed(body_seed("/b/50")).piece(0, 10),
        b"\r\nzz\r\n",
    ]
    .concat();
    assert_eq!((body, is_reset), (expected, false));

    let made = origin.stop().unwrap().faults;
    let count = |name: &str| made.get(name).copied().unwrap_or(0);
    assert_eq!(
        [
            count("reset"),
            count("close"),
            count("stall"),
            count("garbage")
        ],
        [10, 3, 1, 1]
    );
    assert_eq!(
        [count("refuse"), count("long"), count("bad-chunk")],
        [1, 1, 1]
    );
}

#[test]
fn delay_and_rate_take_their_time() {
    let origin = start();
    let started = Instant::now();
    let (_, body, _) = raw(&origin, &get("/b/10?delay_ms=250"));
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert_eq!(body.len(), 10);
    for framing in ["length", "chunked"] {
        let started = Instant::now();
        // 50 kB at 1 Mbit/s are 400 ms, less the last 10 ms, which are sent at once.
        let (_, body, _) = raw(
            &origin,
            &get(&format!("/b/50000?rate_kbit=1000&framing={framing}")),
        );
        assert!(
            started.elapsed() >= Duration::from_millis(385),
            "{:?}",
            started.elapsed()
        );
        assert!(body.len() >= 50_000);
    }
}

#[test]
fn what_is_no_http_is_refused_and_the_connection_closed() {
    let origin = start();
    for (request, status) in [
        ("GET /\r\n\r\n", "400"),
        (
            "GET / HTTP/1.1\r\n\r\nGET /b/5 HTTP/1.1\r\nHost: o\r\n\r\n",
            "400",
        ),
        (
            "POST / HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "400",
        ),
        (
            &format!(
                "GET / HTTP/1.1\r\nHost: o\r\nA: {}\r\n\r\n",
                "b".repeat(60_000)
            ),
            "431",
        ),
        (&format!("\u{16}{}", "x".repeat(200)), "400"),
    ] {
        let (head, body, is_reset) = raw(&origin, request);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:.60}: {head}"
        );
        assert!(head.contains("Connection: close") && !is_reset && !body.is_empty());
    }
    let summary = origin.stop().unwrap();
    assert_eq!(
        (summary.malformed, summary.requests, summary.aborted),
        (5, 0, 0)
    );
}

#[test]
fn a_handshake_goes_before_http() {
    let origin = start();
    for handshake in [
        Handshake::Full,
        Handshake::Abbreviated,
        Handshake::Abbreviated,
    ] {
        let mut stream = connect(origin.addresses()[0]);
        let mut exchange = Exchange::new(handshake, Party::Client);
        loop {
            match exchange.step() {
                Step::Done => break,
                Step::Send(message) => {
                    stream.write_all(&message).unwrap();
                    exchange.sent();
                }
                Step::Receive(bytes) => {
                    let mut message = vec![0; bytes];
                    stream.read_exact(&mut message).unwrap();
                    assert_eq!(exchange.received(&message), Ok(bytes));
                }
            }
        }
        stream.write_all(get("/b/700").as_bytes()).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        is_body_of("/b/700", 0, &received[received.len() - 700..]);
    }
    let summary = origin.stop().unwrap();
    assert_eq!(
        (summary.handshakes_full, summary.handshakes_abbreviated),
        (1, 2)
    );
    assert_eq!((summary.requests, summary.malformed), (3, 0));
}

#[test]
fn a_connection_carries_as_many_requests_as_it_may() {
    let mut settings = Settings::new(vec![([127, 0, 0, 1], 0).into()]);
    settings.requests_per_connection = RequestsPerConnection::Fixed(3);
    settings.threads = 2;
    let origin = Running::start(&settings).unwrap();
    for _ in 0..20 {
        let mut stream = connect(origin.addresses()[0]);
        stream
            .write_all(b"GET /b/1 HTTP/1.1\r\nHost: o\r\n\r\n".repeat(5).as_slice())
            .unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        let text = String::from_utf8_lossy(&received);
        let heads: Vec<&str> = text.split("HTTP/1.1 ").skip(1).collect();
        assert_eq!(heads.len(), 3, "{text}");
        let closes = heads.iter().map(|head| head.contains("Connection: close"));
        assert_eq!(closes.collect::<Vec<_>>(), [false, false, true], "{text}");
    }
    let summary = origin.stop().unwrap();
    assert_eq!(
        (summary.connections, summary.requests, summary.body_bytes),
        (20, 60, 60)
    );
}
