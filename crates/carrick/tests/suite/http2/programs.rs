//! Programs that others wrote: curl, nghttp, h2load, h2spec.
use super::{PATIENT, ok_server, start, switch_text};
use crate::clients::tool::{Tool, has_all};
use crate::https::certificates::certified;
use crate::https::pair;
use crate::support::{Carrick, Place, Server, message::field, random};

/// A switch with TLS for `a.example`; `None` without openssl.
fn with_tls(keys: &str, body: &'static [u8]) -> Option<(Place, Carrick)> {
    let place = certified()?;
    let server = Server::listen(&place);
    let address = server.address();
    std::mem::forget(server.serve(move |mut peer, _| {
        if peer.waits_for_head() {
            // Who makes a mistake in a body, even slowly, hears of it before the answer.
            let request = peer.read_head();
            let length = field(&request, "content-length").map_or(0, |text| text.parse().unwrap());
            let is_chunked = field(&request, "transfer-encoding").is_some();
            if !peer.reads_until(|body| match is_chunked {
                true => body.ends_with(b"\r\n\r\n"),
                false => body.len() >= length,
            }) {
                return;
            }
            let length = body.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            // Who asks may be gone.
            let _ = peer.try_send([head.as_bytes(), body].concat());
            // Closing with unread bytes would reset the connection before the answer is read.
            peer.read_ending();
        }
    }));
    let keys = format!("tls = {}\n{keys}", pair("server"));
    let carrick = Carrick::start(
        &place,
        &(PATIENT.to_owned() + &switch_text(&keys, &[address])),
    );
    Some((place, carrick))
}

fn curl(place: &Place, carrick: &Carrick) -> Tool {
    let port = carrick.listener().port();
    Tool::new("curl", place)
        .words("--disable --silent --show-error --fail --max-time 600 --cacert ca.pem")
        .words(&format!("--resolve a.example:{port}:{}", place.ip()))
}

#[test]
fn curl_agrees_on_http2_by_tls() {
    let body: &'static [u8] = random::Random::new(7).bytes(3_000_000).leak();
    let Some((place, carrick)) = with_tls("", body) else {
        return;
    };
    let url = format!("https://a.example:{}/", carrick.listener().port());
    let done = curl(&place, &carrick)
        .words("--http2 --parallel --write-out %{http_version}, --output one --output two")
        .words(&format!("{url} {url}"))
        .expect();
    assert_eq!(done, "2,2,");
    for name in ["one", "two"] {
        let got = std::fs::read(place.directory().join(name)).expect("a file");
        assert_eq!(random::hash(&got), random::hash(body));
    }
    let done = curl(&place, &carrick)
        .words("--http1.1 --write-out %{http_version} --output one")
        .words(&url)
        .expect();
    assert_eq!(done, "1.1");
    for line in carrick.access_log(3) {
        let version = line.text("version");
        assert!(matches!(version, "HTTP/2.0" | "HTTP/1.1"), "{version}");
        assert_eq!(line.value("tls")["version"], "TLSv1.3");
    }
}

#[test]
fn a_listener_may_do_without() {
    let Some((place, carrick)) = with_tls("http2 = false", b"ok") else {
        return;
    };
    let url = format!("https://a.example:{}/", carrick.listener().port());
    let done = curl(&place, &carrick)
        .words("--http2 --write-out ,%{http_version}")
        .words(&url)
        .expect();
    assert_eq!(done, "ok,1.1");
}

#[test]
fn curl_sees_interim_responses() {
    if !has_all(&["curl"]) {
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place).serve(|mut peer, _| {
        if peer.waits_for_head() {
            peer.read_head();
            peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let carrick = start(&place, &[server.address()]);
    let done = Tool::new("curl", &place)
        .words("--disable --silent --show-error --include --max-time 600 --http2-prior-knowledge")
        .words(&format!("http://{}/", carrick.listener()))
        .expect();
    let text = done.to_lowercase();
    assert!(text.starts_with("http/2 103 \r\nlink: </a>\r\n"), "{text}");
    assert!(
        text.contains("http/2 200 \r\n") && text.ends_with("ok"),
        "{text}"
    );
}

#[test]
fn nghttp_and_h2load_get_what_they_ask_for() {
    if !has_all(&["nghttp", "h2load"]) {
        return;
    }
    let place = Place::claim();
    let server = ok_server(&place);
    let carrick = start(&place, &[server.address()]);
    let url = format!("http://{}/", carrick.listener());
    let done = Tool::new("nghttp", &place)
        .words("--no-dep --stat")
        .word(&url)
        .expect();
    assert!(done.starts_with("ok"), "{done}");
    let done = Tool::new("h2load", &place)
        .words("--requests 2000 --clients 4 --max-concurrent-streams 100")
        .word(&url)
        .expect();
    assert!(
        done.contains("2000 succeeded, 0 failed, 0 errored"),
        "{}",
        done
    );
    assert!(done.contains("status codes: 2000 2xx"), "{done}");
}

/// By TLS: on a port without it, what does not begin like HTTP/2 is HTTP/1.1.
#[test]
fn h2spec_finds_nothing() {
    if !has_all(&["h2spec"]) {
        return;
    }
    // Large enough for what it asks in parts.
    let Some((place, carrick)) = with_tls("", &[b'x'; 4096]) else {
        return;
    };
    let done = Tool::new("h2spec", &place)
        .words(&format!(
            "--host {} --port {} --tls --insecure --timeout 60",
            place.ip(),
            carrick.listener().port()
        ))
        .run();
    let summary = "145 tests, 145 passed, 0 skipped, 0 failed";
    assert!(done.out.contains(summary), "{}\n{}", done.out, done.error);
}
