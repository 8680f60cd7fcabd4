//! Requests that the kernel judges and forwards (`requests = "kernel"`).
use super::*;
use std::time::Duration;

/// As [`SWITCH`], and the kernel judges what goes to `/s/`.
fn judging() -> String {
    let listener = "mode = \"switch\"\nforwarded = \"off\"\nvia = \"\"\n";
    SWITCH.replace("mode = \"switch\"\n", listener).replace(
        "engine = \"packet\"\n",
        "engine = \"packet\"\nrequests = \"kernel\"\n",
    )
}

/// Times that a thread of the process was given a processor.
fn switches(play: &Play) -> u64 {
    let path = format!("/proc/{}/task", play.carrick.pid().as_raw_nonzero());
    let tasks = std::fs::read_dir(path).expect("tasks");
    let count = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.map_or(0, |count| count.trim().parse().unwrap_or(0))
    };
    tasks.flatten().map(count).sum::<u64>()
}

#[test]
fn requests_do_not_visit_the_process() {
    let Some(play) = Play::begin_with("", &judging()) else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    let mut bodies = Random::new(9);
    let before = switches(&play);
    for number in 0..300 {
        let target = format!("/s/judged-{number}");
        client.send(get(&target));
        let head = upstream.read_head();
        // As it was sent.
        assert_eq!(head, get(&target));
        let body = bodies.bytes(number * 37);
        upstream.send(ok(&body));
        assert!(hash(&client.read_response("GET").body) == hash(&body));
    }
    // It has its regular work, and a request or two before it said that it has nothing to do.
    let after = switches(&play);
    assert!(after - before < 150, "{} for 300 requests", after - before);
    // Another route is the process's, and so is this one again.
    let _other = play.serve(1, |_| ok(b"other"));
    assert_eq!(client.ask(&get("/other/x")).body, b"other");
    for number in [0, 150, 299] {
        let line = play.line(&format!("/s/judged-{number}"));
        assert_eq!((line.text("engine"), line.status()), ("packet", 200));
        assert_eq!(
            (line.text("method"), line.text("upstream")),
            ("GET", "servers")
        );
        assert_eq!(line.text("server"), SERVERS[0]);
        assert_eq!(line.text("ended"), "complete");
    }
    let metric = |name: &str| play.carrick.metric(&play.bed, name);
    let count = metric("carrick_requests_total{mode=\"switch\",status=\"200\"}");
    assert!((302.5..304.5).contains(&count), "{count}");
}

#[test]
fn what_the_kernel_cannot_judge_goes_through_the_process_in_between() {
    let Some(play) = Play::begin_with("", &judging()) else {
        return;
    };
    let answering = play.serve(0, |head| {
        let target = head.split(' ').nth(1).expect("a target").to_owned();
        ok(target.as_bytes())
    });
    let _other = play.serve(1, |_| ok(b"other"));
    let mut client = play.connect();
    let mut random = Random::new(77);
    for number in 0..400 {
        let target = format!("/s/{number}");
        let request = match random.below(8) {
            0 => format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nX_odd: 1\r\n\r\n"),
            1 => format!(
                "POST {target} HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n12345"
            ),
            2 => {
                let (first, second) = (
                    format!("GET {target} HT"),
                    "TP/1.1\r\nHost: a.example\r\n\r\n",
                );
                client.send(&first);
                std::thread::sleep(Duration::from_millis(2));
                second.to_owned()
            }
            3 if number % 3 == 0 => {
                assert_eq!(client.ask(&get("/other/x")).body, b"other");
                get(&target)
            }
            4 if number % 3 == 0 => {
                assert_eq!(client.ask(&get("/nowhere")).status, 404);
                get(&target)
            }
            _ => get(&target),
        };
        assert_eq!(client.ask(&request).body, target.as_bytes());
    }
    drop(answering);
    for number in [0, 399] {
        assert_eq!(play.line(&format!("/s/{number}")).status(), 200);
    }
}

/// Writes a request for a target.
type Asking = fn(&str) -> String;

/// A client asks by one after the other, again and again, each time for another number of bytes. Looks for the lines; how many requests
/// were judged.
fn tally(play: &Play, name: &str, rounds: usize, kinds: &[Asking]) -> usize {
    let (mut client, mut asked) = (play.connect(), Vec::new());
    for number in 0..rounds * kinds.len() {
        let target = format!("/s/{name}/{}", 1000 + 10 * number);
        let response = client.ask(&kinds[number % kinds.len()](&target));
        assert!(hash(&response.body) == hash(&content(&target)));
        asked.push(target);
    }
    // With it ends the last one.
    drop(client);
    let mut judged = 0;
    for target in asked {
        let (line, body) = (play.line(&target), content(&target));
        assert_eq!((line.text("ended"), line.status()), ("complete", 200));
        // Of those that the kernel has forwarded, heads are counted, too.
        let sent = line.number("sent");
        let is_judged = sent == ok(&body).len() as u64;
        assert!(is_judged || sent == body.len() as u64, "{line:?}");
        judged += usize::from(is_judged);
    }
    judged
}

/// The process passes it on, and the kernel forwards the response.
fn odd(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nX_odd: 1\r\n\r\n")
}

/// The process takes the connections back for it.
fn post(target: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n12345")
}

#[test]
fn a_line_has_the_bytes_of_its_own_response() {
    let Some(play) = Play::begin_with("", &judging()) else {
        return;
    };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let plays: [(&str, &[Asking]); 4] = [
        ("odd", &[get, odd]),
        ("several", &[get, odd, odd, get, get]),
        // The connections are the kernel's again with the request behind it, which the process passes on.
        ("parted", &[post, get, get, get]),
        ("both", &[get, post, get, odd, get, get]),
    ];
    for (name, kinds) in plays {
        let judged = tally(&play, name, 12, kinds);
        // At least one in each round, if the process was as quick as the client.
        assert!(judged >= 6, "{name}: {judged} were judged");
    }
}

#[test]
fn the_last_line_is_written_at_the_end() {
    let Some(mut play) = Play::begin_with("[timeouts]\ndrain = \"1s\"\n", &judging()) else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    for target in ["/s/one", "/s/last"] {
        answer(&mut client, &mut upstream, target, b"yes");
    }
    // Sooner than anybody could say that the response was whole.
    play.carrick.signal(rustix::process::Signal::TERM);
    client.expect_end();
    play.carrick.wait();
    for target in ["/s/one", "/s/last"] {
        play.complete_line(target);
    }
}

#[test]
fn a_server_that_ends_between_requests_costs_the_client_nothing() {
    let Some(play) = Play::begin_with("", &judging()) else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    for number in 0..3 {
        answer(&mut client, &mut upstream, &format!("/s/{number}"), b"yes");
    }
    drop(upstream);
    std::thread::sleep(Duration::from_millis(100));
    client.send(get("/s/again"));
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send(ok(b"again"));
    assert_eq!(client.read_response("GET").body, b"again");
}

#[test]
fn a_reload_gives_the_kernel_other_routes() {
    let Some(play) = Play::begin_with("", &judging()) else {
        return;
    };
    let _first = play.serve(0, |_| ok(b"first"));
    let _other = play.serve(1, |_| ok(b"other"));
    let mut client = play.connect();
    for number in 0..20 {
        assert_eq!(client.ask(&get(&format!("/s/{number}"))).body, b"first");
    }
    let changed = format!("[workers]\ncount = 1\n{}", judging());
    let changed = changed.replace("10.2.0.2:9000", "10.2.0.3:9001");
    play.carrick.reload(&changed, "reloaded");
    for number in 0..20 {
        assert_eq!(client.ask(&get(&format!("/s/{number}"))).body, b"other");
    }
}
