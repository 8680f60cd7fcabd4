//! A carrick finds what another one has stored.
use super::{FRESH, Play, is_from_second_level, origin, request, server};
use crate::caching::{age, status};
use crate::support::server::answer_requests;
use crate::support::{Place, Redis, Server};

#[test]
fn a_second_carrick_needs_no_origin() {
    let (server, far) = server();
    let origin = origin(&far, FRESH);
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    let first = one.fetch(origin.address(), "/a");
    assert!(status(&first).contains("fwd=uri-miss; stored"));
    one.wait_until_written(1);
    let found = two.fetch(origin.address(), "/a");
    assert_eq!((found.status, found.text().as_str()), (200, "/a "));
    assert!(is_from_second_level(&found), "{}", found.head);
    assert!(age(&found).is_some_and(|age| age < 60));
    assert_eq!(found.field("etag").as_deref(), Some("\"1\""));
    // From now on it is in memory.
    let again = two.fetch(origin.address(), "/a");
    assert!(status(&again).contains("hit") && !status(&again).contains("shared"));
    let part = two.fetch_with(origin.address(), "/a", "Range: bytes=1-1\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "a"));
    assert_eq!((two.asked("hit"), two.asked("miss")), (1.0, 0.0));
    assert_eq!(one.asked("miss"), 1.0);
    assert_eq!(origin.accepted(), 1);
    let mut results: Vec<_> = (two.carrick.access_log(3).iter())
        .map(|line| line.text("cache").to_owned())
        .collect();
    results.sort();
    assert_eq!(results, ["hit", "hit", "shared"]);
    // It expires by itself when it is useless.
    let keys = server.keys();
    let hash = keys.iter().find(|key| !key.ends_with(":generation"));
    let ttl: i64 = (server.ask(&["TTL", hash.expect("a key")]).parse()).expect("seconds");
    assert!((1..=60).contains(&ttl), "{ttl}");
    assert_eq!(keys.len(), 2, "{keys:?}");
    let shared = &two.carrick.status()["cache"]["shared"];
    assert_eq!(
        (&shared["state"], &shared["hit"]),
        (&"up".into(), &1.into())
    );
}

#[test]
fn bodies_of_unknown_length_and_long_ones_are_shared_too() {
    let (server, far) = server();
    let long = "x".repeat(500_000);
    let body = long.clone();
    let origin = Server::listen(&far).serve(move |peer, _| {
        answer_requests(peer, |head| {
            let framed = if head.starts_with("GET /chunked") {
                format!(
                    "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                    body.len()
                )
            } else {
                format!("Content-Length: {}\r\n\r\n{body}", body.len())
            };
            format!("HTTP/1.1 200 OK\r\n{FRESH}{framed}").into_bytes()
        });
    });
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    for (count, path) in [(1, "/chunked"), (2, "/long")] {
        assert_eq!(one.fetch(origin.address(), path).text(), long);
        one.wait_until_written(count);
        let found = two.fetch(origin.address(), path);
        assert!(is_from_second_level(&found), "{}", found.head);
        assert_eq!(found.text(), long);
    }
}

#[test]
fn a_head_finds_it_too() {
    let (server, far) = server();
    let origin = origin(&far, FRESH);
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    one.fetch(origin.address(), "/a");
    one.wait_until_written(1);
    let mut client = two.carrick.connect_forward();
    client.send(request("HEAD", origin.address(), "/a", ""));
    let head = client.read_response("HEAD");
    assert_eq!(head.field("content-length").as_deref(), Some("3"));
    assert!(is_from_second_level(&head), "{}", head.head);
}

#[test]
fn what_is_out_of_date_is_written_again_when_it_was_validated() {
    let (server, far) = server();
    let origin = Server::listen(&far);
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    let mut client = one.carrick.connect_forward();
    let ask = request("GET", origin.address(), "/a", "");
    client.send(&ask);
    let mut peer = origin.accept();
    peer.read_head();
    // It is stale at once, and may be sent if the origin fails.
    peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-if-error=600\r\nETag: \"v\"\r\nContent-Length: 1\r\n\r\na");
    client.read_response("GET");
    one.wait_until_written(1);
    // The other carrick has it validated, which is the origin's only work.
    let mut other = two.carrick.connect_forward();
    other.send(&ask);
    let mut peer = origin.accept();
    assert!(peer.read_head().contains("If-None-Match: \"v\"\r\n"));
    peer.send("HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nETag: \"v\"\r\n\r\n");
    assert_eq!(other.read_response("GET").text(), "a");
    two.wait_until_written(1);
    // Now the first one finds the validated response.
    let found = client.ask(&ask);
    assert_eq!(found.text(), "a");
    assert!(is_from_second_level(&found), "{}", found.head);
    origin.expect_no_connection();
}

#[test]
fn what_is_for_one_client_or_too_large_is_not_written() {
    let (server, far) = server();
    let origin = Server::listen(&far).serve(|peer, _| {
        answer_requests(peer, |head| {
            let (lines, bytes) = match head.split(' ').nth(1) {
                Some("/private") => ("Cache-Control: private, max-age=60\r\n", 3),
                Some("/no-store") => ("Cache-Control: no-store\r\n", 3),
                Some("/always") => ("Cache-Control: no-cache\r\nETag: \"1\"\r\n", 3),
                Some("/large") => (FRESH, 5000),
                _ => (FRESH, 3),
            };
            let body = "x".repeat(bytes);
            format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {bytes}\r\n\r\n{body}").into_bytes()
        });
    });
    let play = Play::begin_with(&format!(
        "servers = \"{}\", object_max = \"1 KB\"",
        server.address()
    ));
    for path in ["/private", "/no-store", "/always", "/large"] {
        assert_eq!(play.fetch(origin.address(), path).status, 200);
    }
    let lines = "Authorization: Basic eDp5\r\n";
    assert_eq!(
        play.fetch_with(origin.address(), "/user", lines).status,
        200
    );
    play.fetch(origin.address(), "/small");
    play.wait_until_written(1);
    assert_eq!(server.keys().len(), 2, "the generation, and one response");
}

#[test]
fn a_cluster_has_it_too() {
    let far = Place::claim();
    let mut servers = Vec::from(Redis::cluster(&far));
    let origin = origin(&far, FRESH);
    let shared = format!(
        "servers = [\"{}\", \"{}\"], cluster = true",
        servers[0].address(),
        servers[1].address()
    );
    let (one, two) = (Play::begin_with(&shared), Play::begin_with(&shared));
    for number in 0..30 {
        one.fetch(origin.address(), &format!("/{number}"));
    }
    one.wait_until_written(30);
    for number in 0..30 {
        let found = two.fetch(origin.address(), &format!("/{number}"));
        assert!(is_from_second_level(&found), "{}", found.head);
    }
    assert_eq!(two.asked("hit"), 30.0);
    let counts: Vec<usize> = servers.iter().map(|server| server.keys().len()).collect();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 31);
    // One server dies: its objects are gone, no request fails.
    drop(servers.pop());
    let third =
        Play::begin_with(&shared.replace("cluster = true", "cluster = true, timeout = \"200ms\""));
    for number in 0..30 {
        let path = format!("/{number}");
        assert_eq!(
            third.fetch(origin.address(), &path).text(),
            format!("{path} ")
        );
    }
}

#[test]
fn a_password_is_wanted() {
    let far = Place::claim();
    let server = Redis::start(&far, &["--requirepass", "open sesame"]);
    let origin = origin(&far, FRESH);
    far.write("right", "open sesame\n");
    far.write("wrong", "sesame\n");
    let with = |file: &str| {
        Play::begin_with(&format!(
            "servers = \"{}\", password_file = \"{}\"",
            server.address(),
            far.directory().join(file).display()
        ))
    };
    let (one, two, wrong) = (with("right"), with("right"), with("wrong"));
    one.fetch(origin.address(), "/a");
    one.wait_until_written(1);
    assert!(is_from_second_level(&two.fetch(origin.address(), "/a")));
    let fetched = wrong.fetch(origin.address(), "/a");
    assert_eq!(fetched.text(), "/a ");
    assert!(status(&fetched).contains("fwd=uri-miss"));
    assert_eq!(wrong.carrick.metric("carrick_shared_up", &[]), 0.0);
}

/// RFC 9111 section 4: the most recent response counts, by its date.
#[test]
fn an_older_response_does_not_take_the_place_of_a_newer_one() {
    let (server, far) = server();
    let origin = Server::listen(&far);
    let one = Play::begin(server.address());
    let ask = |lines: &str, day: u8, control: &str, body: &str| {
        let mut client = one.carrick.connect_forward();
        client.send(request("GET", origin.address(), "/a", lines));
        let mut peer = origin.accept();
        peer.read_head();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nDate: Sat, 0{day} Jan 2022 00:00:00 GMT\r\nCache-Control: {control}\r\nETag: \"{body}\"\r\nContent-Length: 1\r\nConnection: close\r\n\r\n{body}"
        ));
        assert_eq!(client.read_response("GET").text(), body);
    };
    ask("", 1, "max-age=2000000000", "1");
    one.wait_until_written(1);
    // What is asked for with credentials is written to this process's own store at most.
    let reload = "Authorization: Basic YTpi\r\nCache-Control: no-cache\r\n";
    ask(reload, 2, "public, max-age=0", "2");
    ask("", 3, "max-age=2000000000", "3");
}
