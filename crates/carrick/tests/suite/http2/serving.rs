//! Requests and responses.
use super::client::{Reply, connect, connect_with, fetch, read, request, run};
use super::{OK, PATIENT, ok_server, start, switch_text};
use crate::http::fields::ALTERNATIVES;
use crate::support::message::field;
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Peer, Place, Server, random};
use h2::Reason;
use http::{HeaderMap, HeaderValue, StatusCode};

/// Answers each request with this.
fn server_that_says(place: &Place, response: &'static str) -> Serving {
    Server::listen(place).serve(move |mut peer, _| {
        if peer.waits_for_head() {
            peer.read_head();
            peer.send(response);
        }
    })
}

#[test]
fn requests_of_one_connection_are_logged_and_counted_as_what_they_are() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let answering = std::thread::spawn(move || {
        let mut peer = server.accept();
        let mut heads = Vec::new();
        for _ in 0..3 {
            heads.push(peer.read_head());
            peer.send(OK);
        }
        heads
    });
    run(async {
        let mut sender = connect(carrick.listener()).await;
        for path in ["/a?b=c", "/d", "/e"] {
            let mut asked = request("GET", path);
            for crumb in ["one=1", "two=2"] {
                asked
                    .headers_mut()
                    .append("cookie", HeaderValue::from_static(crumb));
            }
            let reply = fetch(&mut sender, asked, b"", None)
                .await
                .expect("a response");
            assert_eq!(
                (reply.status, &reply.body[..]),
                (StatusCode::OK, &b"ok"[..])
            );
            assert!(reply.field("connection").is_none() && reply.field("date").is_some());
        }
    });
    let heads = answering.join().expect("the server");
    let head = &heads[0];
    assert!(
        head.starts_with("GET /a?b=c HTTP/1.1\r\nHost: a.example\r\n"),
        "{head}"
    );
    assert_eq!(field(head, "cookie").as_deref(), Some("one=1; two=2"));
    assert!(
        field(head, "via")
            .expect("a field")
            .starts_with("2.0 carrick"),
        "{head}"
    );
    for line in carrick.access_log(3) {
        assert_eq!(line.text("version"), "HTTP/2.0");
        assert_eq!((line.status(), line.number("sent")), (200, 2));
    }
    let count = |name| carrick.metric(name, &[]);
    assert!((count("carrick_client_connections_total") - 1.0).abs() < 0.5);
    assert!((count("carrick_http2_connections_total") - 1.0).abs() < 0.5);
    assert!((count("carrick_http2_requests_total") - 3.0).abs() < 0.5);
    assert!((count("carrick_requests_total") - 3.0).abs() < 0.5);
}

#[test]
fn streams_do_not_wait_for_each_other() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let ask = |sender: &mut h2::client::SendRequest<_>, path| {
            sender
                .send_request(request("GET", path), true)
                .expect("a stream")
                .0
        };
        let first = ask(&mut sender, "/first");
        let second = ask(&mut sender, "/second");
        let answering = tokio::task::spawn_blocking(move || {
            let mut peers = [server.accept(), server.accept()];
            let heads = peers.each_mut().map(Peer::read_head);
            let of_second = usize::from(heads[1].starts_with("GET /second "));
            peers[of_second].send(OK);
            (peers, 1 - of_second)
        });
        assert_eq!(read(second).await.expect("a response").body, b"ok");
        let (mut peers, of_first) = answering.await.expect("the server");
        peers[of_first].send(OK);
        assert_eq!(read(first).await.expect("a response").body, b"ok");
    });
}

#[test]
fn trailers_go_both_ways() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let answering = std::thread::spawn(move || {
        let mut peer = server.accept();
        let head = peer.read_head().to_lowercase();
        assert!(head.contains("transfer-encoding: chunked") && !head.contains("content-length"));
        peer.expect("5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n");
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n");
        peer.send("3\r\nfoo\r\n1;x=y\r\nb\r\n2\r\nar\r\n0\r\nX-Sum: 2\r\nX-Other:  3 \r\n\r\n");
        peer
    });
    let reply = run(async {
        let mut sender = connect(carrick.listener()).await;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("1"));
        fetch(&mut sender, request("POST", "/"), b"hello", Some(trailers)).await
    });
    answering.join().expect("the server");
    let reply = reply.expect("a response");
    assert_eq!(reply.body, b"foobar");
    assert!(reply.field("transfer-encoding").is_none());
    let trailers = reply.trailers.expect("trailers");
    assert_eq!(trailers["x-sum"], "2");
    assert_eq!(trailers["x-other"], "3");
}

#[test]
fn alternative_services_of_servers_pass_as_they_come() {
    let place = Place::claim();
    let fields = ALTERNATIVES.map(|value| format!("Alt-Svc: {value}\r\n"));
    let fields = fields.concat();
    let server = Server::listen(&place).serve(move |peer, _| {
        answer_requests(peer, |head| {
            let fields = match head.starts_with("GET /with ") {
                true => &fields,
                false => "",
            };
            format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n").into_bytes()
        });
    });
    let carrick = start(&place, &[server.address()]);
    let replies = run(async {
        let mut sender = connect(carrick.listener()).await;
        let mut replies = Vec::new();
        for path in ["/with", "/without"] {
            let reply = fetch(&mut sender, request("GET", path), b"", None).await;
            replies.push(reply.expect("a response"));
        }
        replies
    });
    let values = |reply: &Reply| {
        let values = reply.fields.get_all("alt-svc").iter();
        let values = values.map(|value| value.to_str().expect("text").to_owned());
        values.collect::<Vec<_>>()
    };
    assert_eq!(values(&replies[0]), ALTERNATIVES);
    assert!(values(&replies[1]).is_empty());
}

#[test]
fn responses_end_as_they_should() {
    let place = Place::claim();
    let cases = [
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            200,
            "",
        ),
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            200,
            "",
        ),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (
            "GET",
            "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
            304,
            "",
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\n\r\nto the end",
            200,
            "to the end",
        ),
        ("GET", "HTTP/1.0 200 OK\r\n\r\nold", 200, "old"),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            200,
            "",
        ),
        (
            "GET",
            "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            200,
            "x",
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nConnection: x-hop, close\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nContent-Length: 1\r\n\r\ny",
            200,
            "y",
        ),
        ("GET", "nonsense", 502, "*"),
    ];
    for (method, response, status, body) in cases {
        let server = server_that_says(&place, response);
        let carrick = start(&place, &[server.address()]);
        let reply = run(async {
            let mut sender = connect(carrick.listener()).await;
            fetch(&mut sender, request(method, "/"), b"", None).await
        });
        let reply = reply.unwrap_or_else(|error| panic!("{response}: {error}"));
        assert_eq!(reply.status.as_u16(), status, "{response}");
        if body != "*" {
            assert_eq!(String::from_utf8_lossy(&reply.body), body, "{response}");
        }
        for name in [
            "connection",
            "keep-alive",
            "upgrade",
            "transfer-encoding",
            "x-hop",
        ] {
            assert!(reply.field(name).is_none(), "{response}: {name}");
        }
        if method == "HEAD" {
            assert_eq!(reply.field("content-length"), Some("5"));
        }
    }
}

#[test]
fn a_response_that_breaks_off_does_not_end_in_order() {
    let place = Place::claim();
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nnot all",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n",
    ] {
        let server = server_that_says(&place, response);
        let carrick = start(&place, &[server.address()]);
        let error = run(async {
            let mut sender = connect(carrick.listener()).await;
            fetch(&mut sender, request("GET", "/"), b"", None).await
        });
        let error = error.expect_err(response);
        assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR), "{response}");
        assert_ne!(carrick.access_log(1)[0].text("ended"), "complete");
    }
}

/// Sends back what it gets.
fn echo_server(place: &Place) -> Serving {
    Server::listen(place).serve(|mut peer, _| {
        while peer.waits_for_head() {
            let head = peer.read_head();
            let length = field(&head, "content-length").expect("a length");
            let length: usize = length.parse().expect("a number");
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
            ));
            let mut left = length;
            while left > 0 {
                let piece = peer.read_exact(left.min(100_000));
                left -= piece.len();
                peer.send(&piece);
            }
        }
    })
}

#[test]
fn large_bodies_go_both_ways_at_the_pace_of_a_slow_reader() {
    let place = Place::claim();
    let server = echo_server(&place);
    let carrick = start(&place, &[server.address()]);
    let bodies =
        [1, 2, 3].map(|seed| random::Random::new(seed).bytes(1_000_000 + 13 * seed as usize));
    run(async {
        let mut builder = h2::client::Builder::new();
        // Windows that are opened little by little.
        builder
            .initial_window_size(10_000)
            .initial_connection_window_size(70_000);
        let sender = connect_with(carrick.listener(), &builder).await;
        let tasks = bodies.clone().map(|body| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let mut asked = request("POST", "/");
                let length = HeaderValue::from(body.len());
                asked.headers_mut().insert("content-length", length);
                fetch(&mut sender, asked, &body, None).await
            })
        });
        for (task, body) in tasks.into_iter().zip(&bodies) {
            let reply = task.await.expect("a task").expect("a response");
            assert_eq!(random::hash(&reply.body), random::hash(body));
        }
    });
}

#[test]
fn an_early_answer_leaves_the_rest_of_a_request_unread() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let answering = std::thread::spawn(move || {
        let mut peer = server.accept();
        peer.read_head();
        peer.send(
            "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
        );
        // Closing with unread bytes would reset the connection before the answer is read.
        peer.read_ending();
        server
    });
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let body = vec![b'x'; 3_000_000];
        let reply = fetch(&mut sender, request("POST", "/"), &body, None).await;
        let reply = reply.expect("a response");
        assert_eq!((reply.status.as_u16(), &reply.body[..]), (413, &b"no"[..]));
        // The connection serves others.
        let server = answering.join().expect("the server");
        let answering = std::thread::spawn(move || {
            let mut peer = server.accept();
            peer.read_head();
            peer.send(OK);
        });
        let reply = fetch(&mut sender, request("GET", "/"), b"", None).await;
        assert_eq!(reply.expect("a response").body, b"ok");
        answering.join().expect("the server");
    });
}

#[test]
fn the_cache_answers() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| {
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 6\r\n\r\nstored"
                .to_vec()
        });
    });
    let text = format!(
        "{PATIENT}[cache]\n{}",
        switch_text("cache = true", &[server.address()])
    );
    let carrick = Carrick::start(&place, &text);
    run(async {
        let mut sender = connect(carrick.listener()).await;
        for _ in 0..3 {
            let reply = fetch(&mut sender, request("GET", "/"), b"", None).await;
            assert_eq!(reply.expect("a response").body, b"stored");
        }
    });
    let words: Vec<_> = carrick
        .access_log(3)
        .iter()
        .map(|line| line.text("cache").to_owned())
        .collect();
    assert_eq!(words, ["miss", "hit", "hit"]);
}

#[test]
fn a_client_that_gives_up_is_noticed() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let (response, mut stream) = sender
            .send_request(request("GET", "/"), true)
            .expect("a stream");
        let mut upstream = tokio::task::spawn_blocking(move || {
            let mut peer = server.accept();
            peer.read_head();
            peer
        })
        .await
        .expect("the server");
        stream.send_reset(Reason::CANCEL);
        drop(response);
        let ending = tokio::task::spawn_blocking(move || upstream.read_ending());
        ending.await.expect("an end");
    });
    let line = &carrick.access_log(1)[0];
    assert_eq!((line.status(), line.text("ended")), (499, "client_reset"));
}

#[test]
fn plain_clients_are_served_beside() {
    let place = Place::claim();
    let server = ok_server(&place);
    let carrick = start(&place, &[server.address()]);
    // The preface's first letters are those of other methods.
    for method in ["POST", "PUT", "PROPFIND", "GET"] {
        let mut client = carrick.connect();
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        client.send_in_pieces(text, &[1, 2, 1, 100]);
        assert_eq!(client.read_response(method).status, 200, "{method}");
    }
    let off = switch_text("http2 = false", &[server.address()]);
    let place = Place::claim();
    let carrick = Carrick::start(&place, &off);
    let mut client = carrick.connect();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.read_response("PRI").status, 505);
}
