//! Concurrent requests for the same object; clients that disconnect; clients that come late.
use super::{Play, cached_switch, get, ok, status};
use crate::support::random::{Random, hash};
use crate::support::{Peer, wait_for, wait_until};

/// So many clients that wait for the answer to another client's request.
fn waiting(play: &Play, count: u32) -> Vec<Peer> {
    let ask = |_| {
        let mut client = play.carrick.connect();
        client.send(get("/a", ""));
        client
    };
    let clients = (0..count).map(ask).collect();
    play.carrick
        .wait_for_metric("carrick_cache_waited_total", &[], f64::from(count));
    clients
}

#[test]
fn one_request_goes_out_for_all_that_arrive_before_the_answer() {
    let play = Play::begin("");
    let (mut first, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
    let mut clients = waiting(&play, 19);
    play.server.expect_no_connection();
    upstream.send(ok("Cache-Control: max-age=60\r\n", "for all"));
    for client in clients.iter_mut().chain([&mut first]) {
        assert_eq!(client.read_response("GET").text(), "for all");
    }
    play.server.expect_no_connection();
}

#[test]
fn when_the_client_that_asked_leaves_one_of_the_others_asks() {
    for beginning in [
        "",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    ] {
        let play = Play::begin("");
        let (mut first, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
        let mut clients = waiting(&play, 20);
        if !beginning.is_empty() {
            upstream.send(beginning);
            first.read_head();
        }
        first.reset();
        // What comes of its body for a client that is not there is not kept.
        let _ = upstream.try_send(if beginning.is_empty() {
            ""
        } else {
            "1\r\nx\r\n"
        });
        let mut second = play.server.accept();
        second.read_head();
        play.carrick
            .wait_for_metric("carrick_cache_waited_total", &[], 39.0);
        play.server.expect_no_connection();
        second.send(ok("Cache-Control: max-age=60\r\n", "for all"));
        for client in &mut clients {
            assert_eq!(client.read_response("GET").text(), "for all");
        }
        play.server.expect_no_connection();
    }
}

#[test]
fn an_answer_that_is_not_stored_lets_the_others_ask_at_once() {
    let play = Play::begin("");
    let (mut asks, mut first) = play.carrick.asked(&play.server, get("/a", ""));
    let mut clients = waiting(&play, 3);
    // The head alone decides that.
    first.send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
    let mut others: Vec<Peer> = (0..3).map(|_| play.server.accept()).collect();
    for upstream in &mut others {
        upstream.read_head();
        upstream.send(ok("Cache-Control: no-store\r\n", "own"));
    }
    for client in &mut clients {
        assert_eq!(client.read_response("GET").text(), "own");
    }
    first.send("first");
    assert_eq!(asks.read_response("GET").text(), "first");
    // From now on requests do not wait for each other.
    let mut more: Vec<Peer> = (0..2).map(|_| play.carrick.connect()).collect();
    more.iter_mut()
        .for_each(|client| client.send(get("/a", "")));
    let mut both: Vec<Peer> = (0..2).map(|_| play.server.accept()).collect();
    for upstream in &mut both {
        upstream.read_head();
        upstream.send(ok("Cache-Control: no-store\r\n", "own"));
    }
    for client in &mut more {
        assert_eq!(client.read_response("GET").text(), "own");
    }
}

#[test]
fn late_ones_read_along_whole_and_in_ranges() {
    let play = Play::begin("");
    let body = Random::new(7).bytes(3_000_000);
    let (mut first, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
    upstream.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=60\r\nConnection: close\r\n\r\n",
        body.len()
    ));
    upstream.send(&body[..1_000_000]);
    assert!(first.read_head().starts_with("HTTP/1.1 200"));
    let beginning = first.read_exact(1_000_000);
    assert_eq!(hash(&beginning), hash(&body[..1_000_000]));
    let mut late = play.carrick.connect();
    late.send(get("/a", ""));
    let mut part = play.carrick.connect();
    part.send(get("/a", "Range: bytes=500000-1999999\r\n"));
    assert!(late.read_head().starts_with("HTTP/1.1 200"));
    assert!(part.read_head().starts_with("HTTP/1.1 206"));
    assert_eq!(hash(&late.read_exact(1_000_000)), hash(&body[..1_000_000]));
    assert_eq!(
        hash(&part.read_exact(500_000)),
        hash(&body[500_000..1_000_000])
    );
    play.server.expect_no_connection();
    upstream.send(&body[1_000_000..]);
    assert_eq!(hash(&first.read_exact(2_000_000)), hash(&body[1_000_000..]));
    assert_eq!(hash(&late.read_exact(2_000_000)), hash(&body[1_000_000..]));
    assert_eq!(
        hash(&part.read_exact(1_000_000)),
        hash(&body[1_000_000..2_000_000])
    );
    assert_eq!(hash(&play.find("/a").body), hash(&body));
}

#[test]
fn what_was_nearly_there_when_its_client_left_is_fetched_to_the_end() {
    let play = Play::begin("");
    let body = Random::new(8).bytes(400_000);
    let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
    upstream.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=60\r\n\r\n",
        body.len()
    ));
    upstream.send(&body[..200_000]);
    client.read_exact(100_000);
    client.reset();
    upstream.send(&body[200_000..]);
    let found = wait_for("the whole in the store", || {
        let found = play.carrick.connect().ask(&get("/a", ""));
        status(&found).contains("hit").then_some(found)
    });
    assert_eq!(hash(&found.body), hash(&body));
    play.server.expect_no_connection();
}

#[test]
fn what_is_far_from_its_end_is_given_up_with_its_last_client() {
    let play = Play::begin("memory = \"1 GB\"\nobject_max = \"64 MB\"");
    let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
    upstream
        .send("HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\nCache-Control: max-age=60\r\n\r\n");
    upstream.send(vec![b'x'; 100_000]);
    client.read_exact(50_000);
    client.reset();
    // carrick stops reading, which the server notices.
    let mut given_up = false;
    for _ in 0..400 {
        given_up |= upstream.try_send(vec![b'x'; 100_000]).is_err();
    }
    assert!(given_up, "all of it was taken");
    drop(upstream);
    assert_eq!(
        play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", "new"))
            .text(),
        "new"
    );
}

#[test]
fn a_client_that_disconnects_while_waiting_is_noticed_at_once() {
    let play = Play::begin("");
    let (mut first, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
    let mut clients = waiting(&play, 3);
    let mut stays = clients.pop().expect("three");
    for client in clients {
        client.reset();
    }
    // Long before the first one is answered.
    let lines = play.carrick.access_log(2);
    for line in &lines {
        assert_eq!(
            (line.text("ended"), line.status()),
            ("client_reset", 499),
            "{line:?}"
        );
    }
    upstream.send(ok("Cache-Control: max-age=60\r\n", "for both"));
    assert_eq!(first.read_response("GET").text(), "for both");
    assert_eq!(stays.read_response("GET").text(), "for both");
    play.server.expect_no_connection();
}

#[test]
fn a_client_that_disconnects_before_its_range_has_come_is_noticed_at_once() {
    let play = Play::begin("");
    let (mut first, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nCache-Control: max-age=60\r\n\r\n");
    upstream.send([b'x'; 1000]);
    first.read_head();
    let mut late = play.carrick.connect();
    late.send(get("/a", "Range: bytes=90000-\r\n"));
    play.carrick.wait_until_clients(2);
    late.reset();
    let line = &play.carrick.access_log(1)[0];
    assert_eq!(line.text("ended"), "client_reset", "{line:?}");
    upstream.send([b'x'; 99_000]);
    first.read_exact(100_000);
}

/// Sends each server's connection a piece now and then until carrick has closed all of them.
fn trickle(upstreams: &mut Vec<(Peer, &str)>) {
    wait_until("the ends of the servers' connections", || {
        upstreams.retain_mut(|(upstream, piece)| upstream.try_send(*piece).is_ok());
        upstreams.is_empty()
    });
}

/// Its server would hold the connection with a byte now and then.
#[test]
fn what_nobody_reads_is_given_up_if_hardly_anything_comes() {
    let times = "[timeouts]\nidle = \"15s\"\n";
    let play = Play::configured(|server| cached_switch(&[server], "", "") + times);
    // All at the same time.
    let mut trickling = Vec::new();
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nCache-Control: max-age=60\r\nETag: \"v\"\r\n\r\nx";
    for is_validated_meanwhile in [false, true] {
        let path = format!("/{is_validated_meanwhile}");
        let (mut client, mut upstream) = play.carrick.asked(&play.server, get(&path, ""));
        upstream.send(head);
        client.read_head();
        if is_validated_meanwhile {
            let (mut reload, mut validating) = play
                .carrick
                .asked(&play.server, get(&path, "Cache-Control: no-cache\r\n"));
            validating.send("HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\n\r\n");
            reload.read_head();
            reload.reset();
        }
        client.reset();
        trickling.push((upstream, "x"));
    }

    // Of unknown length, and without a client from the first byte on.
    let stale = "Cache-Control: max-age=0, stale-while-revalidate=1000\r\n";
    play.fetch("/refreshed", &ok(stale, "old"));
    let mut client = play.carrick.connect();
    assert_eq!(client.ask(&get("/refreshed", "")).text(), "old");
    let mut upstream = play.server.accept();
    upstream.read_head();
    upstream
        .send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n");
    trickling.push((upstream, "1\r\nx\r\n"));
    trickle(&mut trickling);
    play.carrick
        .wait_for_metric("carrick_cache_fills_given_up_total", &[], 3.0);
}

#[test]
fn a_client_that_disconnects_while_it_is_sent_is_in_the_log() {
    let play = Play::begin("");
    let body = "x".repeat(8_000_000);
    play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", &body));
    let mut client = play.carrick.connect();
    client.send(get("/a", ""));
    client.read_exact(100);
    client.reset();
    let lines = play.carrick.access_log(2);
    let hit = lines.iter().find(|line| line.text("cache") == "hit");
    assert_eq!(hit.expect("a hit").text("ended"), "client_reset");
}
