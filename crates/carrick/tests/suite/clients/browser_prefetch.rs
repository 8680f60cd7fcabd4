//! A headless browser, and a carrick that prefetches its pictures.
use super::browser::chromium;
use super::tool::has_all;
use crate::support::carrick::FORWARD_TEXT;
use crate::support::server::answer_requests;
use crate::support::{Carrick, PATIENCE, Place, Server, wait_for};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Twice as many as a browser has connections to one host.
const PICTURES: usize = 12;

/// A different width for each picture.
fn width(picture: usize) -> usize {
    20 + picture
}

fn page() -> String {
    let pictures: String = (0..PICTURES)
        .map(|picture| format!("<img src=picture-{picture}.svg>"))
        .collect();
    format!(
        "<!DOCTYPE html><title>play</title><link rel=icon href=data:,><body><p id=result>nothing</p>{pictures}<script>
        addEventListener('load', () => {{
          const widths = [...document.images].map((image) => image.naturalWidth);
          document.getElementById('result').textContent = `widths ${{widths}}.`;
        }});</script></body>"
    )
}

/// Number of requests by path.
type Asked = Arc<Mutex<HashMap<String, usize>>>;

/// Delays all pictures until all have been requested, which a browser with six connections never does; or until a
/// time-out, so that the browser still ends.
fn wait_for_all(asked: &Asked) {
    let deadline = Instant::now() + PATIENCE;
    let pictures = || {
        let asked = asked.lock().expect("no thread panicked");
        asked.keys().filter(|path| path.contains("picture")).count()
    };
    while pictures() < PICTURES && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn answer(path: &str) -> Vec<u8> {
    let picture = path
        .strip_prefix("/picture-")
        .and_then(|rest| rest.strip_suffix(".svg"));
    let (kind, body) = match picture.and_then(|number| number.parse().ok()) {
        Some(picture) => {
            let width = width(picture);
            (
                "image/svg+xml",
                format!(
                    "<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='9'></svg>"
                ),
            )
        }
        None => ("text/html", page()),
    };
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: max-age=600\r\n\r\n{body}").into_bytes()
}

#[test]
fn pictures_are_on_their_way_before_a_browser_can_ask_for_them() {
    let place = Place::claim();
    if !has_all(&["chromium"]) {
        return;
    }
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    let serving = Server::listen(&place).serve(move |peer, _| {
        answer_requests(peer, |head| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            *seen
                .lock()
                .expect("no thread panicked")
                .entry(path.to_owned())
                .or_default() += 1;
            if path.contains("picture") {
                wait_for_all(&seen);
            }
            answer(path)
        });
    });
    let text = format!("[cache]\n{FORWARD_TEXT}prefetch = {{ at_once = {PICTURES} }}\n");
    let carrick = Carrick::start(&place, &text);
    let shown = chromium(&place, &carrick, "profile")
        .words("--dump-dom")
        .word(format!("http://{}/", serving.address()))
        .expect();
    let widths: Vec<String> = (0..PICTURES)
        .map(|picture| width(picture).to_string())
        .collect();
    let widths = format!("widths {}.", widths.join(","));
    assert!(shown.contains(&widths), "{widths}: {shown}");
    for picture in 0..PICTURES {
        let path = format!("/picture-{picture}.svg");
        let times = asked
            .lock()
            .expect("no thread panicked")
            .get(&path)
            .copied();
        assert_eq!(times, Some(1), "{path}");
    }
    let lines = wait_for("the pictures in the log", || {
        let mut lines = carrick.access_log(1);
        lines.retain(|line| line.text("target").contains("picture"));
        (lines.len() >= PICTURES).then_some(lines)
    });
    let prefetched = lines.iter().filter(|line| line.text("cache") != "miss");
    // The browser may have requested six of them before carrick did.
    assert!(prefetched.count() >= PICTURES - 6, "{lines:#?}");
}
