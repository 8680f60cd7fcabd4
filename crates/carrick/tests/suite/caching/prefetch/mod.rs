//! Prefetching of objects that pages embed: which, how often, with which fields, and what clients get.
mod limits;

use super::{cached_switch, get, status};
use crate::support::message::field;
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Place, Response, Server, wait_until};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Responses by path; the connection closes for other paths.
type Answers = HashMap<String, Vec<u8>>;

/// An origin that records requests, and delays responses under `/slow` until the test releases them.
#[derive(Default)]
struct Origin {
    answers: Answers,
    heads: Mutex<Vec<String>>,
    may_go_on: Mutex<bool>,
}

impl Origin {
    fn with(answers: impl IntoIterator<Item = (String, Vec<u8>)>) -> Arc<Self> {
        Arc::new(Self {
            answers: answers.into_iter().collect(),
            ..Self::default()
        })
    }

    fn serve(self: &Arc<Self>, server: Server) -> Serving {
        let origin = Arc::clone(self);
        server.serve(move |peer, _| {
            answer_requests(peer, |head| {
                origin.heads().push(head.to_owned());
                let path = path(head);
                if path.starts_with("/slow") {
                    wait_until("the release", || *origin.may_go_on.lock().unwrap());
                }
                origin.answers.get(path).cloned().unwrap_or_default()
            });
        })
    }

    fn heads(&self) -> MutexGuard<'_, Vec<String>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of requests for a path.
    fn asked(&self, wanted: &str) -> usize {
        let heads = self.heads();
        heads.iter().filter(|head| path(head) == wanted).count()
    }

    fn go_on(&self) {
        *self.may_go_on.lock().unwrap() = true;
    }
}

/// The path of a request, whatever the form of its target.
fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// A switch in front of such an origin.
struct Play {
    origin: Arc<Origin>,
    carrick: Carrick,
    _serving: Serving,
    _place: Place,
}

impl Play {
    fn begin(prefetch: &str, answers: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let place = Place::claim();
        let server = Server::listen(&place);
        let route = format!("prefetch = {prefetch}");
        let text =
            "[workers]\ncount = 1\n".to_owned() + &cached_switch(&[server.address()], "", &route);
        let origin = Origin::with(answers);
        Self {
            _serving: origin.serve(server),
            carrick: Carrick::start(&place, &text),
            origin,
            _place: place,
        }
    }

    fn ask(&self, path: &str) -> Response {
        self.ask_with(path, "")
    }

    fn ask_with(&self, path: &str, lines: &str) -> Response {
        self.carrick.connect().ask(&get(path, lines))
    }

    fn count(&self, result: &str) -> f64 {
        let label = format!("result=\"{result}\"");
        self.carrick
            .metric("carrick_cache_prefetches_total", &[&label])
    }

    fn wait(&self, result: &str, least: f64) {
        let label = format!("result=\"{result}\"");
        self.carrick
            .wait_for_metric("carrick_cache_prefetches_total", &[&label], least);
    }

    /// Requests what was prefetched.
    fn expect_hit(&self, path: &str) -> Response {
        let response = self.ask(path);
        assert!(
            status(&response).contains("; hit"),
            "{path}: {}",
            response.head
        );
        response
    }
}

/// A response of known length.
fn answer(lines: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{lines}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn page(lines: &str, html: &str) -> Vec<u8> {
    answer(
        &format!("Content-Type: text/html; charset=utf-8\r\n{lines}"),
        html,
    )
}

/// Objects `/0` and so on, and HTML that embeds them.
fn objects(count: usize) -> (Vec<(String, Vec<u8>)>, String) {
    let object = |number| {
        (
            format!("/{number}"),
            answer(FRESH, format!("object {number}")),
        )
    };
    let names = (0..count).map(|number| format!("<img src='/{number}'>"));
    ((0..count).map(object).collect(), names.collect())
}

fn chunked(lines: &str, body: &str) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{lines}\r\n");
    for piece in body.as_bytes().chunks(30_001) {
        out += &format!(
            "{:x}\r\n{}\r\n",
            piece.len(),
            String::from_utf8_lossy(piece)
        );
    }
    (out + "0\r\n\r\n").into_bytes()
}

/// `<img src=/0><img src=/1>`, gzipped.
const GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xb3\xc9\xcc\x4d\x57\x28\x2e\x4a\
\xb6\xd5\x37\xb0\xb3\x81\xb3\x0d\xed\x00\xb4\x82\xf5\x4c\x18\x00\x00\x00";

/// However a page arrives, and whether it is stored or not, its client gets it unchanged; then all embedded objects are stored.
#[test]
fn what_pages_embed_is_there_before_it_is_asked_for() {
    const HTML: &str = "Content-Type: text/html\r\n";
    let (all, names) = objects(20);
    let text = "<p>text</p>".repeat(20_000);
    // The first 256 KB are scanned.
    let long = format!(
        "<html>{}{text}{}</html>{text}",
        &names[..200],
        &names[200..]
    );
    let short = format!("<html>{names}</html>");
    let mut pages = Vec::new();
    for (name, body) in [("short", &short), ("long", &long)] {
        for (stored, lines) in [
            ("stored", FRESH),
            ("passing", "Cache-Control: no-store\r\n"),
        ] {
            let lines = format!("{HTML}{lines}");
            let unlimited = format!("HTTP/1.1 200 OK\r\n{lines}Connection: close\r\n\r\n{body}");
            pages.push((
                format!("/{name}-{stored}-length"),
                answer(&lines, body),
                body,
            ));
            pages.push((
                format!("/{name}-{stored}-chunked"),
                chunked(&lines, body),
                body,
            ));
            pages.push((
                format!("/{name}-{stored}-close"),
                unlimited.into_bytes(),
                body,
            ));
        }
    }
    for (path, sent, body) in pages {
        let answers = all.iter().cloned().chain([(path.clone(), sent)]);
        let place = Place::claim();
        let server = Server::listen(&place);
        let text = cached_switch(&[server.address()], "", "prefetch = true");
        let origin = Origin::with(answers);
        let serves = Arc::clone(&origin);
        let serving = server.serve(move |mut peer, _| {
            while peer.waits_for_head() {
                let head = peer.read_head();
                serves.heads().push(head.clone());
                let target = self::path(&head);
                let sent = peer.try_send(serves.answers.get(target).cloned().unwrap_or_default());
                if sent.is_err() || target.ends_with("close") {
                    return;
                }
            }
        });
        let play = Play {
            origin,
            carrick: Carrick::start(&place, &text),
            _serving: serving,
            _place: place,
        };
        let response = play.ask(&path);
        assert!(response.text() == *body, "{path}: {}", response.head);
        play.wait("stored", 20.0);
        for number in 0..20 {
            let response = play.expect_hit(&format!("/{number}"));
            assert_eq!(response.text(), format!("object {number}"), "{path}");
            assert_eq!(play.origin.asked(&format!("/{number}")), 1, "{path}");
        }
        assert_eq!(play.count("asked"), 20.0, "{path}");
        // If two share a slot in the table of prefetched objects, one is not counted.
        assert!(play.count("used") >= 18.0, "{path}: {}", play.count("used"));
        assert_eq!(
            play.carrick
                .metric("carrick_cache_prefetch_pages_total", &[]),
            1.0
        );
        assert_eq!(play.carrick.status()["cache"]["prefetches"]["stored"], 20);
    }
}

#[test]
fn a_page_that_is_coded_is_understood_or_left_alone() {
    let lines = "Content-Type: text/html\r\nContent-Encoding: ";
    let (all, _) = objects(2);
    let pages = [
        (
            "/gzip".to_owned(),
            answer(&format!("{lines}gzip\r\n"), GZIP),
        ),
        (
            "/br".to_owned(),
            answer(&format!("{lines}br\r\n"), "<img src=/0>"),
        ),
    ];
    let play = Play::begin("true", all.into_iter().chain(pages));
    assert_eq!(play.ask("/br").text(), "<img src=/0>");
    assert_eq!(play.ask("/gzip").body, GZIP);
    play.wait("stored", 2.0);
    assert_eq!(
        play.carrick
            .metric("carrick_cache_prefetch_pages_total", &[]),
        1.0
    );
}

#[test]
fn nothing_of_the_clients_own_goes_along() {
    let (all, names) = objects(1);
    let play = Play::begin(
        "true",
        all.into_iter().chain([("/".to_owned(), page("", &names))]),
    );
    let lines = "Cookie: id=secret\r\nProxy-Authorization: Basic secret\r\nAccept-Language: nl\r\nAccept: a/b\r\nUser-Agent: u\r\n\
                 Accept-Encoding: identity\r\nX-Other: secret\r\nCache-Control: no-cache\r\n";
    play.ask_with("/", lines);
    play.wait("stored", 1.0);
    let heads = play.origin.heads();
    let head = heads.iter().find(|head| path(head) == "/0").unwrap();
    assert!(
        !head.contains("secret") && !head.contains("no-cache"),
        "{head}"
    );
    for (name, value) in [
        ("host", "a.example"),
        ("accept-language", "nl"),
        ("accept", "a/b"),
        ("user-agent", "u"),
        ("accept-encoding", "identity"),
        ("referer", "http://a.example/"),
    ] {
        assert_eq!(field(head, name).as_deref(), Some(value), "{head}");
    }
}

#[test]
fn pages_that_are_asked_for_otherwise_are_not_followed() {
    let (all, names) = objects(1);
    let pages = [
        ("/".to_owned(), page(FRESH, &names)),
        (
            "/text".to_owned(),
            answer("Content-Type: text/plain\r\n", &names),
        ),
        (
            "/error".to_owned(),
            String::from_utf8(page("", &names))
                .unwrap()
                .replace("200 OK", "404 Not Found")
                .into(),
        ),
    ];
    let play = Play::begin("true", all.into_iter().chain(pages));
    play.ask_with("/", "Authorization: Basic x\r\n");
    play.ask_with("/", "Range: bytes=0-5\r\n");
    play.ask("/text");
    assert_eq!(play.ask("/error").status, 404);
    assert_eq!(
        play.carrick
            .connect()
            .ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
            .status,
        200
    );
    assert_eq!(
        play.carrick
            .metric("carrick_cache_prefetch_pages_total", &[]),
        0.0
    );
    // From the store, with an ordinary request, it is.
    play.ask("/");
    play.wait("stored", 1.0);
    // But not a second time soon after.
    play.ask("/");
    assert_eq!(
        play.carrick
            .metric("carrick_cache_prefetch_pages_total", &[]),
        1.0
    );
}

#[test]
fn nothing_is_fetched_ahead_unless_it_is_wanted() {
    let (all, names) = objects(1);
    let play = Play::begin(
        "false",
        all.into_iter().chain([("/".to_owned(), page("", &names))]),
    );
    play.ask("/");
    assert_eq!(
        play.carrick
            .metric("carrick_cache_prefetch_pages_total", &[]),
        0.0
    );
    assert_eq!(play.origin.heads().len(), 1);
}
