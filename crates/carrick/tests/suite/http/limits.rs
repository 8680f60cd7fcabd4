//! Limits on time and numbers: slow and hostile clients, slow servers.
use crate::support::carrick::{switch_text, tunnel_text};
use crate::support::{Carrick, Ending, Peer, Place, Server, wait_for};
use std::time::{Duration, Instant};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn start(place: &Place, server: &Server, tables: &str) -> Carrick {
    Carrick::start(
        place,
        &format!("{tables}\n{}", switch_text(&[server.address()])),
    )
}

/// A head that comes byte by byte, each in time, is not in time as a whole.
#[test]
fn a_head_that_trickles_is_answered_408_and_closed() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nhead = \"600ms\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    let mut client = carrick.connect();
    let mut sender = client.second();
    let sending = std::thread::spawn(move || {
        for byte in GET.bytes().cycle() {
            if byte == b'\n' || sender.try_send([byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let begun = Instant::now();
    let response = client.read_response("GET");
    assert_eq!(response.status, 408);
    assert_eq!(response.field("connection").as_deref(), Some("close"));
    assert!(begun.elapsed() >= Duration::from_millis(500));
    assert!(client.read_ending().bytes().is_empty());
    sending.join().expect("no panic");
    assert_eq!(carrick.limit_reached("head_timeout"), 1.0);
    let line = &carrick.access_log(1)[0];
    assert_eq!((line.status(), line.text("ended")), (408, "head_timeout"));
    server.expect_nobody();
}

/// The time begins with the request, also with the second one on a connection.
#[test]
fn the_second_head_has_its_own_time() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nhead = \"600ms\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    let mut client = carrick.connect();
    client.send(GET);
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
    // Longer than a head may take: between requests it is the idle time that counts.
    std::thread::sleep(Duration::from_millis(900));
    client.send("GET / HT");
    std::thread::sleep(Duration::from_millis(200));
    client.send("TP/1.1\r\nHost: a\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
    client.send("GET / HT");
    assert_eq!(client.read_response("GET").status, 408);
}

/// Nobody asked anything: there is nothing to answer.
#[test]
fn clients_that_send_nothing_are_closed_without_a_word() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nhead = \"300ms\"\nidle = \"500ms\"\ndrain = \"1s\"",
    );
    carrick.connect().expect_end();
    // Between two requests, too.
    let mut client = carrick.connect();
    client.send(GET);
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
    client.expect_end();
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
    for request in [
        GET,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
    ] {
        for part in ["", "HTTP/1.1 200 OK\r\nX: "] {
            let mut client = carrick.connect();
            client.send(request);
            let mut upstream = server.accept();
            upstream.read_head();
            upstream.send(part);
            let response = client.read_response("GET");
            assert_eq!(response.status, 504, "{}", response.head);
            assert!(matches!(
                upstream.read_ending(),
                Ending::Closed(_) | Ending::Reset(_)
            ));
            server.expect_nobody();
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
    // Up: the client is told.
    for body in [
        "Content-Length: 10\r\n\r\nhello",
        "Content-Length: 1000000\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffff\r\nhello",
    ] {
        let mut client = carrick.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{body}"));
        let mut upstream = server.accept();
        upstream.read_head();
        let response = client.read_response("POST");
        assert_eq!(
            (response.status, response.field("connection").as_deref()),
            (408, Some("close")),
            "{body:?}"
        );
        let _ = upstream.read_ending();
    }
    // Down: it notices that the rest is missing.
    for body in [
        "Content-Length: 10\r\n\r\nhello",
        "Content-Length: 1000000\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffff\r\nhello",
        "X: until-close\r\n\r\nhello",
    ] {
        let mut client = carrick.connect();
        client.send(GET);
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(format!("HTTP/1.1 200 OK\r\n{body}"));
        client.read_head();
        let ending = client.read_ending();
        assert!(matches!(ending, Ending::Reset(_)), "{body:?}: {ending:?}");
        let _ = upstream.read_ending();
    }
}

/// Whose fault it is decides the answer: here the client sends, and the server does not read.
#[test]
fn a_server_that_does_not_read_a_body_is_504_not_408() {
    let place = Place::claim();
    let server = Server::listen_with_buffers(&place, 4096);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nidle = \"700ms\"\ndrain = \"1s\"",
    );
    for framing in [
        "Content-Length: 100000000\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5f5e100\r\n",
    ] {
        let mut client = carrick.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}"));
        let mut sender = client.second();
        let sending = std::thread::spawn(move || {
            let block = vec![b'x'; 64 * 1024];
            while sender.try_send(&block).is_ok() {}
        });
        let _upstream = server.accept();
        let head = client.read_head();
        assert!(head.starts_with("HTTP/1.1 504 "), "{framing:?}: {head}");
        drop(client);
        sending.join().expect("no panic");
    }
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
        let mut client = Peer::connect_with_buffers(carrick.listener(), 4096);
        client.send(GET);
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
        let block = vec![b'x'; 64 * 1024];
        wait_for("the upstream connection's end", || {
            upstream.try_send(&block).is_err().then_some(())
        });
        wait_for("the client's end", || {
            (carrick.clients_open() == 0.0).then_some(())
        });
        assert_eq!(carrick.access_log(1)[0].status(), 200);
    }
}

/// 192.0.2.0/24 is nobody's, but packets to it might leave the machine: a listener with a full queue does not answer either.
fn full_listener(place: &Place) -> (std::net::SocketAddr, socket2::Socket, Vec<socket2::Socket>) {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&place.at(0).into()).expect("an address");
    socket.listen(0).expect("a listening socket");
    let address = socket
        .local_addr()
        .expect("an address")
        .as_socket()
        .expect("an address");
    let mut fillers = Vec::new();
    for _ in 0..8 {
        let filler = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        filler.set_nonblocking(true).expect("an option");
        let _ = filler.connect(&address.into());
        fillers.push(filler);
    }
    // The first is in the queue once it is connected; the others wait.
    std::thread::sleep(Duration::from_millis(100));
    (address, socket, fillers)
}

#[test]
fn a_server_that_does_not_accept_is_504_after_the_connect_time_out() {
    let place = Place::claim();
    let (address, _socket, _fillers) = full_listener(&place);
    let carrick = Carrick::start(
        &place,
        &format!(
            "[timeouts]\nconnect = \"500ms\"\ndrain = \"1s\"\n{}",
            switch_text(&[address])
        ),
    );
    let begun = Instant::now();
    let response = carrick.connect().ask(GET);
    assert_eq!(response.status, 504, "{}", response.head);
    assert!(response.text().contains("connect"), "{}", response.text());
    assert!(begun.elapsed() >= Duration::from_millis(450));
    assert!(carrick.limit_reached("connect_timeout") >= 1.0);
}

#[test]
fn a_server_that_does_not_accept_is_passed_over_for_one_that_does() {
    let place = Place::claim();
    let (address, _socket, _fillers) = full_listener(&place);
    let serving = Server::listen(&place).serve(|peer, _| {
        crate::support::server::answer_requests(peer, |_| b"HTTP/1.1 204 No Content\r\n\r\n".into())
    });
    let carrick = Carrick::start(
        &place,
        &format!(
            "[timeouts]\nconnect = \"300ms\"\ndrain = \"1s\"\n{}keepalive = 0\n",
            switch_text(&[address, serving.address()])
        ),
    );
    for _ in 0..4 {
        assert_eq!(carrick.connect().ask(GET).status, 204);
    }
}

#[test]
fn a_body_slower_than_rate_min_is_cut_off() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[limits]\nrate_min = \"10 KB\"\n[timeouts]\nhead = \"500ms\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    // The bytes come steadily, so that no idle time-out is reached.
    for framing in [
        "Content-Length: 1000000\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffff\r\n",
        "Transfer-Encoding: chunked\r\n\r\n",
    ] {
        let mut client = carrick.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}"));
        let mut upstream = server.accept();
        upstream.read_head();
        let mut sender = client.second();
        let is_small_chunks = framing.ends_with("chunked\r\n\r\n");
        let sending = std::thread::spawn(move || {
            let block: &[u8] = if is_small_chunks {
                b"a\r\n0123456789\r\n"
            } else {
                b"0123456789"
            };
            let begun = Instant::now();
            while sender.try_send(block).is_ok() && begun.elapsed() < crate::support::PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let response = client.read_response("POST");
        assert_eq!(response.status, 408, "{framing:?}");
        drop(client);
        sending.join().expect("no panic");
        let _ = upstream.read_ending();
    }
    assert_eq!(carrick.limit_reached("rate_min"), 3.0);
}

#[test]
fn a_body_faster_than_rate_min_is_not_cut_off() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[limits]\nrate_min = \"1 KB\"\n[timeouts]\nhead = \"300ms\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    let mut client = carrick.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    let mut upstream = server.accept();
    upstream.read_head();
    for _ in 0..20 {
        client.send([b'x'; 10_000]);
        upstream.expect([b'x'; 10_000]);
        std::thread::sleep(Duration::from_millis(50));
    }
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("POST").status, 204);
}

#[test]
fn a_reader_slower_than_rate_min_is_cut_off() {
    let place = Place::claim();
    let server = Server::listen_with_buffers(&place, 4096);
    let carrick = start(
        &place,
        &server,
        "[limits]\nrate_min = \"1 MB\"\n[timeouts]\nhead = \"500ms\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    let mut client = Peer::connect_with_buffers(carrick.listener(), 4096);
    client.send(GET);
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    let sending = std::thread::spawn(move || {
        let block = vec![b'x'; 64 * 1024];
        while upstream.try_send(&block).is_ok() {}
    });
    client.read_head();
    let begun = Instant::now();
    while !sending.is_finished() && begun.elapsed() < crate::support::PATIENCE {
        let _ = std::io::Read::read(&mut client.stream(), &mut [0; 1000]);
        std::thread::sleep(Duration::from_millis(20));
    }
    sending.join().expect("no panic");
    let line = &carrick.access_log(1)[0];
    assert_eq!(line.text("ended"), "too_slow");
    assert_eq!(carrick.limit_reached("rate_min"), 1.0);
}

/// Whoever comes when all places are taken waits in the kernel's queue, and is served when one is free.
#[test]
fn more_clients_than_allowed_wait_for_a_place() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[workers]\ncount = 1\n[limits]\nconnections = 3\n[admin]\nlisten = \"{ip}:13129\"",
    );
    let first: Vec<Peer> = (0..3).map(|_| carrick.connect()).collect();
    carrick.wait_for_metric("carrick_client_connections_open", &[], 3.0);
    let mut late = carrick.connect();
    late.send(GET);
    carrick.wait_for_metric(
        "carrick_limit_reached_total",
        &["limit=\"connections\""],
        1.0,
    );
    server.expect_nobody();
    assert!(!late.has_more());
    drop(first);
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(late.read_response("GET").status, 204);
}

#[test]
fn one_client_may_not_take_all_places() {
    let place = Place::claim();
    let server = Server::listen(&place);
    for text in [
        switch_text(&[server.address()]),
        tunnel_text(&[server.address()]),
    ] {
        let place = Place::claim();
        let carrick = Carrick::start(
            &place,
            &format!("[limits]\nconnections_per_client = 2\n{text}"),
        );
        let to = if text.contains("tunnel") {
            carrick.tunnel_address()
        } else {
            carrick.listener()
        };
        let (greedy, modest) = ([127, 0, 8, 1].into(), [127, 0, 8, 2].into());
        let mut kept = vec![
            Peer::connect_from(greedy, to),
            Peer::connect_from(greedy, to),
        ];
        carrick.wait_for_metric("carrick_client_connections_open", &[], 2.0);
        for _ in 0..3 {
            let mut refused = Peer::connect_from(greedy, to);
            let _ = refused.try_send(GET);
            assert!(refused.read_ending().bytes().is_empty() || text.contains("switch"));
        }
        assert_eq!(carrick.limit_reached("connections_per_client"), 3.0);
        // Others are not concerned, and a place that is given back counts.
        let _other = Peer::connect_from(modest, to);
        carrick.wait_for_metric("carrick_client_connections_open", &[], 3.0);
        drop(kept.pop());
        wait_for("the place to be free", || {
            // The server of a tunnel must end its side, too.
            while server.try_accept().is_some() {}
            (carrick.clients_open() == 2.0).then_some(())
        });
        let _again = Peer::connect_from(greedy, to);
        carrick.wait_for_metric("carrick_client_connections_open", &[], 3.0);
        // Connections of a tunnel reached the server.
        while server.try_accept().is_some() {}
    }
}

/// The least rate is asked of clients: a server that streams slowly is none.
#[test]
fn a_slow_server_is_not_held_to_rate_min() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[limits]\nrate_min = \"1 MB\"\n[timeouts]\nhead = \"200ms\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    for (framing, piece, end) in [
        ("Content-Length: 100", "0123456789", ""),
        (
            "Transfer-Encoding: chunked",
            "a\r\n0123456789\r\n",
            "0\r\n\r\n",
        ),
        ("Content-Length: 1000000", "0123456789", ""),
    ] {
        let mut client = carrick.connect();
        client.send(GET);
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
        client.read_head();
        for _ in 0..10 {
            upstream.send(piece);
            client.expect(piece);
            std::thread::sleep(Duration::from_millis(60));
        }
        upstream.send(end);
        client.expect(end);
    }
    assert_eq!(carrick.limit_reached("rate_min"), 0.0);
}

/// Whoever does not read must not make carrick think that the server is ill.
#[test]
fn a_client_that_does_not_read_does_not_mark_the_server() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[timeouts]\nidle = \"500ms\"\ndrain = \"1s\"",
    );
    for framing in [
        "Content-Length: 100000000\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5f5e100\r\n",
        "X: until-close\r\n\r\n",
    ] {
        let mut client = Peer::connect_with_buffers(carrick.listener(), 4096);
        client.send(GET);
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(format!("HTTP/1.1 200 OK\r\n{framing}"));
        let block = vec![b'x'; 64 * 1024];
        wait_for("the upstream connection's end", || {
            upstream.try_send(&block).is_err().then_some(())
        });
        // Reading on late must not look like a whole response.
        assert!(
            matches!(client.read_ending(), Ending::Reset(_)),
            "{framing:?}"
        );
    }
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
