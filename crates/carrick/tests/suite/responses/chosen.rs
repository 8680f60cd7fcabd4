//! `engine = "auto"` with the packet engine loaded, where the process is to see all requests: the kernel forwards the rest of long bodies,
//! and nothing else.
use super::lasting::lose;
use super::*;

/// Both modes with `auto`.
const AUTO: &str = r#"
[process]
packet = "auto"
[[listener]]
listen = "10.1.0.1:8080"
mode = "switch"
[[listener.route]]
upstream = "servers"
requests = "process"
[upstream.servers]
servers = ["10.2.0.2:9000"]
"#;

/// The same for a forward proxy.
const AUTO_FORWARD: &str = r#"
[process]
packet = "auto"
[[listener]]
listen = "10.1.0.1:8080"
mode = "forward"
allow = ["10.1.0.0/24"]
"#;

/// Long, and much longer than what reaches the process before the kernel takes over.
const LONG: usize = 3_000_000;

/// So long that the server's earlier allowance does not matter.
const HUGE: usize = 80_000_000;

/// Just too short.
const SHORT: usize = (256 << 10) - 1;

/// A metric by engine or reason.
fn counted(play: &Play, what: &str) -> f64 {
    play.carrick
        .metric(&play.bed, &format!("carrick_splice_{what}"))
}

fn by_kernel(play: &Play) -> f64 {
    counted(play, "bytes_total{engine=\"packet\"}")
}

fn reason(play: &Play, reason: &str) -> f64 {
    counted(play, &format!("choices_total{{reason=\"{reason}\"}}"))
}

/// Requests this many bytes, and compares them.
fn ask_for(client: &mut Peer, bytes: usize) {
    let target = format!("/s/{bytes}");
    let response = client.ask(&get(&target));
    assert_eq!(response.body.len(), bytes, "{}", response.head);
    assert!(hash(&response.body) == hash(&content(&target)), "{target}");
}

/// So much of a body is sent before the client has to have it.
const FIRST_BYTES: usize = 20_000;

/// A client requests bodies, over one connection on each side, and compares them. The server sends the rest of a long one
/// once the client has the beginning: then nothing of it is in the process, however slow that is, and the kernel can begin.
fn answer_in_parts(play: &Play, request: impl Fn(usize) -> String, bodies: &[usize]) {
    let (server, mut client, mut upstream) = (play.server(0), play.connect(), None);
    for &bytes in bodies {
        client.send(request(bytes));
        let upstream = upstream.get_or_insert_with(|| server.accept());
        upstream.read_head();
        let response = ok(&content(&format!("/{bytes}")));
        let body = &response[response.len() - bytes..];
        let (first, rest) = response.split_at(response.len() - bytes.saturating_sub(FIRST_BYTES));
        upstream.send(first);
        let head = client.read_head();
        let mut received = client.read_exact(bytes - rest.len());
        std::thread::scope(|scope| {
            scope.spawn(|| upstream.send(rest));
            received.extend(client.read_exact(rest.len()));
        });
        assert!(received == body, "{head}");
    }
}

/// A request for this many bytes.
fn get_bytes(bytes: usize) -> String {
    get(&format!("/s/{bytes}"))
}

/// The engines of the responses with these bodies, in order; each must be complete.
fn engines(play: &Play, bodies: &[usize]) -> Vec<String> {
    let lines = wait_for("lines of the log", || {
        let lines = play.carrick.access_log(0);
        (lines.len() >= bodies.len()).then_some(lines)
    });
    let lines = lines.into_iter().map(Line);
    let engines = lines.zip(bodies).map(|(line, bytes)| {
        assert_eq!(line.text("ended"), "complete");
        assert_eq!(line.number("sent"), *bytes as u64);
        line.text("engine").to_owned()
    });
    engines.collect()
}

#[test]
fn long_bodies_are_the_kernels_and_short_ones_are_not() {
    let Some(play) = Play::begin_with("", AUTO) else {
        return;
    };
    let bodies = [LONG, LONG, SHORT, 0, SHORT, 5, 5];
    answer_in_parts(&play, get_bytes, &bodies);
    let engines = engines(&play, &bodies);
    for (engine, bytes) in engines.iter().zip(bodies) {
        assert_eq!(engine == "packet", bytes >= LONG, "{bytes}: {engines:?}");
    }
    assert_eq!(reason(&play, "packet_pays"), 2.0);
    let by_kernel = by_kernel(&play);
    assert!(by_kernel > 1.5 * LONG as f64, "{by_kernel}");
}

/// Its server has a small window.
#[test]
fn the_first_response_over_a_new_connection_is_the_kernels() {
    let Some(play) = Play::begin_with("", AUTO) else {
        return;
    };
    answer_in_parts(&play, get_bytes, &[LONG]);
    assert_eq!(engines(&play, &[LONG]), ["packet"]);
}

/// A long response over a used connection predicts another one; only then is the server's window limited.
#[test]
fn over_a_used_connection_later_long_responses_are_the_kernels() {
    let Some(play) = Play::begin_with("", AUTO) else {
        return;
    };
    // The server must first learn its smaller window.
    let bodies = [5, LONG, LONG, LONG, LONG, LONG, 5];
    answer_in_parts(&play, get_bytes, &bodies);
    let engines = engines(&play, &bodies);
    assert_eq!(engines[0], "copy");
    assert_ne!(engines[1], "packet");
    assert!(engines[2..6].iter().any(|engine| engine == "packet"));
    assert_eq!(engines[6], "copy");
}

#[test]
fn the_rest_of_a_very_long_response_is_the_kernels_over_any_connection() {
    let Some(play) = Play::begin_with("", AUTO) else {
        return;
    };
    let server = play.serve(0, |head| match target_of(head) {
        "/huge" => ok(&vec![b'x'; HUGE]),
        target => ok(&content(target)),
    });
    for bytes in [5, LONG] {
        ask_for(&mut play.connect(), bytes);
    }
    let before = by_kernel(&play);
    let mut client = play.connect();
    let response = client.ask(&get("/huge"));
    assert!(response.body.len() == HUGE && response.body.iter().all(|byte| *byte == b'x'));
    drop(client);
    assert_eq!(play.line("/huge").text("engine"), "packet");
    assert_eq!((server.accepted(), before), (1, 0.0));
    assert_eq!(reason(&play, "packet_pays"), 1.0);
}

/// After a short response, all clients can use the server's connection again.
#[test]
fn clients_share_a_connection_again_after_a_short_response() {
    let Some(play) = Play::begin_with("", AUTO) else {
        return;
    };
    let server = play.serve(0, |head| ok(&content(target_of(head))));
    let (mut one, mut two) = (play.connect(), play.connect());
    for _ in 0..3 {
        for client in [&mut one, &mut two] {
            for bytes in [LONG, LONG, LONG, 5] {
                ask_for(client, bytes);
            }
        }
    }
    assert_eq!(server.accepted(), 1);
    assert!(by_kernel(&play) > 0.0);
}

#[test]
fn long_bodies_through_a_forward_proxy_are_the_kernels() {
    let Some(play) = Play::begin_with("", AUTO_FORWARD) else {
        return;
    };
    let bodies = [LONG, LONG, 5, SHORT, 5];
    let request = |bytes| {
        let server = SERVERS[0];
        format!("GET http://{server}/s/{bytes} HTTP/1.1\r\nHost: {server}\r\n\r\n")
    };
    answer_in_parts(&play, request, &bodies);
    let engines = engines(&play, &bodies);
    for (engine, bytes) in engines.iter().zip(bodies) {
        assert_eq!(engine == "packet", bytes >= LONG, "{engines:?}");
    }
}

/// Responses of unknown length, or until close, are never forwarded by the kernel; a range is.
#[test]
fn of_other_kinds_of_responses_only_those_with_a_length_are_the_kernels() {
    let Some(play) = Play::begin_with("", AUTO) else {
        return;
    };
    let body = content(&format!("/{LONG}"));
    let kept = body.clone();
    let _server = play.serve(0, move |head| {
        let length = format!("Content-Length: {}\r\n", kept.len());
        let (status, fields, body): (_, _, &[u8]) = match target_of(head) {
            "/head" => ("200 OK", length, b""),
            "/range" => ("206 Partial Content", length, &kept),
            "/chunked" => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                let mut response = format!("{head}{:x}\r\n", kept.len()).into_bytes();
                response.extend_from_slice(&kept);
                response.extend_from_slice(b"\r\n0\r\n\r\n");
                return response;
            }
            _ => ("200 OK", length, &kept),
        };
        let mut response = format!("HTTP/1.1 {status}\r\n{fields}\r\n").into_bytes();
        response.extend_from_slice(body);
        response
    });
    // Each follows others that the kernel forwarded. Returns their number, and how many more there are.
    let ask = |request: &str| {
        let (mut client, before) = wait_for("a long response by the kernel", || {
            let mut client = play.connect();
            for _ in 0..3 {
                client.ask(&get("/warm"));
            }
            let before = reason(&play, "packet_pays");
            client.ask(&get("/warm"));
            (reason(&play, "packet_pays") > before).then_some((client, before + 1.0))
        });
        client.send(request);
        let method = request.split(' ').next().expect("a method");
        let response = client.read_response(method);
        let is_whole = method == "HEAD" || hash(&response.body) == hash(&body);
        assert!(is_whole, "{request}: {}", response.head);
        (response.status, reason(&play, "packet_pays") - before)
    };
    let host = "Host: a.example\r\n";
    for request in [
        format!("HEAD /head HTTP/1.1\r\n{host}\r\n"),
        format!("GET /chunked HTTP/1.1\r\n{host}\r\n"),
        format!("GET /old HTTP/1.0\r\n{host}\r\n"),
        format!("GET /close HTTP/1.1\r\n{host}Connection: close\r\n\r\n"),
        format!("POST /post HTTP/1.1\r\n{host}Content-Length: 2\r\n\r\nhi"),
    ] {
        assert_eq!(ask(&request), (200, 0.0), "{request}");
    }
    let range = format!("GET /range HTTP/1.1\r\n{host}Range: bytes=0-2999999\r\n\r\n");
    assert_eq!(ask(&range), (206, 1.0));
}

#[test]
fn without_the_engine_auto_is_left_alone() {
    for when in ["named", "off"] {
        let Some(bed) = Bed::build() else { return };
        let switch = AUTO.replace("packet = \"auto\"", &format!("packet = \"{when}\""));
        let carrick = bed.carrick(&format!("[workers]\ncount = 1\n{switch}"));
        let play = Play { carrick, bed };
        let _server = play.serve(0, |head| ok(&content(target_of(head))));
        let mut client = play.connect();
        let bodies = [LONG, LONG, LONG];
        for bytes in bodies {
            ask_for(&mut client, bytes);
        }
        drop(client);
        // By pipe, or by copy if a slow server sent little at a time.
        let engines = engines(&play, &bodies);
        assert!(
            !engines.iter().any(|engine| engine == "packet"),
            "{when}: {engines:?}"
        );
        let refused = reason(&play, "packet_unavailable");
        assert_eq!((by_kernel(&play), refused), (0.0, 0.0), "{when}");
    }
}

/// If netfilter must see each packet, the reason is counted, and the client is soon no longer tried.
#[test]
fn what_is_in_the_way_is_counted_and_a_client_is_left_alone() {
    let Some(bed) = Bed::build() else { return };
    for words in [
        "add table inet eyes",
        "add chain inet eyes c { type filter hook forward priority 0 ; }",
        "add rule inet eyes c quota over 1000000 mbytes drop",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        bed.router.run("nft", &words).expect("nft");
    }
    let carrick = bed.carrick(&format!("[workers]\ncount = 1\n{AUTO}"));
    let play = Play { carrick, bed };
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    let mut client = play.connect();
    for _ in 0..6 {
        ask_for(&mut client, LONG);
    }
    assert_eq!(by_kernel(&play), 0.0);
    let refused = reason(&play, "packet_netfilter");
    assert_eq!(refused, 3.0);
}

/// A client with a lossy leg gets its responses from the process, after one that has shown the loss.
#[test]
fn a_lossy_path_is_noted_and_refused() {
    let Some(play) = Play::begin_with("", AUTO) else {
        return;
    };
    // Each segment is a packet, as on most paths.
    let words = ["link", "set", "eth0", "gso_max_segs", "1"];
    play.bed.server.run("ip", &words).expect("ip");
    lose(&play.bed.client, 30);
    let _server = play.serve(0, |head| ok(&content(target_of(head))));
    // The kernel forwards the rest of the first one, and its legs are assessed when the connections are separated;
    // unless the process has already seen the loss, as happens on slow machines.
    ask_for(&mut play.connect(), LONG);
    wait_until("the lossy path", || {
        play.carrick.metric(&play.bed, "carrick_packet_lossy_paths") > 0.0
    });
    let before = by_kernel(&play);
    let refused = reason(&play, "packet_lossy_path");
    let mut client = play.connect();
    for _ in 0..6 {
        ask_for(&mut client, LONG);
    }
    // The first one, over a used connection, was not for the kernel anyway; after three refusals it is no longer tried.
    assert_eq!(reason(&play, "packet_lossy_path") - refused, 3.0);
    assert_eq!(by_kernel(&play), before);
}
