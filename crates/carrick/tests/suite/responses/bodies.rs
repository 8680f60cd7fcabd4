//! Clients get exactly the server's responses, whatever their form and whatever comes before and after.
use super::lasting::TIMES;
use super::*;

/// Sizes of bodies.
const SIZES: [usize; 9] = [
    0, 1, 700, 1448, 10_000, 65_536, 300_000, 1_000_000, 10_000_000,
];

#[test]
fn bodies_of_all_sizes_follow_each_other_on_one_connection() {
    for time in 1..=TIMES {
        let Some(play) = Play::begin("") else { return };
        let server = play.serve(0, |head| ok(&content(target_of(head))));
        let asked = ask_for_all_sizes(&play);
        let lines = play.packet_lines(asked.len());
        if lines.len() < asked.len() - 2 && time < TIMES {
            continue;
        }
        assert_eq!(lines.len(), asked.len() - 2, "all but the first two");
        for (line, target) in lines.iter().zip(&asked[2..]) {
            assert_eq!(line.text("target"), target);
            assert_eq!(line.number("sent"), content(target).len() as u64);
            assert_eq!((line.status(), line.text("ended")), (200, "complete"));
            assert_eq!(line.text("upstream"), "servers");
        }
        assert_eq!(server.accepted(), 1, "one connection for all");
        let count = play.carrick.metric(
            &play.bed,
            "carrick_requests_total{mode=\"switch\",status=\"200\"}",
        );
        assert!((count - asked.len() as f64).abs() < 0.5, "{count}");
        return;
    }
}

/// A client asks for bodies of all sizes, and compares each; the targets.
fn ask_for_all_sizes(play: &Play) -> Vec<String> {
    let mut client = play.connect();
    let mut random = Random::new(1);
    let mut asked = Vec::new();
    for round in 0..40 {
        let bytes = SIZES[if round < SIZES.len() {
            round
        } else {
            random.below(SIZES.len())
        }];
        let target = format!("/s/{bytes}");
        let response = client.ask(&get(&target));
        assert_eq!(response.status, 200, "{target}");
        assert!(hash(&response.body) == hash(&content(&target)), "{target}");
        asked.push(target);
    }
    asked
}

#[test]
fn requests_to_others_and_replies_of_carricks_own_come_in_between() {
    let Some(play) = Play::begin("") else { return };
    let server = play.serve(0, |head| ok(&content(target_of(head))));
    let other = play.serve(
        1,
        |head| ok(format!("other {}", target_of(head)).as_bytes()),
    );
    let mut client = play.connect();
    let mut random = Random::new(2);
    let mut by_kernel = 0;
    for round in 0..200 {
        match random.below(6) {
            0 => {
                let target = format!("/other/{round}");
                let said = client.ask(&get(&target)).body;
                assert_eq!(said, format!("other {target}").into_bytes());
            }
            1 => assert_eq!(client.ask(&get("/nowhere")).status, 404),
            2 => assert_eq!(client.ask(&get("/closed/")).status, 502),
            3 => {
                // A request with a body goes through the process, over the same connection.
                let post = "POST /s/77 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
                assert_eq!(client.ask(post).body, content("/s/77"));
            }
            _ => {
                let target = format!("/s/{}", SIZES[random.below(7)]);
                let response = client.ask(&get(&target));
                assert!(hash(&response.body) == hash(&content(&target)), "{target}");
                by_kernel += 1;
            }
        }
    }
    drop(client);
    let lines = play.packet_lines(200);
    assert!(
        lines.len() > by_kernel / 2,
        "{} of {by_kernel} by the kernel",
        lines.len()
    );
    assert_eq!((server.accepted(), other.accepted()), (1, 1));
}

#[test]
fn responses_without_bodies_are_known_to_be_whole() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    let table = [
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            200,
        ),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204),
        (
            "GET",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 999\r\nETag: \"x\"\r\n\r\n",
            304,
        ),
        (
            "OPTIONS",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            200,
        ),
        (
            "DELETE",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            404,
        ),
    ];
    for (number, (method, response, status)) in table.iter().enumerate() {
        client.send(format!("{method} /s/n{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(upstream.read_head().starts_with(method));
        upstream.send(response);
        // Byte by byte: nothing is added or omitted.
        client.expect(response);
        let _ = status;
    }
    // The connection is idle after the last one, so others can use it.
    drop(client);
    for (number, (method, _, status)) in table.iter().enumerate() {
        let line = play.line(&format!("/s/n{number}"));
        assert_eq!(
            (line.text("method"), line.status()),
            (*method, u64::from(*status as u16))
        );
        assert_eq!((line.text("engine"), line.number("sent")), ("packet", 0));
    }
    let mut second = play.connect();
    second.send(get("/s/again"));
    assert!(upstream.read_head().starts_with("GET /s/again "));
    upstream.send(ok(b"again"));
    assert_eq!(second.read_response("GET").body, b"again");
}

#[test]
fn ranges_chunks_trailers_and_long_heads_pass_as_they_are() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let trailers = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n";
    let partial = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/10\r\nContent-Length: 5\r\n\r\n01234";
    let long = format!(
        "HTTP/1.1 200 OK\r\nX-Long: {}\r\nContent-Length: 4\r\n\r\nlong",
        "x".repeat(3000)
    );
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let hops = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nX-a: b\r\nContent-Length: 0\r\n\r\n";
    let long_hints = early.replace("/a", &"a".repeat(600));
    let all = [
        partial,
        chunked,
        trailers,
        &long,
        early,
        &long_hints,
        hops,
        chunked,
    ];
    for (number, response) in all.into_iter().enumerate() {
        client.send(get(&format!("/s/p{number}")));
        assert!(upstream.read_head().contains(&format!("/s/p{number} ")));
        // Interim responses go in packets of their own, as servers send them.
        let interim = response.find("HTTP/1.1 200").unwrap_or(0);
        upstream.send(&response[..interim]);
        client.expect(&response[..interim]);
        upstream.send(&response[interim..]);
        client.expect(&response[interim..]);
    }
    // A request to another server, and back.
    let _other = play.serve(1, |_| ok(b"elsewhere"));
    assert_eq!(client.ask(&get("/other/")).body, b"elsewhere");
    drop(client);
    for (number, status) in [(0, 206), (1, 200), (2, 200), (3, 200), (4, 200), (5, 0)] {
        let line = play.line(&format!("/s/p{number}"));
        assert_eq!(
            (line.text("engine"), line.status()),
            ("packet", status),
            "{number}"
        );
    }
}

#[test]
fn many_clients_at_once_get_what_is_theirs() {
    let Some(play) = Play::begin("") else { return };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let _other = play.serve(
        1,
        |head| ok(format!("other {}", target_of(head)).as_bytes()),
    );
    std::thread::scope(|scope| {
        for seed in 0..24 {
            let play = &play;
            scope.spawn(move || {
                let mut random = Random::new(100 + seed);
                let mut client = play.connect();
                for _ in 0..40 {
                    if random.below(10) == 0 {
                        assert!(client.ask(&get("/other/x")).body.starts_with(b"other"));
                        continue;
                    }
                    // The number is also the content's seed.
                    let target = format!("/s/{}", random.below(200_000));
                    let response = client.ask(&get(&target));
                    assert!(hash(&response.body) == hash(&content(&target)), "{target}");
                    if random.below(15) == 0 {
                        client = play.connect();
                    }
                }
            });
        }
    });
    let refused = |reason: &str| {
        let metric = format!("carrick_splice_choices_total{{reason=\"{reason}\"}}");
        play.carrick.metric(&play.bed, &metric)
    };
    assert!(refused("packet_refused") < 0.5);
    let lines = play.packet_lines(24 * 40);
    // On a busy machine, late segments are retransmitted, and the leg looks lossy.
    let is_lossy = refused("packet_lossy_path") > 0.5;
    assert!(is_lossy || lines.len() > 24 * 20, "{}", lines.len());
    assert!(lines.iter().all(|line| line.text("ended") == "complete"));
}
