//! Answers in parts: those that the server sends, those that broke off, and what is made of them.
use super::{Play, get, status};
use crate::support::message::field;
use crate::support::random::{Random, hash};
use crate::support::server::Server;
use crate::support::{Carrick, Ending, Peer, Place, Response, wait_for};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const LINES: &str = "Cache-Control: max-age=60\r\nETag: \"v\"\r\nConnection: close\r\n";

/// A 206 with these bytes of a body.
fn part(body: &[u8], range: Range<usize>, lines: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\n{lines}\r\n",
        range.len(),
        range.start,
        range.end - 1,
        body.len()
    );
    [head.as_bytes(), &body[range]].concat()
}

/// A whole.
fn whole(body: &[u8], lines: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{lines}\r\n");
    [head.as_bytes(), body].concat()
}

/// What is stored, once it is.
fn stored(play: &Play, path: &str, lines: &str) -> Response {
    let lines = format!("Cache-Control: only-if-cached\r\n{lines}");
    let found = wait_for("the part in the store", || {
        let response = play.carrick.connect().ask(&get(path, &lines));
        (response.status != 504).then_some(response)
    });
    play.server.expect_nobody();
    found
}

/// Nothing that answers this is stored.
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
    play.server.expect_nobody();
}

/// The server sends so much of an answer, and breaks off.
fn break_off(play: &Play, lines: &str, answer: &[u8]) {
    let mut client = play.carrick.connect();
    client.send(get("/a", lines));
    let mut upstream = play.server.accept();
    upstream.read_head();
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
        // It is never sent as if it were the whole.
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
}

/// Asks for something of which a part is stored, plays the server with several answers, one after the other; what it was
/// asked for, and what the client got.
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
        // From now on it is the new version's.
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
    // Nothing would be spared by asking for the rest, and so this overlaps.
    let lines = "Range: bytes=4000-8999\r\nIf-None-Match: \"x\"\r\n";
    play.fetch_with("/a", lines, &part(&other, 4_000..9_000, LINES));
    wait_for("the end of both", || {
        let lines = "Cache-Control: only-if-cached\r\nRange: bytes=0-99\r\n";
        let response = play.carrick.connect().ask(&get("/a", lines));
        (response.status == 504).then_some(())
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

/// How long each version is.
const VERSION_BYTES: usize = 100_000;

/// A server that changes now and then, answers ranges as it likes, and breaks off.
struct Fickle {
    version: AtomicUsize,
    random: Mutex<Random>,
}

impl Fickle {
    fn body(version: usize) -> Vec<u8> {
        Random::new(1_000 + version as u64).bytes(VERSION_BYTES)
    }

    fn chance(&self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn below(&self, end: usize) -> usize {
        self.random.lock().unwrap().below(end)
    }

    /// What is answered, and whether all of it is sent.
    fn answer(&self, head: &str) -> (Vec<u8>, bool) {
        if self.chance(20) {
            self.version.fetch_add(1, Ordering::SeqCst);
        }
        let version = self.version.load(Ordering::SeqCst);
        let (body, tag) = (Self::body(version), format!("\"{version}\""));
        let lines = format!(
            "Cache-Control: max-age={}\r\nETag: {tag}\r\nX-Is: {version}\r\n",
            if self.chance(3) { 0 } else { 60 }
        );
        if field(head, "if-none-match").is_some_and(|tags| tags.contains(&tag)) {
            return (
                format!("HTTP/1.1 304 Not Modified\r\n{lines}\r\n").into_bytes(),
                true,
            );
        }
        let holds = field(head, "if-range").is_none_or(|known| known == tag);
        let range = field(head, "range").filter(|_| holds && !self.chance(10));
        let all = self.below(4) > 0;
        let Some(range) = range.and_then(|range| range_of(&range)) else {
            return (whole(&body, &lines), all);
        };
        let mut range = range.start..range.end.min(VERSION_BYTES);
        if range.is_empty() {
            let refused = format!(
                "HTTP/1.1 416 No\r\nContent-Range: bytes */{VERSION_BYTES}\r\nContent-Length: 0\r\n\r\n"
            );
            return (refused.into_bytes(), true);
        }
        match self.below(12) {
            0 => range.end = range.start + 1 + self.below(range.len()),
            1 => range.start += self.below(range.len()),
            2 => range.start -= self.below(range.start),
            3 => range.end = VERSION_BYTES,
            _ => {}
        }
        (part(&body, range, &lines), all)
    }

    fn serve(&self, mut peer: Peer) {
        while peer.waits_for_head() {
            let head = peer.read_head();
            let (answer, all) = self.answer(&head);
            let bytes = if all {
                answer.len()
            } else {
                self.below(answer.len()).max(300)
            };
            let sent = &answer[..bytes.min(answer.len())];
            if peer.try_send(sent).is_err() || !all {
                return;
            }
        }
    }
}

/// `bytes=a-b` as a range.
fn range_of(value: &str) -> Option<Range<usize>> {
    let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
    let end = last.parse().map_or(VERSION_BYTES, |last: usize| last + 1);
    Some(first.parse().ok()?..end)
}

/// Whether what a client got is right: all bytes are of the version that it says.
fn check(response: &Response, asked: Option<&Range<usize>>) {
    let version = || {
        response
            .field("x-is")
            .expect("a version")
            .parse()
            .expect("a number")
    };
    match response.status {
        200 => assert_eq!(hash(&response.body), hash(&Fickle::body(version()))),
        206 => {
            let said = response.field("content-range").expect("a range");
            let said = said.trim_start_matches("bytes ");
            let (range, total) = said.split_once('/').expect("a total");
            assert_eq!(total, VERSION_BYTES.to_string());
            let range = range_of(&format!("bytes={range}")).expect("a range");
            assert!(
                asked.is_some(),
                "nobody has asked for a part: {}",
                response.head
            );
            assert_eq!(hash(&response.body), hash(&Fickle::body(version())[range]));
        }
        other => assert!(matches!(other, 416 | 504 | 502), "{}", response.head),
    }
}

#[test]
fn whatever_the_server_does_every_byte_is_of_one_version() {
    let place = Place::claim();
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .subsec_nanos();
    let fickle = Fickle {
        version: AtomicUsize::new(0),
        random: Mutex::new(Random::new(u64::from(seed))),
    };
    let serving = Server::listen(&place).serve(move |peer, _| fickle.serve(peer));
    let text = super::cached_switch(&[serving.address()], "", "");
    let carrick = Carrick::start(&place, &text);
    std::thread::scope(|scope| {
        for number in 0..4_u64 {
            let carrick = &carrick;
            scope.spawn(move || {
                let mut random = Random::new(u64::from(seed) ^ (number << 32));
                for _ in 0..150 {
                    let start = random.below(VERSION_BYTES);
                    let range =
                        start..(start + 1 + random.below(VERSION_BYTES / 2)).min(VERSION_BYTES);
                    let asked = (random.below(4) > 0).then_some(range);
                    let mut lines = asked.as_ref().map_or(String::new(), |range| {
                        format!("Range: bytes={}-{}\r\n", range.start, range.end - 1)
                    });
                    if random.below(4) == 0 {
                        lines += "Cache-Control: no-cache\r\n";
                    }
                    let mut client = carrick.connect();
                    let path = format!("/{}", random.below(12));
                    client.send(get(&path, &format!("{lines}Connection: close\r\n")));
                    let (Ending::Closed(bytes) | Ending::Reset(bytes)) = client.read_ending();
                    if let Some(response) = whole_response(&bytes) {
                        check(&response, asked.as_ref());
                    }
                }
            });
        }
    });
    let stored = carrick.metric("carrick_cache_answers_total", &["result=\"stored\""]);
    let hits = carrick.metric("carrick_cache_requests_total", &["result=\"hit\""]);
    assert!(stored > 10.0 && hits > 10.0, "seed {seed}: {stored} {hits}");
}

/// The response in `bytes`, unless it broke off.
fn whole_response(bytes: &[u8]) -> Option<Response> {
    let end = crate::support::message::head_end(bytes)?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length: usize = field(&head, "content-length")?.parse().ok()?;
    let body = &bytes[end..];
    assert!(body.len() <= length, "more than was announced: {head}");
    (body.len() == length).then(|| Response {
        version: "HTTP/1.1".into(),
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        body: body.to_vec(),
        raw_body: body.to_vec(),
        head,
        trailers: Vec::new(),
        interim: Vec::new(),
    })
}
