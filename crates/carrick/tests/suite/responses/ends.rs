//! Servers that close: before, in and after a response, and between two.
use super::*;
use crate::support::Ending;

#[test]
fn a_response_until_close_ends_the_clients_connection() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/close");
    let body = Random::new(5).bytes(500_000);
    // The sockets need not have room for it.
    let sent = body.clone();
    let sending = std::thread::spawn(move || {
        upstream.send("HTTP/1.1 200 OK\r\nContent-Type: x\r\n\r\n");
        upstream.send(&sent);
    });
    let response = client.read_response("GET");
    sending.join().expect("the server");
    assert!(hash(&response.body) == hash(&body));
    let line = play.complete_line("/s/close");
    assert_eq!(line.number("sent"), body.len() as u64);
}

#[test]
fn a_server_that_says_close_ends_the_clients_connection_after_the_response() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    for is_closed_at_once in [true, false] {
        let (mut client, mut upstream) = play.pair(&server);
        ask(&mut client, &mut upstream, "/s/last");
        upstream.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast");
        let kept = if is_closed_at_once {
            None
        } else {
            Some(upstream)
        };
        assert_eq!(client.read_response("GET").body, b"last");
        client.expect_end();
        drop(kept);
    }
}

#[test]
fn a_server_that_closes_between_two_requests_is_replaced() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    answer(&mut client, &mut upstream, "/s/third", b"third");
    drop(upstream);
    for target in ["/s/fourth", "/s/fifth", "/s/sixth"] {
        client.send(get(target));
        let mut upstream = server.accept();
        assert!(upstream.read_head().contains(target));
        upstream.send(ok(target.as_bytes()));
        assert_eq!(client.read_response("GET").body, target.as_bytes());
        drop(upstream);
    }
}

#[test]
fn a_post_behind_a_response_whose_end_is_not_certain_is_answered() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let long_head = format!(
        "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 4\r\n\r\nlong",
        "x".repeat(3000)
    );
    let trailers =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nlong\r\n0\r\nX: y\r\n\r\n";
    for uncertain in [&long_head, trailers] {
        let (mut client, mut upstream) = play.pair(&server);
        ask(&mut client, &mut upstream, "/s/uncertain");
        upstream.send(uncertain);
        client.expect(uncertain);
        client.send("POST /s/post HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nhi");
        // No further request is sent on it, and it closes, as servers do.
        upstream.expect_end();
        drop(upstream);
        let mut upstream = server.accept();
        assert!(upstream.read_head().contains("/s/post"));
        upstream.send(ok(b"posted"));
        assert_eq!(client.read_response("POST").body, b"posted");
    }
}

#[test]
fn a_server_that_closes_while_a_request_comes_in_is_replaced() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    for closes_first in [false, true] {
        let (mut client, mut upstream) = play.pair(&server);
        answer(&mut client, &mut upstream, "/s/third", b"third");
        let carricks_end = upstream.far_end();
        if closes_first {
            drop(upstream);
            play.wait_for_end(carricks_end);
            client.send("GET /s/fourth HTTP/1.1\r\nHo");
            play.wait_until_arrived(&client);
        } else {
            client.send("GET /s/fourth HTTP/1.1\r\nHo");
            play.wait_until_arrived(&client);
            drop(upstream);
            play.wait_for_end(carricks_end);
        }
        client.send("st: a\r\n\r\n");
        let mut upstream = server.accept();
        assert!(upstream.read_head().contains("/s/fourth"));
        upstream.send(ok(b"fourth"));
        assert_eq!(client.read_response("GET").body, b"fourth");
    }
}

#[test]
fn a_request_that_is_not_answered_goes_to_another_connection() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    for is_reset in [false, true] {
        let (mut client, mut upstream) = play.pair(&server);
        let target = format!("/s/again-{is_reset}");
        ask(&mut client, &mut upstream, &target);
        end(upstream, is_reset);
        let mut upstream = server.accept();
        assert!(upstream.read_head().contains(&target));
        upstream.send(ok(b"again"));
        assert_eq!(client.read_response("GET").body, b"again");
        let line = play.line(&target);
        assert_eq!((line.status(), line.text("ended")), (200, "complete"));
    }
    let retries = play.carrick.metric(&play.bed, "carrick_retries_total");
    assert!(retries >= 2.0, "{retries}");
}

#[test]
fn a_last_request_that_is_not_answered_goes_to_another_connection_too() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    answer(&mut client, &mut upstream, "/s/third", b"third");
    client.send(get("/s/fourth"));
    client.half_close();
    upstream.read_head();
    drop(upstream);
    let mut upstream = server.accept();
    assert!(upstream.read_head().contains("/s/fourth"));
    upstream.send(ok(b"fourth"));
    assert_eq!(client.read_response("GET").body, b"fourth");
    client.expect_end();
}

#[test]
fn a_response_that_breaks_off_is_never_taken_for_whole() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let heads = [
        "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n",
    ];
    for (number, head) in heads.iter().enumerate() {
        for is_reset in [false, true] {
            let (mut client, mut upstream) = play.pair(&server);
            let target = format!("/s/part-{number}-{is_reset}");
            ask(&mut client, &mut upstream, &target);
            upstream.send(head);
            upstream.send(vec![b'x'; 50_000]);
            // Received first, so that the reset does not destroy it.
            client.expect(head);
            client.expect(vec![b'x'; 50_000]);
            end(upstream, is_reset);
            assert!(
                matches!(client.read_ending(), Ending::Reset(rest) if rest.is_empty()),
                "{target}"
            );
            let line = play.line(&target);
            let ended = if is_reset {
                "upstream_reset"
            } else {
                "upstream_closed"
            };
            assert_eq!(
                (line.status(), line.text("ended")),
                (200, ended),
                "{target}"
            );
            assert_eq!(line.text("engine"), "packet");
        }
    }
}

#[test]
fn a_server_that_says_nothing_is_given_up_and_one_that_stops_is_too() {
    let Some(play) = Play::begin(IMPATIENT) else {
        return;
    };
    let server = play.server(0);
    // Both at the same time.
    let (mut client, mut upstream) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/silent");
    let (mut other, mut stops) = play.pair(&server);
    ask(&mut other, &mut stops, "/s/stops");
    stops.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
    let response = client.read_response("GET");
    assert_eq!(response.status, 504);
    let line = play.line("/s/silent");
    assert_eq!(
        (line.status(), line.text("ended")),
        (504, "upstream_timeout")
    );
    // The client continues.
    client.send(get("/s/on"));
    let mut fresh = server.accept();
    fresh.read_head();
    fresh.send(ok(b"on"));
    assert_eq!(client.read_response("GET").body, b"on");

    assert!(matches!(other.read_ending(), Ending::Reset(_)));
    assert_eq!(play.line("/s/stops").text("ended"), "idle_timeout");
}

#[test]
fn a_slow_response_is_waited_for_as_long_as_it_moves() {
    let Some(play) = Play::begin("[timeouts]\nidle = \"5s\"\n") else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/slow");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n");
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_secs(2));
        upstream.send(b"0123456789");
    }
    assert_eq!(client.read_response("GET").body.len(), 30);
    drop(client);
    assert_eq!(play.line("/s/slow").text("ended"), "complete");
}
