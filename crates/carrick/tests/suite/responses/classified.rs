//! Requests that the kernel classifies and forwards (`requests = "kernel"`).
use super::*;
use crate::transparent::bed::inside as command_in;
use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Like [`SWITCH`], but the kernel classifies requests to `/s/`.
fn classifying() -> String {
    let listener = "mode = \"switch\"\nforwarded = \"off\"\nvia = \"\"\n";
    SWITCH.replace("mode = \"switch\"\n", listener).replace(
        "engine = \"packet\"\n",
        "engine = \"packet\"\nrequests = \"kernel\"\n",
    )
}

#[test]
fn requests_do_not_visit_the_process() {
    let Some(play) = Play::begin_with("", &classifying()) else {
        return;
    };
    let _server = play.serve(0, |head| {
        let target = target_of(head);
        let marked = |line: &&str| !line.starts_with("CDN-Loop: ");
        let lines: String = head.split_inclusive('\n').filter(marked).collect();
        match lines == get(target) {
            true => ok(&content(target)),
            false => format!("HTTP/1.1 500 Changed\r\nContent-Length: 0\r\n\r\n{head}").into(),
        }
    });
    let (mut client, mut asked, begun) = (play.connect(), 0, Instant::now());
    // Those that come before the process has given the connections to the kernel do visit it.
    while asked < 300 || by_kernel(&play) < 150.0 {
        assert!(begun.elapsed() < crate::support::PATIENCE, "of {asked}");
        let target = format!("/s/classified/{}", 37 * asked);
        let response = client.ask(&get(&target));
        assert_eq!(response.status, 200, "{}", response.head);
        assert!(hash(&response.body) == hash(&content(&target)));
        asked += 1;
    }
    // The process handles another route, and then this one again.
    let _other = play.serve(1, |_| ok(b"other"));
    assert_eq!(client.ask(&get("/other/x")).body, b"other");
    let lines = play.packet_lines(asked + 1);
    assert!(lines.len() >= 150, "{} of {asked}", lines.len());
    for line in lines {
        assert_eq!((line.text("ended"), line.status()), ("complete", 200));
        let (method, upstream) = (line.text("method"), line.text("upstream"));
        assert_eq!((method, upstream), ("GET", "servers"));
        assert_eq!(line.text("server"), SERVERS[0]);
    }
    let metric = |name: &str| play.carrick.metric(&play.bed, name);
    let count = metric("carrick_requests_total{mode=\"switch\",status=\"200\"}");
    assert!(
        (count - asked as f64 - 1.0).abs() < 0.5,
        "{count} of {asked}"
    );
}

#[test]
fn what_the_kernel_cannot_classify_goes_through_the_process_in_between() {
    let Some(play) = Play::begin_with("", &classifying()) else {
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

/// A client sends these requests in turn, repeatedly, each for another number of bytes. Checks the log lines; returns
/// how many requests were classified.
fn tally(play: &Play, name: &str, rounds: usize, kinds: &[Asking]) -> usize {
    let (mut client, mut asked) = (play.connect(), Vec::new());
    for number in 0..rounds * kinds.len() {
        let target = format!("/s/{name}/{}", 1000 + 10 * number);
        let response = client.ask(&kinds[number % kinds.len()](&target));
        assert!(hash(&response.body) == hash(&content(&target)));
        asked.push(target);
    }
    // The last request ends with the connection.
    drop(client);
    let mut classified = 0;
    for target in asked {
        let (line, body) = (play.line(&target), content(&target));
        assert_eq!((line.text("ended"), line.status()), ("complete", 200));
        // For requests that the kernel forwarded, heads are counted, too.
        let sent = line.number("sent");
        let is_classified = sent == ok(&body).len() as u64;
        assert!(is_classified || sent == body.len() as u64, "{line:?}");
        classified += usize::from(is_classified);
    }
    classified
}

/// The process relays it, and the kernel forwards the response.
fn odd(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nX_odd: 1\r\n\r\n")
}

/// The process takes the connections back for it.
fn post(target: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n12345")
}

#[test]
fn a_line_has_the_bytes_of_its_own_response() {
    let Some(play) = Play::begin_with("", &classifying()) else {
        return;
    };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let plays: [(&str, &[Asking]); 4] = [
        ("odd", &[get, odd]),
        ("several", &[get, odd, odd, get, get]),
        // The kernel gets the connections again with the next request, which the process relays.
        ("parted", &[post, get, get, get]),
        ("both", &[get, post, get, odd, get, get]),
    ];
    for (name, kinds) in plays {
        // None is, if the client always asks before the process has given its connections to the kernel.
        let mut round = 0;
        wait_until(&format!("{name}: a classified request"), || {
            round += 1;
            tally(&play, &format!("{name}-{round}"), 12, kinds) > 0
        });
    }
}

#[test]
fn the_last_line_is_written_at_the_end() {
    let Some(mut play) = Play::begin_with("[timeouts]\ndrain = \"10m\"\n", &classifying()) else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    for target in ["/s/one", "/s/last"] {
        answer(&mut client, &mut upstream, target, b"yes");
    }
    // Before the response can be known to be complete.
    play.carrick.signal(rustix::process::Signal::TERM);
    client.expect_end();
    play.carrick.wait();
    for target in ["/s/one", "/s/last"] {
        play.complete_line(target);
    }
}

/// One worker reports for all. Its own clients had to be the last to end.
#[test]
fn the_last_lines_of_all_workers_are_written_at_the_end() {
    let Some(mut play) = Play::begin_on(2, "[timeouts]\ndrain = \"10m\"\n", &classifying()) else {
        return;
    };
    let server = play.server(0);
    let mut pairs: Vec<_> = (0..8).map(|_| play.pair(&server)).collect();
    let response = ok(b"0123456789");
    let (first, rest) = response.split_at(response.len() - 5);
    for (number, (client, upstream)) in pairs.iter_mut().enumerate() {
        answer(client, upstream, "/s/before", b"yes");
        ask(client, upstream, &format!("/s/last/{number}"));
        upstream.send(first);
    }
    play.carrick.signal(rustix::process::Signal::TERM);
    for (client, upstream) in &mut pairs {
        upstream.send(rest);
        assert_eq!(client.read_response("GET").body, b"0123456789");
        client.expect_end();
    }
    play.carrick.wait();
    for number in 0..pairs.len() {
        play.complete_line(&format!("/s/last/{number}"));
    }
}

/// Whether the other side had closed the connection.
fn is_gone(error: &std::io::Error) -> bool {
    let gone = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    gone.contains(&error.kind())
}

#[test]
fn a_drain_reaches_a_client_whose_requests_the_kernel_forwards() {
    let drain = "[timeouts]\ndrain = \"10m\"\n";
    let Some(mut play) = Play::begin_with(drain, &classifying()) else {
        return;
    };
    let answering = play.serve(0, |_| ok(b"yes"));
    let mut client = play.connect();
    for _ in 0..5 {
        assert_eq!(client.ask(&get("/s/before")).body, b"yes");
    }
    let is_draining = Arc::<AtomicBool>::default();
    let drains = Arc::clone(&is_draining);
    let asking = std::thread::spawn(move || {
        wait_for("the client is told", || {
            let must_be_told = drains.load(Ordering::SeqCst);
            // Between two requests, it is told by the end of its connection.
            let asked = client.try_send(get("/s/after"));
            let first = asked.and_then(|()| client.stream().peek(&mut [0]));
            if matches!(first, Ok(0)) || first.is_err_and(|error| is_gone(&error)) {
                return Some(());
            }
            let response = client.read_response("GET");
            assert_eq!(response.body, b"yes");
            let is_told = response.field("connection").as_deref() == Some("close");
            assert!(
                is_told || !must_be_told,
                "the worker does not listen any more"
            );
            is_told.then(|| client.expect_end())
        });
    });
    play.carrick.signal(rustix::process::Signal::TERM);
    wait_until("the worker does not listen any more", || {
        let to: SocketAddr = LISTENER.parse().expect("an address");
        let refused = || Ok(TcpStream::connect(to).is_err());
        let refused = play.bed.client.inside(refused);
        refused.expect("the client")
    });
    is_draining.store(true, Ordering::SeqCst);
    asking.join().expect("every request is answered");
    drop(answering);
    play.carrick.wait();
}

#[test]
fn a_server_that_ends_between_requests_costs_the_client_nothing() {
    let Some(play) = Play::begin_with("", &classifying()) else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    for number in 0..3 {
        answer(&mut client, &mut upstream, &format!("/s/{number}"), b"yes");
    }
    let carricks_end = upstream.far_end();
    drop(upstream);
    play.wait_for_end(carricks_end);
    client.send(get("/s/again"));
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send(ok(b"again"));
    assert_eq!(client.read_response("GET").body, b"again");
}

/// The client would take it for the response to its next request.
#[test]
fn an_unsolicited_response_reaches_no_client() {
    let Some(play) = Play::begin_with("", &classifying()) else {
        return;
    };
    // Packets have their checksums: with a wrong one the response would not arrive.
    let summed = play.bed.server.run("ethtool", &["-K", "eth0", "tx", "off"]);
    summed.expect("ethtool");
    let server = play.server(0);
    // In one segment, also with its end, or in two.
    for (is_together, has_end) in [(true, false), (true, true), (false, false)] {
        let (mut client, mut upstream) = play.pair(&server);
        answer(&mut client, &mut upstream, "/s/first", b"first");
        client.send(get("/s/second"));
        upstream.read_head();
        let [whole, poison] = [ok(b"second"), ok(b"poison")];
        if is_together {
            let socket = socket2::SockRef::from(upstream.stream());
            socket.set_tcp_cork(has_end).expect("an option");
            upstream.send([whole, poison].concat());
        } else {
            upstream.send(whole);
            upstream.send(poison);
        }
        if has_end {
            upstream.half_close();
        }
        assert_eq!(client.read_response("GET").body, b"second");
        // No further request is sent to this server.
        upstream.read_ending();
        client.send(get("/s/third"));
        let mut next = server.accept();
        next.read_head();
        next.send(ok(b"third"));
        assert_eq!(client.read_response("GET").body, b"third");
    }
}

/// Bytes behind the two heads were taken for the next response, and its length for this one's.
#[test]
fn a_body_that_begins_like_a_response_is_no_response() {
    for switch in [SWITCH.to_owned(), classifying()] {
        let Some(play) = Play::begin_with("", &switch) else {
            return;
        };
        let server = play.server(0);
        let (mut client, mut upstream) = play.pair(&server);
        ask(&mut client, &mut upstream, "/s/file");
        let body = [ok(b"cut"), content("/s/file")].concat();
        let heads = format!(
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        upstream.send(&heads);
        client.expect(&heads);
        upstream.send(&body);
        client.expect(&body);
        drop(upstream);
        client.send(get("/s/next"));
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(ok(b"next"));
        assert_eq!(client.read_response("GET").body, b"next");
        assert_ne!(play.line("/s/file").status(), 103);
    }
}

#[test]
fn what_a_server_sends_behind_the_head_for_a_head_request_reaches_no_client() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let _other = play.serve(1, |_| ok(b"other"));
    let (mut client, mut upstream) = play.pair(&server);
    client.send("HEAD /s/head HTTP/1.1\r\nHost: a.example\r\n\r\n");
    upstream.read_head();
    upstream.send(ok(b"poison"));
    assert_eq!(client.read_response("HEAD").status, 200);
    upstream.read_ending();
    client.send(get("/other/x"));
    assert_eq!(client.read_response("GET").body, b"other");
}

#[test]
fn a_classified_response_that_is_cut_is_not_logged_as_complete() {
    for beginning in [
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\npart",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\npart",
    ] {
        let Some(play) = Play::begin_with("", &classifying()) else {
            return;
        };
        let server = play.server(0);
        let (mut client, mut upstream) = play.pair(&server);
        answer(&mut client, &mut upstream, "/s/whole", b"whole");
        ask(&mut client, &mut upstream, "/s/cut");
        upstream.send(beginning);
        client.expect(beginning);
        drop(upstream);
        client.read_ending();
        assert_eq!(play.line("/s/whole").text("ended"), "complete");
        assert_eq!(play.line("/s/cut").text("ended"), "upstream_closed");
    }
}

/// Drops requests to servers on this port until the table `lossy` is deleted, and sends one.
fn ask_in_vain(play: &Play, port: &str, client: &mut Peer, target: &str) {
    nft(
        play,
        &format!(
            "add table netdev lossy; \
             add chain netdev lossy first {{ type filter hook ingress device eth0 priority 0; }}; \
             add rule netdev lossy first tcp dport {port} ip length > 100 counter drop"
        ),
    );
    client.send(get(target));
    wait_until("a lost request", || {
        !nft(play, "list ruleset").contains("packets 0")
    });
}

fn nft(play: &Play, command: &str) -> String {
    let output = command_in(&play.bed.server, &["nft", command]).output();
    let output = output.expect("nft");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Once by the kernel, and once by the process. Regression test: the next client of the connection got that request's response.
#[test]
fn a_server_that_speaks_before_it_has_the_request_is_not_heard() {
    for (path, number) in [("/s", 0), ("/other", 1)] {
        let Some(play) = Play::begin("") else { return };
        let server = play.server(number);
        let mut client = play.connect();
        client.send(get(&format!("{path}/first")));
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(ok(b"first"));
        assert_eq!(client.read_response("GET").body, b"first");
        answer(
            &mut client,
            &mut upstream,
            &format!("{path}/second"),
            b"second",
        );
        let port = SERVERS[number].rsplit_once(':').expect("a port").1;
        ask_in_vain(&play, port, &mut client, &format!("{path}/asked"));
        upstream.send(ok(b"unasked"));
        let mut another = server.accept();
        nft(&play, "delete table netdev lossy");
        upstream.read_ending();
        assert!(another.read_head().contains("/asked"));
        another.send(ok(b"asked"));
        assert_eq!(client.read_response("GET").body, b"asked");
    }
}

#[test]
fn a_reload_gives_the_kernel_other_routes() {
    let Some(play) = Play::begin_with("", &classifying()) else {
        return;
    };
    let _first = play.serve(0, |_| ok(b"first"));
    let _other = play.serve(1, |_| ok(b"other"));
    let mut client = play.connect();
    for number in 0..20 {
        assert_eq!(client.ask(&get(&format!("/s/{number}"))).body, b"first");
    }
    let changed = format!("[workers]\ncount = 1\n{}", classifying());
    let changed = changed.replace("10.2.0.2:9000", "10.2.0.3:9001");
    play.carrick.reload(&changed, "reloaded");
    for number in 0..20 {
        assert_eq!(client.ask(&get(&format!("/s/{number}"))).body, b"other");
    }
}

/// A server that leads back, as another proxy may.
#[test]
fn a_circle_does_not_grow_with_each_request_that_the_kernel_forwards() {
    let Some(play) = Play::begin_with("", &classifying()) else {
        return;
    };
    let server = play.server(0);
    // Its threads are where it is.
    let start = move || Ok(server.serve(|peer, _| answer_requests(peer, lead_back)));
    let server = play.bed.server.inside(start).expect("a server");
    let mut client = play.connect();
    for number in 0..12 {
        let response = client.ask(&get(&format!("/s/{number}")));
        assert_eq!(response.status, 508, "{}", response.head);
    }
    // Each arrived three times: from the client, and from the server without and with carrick's mark.
    assert_eq!(play.carrick.access_log(36).len(), 36);
    // The second one is of the request that was led back, while the first waits.
    assert_eq!(server.accepted(), 2);
}

/// Sends a request to the listener, on a connection for each thread.
fn lead_back(head: &str) -> Vec<u8> {
    thread_local! {
        static BACK: RefCell<Option<Peer>> = const { RefCell::new(None) };
    }
    BACK.with_borrow_mut(|back| {
        let to: SocketAddr = LISTENER.parse().expect("an address");
        let response = back.get_or_insert_with(|| Peer::connect(to)).ask(head);
        [response.head.as_bytes(), &response.raw_body].concat()
    })
}

/// Whether a new client is refused.
fn is_refused(play: &Play) -> Option<()> {
    (play.connect().ask(&get("/other/x")).status == 403).then_some(())
}

#[test]
fn a_client_that_may_not_come_any_more_is_not_forwarded_by_the_kernel() {
    let Some(play) = Play::begin_with("", &classifying()) else {
        return;
    };
    let server = play.server(0);
    let _other = play.serve(1, |_| ok(b"other"));
    let (mut client, mut upstream) = play.pair(&server);
    answer(&mut client, &mut upstream, "/s/classified", b"yes");
    let shut = classifying().replace(
        "forwarded = \"off\"\n",
        "forwarded = \"off\"\nallow = [\"192.0.2.0/24\"]\n",
    );
    let text = format!("[workers]\ncount = 1\n{shut}");
    play.carrick.reload(&text, "reloaded");
    wait_for("the new plan", || is_refused(&play));
    let response = client.ask(&get("/s/refused"));
    assert_eq!(response.status, 403);
    client.expect_end();
    assert!(!upstream.waits_for_head(), "the server was asked");
    assert_eq!(play.line("/s/refused").status(), 403);
}

#[test]
fn a_listener_that_is_gone_leaves_no_client_to_the_kernel() {
    let first =
        "[[listener]]\nlisten = \"10.1.0.1:8081\"\nmode = \"forward\"\nallow = [\"10.1.0.0/24\"]\n";
    let Some(play) = Play::begin_with(first, &classifying()) else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    answer(&mut client, &mut upstream, "/s/classified", b"yes");
    play.carrick
        .reload(&format!("[workers]\ncount = 1\n{first}"), "reloaded");
    let to: SocketAddr = LISTENER.parse().expect("an address");
    wait_until("the listener to close", || {
        let connect = || Ok(std::net::TcpStream::connect(to).is_err());
        play.bed.client.inside(connect).expect("an answer")
    });
    // It is answered as before, once, and by the process.
    client.send(get("/s/last"));
    if !upstream.waits_for_head() {
        upstream = server.accept();
    }
    upstream.read_head();
    upstream.send(ok(b"last"));
    let last = client.read_response("GET");
    assert_eq!(last.field("connection").as_deref(), Some("close"));
    client.expect_end();
}

/// It has to know which server's connections are a client's own.
#[test]
fn the_process_sees_credentials_that_authenticate_the_connection() {
    let Some(play) = Play::begin_with("", &classifying()) else {
        return;
    };
    let _server = play
        .server(0)
        .serve(|peer, _| crate::upstreams::authenticate_connection(peer));
    let ask = |client: &mut Peer, target: &str, credentials: &str| {
        let field = format!("\r\nAuthorization: {credentials}\r\n\r\n");
        client.ask(&get(target).replace("\r\n\r\n", &field)).text()
    };
    let is_by_kernel = |target: &str| play.line(target).text("engine") == "packet";
    let (mut alice, mut mallory) = (play.connect(), play.connect());
    let mut number = 0;
    for (credentials, body) in [("NTLM begins", "who?"), ("negotiate alice", "of alice")] {
        wait_until("the kernel to have the client's requests", || {
            number += 1;
            let target = format!("/s/basic-{number}");
            ask(&mut alice, &target, "Basic YTpi");
            is_by_kernel(&target)
        });
        let target = format!("/s/{}", &credentials[..4]);
        assert_eq!(ask(&mut alice, &target, credentials), body);
        assert!(!is_by_kernel(&target));
        assert_eq!(ask(&mut mallory, "/s/x", "Basic YTpi"), "who?");
    }
    drop(alice);
    for _ in 0..10 {
        assert_eq!(ask(&mut mallory, "/s/x", "Basic YTpi"), "who?");
        assert_eq!(ask(&mut play.connect(), "/s/x", "Basic YTpi"), "who?");
    }
}
