//! A switch with nothing but its routes, and the packet engine: the kernel forwards plain requests.
use super::*;
use std::sync::atomic::AtomicUsize;

/// A listener with defaults, and one whose requests all go through the process.
const BY_DEFAULT: &str = r#"
[process]
packet = "auto"
[[listener]]
listen = "10.1.0.1:8080"
mode = "switch"
[[listener.route]]
upstream = "servers"
[[listener]]
listen = "10.1.0.1:8081"
mode = "switch"
engine = "copy"
[[listener.route]]
upstream = "servers"
[upstream.servers]
servers = ["10.2.0.2:9000"]
"#;

/// The request line, and the others in some order, without the marks by which listeners know their loops.
fn lines(head: &[u8]) -> Vec<String> {
    let head = String::from_utf8_lossy(head).into_owned();
    let without_mark = |line: &str| match line.split_once(" carrick (") {
        Some((before, _)) => format!("{before} carrick (…)\r\n"),
        None => line.to_owned(),
    };
    let mut lines: Vec<String> = head.split_inclusive('\n').map(without_mark).collect();
    lines[1..].sort();
    lines
}

/// Fields that must reach the server as the process would send them, or not at all; the kernel leaves most of these requests to it.
const TELLING: [&str; 12] = [
    "X-Forwarded-For: 192.0.2.1",
    "X-FORWARDED-PROTO: https",
    "x-real-ip: 192.0.2.1",
    "Forwarded: for=192.0.2.1",
    "Via: 1.1 elsewhere",
    "CDN-Loop: elsewhere",
    "Keep-Alive: timeout=5",
    "Proxy-Connection: keep-alive",
    "Connection: X-Field-1",
    "TE: trailers",
    "Content-Length: 0",
    "Max-Forwards: 5",
];

/// A request, as browsers and programs send them; a few have odd white space, or a field of [`TELLING`].
fn made_up(random: &mut Random, number: usize) -> String {
    let host = ["a.example", "a.example", "a.example:8080"][random.below(3)];
    let mut fields = vec![format!("Host: {host}")];
    let spaces: &[&str] = match random.below(16) {
        0 => &[" ", "", "\t", "  "],
        _ => &[" "],
    };
    for field in 0..random.below(9) {
        let value = "v".repeat(1 + random.below(120));
        let space = spaces[random.below(spaces.len())];
        let name = ["X-Field", "x-field", "X-FIELD", "Cookie"][random.below(4)];
        fields.push(format!("{name}-{field}:{space}{value}"));
    }
    let mut insert = |random: &mut Random, field: String| {
        let place = random.below(fields.len() + 1);
        fields.insert(place, field);
    };
    if random.below(2) == 0 {
        let name = ["Connection", "connection", "CONNECTION"][random.below(3)];
        insert(random, format!("{name}: keep-alive"));
    }
    if random.below(16) == 0 {
        let telling = TELLING[random.below(TELLING.len())];
        insert(random, telling.to_owned());
    }
    let method = ["GET", "OPTIONS", "DELETE"][random.below(3)];
    let query = "q".repeat(random.below(50));
    let fields = fields.join("\r\n");
    format!("{method} /{number}?{query} HTTP/1.1\r\n{fields}\r\n\r\n")
}

/// How many for each setting: 600, if `CARRICK_MADE_UP_REQUESTS` does not say otherwise.
fn made_up_requests() -> usize {
    let wanted = std::env::var("CARRICK_MADE_UP_REQUESTS").ok();
    wanted.map_or(600, |wanted| wanted.parse().expect("a number"))
}

#[test]
fn a_server_gets_what_the_process_would_send_but_for_the_order_of_fields() {
    for forwarded in ["x-forwarded", "forwarded", "off", "unchanged"] {
        let listener = format!("mode = \"switch\"\nforwarded = \"{forwarded}\"\n");
        let text = BY_DEFAULT.replace("mode = \"switch\"\n", &listener);
        let Some(play) = Play::begin_with("", &text) else {
            return;
        };
        let _server = play.serve(0, |head| ok(head.as_bytes()));
        let mut clients = [LISTENER, "10.1.0.1:8081"].map(|address| {
            let connect = || Ok(Peer::connect(address.parse().expect("an address")));
            play.bed.client.inside(connect).expect("a connection")
        });
        let mut random = Random::new(31);
        let requests = made_up_requests();
        for number in 0..requests {
            let request = made_up(&mut random, number);
            let [one, other] = clients
                .each_mut()
                .map(|client| lines(&client.ask(&request).body));
            assert_eq!(one, other, "{forwarded}: {request}");
            assert_eq!(
                other[0],
                request.split_inclusive('\n').next().unwrap_or_default()
            );
        }
        let count = by_kernel(&play);
        assert!(count > requests as f64 / 4.0, "{count} by the kernel");
    }
}

#[test]
fn a_client_stays_with_a_server_for_a_bounded_number_of_requests() {
    let text = BY_DEFAULT.replace(
        "servers = [\"10.2.0.2:9000\"]",
        "servers = [\"10.2.0.2:9000\", \"10.2.0.3:9001\"]",
    );
    let Some(play) = Play::begin_with("", &text) else {
        return;
    };
    let _servers = [play.serve(0, |_| ok(b"0")), play.serve(1, |_| ok(b"1"))];
    let (mut client, mut answered) = (play.connect(), [0, 0]);
    wait_until("the kernel to forward three times a thousand", || {
        for _ in 0..100 {
            let body = client.ask(&get("/x")).body;
            answered[usize::from(body == b"1")] += 1;
        }
        by_kernel(&play) > 3000.0
    });
    // Round-robin.
    assert!(answered.iter().all(|count| *count > 900), "{answered:?}");
}

#[test]
fn a_server_that_is_marked_down_is_left_at_once() {
    let servers = "servers = [\"10.2.0.2:9000\", \"10.2.0.3:9001\"]\nhealth = { path = \"/health\", every = \"1s\", fall = 1, rise = 1 }";
    let text = BY_DEFAULT.replace("servers = [\"10.2.0.2:9000\"]", servers);
    let Some(play) = Play::begin_with("", &text) else {
        return;
    };
    let is_ill = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let ill_answers = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let _servers = [0, 1].map(|number| {
        let (is_ill, ill_answers) = (Arc::clone(&is_ill), Arc::clone(&ill_answers));
        play.serve(number, move |head| {
            if target_of(head) == "/health" && is_ill[number].load(Ordering::SeqCst) {
                ill_answers[number].fetch_add(1, Ordering::SeqCst);
                return b"HTTP/1.1 503 Ill\r\nContent-Length: 0\r\n\r\n".to_vec();
            }
            ok(number.to_string().as_bytes())
        })
    });
    let mut client = play.connect();
    // On a busy machine both may be down for a while: a check takes a second at most.
    let mut ask = || {
        wait_for("a server", || {
            let answer = client.ask(&get("/x"));
            (answer.status == 200).then(|| usize::from(answer.body == b"1"))
        })
    };
    let is_up = |server: usize| {
        let server = SERVERS[server];
        let metric = format!("carrick_server_up{{upstream=\"servers\",server=\"{server}\"}}");
        play.carrick.metric(&play.bed, &metric) > 0.5
    };
    for _ in 0..4 {
        let server = wait_for("the kernel has the client's requests", || {
            let before = by_kernel(&play);
            let server = ask();
            (by_kernel(&play) > before).then_some(server)
        });
        let answers = || ill_answers[server].load(Ordering::SeqCst);
        let before = answers();
        is_ill[server].store(true, Ordering::SeqCst);
        // A good answer of before, which may still be under way, would bring it up again.
        wait_until("it is down", || answers() > before && !is_up(server));
        let other = wait_for("another server", || {
            Some(ask()).filter(|other| *other != server)
        });
        for _ in 0..8 {
            assert_eq!(ask(), other);
        }
        is_ill[server].store(false, Ordering::SeqCst);
        wait_until("it is up", || is_up(server));
    }
}

/// The kernel's copy of the request is all that there is of it.
#[test]
fn a_request_that_its_server_does_not_answer_is_asked_again() {
    let Some(play) = Play::begin_with("", BY_DEFAULT) else {
        return;
    };
    let server = play.server(0);
    for ends_by_reset in [false, true] {
        let (mut client, mut upstream) = play.pair(&server);
        let warm_up = |client: &mut Peer, upstream: &mut Peer| {
            let before = by_kernel(&play);
            answer(client, upstream, "/s/warm", b"warm");
            (by_kernel(&play) > before).then_some(())
        };
        wait_for("the kernel to have the client's requests", || {
            warm_up(&mut client, &mut upstream)
        });
        let target = format!("/s/again-{ends_by_reset}");
        let request = get(&target).replace("\r\n\r\n", "\r\nConnection: keep-alive\r\n\r\n");
        client.send(&request);
        let first = upstream.read_head();
        if ends_by_reset {
            upstream.reset();
        } else {
            drop(upstream);
        }
        let mut other = server.accept();
        let second = other.read_head();
        assert_eq!(lines(first.as_bytes()), lines(second.as_bytes()));
        other.send(ok(b"answered"));
        assert_eq!(client.read_response("GET").body, b"answered");
        drop(client);
        // One line, of the attempt that was answered.
        assert_eq!(play.line(&target).status(), 200);
        let all = play.carrick.access_log(0).into_iter().map(Line);
        assert_eq!(all.filter(|line| line.text("target") == target).count(), 1);
    }
}

#[test]
fn what_the_kernel_forwards_is_logged_and_counted() {
    let Some(play) = Play::begin_with("", BY_DEFAULT) else {
        return;
    };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let mut client = play.connect();
    let mut asked = 0;
    wait_until("the kernel to forward fifty", || {
        let target = format!("/s/{}", 1000 + asked);
        assert!(hash(&client.ask(&get(&target)).body) == hash(&content(&target)));
        asked += 1;
        by_kernel(&play) > 49.5
    });
    drop(client);
    for number in 0..asked {
        let line = play.line(&format!("/s/{}", 1000 + number));
        assert_eq!((line.status(), line.text("ended")), (200, "complete"));
    }
    let requests = "carrick_requests_total{mode=\"switch\",status=\"200\"}";
    wait_until("all to be counted", || {
        let counted = play.carrick.metric(&play.bed, requests);
        assert!(counted < f64::from(asked) + 0.5, "{counted} of {asked}");
        counted > f64::from(asked) - 0.5
    });
    let of_server = "carrick_server_requests_total{upstream=\"servers\",server=\"10.2.0.2:9000\"}";
    assert_eq!(play.carrick.metric(&play.bed, of_server), f64::from(asked));
    // A client that asks once or twice costs the kernel nothing.
    let before = by_kernel(&play);
    let mut client = play.connect();
    client.ask(&get("/s/1"));
    client.ask(&get("/s/1"));
    assert!(by_kernel(&play) < before + 0.5);
}

/// RFC 9111 section 4.4.
#[test]
fn what_is_deleted_past_the_cache_is_not_sent_from_it() {
    let routes = "[[listener.route]]\npath = \"/s/\"\nmethod = [\"GET\"]\nupstream = \"servers\"\ncache = true\n\
                  [[listener.route]]\nupstream = \"servers\"\n[[listener]]";
    let route = "[[listener.route]]\nupstream = \"servers\"\n[[listener]]";
    let text = format!(
        "[cache]\nmemory = \"1 MB\"\n{}",
        BY_DEFAULT.replacen(route, routes, 1)
    );
    let Some(play) = Play::begin_with("", &text) else {
        return;
    };
    let _server = play.serve(0, |_| {
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let mut client = play.connect();
    wait_until("the kernel to have the client's requests", || {
        client.ask(&get("/warm"));
        by_kernel(&play) > 0.5
    });
    let mut other = play.connect();
    other.ask(&get("/s/x"));
    for _ in 0..20 {
        other.ask(&get("/s/x"));
        client.ask(&get("/s/x").replace("GET", "DELETE"));
        other.ask(&get("/s/x"));
    }
    let lines = wait_for("the lines", || {
        let lines = play.carrick.access_log(0).into_iter().map(Line);
        let of_get = |line: &Line| line.text("target") == "/s/x" && line.text("method") == "GET";
        let lines: Vec<_> = lines.filter(of_get).collect();
        (lines.len() > 40).then_some(lines)
    });
    let results: Vec<_> = lines.iter().map(|line| line.text("cache")).collect();
    assert_eq!(results[0], "miss");
    assert_eq!(results[1..], ["hit", "miss"].repeat(20));
}
