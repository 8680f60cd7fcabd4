//! Ranges from a server that changes, answers ranges arbitrarily, and breaks off: every byte that a client gets is of one version.
use super::parts::{part, whole};
use super::{cached_switch, get};
use crate::support::message::field;
use crate::support::random::Random;
use crate::support::{Carrick, Ending, Peer, Place, Response, Server};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Length of each version.
const VERSION_BYTES: usize = 100_000;

/// A server that changes occasionally, answers ranges arbitrarily, and breaks off.
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

    /// The response, and whether all of it is sent.
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

/// Checks that all bytes are of the version that the response claims.
fn check(response: &Response, asked: Option<&Range<usize>>) {
    let range = match response.status {
        200 => 0..VERSION_BYTES,
        206 => {
            let said = response.field("content-range").expect("a range");
            let said = said.trim_start_matches("bytes ");
            let (range, total) = said.split_once('/').expect("a total");
            assert_eq!(total, VERSION_BYTES.to_string());
            assert!(asked.is_some(), "no part was requested: {}", response.head);
            range_of(&format!("bytes={range}")).expect("a range")
        }
        other => {
            assert!(matches!(other, 416 | 504 | 502), "{}", response.head);
            return;
        }
    };
    let version = response.field("x-is").expect("a version");
    let version: usize = version.parse().expect("a number");
    let right = &Fickle::body(version)[range.clone()];
    let wrong = (0..range.len()).find(|&place| response.body.get(place) != right.get(place));
    let Some(wrong) = wrong else {
        return;
    };
    // The version of the wrong bytes hints at the cause.
    let came = response.body.get(wrong..range.len().min(wrong + 8));
    let came = came.unwrap_or_default();
    let others = (0..=version + 1).filter(|&other| {
        let body = Fickle::body(other);
        !came.is_empty() && body.windows(came.len()).any(|bytes| bytes == came)
    });
    panic!(
        "wrong from {} on, bytes of version {:?}, of {asked:?}: {}",
        range.start + wrong,
        others.collect::<Vec<_>>(),
        response.head
    );
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
    let text = cached_switch(&[serving.address()], "", "");
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

/// The response in `bytes`, unless it is truncated.
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
