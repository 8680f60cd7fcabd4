//! Time-outs: slow or silent clients and servers.
use super::{GET, start};
use crate::support::{Carrick, Ending, Peer, Place, Server, wait_for, wait_until};
use std::time::{Duration, Instant};

/// A head that arrives byte by byte must still be complete in time.
#[test]
fn a_head_that_trickles_is_answered_408_and_closed() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nhead = \"10s\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    let begun = Instant::now();
    let mut client = carrick.connect();
    let mut sender = client.second();
    let sending = std::thread::spawn(move || {
        for byte in GET.bytes().cycle() {
            if byte == b'\n' || sender.try_send([byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(750));
        }
    });
    let response = client.read_response("GET");
    assert_eq!(response.status, 408);
    assert_eq!(response.field("connection").as_deref(), Some("close"));
    assert!(begun.elapsed() >= Duration::from_millis(9900));
    assert!(client.read_ending().bytes().is_empty());
    sending.join().expect("no panic");
    assert_eq!(carrick.limit_reached("head_timeout"), 1.0);
    let line = &carrick.access_log(1)[0];
    assert_eq!((line.status(), line.text("ended")), (408, "head_timeout"));
    server.expect_no_connection();
}

/// Without a request there is nothing to answer.
#[test]
fn clients_that_send_nothing_are_closed_without_a_word() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nhead = \"10s\"\nidle = \"12s\"\ndrain = \"1s\"",
    );
    let mut silent = carrick.connect();
    // Between two requests, too.
    let (mut client, mut upstream) = carrick.asked(&server, GET);
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
    client.expect_end();
    silent.expect_end();
    assert!(carrick.limit_reached("idle_timeout") >= 1.0);
}

#[test]
fn a_server_that_is_silent_too_long_is_504_and_its_connection_is_closed() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nidle = \"500ms\"\ndrain = \"1s\"",
    );
    // The clients' connections close, so that their own idle time is not counted.
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
    ] {
        for part in ["", "HTTP/1.1 200 OK\r\nX: "] {
            let (mut client, mut upstream) = carrick.asked(&server, request);
            let _ = upstream.try_send(part);
            let response = client.read_response("GET");
            assert_eq!(response.status, 504, "{}", response.head);
            assert!(matches!(
                upstream.read_ending(),
                Ending::Closed(_) | Ending::Reset(_)
            ));
            server.expect_no_connection();
        }
    }
    assert_eq!(carrick.limit_reached("idle_timeout"), 4.0);
}

#[test]
fn a_body_that_stalls_ends_with_the_idle_time_out() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nidle = \"500ms\"\ndrain = \"1s\"",
    );
    // Upload: the client gets a response.
    for body in [
        "Content-Length: 10\r\n\r\nhello",
        "Content-Length: 1000000\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffff\r\nhello",
    ] {
        let (mut client, mut upstream) =
            carrick.asked(&server, format!("POST / HTTP/1.1\r\nHost: a\r\n{body}"));
        let response = client.read_response("POST");
        assert_eq!(
            (response.status, response.field("connection").as_deref()),
            (408, Some("close")),
            "{body:?}"
        );
        let _ = upstream.read_ending();
    }
    // Download: the client notices that the rest is missing.
    for body in [
        "Content-Length: 10\r\n\r\nhello",
        "Content-Length: 1000000\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffff\r\nhello",
        "X: until-close\r\n\r\nhello",
    ] {
        // Again, where a busy machine keeps the server from answering in time.
        let (mut client, mut upstream) = loop {
            let (mut client, mut upstream) = carrick.asked(&server, GET);
            let _ = upstream.try_send(format!("HTTP/1.1 200 OK\r\n{body}"));
            if client.read_head().starts_with("HTTP/1.1 200 ") {
                break (client, upstream);
            }
        };
        let ending = client.read_ending();
        assert!(matches!(ending, Ending::Reset(_)), "{body:?}: {ending:?}");
        let _ = upstream.read_ending();
    }
}

/// The status depends on the side at fault: here the client sends, or has reset its connection, and the server does not read.
#[test]
fn a_server_that_does_not_read_a_body_is_504_not_408_or_499_if_the_client_is_gone() {
    let places = [Place::claim(), Place::claim()];
    let server = Server::listen_with_buffers(&places[0], 4096);
    let start = |place: &Place, idle: &str| {
        let timeouts = format!("[timeouts]\nidle = \"{idle}\"\ndrain = \"1s\"");
        start(place, &server, &timeouts)
    };
    let post = |carrick: &Carrick, framing: &str, block: &str| {
        let mut client = carrick.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}"));
        let upstream = server.accept();
        let full = Some(Duration::from_millis(50));
        client.stream().set_write_timeout(full).expect("a socket");
        while client.try_send(block).is_ok() {}
        (client, upstream)
    };
    let [large, small] = [
        "x".repeat(64 * 1024),
        format!("1000\r\n{}\r\n", "x".repeat(4096)),
    ];
    let bodies = [
        ("Content-Length: 100000000\r\n\r\n", &large),
        ("Transfer-Encoding: chunked\r\n\r\n5f5e100\r\n", &large),
        ("Transfer-Encoding: chunked\r\n\r\n", &small),
    ];
    // The clients' ends come long before the time that a server has.
    let carrick = start(&places[0], "10m");
    let gone = bodies.map(|(framing, block)| {
        let (client, upstream) = post(&carrick, framing, block);
        client.reset();
        upstream
    });
    let log = carrick.access_log(3);
    assert!(log.iter().all(|line| line.status() == 499), "{log:?}");
    assert_eq!(carrick.metric("carrick_server_failures_total", &[]), 0.0);
    drop(gone);
    let carrick = start(&places[1], "3s");
    std::thread::scope(|scope| {
        let waiting = bodies.map(|(framing, block)| {
            let client = carrick.connect();
            let mut sender = client.second();
            // All the time, so that it is never the client for which carrick waits.
            scope.spawn(move || {
                let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}");
                let mut sent = sender.try_send(head + block);
                while sent.is_ok() {
                    sent = sender.try_send(block);
                }
            });
            (client, server.accept(), framing)
        });
        for (mut client, _upstream, framing) in waiting {
            let head = client.read_head();
            assert!(head.starts_with("HTTP/1.1 504 "), "{framing:?}: {head}");
        }
    });
    assert!(carrick.metric("carrick_server_failures_total", &[]) >= 3.0);
}

#[test]
fn a_client_that_does_not_read_its_response_is_reset_after_the_idle_time_out() {
    let place = Place::claim();
    let server = Server::listen(&place);
    for engine in ["copy", "pipe"] {
        let place = Place::claim();
        let carrick = start(
            &place,
            &server,
            &format!(
                "[splice]\nengine = \"{engine}\"\n[timeouts]\nidle = \"700ms\"\ndrain = \"1s\""
            ),
        );
        // Again, where a busy machine keeps the server from answering in time.
        let (_client, mut upstream) = wait_for("a response in time", || {
            let mut client = Peer::connect_with_buffers(carrick.listener(), 4096);
            client.send(GET);
            let mut upstream = server.accept();
            upstream.read_head();
            let _ = upstream.try_send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
            let head = client.read_head();
            head.starts_with("HTTP/1.1 200 ")
                .then_some((client, upstream))
        });
        let block = vec![b'x'; 64 * 1024];
        wait_until("the upstream connection's end", || {
            upstream.try_send(&block).is_err()
        });
        carrick.wait_until_clients(0);
        wait_until("the response's line in the log", || {
            let lines = carrick.access_log(1);
            lines.iter().any(|line| line.status() == 200)
        });
    }
}

/// A client that does not read must not make carrick consider the server unhealthy.
#[test]
fn a_client_that_does_not_read_does_not_mark_the_server() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nidle = \"12s\"\ndrain = \"1s\"",
    );
    std::thread::scope(|scope| {
        for framing in [
            "Content-Length: 100000000\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n5f5e100\r\n",
            "X: until-close\r\n\r\n",
        ] {
            let mut client = Peer::connect_with_buffers(carrick.listener(), 4096);
            client.send(GET);
            let mut upstream = server.accept();
            scope.spawn(move || {
                upstream.read_head();
                upstream.send(format!("HTTP/1.1 200 OK\r\n{framing}"));
                let block = vec![b'x'; 64 * 1024];
                while upstream.try_send(&block).is_ok() {}
                // A late read must not look like a complete response.
                assert!(
                    matches!(client.read_ending(), Ending::Reset(_)),
                    "{framing:?}"
                );
            });
        }
    });
    assert_eq!(carrick.metric("carrick_server_failures_total", &[]), 0.0);
    assert_eq!(carrick.limit_reached("idle_timeout"), 3.0);
    let lines = carrick.access_log(3);
    assert!(
        lines
            .iter()
            .all(|line| line.text("ended") == "idle_timeout"),
        "{lines:?}"
    );
}
