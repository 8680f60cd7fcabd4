//! Clients that pipeline, close early, disconnect, or read late.
use super::*;
use crate::support::Ending;
use std::time::{Duration, Instant};

#[test]
fn requests_that_come_at_once_are_answered_in_order() {
    let Some(play) = Play::begin("") else { return };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let _other = play.serve(
        1,
        |head| ok(format!("other {}", target_of(head)).as_bytes()),
    );
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut client = play.connect();
        for _ in 0..8 {
            let targets: Vec<String> = (0..10)
                .map(|number| match random.below(5) {
                    0 => format!("/other/{number}"),
                    1 => "/nowhere".into(),
                    _ => format!("/s/{}", random.below(60_000)),
                })
                .collect();
            let all: String = targets.iter().map(|target| get(target)).collect();
            match seed % 3 {
                0 => client.send(&all),
                1 => client.send_in_pieces(&all, &[33, 7, 200]),
                // Each head arrives alone, before the previous response.
                _ => targets.iter().for_each(|target| {
                    client.send(get(target));
                    std::thread::sleep(Duration::from_millis(1));
                }),
            }
            for target in &targets {
                let response = client.read_response("GET");
                if target == "/nowhere" {
                    assert_eq!(response.status, 404);
                } else if target.starts_with("/other") {
                    assert_eq!(response.body, format!("other {target}").into_bytes());
                } else {
                    assert!(hash(&response.body) == hash(&content(target)), "{target}");
                }
            }
            // And one at a time in between.
            for _ in 0..3 {
                assert_eq!(client.ask(&get("/s/4000")).body, content("/s/4000"));
            }
        }
    }
}

#[test]
fn a_request_that_comes_too_early_never_cuts_a_response() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let _other = play.serve(1, |_| ok(b"other"));
    let long_hints = format!(
        "HTTP/1.1 103 Early Hints\r\nLink: </{}>\r\n\r\n",
        "a".repeat(600)
    );
    let responses: [(&str, &[&str]); 5] = [
        (
            "length",
            &[
                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
                "01234",
                "56789",
            ],
        ),
        (
            "chunked",
            &[
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "5\r\nhello\r\n",
                "0\r\n\r\n",
            ],
        ),
        (
            "interim",
            &[
                "HTTP/1.1 100 Continue\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n",
                "behind",
            ],
        ),
        (
            "unknown",
            &[
                &long_hints,
                "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n",
                "behind",
            ],
        ),
        (
            "late",
            &["", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"],
        ),
    ];
    for (name, pieces) in responses {
        for next in ["/other/", "/nowhere"] {
            let begin = || {
                let (mut client, mut upstream) = play.pair(&server);
                ask(&mut client, &mut upstream, &format!("/s/{name}"));
                upstream.send(pieces[0]);
                client.expect(pieces[0]);
                let begun = Instant::now();
                client.send(get(next));
                // By now carrick has seen that the client pipelines.
                std::thread::sleep(Duration::from_millis(300));
                let sent = upstream.try_send(pieces[1]);
                // After a server was silent for a second, carrick may consider the response complete.
                if begun.elapsed() > Duration::from_millis(900) {
                    return None;
                }
                sent.unwrap_or_else(|error| panic!("{name} {next}: {error}"));
                Some((client, upstream))
            };
            let (mut client, mut upstream) = wait_for("a round without a long pause", begin);
            for piece in &pieces[2..] {
                // The client is known to pipeline, so no silence counts as an end.
                std::thread::sleep(Duration::from_millis(60));
                upstream
                    .try_send(piece)
                    .unwrap_or_else(|error| panic!("{name} {next} {piece:?}: {error}"));
            }
            for piece in &pieces[1..] {
                client.expect(piece);
            }
            if name == "unknown" {
                upstream.expect_end();
                drop(upstream);
            }
            let status = if next == "/nowhere" { 404 } else { 200 };
            if name == "unknown" {
                // Only the server's close tells the end; the client sends another request, to another server. If
                // carrick read the request late, it cannot know that it was early.
                client.half_close();
                let rest = client.read_to_end();
                let answer = format!("HTTP/1.1 {status} ");
                assert!(
                    rest.is_empty() || rest.starts_with(answer.as_bytes()),
                    "{}",
                    rest.escape_ascii()
                );
            } else {
                assert_eq!(client.read_response("GET").status, status, "{name} {next}");
            }
        }
    }
}

#[test]
fn a_client_that_ends_its_side_gets_its_response() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/half");
    client.half_close();
    play.wait_for_end(client.far_end());
    let body = Random::new(9).bytes(1_000_000);
    let response = ok(&body);
    upstream.send(&response[..1000]);
    client.stream().peek(&mut [0]).expect("the beginning");
    let mut second = upstream.second();
    let sending = std::thread::spawn(move || second.send(&response[1000..]));
    assert!(hash(&client.read_response("GET").body) == hash(&body));
    client.expect_end();
    sending.join().expect("a thread");
    play.complete_line("/s/half");
    // The server's connection is idle.
    let mut next = play.connect();
    next.send(get("/s/next"));
    assert!(upstream.read_head().contains("/s/next"));
    upstream.send(ok(b"next"));
    assert_eq!(next.read_response("GET").body, b"next");
}

/// Responses in two parts, of which the first does not show how much is to come; by how long a head, only the kernel knows.
fn parts() -> [[String; 2]; 2] {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nX-Long: {}\r\n\r\n",
        "a".repeat(1100)
    );
    let row = "5\r\nrow\r\n\r\n";
    [
        [head + &"x".repeat(50), "y".repeat(50)],
        [
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{row}"),
            format!("{row}0\r\n\r\n"),
        ],
    ]
}

#[test]
fn a_pause_ends_no_response_of_a_client_that_has_not_asked_again() {
    for part in parts() {
        for drains in [false, true] {
            let times = "[timeouts]\nhead = \"2s\"\ndrain = \"10m\"\n";
            let Some(mut play) = Play::begin(times) else {
                return;
            };
            let server = play.server(0);
            let (mut client, mut upstream) = play.pair(&server);
            ask(&mut client, &mut upstream, "/s/pauses");
            upstream.send(&part[0]);
            client.expect(&part[0]);
            // Whoever begins now to ask is given up after a longer pause than any that was taken for an end.
            let mut other = play.connect();
            other.send("GET /");
            play.wait_until_arrived(&other);
            if drains {
                play.carrick.signal(rustix::process::Signal::TERM);
            } else {
                client.half_close();
            }
            assert_eq!(other.read_response("GET").status, 408);
            assert!(!upstream.has_more(), "{}", part[1]);
            upstream.send(&part[1]);
            client.expect(&part[1]);
            drop((upstream, server));
            client.expect_end();
            if drains {
                play.carrick.wait();
            }
        }
    }
}

/// Of the first request that comes too early carrick cannot know that it is.
#[test]
fn a_request_that_comes_too_early_waits_for_a_response_whose_length_the_kernel_knows() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let _other = play.serve(1, |_| ok(b"other"));
    let [[begin, end], [unknown, _]] = parts();
    let (mut client, mut upstream) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/long");
    upstream.send(&begin);
    client.expect(&begin);
    client.send(get("/other/x"));
    // Of this one's server the end is asked for soon.
    let (mut early, mut earlys_server) = play.pair(&server);
    ask(&mut early, &mut earlys_server, "/s/unknown");
    earlys_server.send(&unknown);
    early.expect(&unknown);
    early.send(get("/other/x"));
    earlys_server.expect_end();
    assert!(!upstream.has_more(), "the server is asked for the end");
    upstream.send(&end);
    client.expect(&end);
    assert_eq!(client.read_response("GET").body, b"other");
}

#[test]
fn a_client_that_disconnects_in_a_response_does_not_affect_others() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    for is_reset in [true, false] {
        let (mut client, mut upstream) = play.pair(&server);
        let target = format!("/s/away-{is_reset}");
        ask(&mut client, &mut upstream, &target);
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
        let mut second = upstream.second();
        let sending = std::thread::spawn(move || second.try_send(vec![b'x'; 100_000_000]));
        client.read_exact(100_000);
        end(client, is_reset);
        sending
            .join()
            .expect("a thread")
            .expect_err("the connection is gone");
        let line = play.line(&target);
        assert_eq!(line.text("ended"), "client_reset", "{line:?}");
        // Other clients get their responses.
        let (mut client, mut upstream) = play.pair(&server);
        answer(&mut client, &mut upstream, "/s/others", b"theirs");
    }
}

#[test]
fn a_client_that_does_not_read_is_cut_off_in_the_end() {
    let Some(play) = Play::begin(IMPATIENT) else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/unread");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    let mut second = upstream.second();
    let sending = std::thread::spawn(move || second.try_send(vec![b'x'; 100_000_000]));
    let line = play.line("/s/unread");
    assert_eq!(line.text("ended"), "idle_timeout");
    sending.join().expect("a thread").expect_err("cut off");
    assert!(matches!(client.read_ending(), Ending::Reset(_)));
}

/// One of its packets ends like the last chunk would.
#[test]
fn no_other_response_gets_into_the_midst_of_a_chunked_one() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let _other = play.serve(1, |_| ok(b"other"));
    for next in ["/other/x", "/nowhere"] {
        let begin = || {
            let (mut client, mut upstream) = play.pair(&server);
            ask(&mut client, &mut upstream, "/s/chunks");
            let begun = Instant::now();
            upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nab0\r\n\r\n");
            client.send(get(next));
            // carrick asks for the end: only the server's close tells where the response ends, or a second of silence.
            upstream.expect_end();
            let sent = upstream.try_send("\r\n3\r\nend\r\n0\r\n\r\n");
            if begun.elapsed() > Duration::from_millis(900) {
                return None;
            }
            sent.unwrap_or_else(|error| panic!("{next}: {error}"));
            Some((client, upstream))
        };
        let (mut client, upstream) = wait_for("a round without a long pause", begin);
        drop(upstream);
        assert_eq!(client.read_response("GET").body, b"ab0\r\n\r\nend");
        let status = client.read_response("GET").status;
        assert_eq!(status, if next == "/nowhere" { 404 } else { 200 });
    }
}
