//! Admin over loopback, with requests from clients, browsers and attackers.
use super::super::ControlHandle;
use super::super::testing::{
    LOOPBACK_ANY_PORT, exchange, get, plan, start_control, state, upstream,
};
use super::slots::CONNECTIONS_MAX;
use super::*;
use std::io::{Read, Write};
use std::net::TcpStream as BlockingStream;

fn start() -> (ControlHandle, SocketAddr) {
    let server = SocketAddr::from(([10, 0, 0, 11], 80));
    let upstreams = vec![Arc::new(upstream("images", &[server], None))];
    let handle = start_control(state(plan(
        Some(LOOPBACK_ANY_PORT.parse().unwrap()),
        upstreams,
    )))
    .unwrap();
    let address = handle.state().admin_address().unwrap();
    (handle, address)
}

#[test]
fn health_says_when_the_end_is_near() {
    let (handle, address) = start();
    assert_eq!(get(address, "/health"), (200, "ok\n".into()));
    handle.state().set_draining();
    assert_eq!(get(address, "/health"), (503, "draining\n".into()));
    handle.shutdown();
}

/// Regression test: a client that sent many requests at once had all of its pages generated before other clients were served.
#[test]
fn health_does_not_wait_for_all_the_pages_that_others_have_asked_for() {
    let (handle, ..) = start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let listener = bind(LOOPBACK_ANY_PORT.parse().unwrap()).unwrap();
    let admin = Admin::start(listener, Arc::clone(handle.state())).unwrap();
    // All requests are sent before admin runs.
    let ask = |path: &str, times: usize| {
        let mut stream = BlockingStream::connect(admin.address()).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        stream.write_all(request.repeat(times).as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let greedy: Vec<BlockingStream> = (0..8).map(|_| ask("/metrics", 16)).collect();
    let health = TcpStream::from_std(ask("/health", 1)).unwrap();
    runtime.block_on(health.readable()).unwrap();
    let pages = greedy.into_iter().map(|mut stream| {
        let mut came = Vec::new();
        // It ends with `WouldBlock`.
        let _ = stream.read_to_end(&mut came);
        String::from_utf8_lossy(&came)
            .matches("HTTP/1.1 200 OK")
            .count()
    });
    let pages: usize = pages.sum();
    assert!(pages < 16, "{pages} pages came first");
    drop((admin, health));
    handle.shutdown();
}

#[test]
fn metrics_are_plain_unless_openmetrics_is_asked_for() {
    let (handle, address) = start();
    handle.state().workers[0].connections_accepted.add(3);
    for (accept, content_type, is_open) in [
        ("", "text/plain; version=0.0.4; charset=utf-8", false),
        (
            "Accept: */*\r\n",
            "text/plain; version=0.0.4; charset=utf-8",
            false,
        ),
        (
            "Accept: text/plain;q=0.2\r\nAccept: application/openmetrics-text;version=1.0.0\r\n",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            true,
        ),
    ] {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {address}\r\n{accept}Connection: close\r\n\r\n"
        );
        let response = exchange(address, request.as_bytes());
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(
            response.contains(&format!("content-type: {content_type}\r\n")),
            "{response}"
        );
        assert!(response.contains("vary: accept\r\n"), "{response}");
        assert!(response.contains("\ncarrick_client_connections_total 3\n"));
        assert_eq!(response.ends_with("# EOF\n"), is_open, "{accept}");
    }
    handle.shutdown();
}

#[test]
fn status_is_json_with_everything_in_it() {
    let (handle, address) = start();
    // Once admin answers, the health checks have set the servers' initial state.
    assert_eq!(get(address, "/health").0, 200);
    let state = handle.state();
    state.workers[1].connections_accepted.add(5);
    state.workers[1].connections_closed.add(1);
    let [forward, switch, ..] = &state.workers[1].jobs;
    forward.requests.count(200);
    switch.requests.count(404);
    switch.requests.count(999);
    state.workers[1]
        .limits
        .reached(crate::telemetry::metrics::Limit::Connections);
    let server = Arc::clone(&state.running.load().upstreams[0].servers[0]);
    server.set_healthy(false);
    let asked = jiff::Timestamp::now();
    state.reloaded(Err(crate::control::NotReloaded::Refused(
        "config/x.toml:3: no such upstream".into(),
    )));
    let (status, body) = get(address, "/status");
    assert_eq!(status, 200);
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["pid"], std::process::id());
    assert_eq!(json["state"], "serving");
    assert_eq!(json["admin"], address.to_string());
    assert_eq!(json["workers"][1]["connections_open"], 4);
    assert_eq!(json["workers"][1]["requests"], 3);
    assert_eq!(json["engines"][1]["usable"], false);
    assert_eq!(json["upstreams"][0]["name"], "images");
    assert_eq!(
        json["upstreams"][0]["servers"][0]["address"],
        "10.0.0.11:80"
    );
    assert_eq!(json["upstreams"][0]["servers"][0]["up"], false);
    assert_eq!(
        json["limits"]["connections"],
        serde_json::json!({"limit": 1000, "in_use": 4, "reached": 1})
    );
    assert_eq!(
        json["limits"]["head_timeout"],
        serde_json::json!({"reached": 0})
    );
    assert_eq!(json["limits"]["pipes"]["limit"], 128);
    assert_eq!(json["reloads"]["failed"], 1);
    assert_eq!(
        json["reloads"]["last"]["error"],
        "the new configuration was rejected and the previous one stays in force: config/x.toml:3: no such upstream"
    );
    // Full precision: `carrick reload` tells its own reload from one a moment earlier.
    let at = json["reloads"]["last"]["at"].as_str().unwrap();
    let reloaded: jiff::Timestamp = at.parse().unwrap();
    assert!(
        asked <= reloaded && reloaded <= jiff::Timestamp::now(),
        "{at}"
    );
    handle.shutdown();
}

#[test]
fn the_documentation_names_every_field_of_status() {
    let (handle, address) = start();
    handle.state().reloaded(Ok(()));
    let json: serde_json::Value = serde_json::from_str(&get(address, "/status").1).unwrap();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut fields: Vec<String> = json.as_object().unwrap().keys().cloned().collect();
    for group in ["workers", "upstreams", "engines"] {
        fields.extend(json[group][0].as_object().unwrap().keys().cloned());
    }
    fields.extend(
        json["upstreams"][0]["servers"][0]
            .as_object()
            .unwrap()
            .keys()
            .cloned(),
    );
    for group in [
        "process",
        "splice",
        "splices",
        "dns",
        "access_log",
        "reloads",
    ] {
        fields.extend(json[group].as_object().unwrap().keys().cloned());
    }
    for field in fields {
        assert!(
            text.contains(&format!("`{field}`")),
            "docs/operations.md does not document `{field}`"
        );
    }
    handle.shutdown();
}

#[test]
fn methods_and_paths() {
    let (handle, address) = start();
    let ask = |line: &str| {
        exchange(
            address,
            format!("{line}\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
    };
    let table = [
        ("GET / HTTP/1.1", "HTTP/1.1 200", "/metrics"),
        ("GET /?x=1 HTTP/1.1", "HTTP/1.1 200", "/metrics"),
        ("GET /health?probe HTTP/1.1", "HTTP/1.1 200", "ok\n"),
        ("GET /health HTTP/1.0", "HTTP/1.0 200", "ok\n"),
        ("GET /nothing HTTP/1.1", "HTTP/1.1 404", "no such page"),
        (
            "GET /../etc/passwd HTTP/1.1",
            "HTTP/1.1 404",
            "no such page",
        ),
        ("POST /health HTTP/1.1", "HTTP/1.1 405", "Only GET and HEAD"),
        (
            "POST /cache HTTP/1.1",
            "HTTP/1.1 405",
            "allow: GET, HEAD, DELETE\r\n",
        ),
        (
            "DELETE /status HTTP/1.1",
            "HTTP/1.1 405",
            "allow: GET, HEAD\r\n",
        ),
        (
            "CONNECT 127.0.0.1:1 HTTP/1.1",
            "HTTP/1.1 405",
            "Only GET and HEAD",
        ),
        ("GARBAGE", "HTTP/1.1 400", ""),
    ];
    for (line, status, part) in table {
        let response = ask(line);
        assert!(
            response.starts_with(status) && response.contains(part),
            "{line}: {response}"
        );
    }
    let head = ask("HEAD /health HTTP/1.1");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("content-length: 3\r\n"),
        "{head}"
    );
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    handle.shutdown();
}

#[test]
fn only_hosts_that_a_web_page_cannot_have_are_served() {
    let (handle, address) = start();
    let ask = |head: &str| {
        exchange(
            address,
            format!("{head}Connection: close\r\n\r\n").as_bytes(),
        )
    };
    let served = [
        "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "GET /health HTTP/1.1\r\nHost: 127.0.0.1:3129\r\n",
        "GET /health HTTP/1.1\r\nHost: [::1]:3129\r\n",
        "GET /health HTTP/1.1\r\nHost: 192.0.2.1\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\n",
        "GET /health HTTP/1.1\r\nHost: LocalHost.:3129\r\n",
        "GET /health HTTP/1.1\r\nHost: carrick.localhost\r\n",
        "GET http://127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "GET /health HTTP/1.0\r\n",
    ];
    for head in served {
        let response = ask(head);
        assert!(response.contains(" 200 OK\r\n"), "{head}: {response}");
    }
    let refused = [
        "GET /health HTTP/1.1\r\nHost: evil.example\r\n",
        "GET /health HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost.evil.example\r\n",
        "GET /health HTTP/1.1\r\nHost: evillocalhost\r\n",
        "GET /health HTTP/1.1\r\nHost:\r\n",
        "GET /health HTTP/1.1\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        "GET /health HTTP/1.1\r\nHost: \x7f\r\n",
        "GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n",
        "POST /health HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n",
    ];
    for head in refused {
        let response = ask(head);
        let status = response.get(9..12);
        assert!(matches!(status, Some("421" | "400")), "{head}: {response}");
        assert!(!response.contains("ok\n"), "{head}: {response}");
    }
    handle.shutdown();
}

/// A page from another site, or one whose name was rebound to this address.
#[test]
fn a_web_page_takes_nothing_out_of_the_cache() {
    let (handle, address) = start();
    for (fields, status) in [
        ("Host: 127.0.0.1\r\nOrigin: https://evil.example\r\n", "403"),
        ("Host: localhost\r\nOrigin: null\r\n", "403"),
        (
            "Host: 127.0.0.1\r\nOrigin: http://127.0.0.1:8000\r\n",
            "403",
        ),
        ("Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n", "403"),
        ("Host: evil.example\r\n", "421"),
        (
            "Host: evil.example\r\nOrigin: http://evil.example\r\n",
            "421",
        ),
    ] {
        for line in [
            "DELETE /cache?all=yes",
            "POST /pace/x?weight=1",
            "PUT /status",
        ] {
            let request = format!("{line} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
            let response = exchange(address, request.as_bytes());
            assert_eq!(response.get(9..12), Some(status), "{request}: {response}");
        }
        let request = format!("GET /health HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
        let is_served = exchange(address, request.as_bytes()).ends_with("ok\n");
        assert_eq!(
            is_served,
            status == "403",
            "what a page cannot read is served: {fields}"
        );
    }
    handle.shutdown();
}

#[test]
fn keep_alive_works() {
    let (handle, address) = start();
    let mut stream = BlockingStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(carrick_test::PATIENCE))
        .unwrap();
    for _ in 0..3 {
        stream
            .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"ok\n") {
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0);
            response.extend_from_slice(&bytes[..read]);
        }
    }
    handle.shutdown();
}

#[test]
fn partial_heads_on_all_connections_do_not_block_others() {
    let (handle, address) = start();
    let mut held: Vec<_> = (0..CONNECTIONS_MAX + 16)
        .map(|_| {
            let mut stream = BlockingStream::connect(address).unwrap();
            stream.write_all(b"GET /health HT").unwrap();
            stream
        })
        .collect();
    for path in ["/health", "/status", "/metrics"] {
        assert_eq!(get(address, path).0, 200, "{path}");
    }
    assert!(handle.state().metrics.admin_connections_full.get() >= 17);
    // The oldest ones were dismissed; the latest one can still complete its head.
    assert_eq!(held[0].read(&mut [0; 10]).unwrap_or(0), 0);
    let last = held.last_mut().unwrap();
    last.write_all(b"TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    last.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("ok\n"), "{response}");
    handle.shutdown();
}

#[test]
fn a_request_with_a_huge_head_is_refused() {
    let (handle, address) = start();
    let mut stream = BlockingStream::connect(address).unwrap();
    let request = format!(
        "GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "a".repeat(2 * HEAD_BYTES_MAX)
    );
    // The server may close before everything is sent.
    let _ = stream.write_all(request.as_bytes());
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    let response = String::from_utf8_lossy(&response);
    assert!(
        response.is_empty() || response.starts_with("HTTP/1.1 431"),
        "{response}"
    );
    assert_eq!(get(address, "/health").0, 200);
    handle.shutdown();
}

#[test]
fn all_addresses_include_those_of_ipv4() {
    for (address, is_only_v6) in [
        ("[::1]:0", true),
        ("[::]:0", false),
        ("[::ffff:127.0.0.1]:0", false),
    ] {
        match bind(address.parse().unwrap()) {
            Ok(socket) => {
                let is = socket2::SockRef::from(&socket).only_v6().unwrap();
                assert_eq!(is, is_only_v6, "{address}");
            }
            Err(why) => carrick_test::lacks!("{why}"),
        }
    }
}

#[test]
fn a_taken_address_is_reported_with_advice() {
    let taken = std::net::TcpListener::bind(LOOPBACK_ANY_PORT).unwrap();
    let address = taken.local_addr().unwrap();
    let error = start_control(state(plan(Some(address), Vec::new()))).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let message = error.to_string();
    assert!(
        message.starts_with(&format!("cannot listen on {address} for admin: ")),
        "{message}"
    );
    assert!(message.contains("[admin] listen"), "{message}");
}
