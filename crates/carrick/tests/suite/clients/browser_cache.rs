//! A headless browser behind carrick's cache: a second visit with a fresh profile does not fetch again what the first one fetched.
use super::browser::chromium;
use super::tool::{Running, has_all};
use crate::support::carrick::FORWARD_TEXT;
use crate::support::message::field;
use crate::support::server::Serving;
use crate::support::{Carrick, Peer, Place, Server, wait_for, wait_until};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The page. Its script reports on its parts, reloads it, goes to another page, back, and forward.
const PAGE: &str = "<!DOCTYPE html><title>play</title><link rel=icon href=data:,><link rel=stylesheet href=style.css>\
<body><p id=text>text</p><img id=one src=one.svg><img id=two src=two.svg><script src=script.js></script></body>";

const PRIVATE: &str = "<!DOCTYPE html><title>private</title><link rel=icon href=data:,>\
<body><p id=text>NUMBER</p><script src=script.js></script></body>";

const STYLE: &str = "@font-face { font-family: played; src: url(font.woff2) } #text { display: inline-block; font-family: played }";

/// One step after another, over all loads of this tab. A navigation during the load would replace the page in the
/// history, so each step begins after it.
const SCRIPT: &str = "
const report = (step, what) => fetch('report?' + step, { method: 'POST', body: JSON.stringify(what) });
const text = () => document.getElementById('text');
const parts = async () => {
  await document.fonts.load('20px played').catch(() => {});
  await fetch('cookie');
  return {
    style: getComputedStyle(text()).display,
    widths: ['one', 'two'].map((id) => document.getElementById(id).naturalWidth),
    font: (await (await fetch('font.woff2')).arrayBuffer()).byteLength,
    data: (await (await fetch('data.json')).json()).data,
    cookie: document.cookie,
  };
};
const steps = [
  async () => { await report('first', await parts()); return () => location.reload(); },
  async () => { await report('reloaded', text().textContent); return () => { location.href = 'private.html'; }; },
  async () => { await report('private', text().textContent); return () => history.back(); },
  async () => { await report('back', text().textContent); return () => history.forward(); },
  async () => { await report('forward', text().textContent); return () => {}; },
];
addEventListener('pageshow', () => setTimeout(async () => {
  const step = Number(sessionStorage.step || 0);
  sessionStorage.step = step + 1;
  const next = await steps[step]();
  setTimeout(next, 0);
}, 0));
";

/// The body of `data.json`, also sent gzipped.
const DATA: &str = "{\"data\": \"the same in every coding, the same in every coding\"}";
const DATA_GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\x56\x4a\x49\x2c\x49\x54\xb2\x52\x50\x2a\xc9\x48\x55\x28\x4e\xcc\
\x4d\x55\xc8\xcc\x53\x48\x2d\x4b\x2d\xaa\x54\x48\xce\x4f\xc9\xcc\x4b\xd7\x51\xc0\x25\xa3\x54\x0b\x00\xb1\x0b\xa1\x90\x3e\x00\x00\x00";

const FONT_BYTES: usize = 30_000;

/// Requests and reports that the server got.
#[derive(Default)]
struct Seen {
    /// Requests by path, and how many of them were conditional.
    asked: HashMap<String, (usize, usize)>,
    /// By step.
    reports: HashMap<String, String>,
}

#[derive(Default)]
struct Origin(Mutex<Seen>);

impl Origin {
    /// The browser's report on a step.
    fn report(&self, step: &str) -> String {
        wait_for(step, || self.seen().reports.get(step).cloned())
    }

    fn asked(&self, path: &str) -> (usize, usize) {
        self.seen().asked.get(path).copied().unwrap_or_default()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().expect("no thread panicked")
    }

    fn serve(&self, mut peer: Peer) {
        while peer.waits_for_head() {
            let head = peer.read_head();
            let length = field(&head, "content-length").and_then(|length| length.parse().ok());
            let body = peer.read_exact(length.unwrap_or(0));
            let answer = self.answer(&head, &String::from_utf8_lossy(&body));
            if peer.try_send(answer).is_err() {
                return;
            }
        }
    }

    fn answer(&self, head: &str, body: &str) -> Vec<u8> {
        let target = head.split(' ').nth(1).unwrap_or_default();
        if let Some(step) = target.strip_prefix("/report?") {
            self.seen().reports.insert(step.to_owned(), body.to_owned());
            return b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
        }
        let is_conditional = field(head, "if-none-match").is_some();
        let count = {
            let mut seen = self.seen();
            let asked = seen.asked.entry(target.to_owned()).or_default();
            asked.0 += 1;
            asked.1 += usize::from(is_conditional);
            asked.0
        };
        // Somewhat old: on a reload, a browser considers a response of the current second new enough.
        let kept = "Cache-Control: max-age=600\r\nETag: \"v\"\r\nAge: 7\r\n";
        if is_conditional {
            return format!("HTTP/1.1 304 Not Modified\r\n{kept}\r\n").into_bytes();
        }
        let takes_gzip = field(head, "accept-encoding").is_some_and(|list| list.contains("gzip"));
        let picture = |width: u32| {
            format!("<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='9'></svg>")
        };
        let (kind, lines, content): (&str, String, Vec<u8>) = match target {
            "/page.html" => ("text/html", kept.into(), PAGE.into()),
            "/private.html" => (
                "text/html",
                "Cache-Control: no-store\r\n".into(),
                PRIVATE.replace("NUMBER", &count.to_string()).into_bytes(),
            ),
            "/style.css" => ("text/css", kept.into(), STYLE.into()),
            "/script.js" => ("text/javascript", kept.into(), SCRIPT.into()),
            "/one.svg" => ("image/svg+xml", kept.into(), picture(37).into_bytes()),
            "/two.svg" => ("image/svg+xml", kept.into(), picture(53).into_bytes()),
            "/font.woff2" => ("font/woff2", kept.into(), vec![b'f'; FONT_BYTES]),
            "/cookie" => (
                "text/plain",
                format!("Cache-Control: max-age=600\r\nSet-Cookie: id={count}\r\n"),
                Vec::new(),
            ),
            "/data.json" if takes_gzip => (
                "application/json",
                "Cache-Control: max-age=600\r\nVary: Accept-Encoding\r\nContent-Encoding: gzip\r\n"
                    .into(),
                DATA_GZIP.to_vec(),
            ),
            "/data.json" => (
                "application/json",
                "Cache-Control: max-age=600\r\nVary: Accept-Encoding\r\n".into(),
                DATA.into(),
            ),
            _ => return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{lines}\r\n",
            content.len()
        );
        [head.into_bytes(), content].concat()
    }
}

/// The parts of the page that may be shared.
const PARTS: [&str; 7] = [
    "/page.html",
    "/style.css",
    "/script.js",
    "/one.svg",
    "/two.svg",
    "/font.woff2",
    "/data.json",
];

struct Play {
    origin: Arc<Origin>,
    serving: Serving,
    carrick: Carrick,
    place: Place,
}

impl Play {
    /// `None`, with a visible message, if there is no browser.
    fn begin() -> Option<Self> {
        let place = Place::claim();
        if !has_all(&["chromium"]) {
            return None;
        }
        let origin = Arc::new(Origin::default());
        let serves = Arc::clone(&origin);
        let serving = Server::listen(&place).serve(move |peer, _| serves.serve(peer));
        let carrick = Carrick::start(&place, &format!("[cache]\n{FORWARD_TEXT}"));
        Some(Self {
            origin,
            serving,
            carrick,
            place,
        })
    }

    /// A browser with an empty profile, which goes through all steps.
    fn visit(&self, profile: &str) -> Running {
        self.origin.seen().reports.clear();
        let url = format!("http://{}/page.html", self.serving.address());
        chromium(&self.place, &self.carrick, profile)
            .words("--remote-debugging-port=0")
            .word(url)
            .start()
    }

    /// The cache's results for requests for a path, in order.
    fn results(&self, path: &str) -> Vec<String> {
        let lines = self.carrick.access_log(1);
        lines
            .iter()
            .filter(|line| line.text("method") == "GET" && line.text("target").ends_with(path))
            .map(|line| line.text("cache").to_owned())
            .collect()
    }
}

#[test]
fn a_second_browser_is_served_from_the_cache() {
    let Some(play) = Play::begin() else {
        return;
    };
    let parts = |cookie: &str| {
        serde_json::json!({
            "style": "inline-block",
            "widths": [37, 53],
            "font": FONT_BYTES,
            "data": "the same in every coding, the same in every coding",
            "cookie": cookie,
        })
    };
    let first: fn(&Play) -> serde_json::Value =
        |play| serde_json::from_str(&play.origin.report("first")).expect("JSON");
    let browser = play.visit("one");
    assert_eq!(first(&play), parts("id=1"));
    // Reloading a page validates it.
    assert_eq!(play.origin.report("reloaded"), "\"text\"");
    assert_eq!(play.origin.asked("/page.html"), (2, 1));
    wait_until("both in the log", || {
        // A browser that has waited long may ask twice.
        let results = play.results("/page.html");
        let has = |result| results.iter().any(|one| one == result);
        has("miss") && has("revalidated")
    });
    // `no-store` responses come from the server.
    assert_eq!(play.origin.report("private"), "\"1\"");
    assert_eq!(play.origin.report("back"), "\"text\"");
    play.origin.report("forward");
    drop(browser);
    for part in PARTS {
        let (count, conditional) = play.origin.asked(part);
        assert_eq!(count - conditional, 1, "{part}");
    }
    let private = play.origin.asked("/private.html").0;
    let hits = |part: &str| {
        let results = play.results(part);
        results.iter().filter(|result| *result == "hit").count()
    };
    let hits_before = PARTS.map(hits);
    let browser = play.visit("two");
    // The cookie is this browser's.
    assert_eq!(first(&play), parts("id=2"));
    for part in PARTS {
        let (count, conditional) = play.origin.asked(part);
        assert_eq!(count - conditional, 1, "{part}");
    }
    wait_until("hits in the log", || {
        let more = PARTS.into_iter().zip(hits_before);
        more.into_iter().all(|(part, before)| hits(part) > before)
    });
    let number = play.origin.report("private");
    assert_eq!(number, format!("\"{}\"", private + 1));
    play.origin.report("forward");
    drop(browser);
    assert!(
        play.results("/private.html")
            .iter()
            .all(|result| result == "miss")
    );
    assert!(
        play.results("/cookie")
            .iter()
            .all(|result| result == "miss")
    );
    the_other_coding_is_another_answer(&play);
}

/// A client that does not accept gzip gets an uncompressed response, although gzip is stored.
fn the_other_coding_is_another_answer(play: &Play) {
    let address = play.serving.address();
    let (before, _) = play.origin.asked("/data.json");
    let mut client = play.carrick.connect_forward();
    for _ in 0..2 {
        let plain = client.ask(&format!(
            "GET http://{address}/data.json HTTP/1.1\r\nHost: {address}\r\n\r\n"
        ));
        assert_eq!(
            (plain.text().as_str(), plain.field("content-encoding")),
            (DATA, None)
        );
    }
    assert_eq!(play.origin.asked("/data.json").0, before + 1);
}
