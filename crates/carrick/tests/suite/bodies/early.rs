//! Servers that answer before they have read the whole request, and clients that close before they have the whole response.
use super::{Stage, expect_reusable};
use crate::support::sockets::End;
use crate::support::{Ending, wait_until};

/// RFC 9112 section 9.3: the client may stop sending when it sees the answer.
#[test]
fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    let stage = Stage::new();
    for close in [true, false] {
        let (mut client, mut upstream) =
            stage.begin("POST /big HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nstart");
        upstream.read_head();
        upstream.expect("start");
        upstream.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 7\r\nConnection: close\r\n\r\ntoo big");
        if close {
            // Like a server that ignores the rest: closing with unread bytes resets.
            drop(upstream);
        }
        let response = client.read_response("POST");
        assert_eq!(
            (response.status, response.text().as_str()),
            (413, "too big")
        );
        assert_eq!(response.field("connection").as_deref(), Some("close"));
        // carrick may discard or refuse what the client still sends, but never takes it for a request.
        let _ = client.try_send("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        drop(client);
        stage.server.expect_no_connection();
    }
}

/// The answer is in the upstream's socket, followed by a reset, which must not destroy it.
#[test]
fn an_early_refusal_of_a_server_that_resets_reaches_the_client() {
    let stage = Stage::new();
    wait_until("an answer that came before the reset", || {
        let (mut client, mut upstream) =
            stage.begin("POST /big HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
        let mut sender = client.second();
        let sending = std::thread::spawn(move || {
            let block = vec![b'x'; 64 * 1024];
            while sender.try_send(&block).is_ok() {}
        });
        upstream.read_head();
        upstream.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 7\r\nConnection: close\r\n\r\ntoo big");
        // Unread bytes are in the socket: close(2) resets at once.
        drop(upstream);
        let head = client.read_head();
        // If the reset overtakes the answer, carrick's kernel discards it; then the client gets an error.
        assert!(
            head.starts_with("HTTP/1.1 413 ") || head.starts_with("HTTP/1.1 502 "),
            "{head}"
        );
        let _ = client.read_ending();
        drop(client);
        sending.join().expect("no panic");
        head.starts_with("HTTP/1.1 413 ")
    });
}

/// The server has not refused the rest of the body. But it might take it for a request, whose response others would get by its connection.
#[test]
fn an_early_response_cuts_no_body_and_leaves_no_connection_for_others() {
    let stage = Stage::new();
    for (before, after) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ""),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", "k"),
        ("HTTP/1.1 200 OK\r\nContent-Le", "ngth: 2\r\n\r\nok"),
    ] {
        let (mut client, mut upstream) =
            stage.begin("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst");
        upstream.read_head();
        upstream.expect("first");
        upstream.send(before);
        wait_until("carrick to have read it", || {
            let ends = [upstream.near_end(), upstream.far_end()].map(End::look);
            let [Some(near), Some(far)] = ends else {
                return false;
            };
            (near.unacknowledged, far.unread) == (0, 0)
        });
        client.send("secon");
        upstream.expect("secon");
        upstream.send(after);
        let response = client.read_response("POST");
        assert_eq!(response.text(), "ok", "{before:?}");
        assert_eq!(response.field("connection").as_deref(), Some("close"));
        client.expect_end();
        let (mut client, mut other) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        other.read_head();
        other.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nother");
        assert_eq!(client.read_response("GET").text(), "other", "{before:?}");
    }
}

#[test]
fn a_client_that_has_ended_its_side_still_gets_its_response() {
    let stage = Stage::new();
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let mut client = stage.carrick.connect();
        client.send(request);
        client.half_close();
        let mut upstream = stage.server.accept();
        upstream.read_head();
        let carricks_end = client.far_end();
        wait_until("the end of the client's side", || {
            carricks_end.knows_of_end()
        });
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        assert_eq!(client.read_response("GET").text(), "ok", "{request:?}");
        client.expect_end();
    }
}

/// The server computes for a client that is gone, and must notice that.
#[test]
fn a_client_reset_while_the_server_is_silent_closes_the_upstream_connection() {
    let stage = Stage::new();
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello",
    ] {
        let (client, mut upstream) = stage.begin(request);
        upstream.read_head();
        let body = request.split_once("\r\n\r\n").unwrap().1;
        upstream.expect(body);
        client.reset();
        // Not after the idle time-out: that would be another status.
        match upstream.read_ending() {
            Ending::Closed(rest) | Ending::Reset(rest) => assert!(rest.is_empty()),
        }
    }
    let lines = stage.carrick.access_log(4);
    assert!(lines.iter().all(|line| line.status() == 499), "{lines:?}");
}

#[test]
fn a_client_that_goes_in_the_middle_of_a_response_closes_the_upstream_connection() {
    for engine in ["copy", "pipe"] {
        let stage = Stage::with(&format!("[splice]\nengine = \"{engine}\""));
        for framing in [
            "Content-Length: 100000000",
            "Transfer-Encoding: chunked",
            "X: until-close",
        ] {
            let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            upstream.read_head();
            upstream.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
            if framing.ends_with("chunked") {
                upstream.send("5f5e100\r\n");
            }
            upstream.send("some");
            client.read_head();
            client.reset();
            // Sent into the void until carrick closes.
            let block = vec![b'x'; 64 * 1024];
            wait_until("the upstream connection's end", || {
                upstream.try_send(&block).is_err()
            });
        }
        stage.carrick.access_log(3);
    }
}

#[test]
fn a_half_written_request_is_forgotten() {
    let stage = Stage::new();
    for part in [
        "G",
        "GET / HTTP/1.1",
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r",
    ] {
        for how in ["half-close", "close", "reset"] {
            let mut client = stage.carrick.connect();
            client.send(part);
            match how {
                "half-close" => {
                    client.half_close();
                    let rest = client.read_to_end();
                    assert!(
                        rest.is_empty() || rest.starts_with(b"HTTP/1.1 400 "),
                        "{rest:?}"
                    );
                }
                "reset" => client.reset(),
                _ => drop(client),
            }
        }
    }
    stage.server.expect_no_connection();
    stage.carrick.wait_until_clients(0);
    let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
    expect_reusable(&mut client, &mut upstream);
}

/// A server that is slow to go on is not to blame.
#[test]
fn a_client_reset_while_its_response_pauses_closes_the_upstream_connection() {
    let stage = Stage::with("[timeouts]\nidle = \"10m\"\n");
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nstart";
    for (count, request) in [get, post].into_iter().enumerate() {
        let (mut client, mut upstream) = stage.begin(request);
        upstream.read_head();
        upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
        assert_eq!(client.read_head().split(' ').nth(1), Some("200"));
        client.expect("3\r\none\r\n");
        client.reset();
        let line = &stage.carrick.access_log(count + 1)[count];
        assert_eq!(line.text("ended"), "client_reset", "{line:?}");
        upstream.read_ending();
    }
    let failures = stage.carrick.metric("carrick_server_failures_total", &[]);
    assert_eq!(failures, 0.0);
}
