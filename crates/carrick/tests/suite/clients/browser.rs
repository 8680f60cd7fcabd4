//! A headless browser.
use super::site::Site;
use super::tool::{Tool, has_all};
use super::{count, lines_with, websocket};
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Place, Server, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A page whose script reports on its parts.
const PAGE: &str = "<!DOCTYPE html><title>play</title><link rel=stylesheet href=style.css><script src=script.js></script>\
<body><p id=result>nothing</p><img id=image src=picture.svg></body>";

const SCRIPT: &str = "addEventListener('load', () => {
  const style = getComputedStyle(document.getElementById('result')).display;
  const request = new XMLHttpRequest();
  request.open('GET', 'data.json?' + location.protocol, false);
  request.send();
  const width = document.getElementById('image').naturalWidth;
  document.getElementById('result').textContent = `style ${style}, picture ${width}, data ${JSON.parse(request.responseText).data}`;
});";

/// A headless browser with carrick as its proxy, and a profile in this directory.
pub fn chromium(place: &Place, carrick: &Carrick, profile: &str) -> Tool {
    Tool::new("chromium", place)
        .words("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage")
        .words("--disable-background-networking --disable-component-update --disable-sync --disable-default-apps")
        .words("--disable-extensions --no-default-browser-check --ignore-certificate-errors")
        .words("--proxy-bypass-list=<-loopback> ")
        .words(&format!("--user-data-dir={profile}"))
        .words(&format!("--proxy-server=http://{}", carrick.forward_address()))
}

#[test]
fn a_browser_shows_pages_by_http_and_by_https() {
    let place = Place::claim();
    if !has_all(&["chromium"]) {
        return;
    }
    let Some(site) = Site::start(&place) else {
        return;
    };
    site.put("index.html", PAGE);
    site.put("script.js", SCRIPT);
    site.put("style.css", "#result { display: inline-block }");
    site.put("data.json", "{\"data\": 42}");
    let picture = "<svg xmlns='http://www.w3.org/2000/svg' width='37' height='11'></svg>";
    site.put("picture.svg", picture);
    let carrick = Carrick::forward(&place);
    for url in [site.http("/"), site.https("/")] {
        let page = chromium(&place, &carrick, "profile")
            .words("--dump-dom")
            .word(&url)
            .expect();
        assert!(
            page.contains("style inline-block, picture 37, data 42"),
            "{url}: {page}"
        );
    }
    let https = site.https_address().to_string();
    let parts = [
        "/script.js",
        "/style.css",
        "/picture.svg",
        "/data.json?http:",
    ]
    .map(|part| site.http(part));
    let mut wanted = vec![("CONNECT", https.as_str())];
    wanted.extend(parts.iter().map(|part| ("GET", part.as_str())));
    let lines = lines_with(&carrick, &wanted);
    for part in &parts {
        assert_eq!(count(&lines, "GET", part), 1, "{part}: {lines:#?}");
    }
    assert!(
        lines
            .iter()
            .all(|line| line.text("target").contains(&place.ip().to_string())
                || line.status() >= 400),
        "{lines:#?}"
    );
}

/// A server that answers `/held` only after a request for `/release`.
fn holding_server(place: &Place) -> Serving {
    let released = Arc::new(AtomicBool::new(false));
    Server::listen(place).serve(move |peer, _| {
        let released = Arc::clone(&released);
        answer_requests(peer, move |head| {
            if head.starts_with("GET /release ") {
                released.store(true, Ordering::SeqCst);
            }
            wait_until("the release", || released.load(Ordering::SeqCst));
            b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
        });
    })
}

#[test]
fn a_browser_keeps_a_websocket_through_a_tunnel() {
    let place = Place::claim();
    if !has_all(&["chromium"]) {
        return;
    }
    let Some(site) = Site::start(&place) else {
        return;
    };
    let echo = websocket::echo_server(&place);
    let holding = holding_server(&place);
    // The browser prints the page once its picture has arrived, which is after the conversation.
    site.put(
        "index.html",
        format!(
            "<!DOCTYPE html><p id=result>nothing</p><img src=http://{1}/held><script>
            const socket = new WebSocket('ws://{0}/chat');
            let came = 0;
            socket.onopen = () => {{ for (let n = 0; n < 10; n++) socket.send('x'.repeat(n * 1000)); }};
            socket.onmessage = (event) => {{
              came += event.data.length;
              if (event.data.length == 9000) {{
                document.getElementById('result').textContent = 'came ' + came;
                new Image().src = 'http://{1}/release';
              }}
            }};
            </script>",
            echo.address(),
            holding.address()
        ),
    );
    let carrick = Carrick::forward(&place);
    let page = chromium(&place, &carrick, "profile")
        .words("--dump-dom")
        .word(site.http("/"))
        .expect();
    assert!(page.contains("came 45000"), "{page}");
    let tunnel = echo.address().to_string();
    let lines = lines_with(&carrick, &[("CONNECT", &tunnel)]);
    assert_eq!(count(&lines, "CONNECT", &tunnel), 1);
}
