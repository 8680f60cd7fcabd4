//! Longer runs: real programs, loss, servers that close at any moment, several servers.
use super::*;
use crate::transparent::bed::inside;
use carrick_lab::command::find;
use carrick_lab::testbed::namespace::Namespace;
use std::time::Duration;

/// The test bed's server, with the engine.
const NGINX: &str = r#"
[[listener]]
listen = "10.1.0.1:8080"
mode = "switch"
[[listener.route]]
upstream = "nginx"
engine = "packet"
[upstream.nginx]
servers = ["10.2.0.2:80"]
"#;

/// How often something is tried: by chance, connections lose so much at first that the process relays some or all of them.
pub(super) const TIMES: usize = 5;

#[test]
fn curl_and_nginx_get_on() {
    let Some(bed) = Bed::build() else { return };
    for time in 1..=TIMES {
        let forwarded = responses_forwarded_to_curl(&bed);
        if forwarded == 48 {
            return;
        }
        assert!(time < TIMES, "{forwarded} responses by the kernel");
    }
}

/// curl asks for fifty responses; how many the kernel forwarded.
fn responses_forwarded_to_curl(bed: &Bed) -> usize {
    let carrick = bed.carrick(NGINX);
    let urls: String = (0..50)
        .map(|number| format!(" http://{LISTENER}/{number}"))
        .collect();
    let said = bed.curl(urls.trim_start());
    assert_eq!(said.lines().count(), 50, "{said}");
    for (number, line) in said.lines().enumerate() {
        assert!(line.contains(&format!("request=GET /{number} ")), "{line}");
        assert!(line.contains("via=1.1 carrick"), "{line}");
    }
    let lines = carrick.access_log(50);
    let by_kernel = lines.iter().filter(|line| line["engine"] == "packet");
    by_kernel.count()
}

#[test]
fn wrk_finds_no_fault() {
    let Some(bed) = Bed::build() else { return };
    if find("wrk").is_none() {
        carrick_test::skip!("there is no wrk");
        return;
    }
    let carrick = bed.carrick(NGINX);
    let url = format!("http://{LISTENER}/slash");
    let words = [
        "wrk",
        "-t",
        "2",
        "-c",
        "40",
        "-d",
        "2",
        "--timeout",
        "20",
        &url,
    ];
    wait_until("more responses than clients", || {
        let output = inside(&bed.client, &words).output().expect("wrk");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("requests in"), "{said}");
        assert!(
            !said.contains("Socket errors") && !said.contains("Non-2xx"),
            "{said}"
        );
        let ok = "carrick_requests_total{mode=\"switch\",status=\"200\"}";
        carrick.metric(&bed, ok) > 40.0
    });
}

/// Packets lost of a thousand: too few to make a leg look lossy.
pub(super) const SOME: u32 = 6;

/// Drops this many of a thousand incoming TCP packets.
pub(super) fn lose(namespace: &Namespace, per_thousand: u32) {
    for words in [
        "add table inet loss",
        "add chain inet loss in { type filter hook input priority 0 ; }",
        &format!(
            "add rule inet loss in meta l4proto tcp numgen random mod 1000 < {per_thousand} drop"
        ),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        namespace.run("nft", &words).expect("nft");
    }
}

#[test]
fn nothing_is_wrong_where_packets_get_lost() {
    for time in 1..=TIMES {
        let Some(forwarded) = responses_forwarded_under_loss() else {
            return;
        };
        if forwarded > 8 {
            return;
        }
        assert!(time < TIMES, "{forwarded} responses by the kernel");
    }
}

/// Asks for random responses while packets get lost, and compares each; how many the kernel forwarded. `None`: skipped.
fn responses_forwarded_under_loss() -> Option<usize> {
    let play = Play::begin("")?;
    lose(&play.bed.client, SOME);
    lose(&play.bed.server, SOME);
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let _other = play.serve(1, |_| ok(b"other"));
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let play = &play;
            scope.spawn(move || {
                let mut random = Random::new(300 + seed);
                let mut client = play.connect();
                for _ in 0..40 {
                    if random.below(8) == 0 {
                        assert_eq!(client.ask(&get("/other/")).body, b"other");
                    }
                    let target = format!("/s/{}", random.below(400_000));
                    let response = client.ask(&get(&target));
                    assert!(hash(&response.body) == hash(&content(&target)), "{target}");
                }
            });
        }
    });
    let lines = play.packet_lines(8 * 40);
    assert!(lines.iter().all(|line| line.text("ended") == "complete"));
    Some(lines.len())
}

#[test]
fn a_server_may_close_at_any_moment_between_two_requests() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0).serve(|mut peer, number| {
        let mut random = Random::new(number as u64 + 1);
        for _ in 0..3 + random.below(6) {
            if !peer.reads_until(|bytes| head_end(bytes).is_some()) {
                return;
            }
            let head = peer.read_head();
            // The client sees what is missing.
            let _ = peer.try_send(ok(&content(target_of(&head))));
        }
        std::thread::sleep(Duration::from_micros(random.next() % 1500));
    });
    let mut random = Random::new(7);
    let mut client = play.connect();
    for _ in 0..400 {
        let target = format!("/s/{}", random.below(3000));
        let response = client.ask(&get(&target));
        assert_eq!(response.status, 200, "{target}");
        assert!(response.body == content(&target), "{target}");
        std::thread::sleep(Duration::from_micros(random.next() % 1500));
    }
    drop(server);
    let lines = play.packet_lines(400);
    assert!(lines.len() > 100, "{}", lines.len());
}

/// A client that rests is detached after a while; one whose response pauses must not be.
#[test]
fn content_that_looks_like_a_last_chunk_ends_nothing() {
    let Some(play) = Play::begin(IMPATIENT) else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/rows");
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let row = "4\r\n10\r\n\r\n";
    upstream.send(row);
    client.read_head();
    client.expect(row);
    // It was taken for whole.
    play.complete_line("/s/rows");
    // From now on another one rests, which is detached, and dismissed, later.
    let (mut other, _upstream) = play.pair(&server);
    while !other.has_more() {
        upstream.send(row);
        client.expect(row);
    }
    other.expect_end();
    upstream.send("0\r\n\r\n");
    client.expect("0\r\n\r\n");
}

#[test]
fn a_hash_goes_before_the_server_that_a_client_is_bound_to() {
    let Some(bed) = Bed::build() else { return };
    let text = SWITCH.replace(
        "[upstream.servers]\nservers = [\"10.2.0.2:9000\"]",
        "[upstream.servers]\nservers = [\"10.2.0.2:9000\", \"10.2.0.3:9001\"]\nbalance = \"hash\"\nhash_on = \"path\"",
    );
    assert!(text.contains("hash_on"));
    let carrick = bed.carrick(&format!("[workers]\ncount = 1\n{text}"));
    let play = Play { carrick, bed };
    let _first = play.serve(0, |_| ok(b"0"));
    let _second = play.serve(1, |_| ok(b"1"));
    let mut fresh = Vec::new();
    for number in 0..16 {
        fresh.push(play.connect().ask(&get(&format!("/s/{number}"))).body);
    }
    assert!(fresh.contains(&b"0".to_vec()) && fresh.contains(&b"1".to_vec()));
    let mut client = play.connect();
    for round in 0..10 {
        for (number, expected) in fresh.iter().enumerate() {
            // Several requests to each, so that the kernel forwards some.
            for _ in 0..1 + round % 3 {
                let body = client.ask(&get(&format!("/s/{number}"))).body;
                assert_eq!(&body, expected, "{number}");
            }
        }
    }
    assert!(play.packet_lines(16 + 10 * 16).len() > 50);
}
