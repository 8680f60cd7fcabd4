//! Partial responses: 206 from the server, responses that broke off, and how they are completed.
use super::{Play, get, status};
use crate::support::message::field;
use crate::support::random::{Random, hash};
use crate::support::{Ending, Peer, Response, wait_for, wait_until};
use std::ops::Range;

const LINES: &str = "Cache-Control: max-age=60\r\nETag: \"v\"\r\nConnection: close\r\n";

/// A 206 with these bytes of a body.
pub fn part(body: &[u8], range: Range<usize>, lines: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\n{lines}\r\n",
        range.len(),
        range.start,
        range.end - 1,
        body.len()
    );
    [head.as_bytes(), &body[range]].concat()
}

/// A complete response.
pub fn whole(body: &[u8], lines: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{lines}\r\n");
    [head.as_bytes(), body].concat()
}

/// The stored response, once there is one.
fn stored(play: &Play, path: &str, lines: &str) -> Response {
    let lines = format!("Cache-Control: only-if-cached\r\n{lines}");
    let found = wait_for("the part in the store", || {
        let response = play.carrick.connect().ask(&get(path, &lines));
        (response.status != 504).then_some(response)
    });
    play.server.expect_no_connection();
    found
}

/// No stored response matches this request.
fn is_not_stored(play: &Play, path: &str, lines: &str) {
    let lines = format!("Cache-Control: only-if-cached\r\n{lines}");
    assert_eq!(play.find_with(path, &lines).status, 504);
}

#[test]
fn a_part_is_kept_and_answers_what_is_in_it() {
    let play = Play::begin("");
    let body = Random::new(1).bytes(200_000);
    let (first, asked) = play.fetch_with(
        "/a",
        "Range: bytes=50000-149999\r\n",
        &part(&body, 50_000..150_000, LINES),
    );
    assert_eq!(
        field(&asked, "range").as_deref(),
        Some("bytes=50000-149999")
    );
    assert_eq!(
        (first.status, hash(&first.body)),
        (206, hash(&body[50_000..150_000]))
    );
    assert!(status(&first).contains("stored"), "{}", first.head);
    for range in [50_000..150_000, 60_000..60_001, 149_000..150_000] {
        let lines = format!("Range: bytes={}-{}\r\n", range.start, range.end - 1);
        let found = stored(&play, "/a", &lines);
        assert_eq!(
            (found.status, hash(&found.body)),
            (206, hash(&body[range.clone()]))
        );
        let said = format!("bytes {}-{}/200000", range.start, range.end - 1);
        assert_eq!(found.field("content-range"), Some(said));
        assert!(status(&found).contains("hit"), "{}", found.head);
    }
    let both = stored(&play, "/a", "Range: bytes=50000-50001,70000-70001\r\n");
    assert_eq!(both.status, 206);
    let same = stored(
        &play,
        "/a",
        "Range: bytes=60000-60009\r\nIf-Range: \"v\"\r\n",
    );
    assert_eq!(
        (same.status, same.body.as_slice()),
        (206, &body[60_000..60_010])
    );
    for lines in [
        "",
        "Range: bytes=0-9\r\n",
        "Range: bytes=149999-150000\r\n",
        "Range: bytes=60000-60009\r\nIf-Range: \"w\"\r\n",
    ] {
        is_not_stored(&play, "/a", lines);
    }
    assert_eq!(stored(&play, "/a", "Range: bytes=200000-\r\n").status, 416);
}

#[test]
fn what_is_missing_is_asked_for_until_the_whole_is_there() {
    let play = Play::begin("");
    let body = Random::new(2).bytes(300_000);
    play.fetch_with(
        "/a",
        "Range: bytes=100000-199999\r\n",
        &part(&body, 100_000..200_000, LINES),
    );
    stored(&play, "/a", "Range: bytes=100000-199999\r\n");
    let (more, asked) = play.fetch_with(
        "/a",
        "Range: bytes=150000-\r\n",
        &part(&body, 200_000..300_000, LINES),
    );
    assert_eq!(
        field(&asked, "range").as_deref(),
        Some("bytes=200000-299999")
    );
    assert_eq!(field(&asked, "if-range").as_deref(), Some("\"v\""));
    assert_eq!(
        (more.status, hash(&more.body)),
        (206, hash(&body[150_000..]))
    );
    assert!(status(&more).contains("fwd=partial"), "{}", more.head);
    stored(&play, "/a", "Range: bytes=100000-\r\n");
    let (all, asked) = play.fetch_with("/a", "", &part(&body, 0..100_000, LINES));
    assert_eq!(field(&asked, "range").as_deref(), Some("bytes=0-99999"));
    assert_eq!((all.status, hash(&all.body)), (200, hash(&body)));
    assert_eq!(all.field("content-length").as_deref(), Some("300000"));
    assert_eq!(all.field("content-range"), None);
    let found = stored(&play, "/a", "");
    assert_eq!((found.status, hash(&found.body)), (200, hash(&body)));
    let head = play
        .carrick
        .connect()
        .ask("HEAD /a HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(head.field("content-length").as_deref(), Some("300000"));
    play.server.expect_no_connection();
}

/// The server sends a part of a response, and breaks off.
fn break_off(play: &Play, lines: &str, answer: &[u8]) {
    let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/a", lines));
    upstream.send(answer);
    drop(upstream);
    assert!(matches!(client.read_ending(), Ending::Reset(_)));
}

#[test]
fn what_broke_off_is_completed() {
    let body = Random::new(3).bytes(150_000);
    let announced = whole(&body, LINES);
    let chunked = [
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{LINES}\r\n{:x}\r\n",
            body.len()
        )
        .as_bytes(),
        &body,
    ]
    .concat();
    for (answer, end) in [(announced, "149999"), (chunked, "")] {
        let play = Play::begin("");
        break_off(&play, "", &answer[..answer.len() - 50_000]);
        let beginning = stored(&play, "/a", "Range: bytes=0-99999\r\n");
        assert_eq!(hash(&beginning.body), hash(&body[..100_000]));
        // A part is never sent as a complete response.
        is_not_stored(&play, "/a", "");
        let (all, asked) = play.fetch_with("/a", "", &part(&body, 100_000..150_000, LINES));
        assert_eq!(field(&asked, "range"), Some(format!("bytes=100000-{end}")));
        assert_eq!(field(&asked, "if-range").as_deref(), Some("\"v\""));
        assert_eq!((all.status, hash(&all.body)), (200, hash(&body)));
        assert_eq!(hash(&stored(&play, "/a", "").body), hash(&body));
    }
}

#[test]
fn a_part_that_breaks_off_is_a_shorter_part() {
    let play = Play::begin("");
    let body = Random::new(4).bytes(100_000);
    let answer = part(&body, 10_000..90_000, LINES);
    break_off(
        &play,
        "Range: bytes=10000-89999\r\n",
        &answer[..answer.len() - 40_000],
    );
    let found = stored(&play, "/a", "Range: bytes=10000-49999\r\n");
    assert_eq!(hash(&found.body), hash(&body[10_000..50_000]));
    is_not_stored(&play, "/a", "Range: bytes=10000-50000\r\n");
}

#[test]
fn what_cannot_be_told_from_other_versions_is_not_kept() {
    let play = Play::begin("");
    let body = b"0123456789";
    for lines in [
        "Cache-Control: max-age=60\r\nConnection: close\r\n",
        "Cache-Control: max-age=60\r\nETag: W/\"v\"\r\nConnection: close\r\n",
    ] {
        let (answer, _) = play.fetch_with("/a", "Range: bytes=2-5\r\n", &part(body, 2..6, lines));
        assert_eq!((answer.status, answer.text()), (206, "2345".into()));
        is_not_stored(&play, "/a", "Range: bytes=2-5\r\n");
        let broken = whole(body, lines);
        break_off(&play, "", &broken[..broken.len() - 3]);
        is_not_stored(&play, "/a", "Range: bytes=2-5\r\n");
    }
    // The beginning of an error is no part of what others request.
    let error = String::from_utf8(whole(body, LINES)).expect("text");
    let error = error.replace("200 OK", "404 Not Found");
    break_off(&play, "", &error.as_bytes()[..error.len() - 3]);
    is_not_stored(&play, "/a", "Range: bytes=2-5\r\n");
}

/// Requests something of which a part is stored, and answers as the server with several responses in turn; returns the
/// requested ranges, and the client's response.
fn fetch_again(play: &Play, lines: &str, answers: &[Vec<u8>]) -> (Vec<Option<String>>, Response) {
    let mut client = play.carrick.connect();
    client.send(get("/a", lines));
    let asked = answers.iter().map(|answer| {
        let mut upstream = play.server.accept();
        let head = upstream.read_head();
        upstream.send(answer);
        upstream.half_close();
        field(&head, "range")
    });
    (asked.collect(), client.read_response("GET"))
}

#[test]
fn what_does_not_fit_is_asked_for_anew() {
    let old = Random::new(5).bytes(10_000);
    let new = Random::new(6).bytes(10_000);
    let other = "Cache-Control: max-age=60\r\nETag: \"w\"\r\nConnection: close\r\n";
    let shorter = &old[..9_000];
    let refused = b"HTTP/1.1 416 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
    for (name, answer) in [
        ("another version", part(&new, 5_000..8_000, other)),
        ("another range", part(&old, 6_000..8_000, LINES)),
        (
            "another length of the whole",
            part(shorter, 5_000..8_000, LINES),
        ),
        (
            "a weak validator",
            part(
                &old,
                5_000..8_000,
                &LINES.replace('"', "W/\"").replace("vW/", "v"),
            ),
        ),
        ("no such range", refused),
    ] {
        let play = Play::begin("");
        play.fetch_with(
            "/a",
            "Range: bytes=0-4999\r\n",
            &part(&old, 0..5_000, LINES),
        );
        stored(&play, "/a", "Range: bytes=0-4999\r\n");
        let lines = "Range: bytes=2000-7999\r\n";
        let (asked, got) = fetch_again(&play, lines, &[answer, part(&new, 2_000..8_000, other)]);
        let asked: Vec<_> = asked.iter().map(Option::as_deref).collect();
        assert_eq!(
            asked,
            [Some("bytes=5000-7999"), Some("bytes=2000-7999")],
            "{name}"
        );
        assert_eq!(
            (got.status, hash(&got.body)),
            (206, hash(&new[2_000..8_000])),
            "{name}"
        );
        assert_eq!(got.field("etag").as_deref(), Some("\"w\""), "{name}");
        // From now on the new version is stored.
        let found = stored(&play, "/a", lines);
        assert_eq!(hash(&found.body), hash(&new[2_000..8_000]), "{name}");
        is_not_stored(&play, "/a", "Range: bytes=0-1999\r\n");
    }
}

#[test]
fn a_whole_in_the_place_of_the_rest_is_taken_as_it_is() {
    let old = Random::new(7).bytes(10_000);
    let new = Random::new(8).bytes(12_000);
    let other = "Cache-Control: max-age=60\r\nETag: \"w\"\r\nConnection: close\r\n";
    let play = Play::begin("");
    play.fetch_with(
        "/a",
        "Range: bytes=0-4999\r\n",
        &part(&old, 0..5_000, LINES),
    );
    stored(&play, "/a", "Range: bytes=0-4999\r\n");
    let (asked, got) = fetch_again(&play, "", &[whole(&new, other)]);
    assert_eq!(asked, [Some("bytes=5000-9999".to_owned())]);
    assert_eq!((got.status, hash(&got.body)), (200, hash(&new)));
    assert_eq!(hash(&stored(&play, "/a", "").body), hash(&new));
}

#[test]
fn the_same_tag_with_other_bytes_is_trusted_no_more() {
    let play = Play::begin("");
    let (one, other) = (Random::new(9).bytes(9_000), Random::new(10).bytes(9_000));
    play.fetch_with(
        "/a",
        "Range: bytes=0-4999\r\n",
        &part(&one, 0..5_000, LINES),
    );
    stored(&play, "/a", "Range: bytes=0-4999\r\n");
    // Requesting only the rest would save nothing, so the ranges overlap.
    let lines = "Range: bytes=4000-8999\r\nIf-None-Match: \"x\"\r\n";
    play.fetch_with("/a", lines, &part(&other, 4_000..9_000, LINES));
    wait_until("the end of both", || {
        let lines = "Cache-Control: only-if-cached\r\nRange: bytes=0-99\r\n";
        let response = play.carrick.connect().ask(&get("/a", lines));
        response.status == 504
    });
    is_not_stored(&play, "/a", "Range: bytes=6000-6099\r\n");
}

#[test]
fn a_part_that_is_out_of_date_is_validated_with_the_clients_range() {
    let play = Play::begin("");
    let body = Random::new(11).bytes(10_000);
    let stale = LINES.replace("max-age=60", "max-age=0");
    play.fetch_with(
        "/a",
        "Range: bytes=0-4999\r\n",
        &part(&body, 0..5_000, &stale),
    );
    let lines = "Range: bytes=100-199\r\n";
    let not_modified = "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nConnection: close\r\nCache-Control: max-age=60\r\n\r\n";
    let asked = wait_for("the part in the store", || {
        let (answer, asked) = play.fetch_with("/a", lines, not_modified);
        (answer.status == 206).then(|| {
            assert_eq!(answer.body, body[100..200]);
            asked
        })
    });
    assert_eq!(field(&asked, "if-none-match").as_deref(), Some("\"v\""));
    assert_eq!(field(&asked, "range").as_deref(), Some("bytes=100-199"));
    assert_eq!(stored(&play, "/a", lines).body, body[100..200]);
}

#[test]
fn a_part_that_may_be_stale_is_sent_and_replaced_in_the_background() {
    let play = Play::begin("");
    let (old, new) = (Random::new(12).bytes(9_000), Random::new(13).bytes(9_000));
    let lines = "Cache-Control: max-age=0, stale-while-revalidate=60\r\nETag: \"v\"\r\nConnection: close\r\n";
    play.fetch_with(
        "/a",
        "Range: bytes=0-4999\r\n",
        &part(&old, 0..5_000, lines),
    );
    let asked = "Range: bytes=100-199\r\n";
    play.carrick
        .wait_for_metric("carrick_cache_objects", &[], 1.0);
    let mut client = play.carrick.connect();
    assert_eq!(client.ask(&get("/a", asked)).body, old[100..200]);
    let mut upstream = play.server.accept();
    let head = upstream.read_head();
    assert_eq!(field(&head, "if-none-match").as_deref(), Some("\"v\""));
    assert_eq!(field(&head, "range").as_deref(), Some("bytes=100-199"));
    let other = "Cache-Control: max-age=60\r\nETag: \"w\"\r\nConnection: close\r\n";
    upstream.send(part(&new, 100..200, other));
    wait_until("the new version", || {
        client.ask(&get("/a", asked)).body == new[100..200]
    });
    play.server.expect_no_connection();
}

#[test]
fn of_many_clients_of_the_whole_one_requests_the_rest() {
    let play = Play::begin("");
    let body = Random::new(14).bytes(100_000);
    let answer = whole(&body, LINES);
    break_off(&play, "", &answer[..answer.len() - 50_000]);
    stored(&play, "/a", "Range: bytes=0-49999\r\n");
    let mut clients: Vec<Peer> = (0..6).map(|_| play.carrick.connect()).collect();
    clients[0].send(get("/a", ""));
    let mut upstream = play.server.accept();
    let head = upstream.read_head();
    assert_eq!(field(&head, "range").as_deref(), Some("bytes=50000-99999"));
    clients[1..]
        .iter_mut()
        .for_each(|client| client.send(get("/a", "")));
    play.carrick
        .wait_for_metric("carrick_cache_waited_total", &[], 5.0);
    upstream.send(part(&body, 50_000..100_000, LINES));
    for client in &mut clients {
        assert_eq!(hash(&client.read_response("GET").body), hash(&body));
    }
    play.server.expect_no_connection();
}

#[test]
fn head_says_what_the_server_says_and_not_what_a_part_has() {
    let play = Play::begin("");
    let body = Random::new(15).bytes(9_000);
    play.fetch_with(
        "/a",
        "Range: bytes=0-4999\r\n",
        &part(&body, 0..5_000, LINES),
    );
    stored(&play, "/a", "Range: bytes=0-4999\r\n");
    for (tag, is_kept) in [("\"v\"", true), ("\"w\"", false)] {
        let mut client = play.carrick.connect();
        client.send("HEAD /a HTTP/1.1\r\nHost: a.example\r\nRange: bytes=0-9\r\n\r\n");
        let mut upstream = play.server.accept();
        assert!(upstream.read_head().starts_with("HEAD /a "));
        upstream.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\nETag: {tag}\r\nConnection: close\r\n\r\n"
        ));
        let head = client.read_response("HEAD");
        assert_eq!(head.field("content-length").as_deref(), Some("9000"));
        let lines = "Cache-Control: only-if-cached\r\nRange: bytes=0-9\r\n";
        let found = play.find_with("/a", lines);
        assert_eq!(found.status == 206, is_kept, "{tag}");
    }
}
