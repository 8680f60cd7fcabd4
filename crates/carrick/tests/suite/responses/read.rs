//! `responses = "read"`: the process reads each response's head, and the kernel forwards the rest of long bodies.
use super::lasting::{SOME, TIMES, lose};
use super::*;
use crate::support::Ending;
use std::io::Read;
use std::time::Duration;

/// Like [`SWITCH`], but the process reads responses.
fn begin(before: &str) -> Option<Play> {
    let engine = "engine = \"packet\"\n";
    let read = format!("{engine}responses = \"read\"\n");
    Play::begin_with(before, &SWITCH.replace(engine, &read))
}

/// A forward proxy, which always reads responses.
const FORWARD: &str = r#"
[splice]
engine = "packet"
[[listener]]
listen = "10.1.0.1:8080"
mode = "forward"
allow = ["10.1.0.0/24"]
"#;

/// Long enough for the kernel, and much longer than what it leaves to the process.
const LONG: usize = 3_000_000;

/// Bytes that an engine has moved. What comes before the kernel is ready is copied, which may be much on a slow machine.
fn moved(play: &Play, engine: &str) -> f64 {
    let metric = format!("carrick_splice_bytes_total{{engine=\"{engine}\"}}");
    play.carrick.metric(&play.bed, &metric)
}

/// A response's head and the first part of its body, so that the kernel handles the rest once more arrives.
fn begin_long(client: &mut Peer, upstream: &mut Peer, target: &str, body: &[u8]) {
    client.send(get(target));
    answer_begin(client, upstream, target, body);
}

/// The same, of a request that has been sent.
fn answer_begin(client: &mut Peer, upstream: &mut Peer, target: &str, body: &[u8]) {
    assert!(upstream.read_head().contains(target));
    upstream.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.read_head();
    for piece in body[..600_000].chunks(100_000) {
        upstream.send(piece);
        client.expect(piece);
    }
}

#[test]
fn heads_are_read_and_long_bodies_are_the_kernels() {
    let Some(play) = begin("") else {
        return;
    };
    let server = play.serve(0, |head| ok(&content(target_of(head))));
    let other = play.serve(1, |_| ok(b"other"));
    let mut client = play.connect();
    let (mut random, mut asked) = (Random::new(7), Vec::new());
    for round in 0..60 {
        if random.below(6) == 0 {
            assert_eq!(client.ask(&get("/other/")).body, b"other");
            continue;
        }
        let bytes = [0, 5, 20_000, 200_000, 1_000_000, LONG]
            [if round < 6 { round } else { random.below(6) }];
        let target = format!("/s/{bytes}");
        let response = client.ask(&get(&target));
        assert!(hash(&response.body) == hash(&content(&target)), "{target}");
        asked.push((target, bytes));
    }
    drop(client);
    assert_eq!((server.accepted(), other.accepted()), (1, 1));
    for (target, bytes) in &asked {
        let line = play.line(target);
        assert_eq!((line.status(), line.text("ended")), (200, "complete"));
        assert_eq!(line.number("sent"), *bytes as u64);
        let engine = line.text("engine");
        assert!(*bytes < LONG || engine == "packet", "{target} by {engine}");
    }
    assert!(moved(&play, "packet") > 0.0);
}

#[test]
fn the_first_response_of_a_client_is_the_kernels_too() {
    let Some(play) = begin("") else {
        return;
    };
    let server = play.server(0);
    let body = Random::new(8).bytes(LONG);
    for _ in 0..3 {
        let before = moved(&play, "packet");
        let mut client = play.connect();
        client.send(get("/s/first"));
        let mut upstream = server.accept();
        answer_begin(&mut client, &mut upstream, "/s/first", &body);
        let rest = body[600_000..].to_vec();
        let sending = std::thread::spawn(move || upstream.send(rest));
        client.expect(&body[600_000..]);
        sending.join().expect("the server");
        drop(client);
        wait_until("the kernel's bytes to be counted", || {
            moved(&play, "packet") > before
        });
    }
}

#[test]
fn long_bodies_through_a_forward_proxy_are_the_kernels() {
    let Some(play) = Play::begin_with("", FORWARD) else {
        return;
    };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let mut client = play.connect();
    // A response is counted with the next request.
    for bytes in [100, LONG, 7, LONG, 7] {
        let target = format!("/s/{bytes}");
        let request = format!(
            "GET http://{}{target} HTTP/1.1\r\nHost: {}\r\n\r\n",
            SERVERS[0], SERVERS[0]
        );
        let response = client.ask(&request);
        assert_eq!(response.status, 200, "{}", response.head);
        assert!(hash(&response.body) == hash(&content(&target)), "{target}");
    }
    assert!(moved(&play, "packet") > 0.0);
}

/// Bytes behind a body belong to no response: the next one must not begin with them.
#[test]
fn what_a_server_sends_behind_a_body_does_not_reach_the_client() {
    let Some(play) = begin("") else {
        return;
    };
    let server = play.server(0);
    let body = Random::new(3).bytes(LONG);
    for is_at_once in [true, false] {
        let mut client = play.connect();
        client.send(get("/s/long"));
        let mut upstream = server.accept();
        upstream.read_head();
        let mut response = ok(&body);
        let surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong";
        if is_at_once {
            response.extend_from_slice(surplus);
        }
        let sending = std::thread::spawn(move || {
            upstream.send(response);
            upstream
        });
        let read = client.read_response("GET");
        assert!(hash(&read.body) == hash(&body));
        let mut upstream = sending.join().expect("the server");
        if !is_at_once {
            let end = upstream.near_end();
            upstream.send(surplus);
            wait_until("carrick's kernel to have it", || {
                let shown = play.bed.server.inside(|| Ok(end.look()));
                let shown = shown.expect("the server");
                shown.is_none_or(|shown| shown.unacknowledged == 0)
            });
        }
        client.send(get("/s/next"));
        let mut second = server.accept();
        assert!(second.read_head().contains("/s/next"));
        second.send(ok(b"right"));
        assert_eq!(client.read_response("GET").body, b"right");
    }
    assert!(moved(&play, "packet") > 0.0);
}

#[test]
fn a_body_that_breaks_off_is_never_taken_for_whole() {
    let Some(play) = begin("") else {
        return;
    };
    let server = play.server(0);
    let body = Random::new(4).bytes(LONG);
    for is_reset in [false, true] {
        let (mut client, mut upstream) = play.pair(&server);
        let target = format!("/s/broken-{is_reset}");
        begin_long(&mut client, &mut upstream, &target, &body);
        if is_reset {
            upstream.reset();
        } else {
            drop(upstream);
        }
        let ending = client.read_ending();
        assert!(matches!(ending, Ending::Reset(rest) if rest.is_empty()));
        let line = play.line(&target);
        let ended = if is_reset {
            "upstream_reset"
        } else {
            "upstream_closed"
        };
        assert_eq!((line.status(), line.text("ended")), (200, ended));
        assert_eq!(line.number("sent"), 600_000);
        assert_eq!(line.text("engine"), "packet");
    }
}

#[test]
fn a_client_that_breaks_off_ends_the_servers_connection() {
    let Some(play) = begin("") else {
        return;
    };
    let server = play.server(0);
    let body = Random::new(4).bytes(LONG);
    let (mut client, mut upstream) = play.pair(&server);
    begin_long(&mut client, &mut upstream, "/s/away", &body);
    client.reset();
    assert!(matches!(upstream.read_ending(), Ending::Reset(_)));
    assert_eq!(play.line("/s/away").text("ended"), "client_reset");
}

/// The second request arrives during the first one's body, as does the client's close.
#[test]
fn what_the_client_sends_in_the_midst_of_a_body_is_answered_behind_it() {
    let Some(play) = begin("") else {
        return;
    };
    let server = play.server(0);
    let body = Random::new(4).bytes(LONG);
    let (mut client, mut upstream) = play.pair(&server);
    begin_long(&mut client, &mut upstream, "/s/one", &body);
    client.send(get("/s/two"));
    client.half_close();
    let rest = body[600_000..].to_vec();
    let sending = std::thread::spawn(move || {
        upstream.send(rest);
        assert!(upstream.read_head().contains("/s/two"));
        upstream.send(ok(b"two"));
    });
    client.expect(&body[600_000..]);
    assert_eq!(client.read_response("GET").body, b"two");
    client.expect_end();
    sending.join().expect("the server");
}

#[test]
fn a_client_that_pauses_gets_everything() {
    let Some(play) = begin("[timeouts]\nidle = \"30s\"\n") else {
        return;
    };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let target = format!("/s/{}", 4 * LONG);
    for pause_at in [10_000, 300_000, 2_000_000] {
        let mut client = play.connect();
        client.send(get(&target));
        client.read_head();
        let wanted = content(&target);
        client.expect(&wanted[..pause_at]);
        std::thread::sleep(Duration::from_millis(1500));
        let mut slow = client.second();
        // In small pieces for a while, then everything.
        let mut read = client.take_ahead();
        let mut piece = vec![0; 3000];
        for _ in 0..50 {
            let count = slow.stream().read(&mut piece).expect("bytes");
            read.extend_from_slice(&piece[..count]);
            std::thread::sleep(Duration::from_millis(1));
        }
        let left = wanted.len() - pause_at - read.len();
        read.extend(slow.read_exact(left));
        assert!(hash(&read) == hash(&wanted[pause_at..]), "{pause_at}");
    }
}

#[test]
fn nothing_is_wrong_where_packets_get_lost() {
    for time in 1..=TIMES {
        let Some(forwarded) = responses_forwarded_under_loss() else {
            return;
        };
        if forwarded > 3 {
            return;
        }
        assert!(time < TIMES, "{forwarded} responses by the kernel");
    }
}

/// Asks for random responses while packets get lost, and compares each; how many the kernel forwarded. `None`: skipped.
fn responses_forwarded_under_loss() -> Option<usize> {
    let play = begin("")?;
    lose(&play.bed.client, SOME);
    lose(&play.bed.server, SOME);
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let play = &play;
            scope.spawn(move || {
                let mut random = Random::new(500 + seed);
                let mut client = play.connect();
                for _ in 0..12 {
                    let target = format!("/s/{}", random.below(1_500_000));
                    let response = client.ask(&get(&target));
                    assert!(hash(&response.body) == hash(&content(&target)), "{target}");
                }
            });
        }
    });
    let lines = play.packet_lines(6 * 12);
    assert!(lines.iter().all(|line| line.text("ended") == "complete"));
    Some(lines.len())
}
