//! Admin's pages, compared with what happened.
use super::echo_server;
use crate::support::{Carrick, Peer, Place, Server, carrick, wait_until};
use std::collections::{HashMap, HashSet};

const ASK: &str = "GET /12345 HTTP/1.1\r\nHost: a.example\r\n\r\n";

#[test]
fn metrics_are_well_formed() {
    let place = Place::claim();
    let server = echo_server(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    assert_eq!(carrick.connect().ask(ASK).status, 200);
    let asks = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1\r\n";
    for (fields, content_type, is_open) in [
        ("", "text/plain; version=0.0.4; charset=utf-8", false),
        (
            asks,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            true,
        ),
    ] {
        let response = carrick.ask_admin_with("/metrics", fields);
        assert_eq!(
            response.field("content-type").as_deref(),
            Some(content_type)
        );
        let text = response.text();
        assert_eq!(text.ends_with("# EOF\n"), is_open, "{text}");
        check_metrics(&text, is_open);
    }
}

/// Parses the text strictly.
fn check_metrics(text: &str, is_open: bool) {
    let mut kinds = HashMap::new();
    let mut samples = HashSet::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            let [keyword, family, rest] = words[..] else {
                panic!("{line}")
            };
            assert!(matches!(keyword, "HELP" | "TYPE" | "UNIT"), "{line}");
            if keyword == "TYPE" {
                let before = kinds.insert(family.to_owned(), rest.to_owned());
                assert!(before.is_none(), "declared twice: {line}");
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(
            value.parse::<f64>().is_ok_and(|value| value >= 0.0),
            "{line}"
        );
        assert!(samples.insert(sample.to_owned()), "twice: {line}");
        let name = sample.split('{').next().unwrap_or_default();
        let is_declared = kinds.iter().any(|(family, kind)| {
            let rest = name.strip_prefix(family.as_str());
            rest.is_some_and(|rest| match kind.as_str() {
                "counter" if is_open => rest == "_total",
                "counter" => rest.is_empty() && family.ends_with("_total"),
                "gauge" => rest.is_empty(),
                "info" => is_open && rest == "_info",
                "histogram" => matches!(rest, "_bucket" | "_sum" | "_count"),
                _ => false,
            })
        });
        assert!(is_declared, "no family of its kind: {line}");
        if let Some(labels) = sample
            .strip_prefix(name)
            .filter(|labels| !labels.is_empty())
        {
            let inside = labels
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'));
            for label in inside.expect(line).split("\",") {
                assert!(label.contains("=\""), "{line}");
            }
        }
    }
    assert!(samples.len() > 100, "{text}");
}

#[test]
fn status_and_metrics_agree_with_what_happened() {
    let place = Place::claim();
    let server = echo_server(&place);
    let tunnel_server = Server::listen(&place);
    let text = carrick::switch_text(&[server.address()])
        + &carrick::tunnel_text(&[tunnel_server.address()])
            .replace("upstream = \"u\"", "upstream = \"t\"")
            .replace("[upstream.u]", "[upstream.t]");
    let carrick = Carrick::start(&place, &text);
    let mut clients: Vec<Peer> = (0..3).map(|_| carrick.connect()).collect();
    for client in &mut clients {
        for _ in 0..4 {
            assert_eq!(client.ask(ASK).status, 200);
        }
    }
    let mut tunnel = carrick.connect_tunnel();
    tunnel.send("12345678");
    let mut far_end = tunnel_server.accept();
    far_end.expect("12345678");
    far_end.send("123");
    tunnel.expect("123");

    // Counts follow the last byte of a response by a moment.
    wait_until("the requests to be over", || {
        let active = &carrick.status()["upstreams"][0]["servers"][0]["active"];
        let ended = &["mode=\"switch\"", "200"];
        *active == 0 && carrick.metric("carrick_requests_total", ended) > 11.5
    });
    let status = carrick.status();
    assert_eq!(status["pid"], carrick.pid().as_raw_nonzero().get());
    assert_eq!(status["state"], "serving");
    assert_eq!(status["admin"], carrick.admin().to_string());
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    let listeners = &status["listeners"];
    assert_eq!(listeners[0]["address"], carrick.listener().to_string());
    assert_eq!(listeners[0]["mode"], "switch");
    assert_eq!(
        listeners[1]["address"],
        carrick.tunnel_address().to_string()
    );
    assert_eq!(listeners[1]["mode"], "tunnel");
    let workers = status["workers"].as_array().expect("workers");
    assert_eq!(workers.len(), 2);
    let sum = |field: &str| -> u64 {
        workers
            .iter()
            .map(|worker| worker[field].as_u64().expect(field))
            .sum()
    };
    assert_eq!(sum("connections_open"), 4);
    assert_eq!(sum("connections_accepted"), 4);
    assert_eq!(sum("tunnels_open"), 1);
    assert!(sum("upstream_connections_open") >= 2);
    let of_switch = &status["upstreams"][0];
    assert_eq!(of_switch["name"], "u");
    assert_eq!(
        of_switch["servers"][0]["address"],
        server.address().to_string()
    );
    assert_eq!(of_switch["servers"][0]["requests"], 12);
    assert_eq!(of_switch["servers"][0]["failures"], 0);
    assert_eq!(of_switch["servers"][0]["active"], 0);
    assert_eq!(of_switch["servers"][0]["bytes_received"], 12 * 6);
    assert_eq!(status["upstreams"][1]["servers"][0]["active"], 1);
    assert_eq!(status["limits"]["connections"]["in_use"], 4);
    assert!(
        (carrick.metric("carrick_requests_total", &["mode=\"switch\"", "200"]) - 12.0).abs() < 0.5
    );
    assert!((carrick.metric("carrick_tunnels_open", &[]) - 1.0).abs() < 0.5);

    drop((tunnel, far_end, clients));
    carrick.wait_until_clients(0);
    let status = carrick.status();
    assert_eq!(status["upstreams"][1]["servers"][0]["active"], 0);
    assert_eq!(status["upstreams"][1]["servers"][0]["bytes_sent"], 8);
    assert_eq!(status["upstreams"][1]["servers"][0]["bytes_received"], 3);
    let lines = carrick.access_log(13);
    assert_eq!(lines.len(), 13);
    wait_until("the count of lines", || {
        carrick.status()["access_log"]["lines_written"] == 13
    });
}

#[test]
fn health_is_served_only_to_requests_by_address() {
    let place = Place::claim();
    let server = echo_server(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    let health = carrick.ask_admin("/health");
    assert_eq!((health.status, health.text().as_str()), (200, "ok\n"));
    let rebound = Peer::connect(carrick.admin())
        .ask("GET /status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!((400..500).contains(&rebound.status), "{}", rebound.head);
    assert_eq!(carrick.ask_admin("/nothing").status, 404);
}

#[test]
fn all_workers_take_part() {
    let place = Place::claim();
    let server = echo_server(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    // The kernel distributes connections by a hash of their addresses: all 64 to one worker is practically impossible.
    let mut clients: Vec<Peer> = (0..64).map(|_| carrick.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(ASK).status, 200);
    }
    let status = carrick.status();
    for worker in status["workers"].as_array().expect("workers") {
        assert!(worker["connections_open"].as_u64() > Some(0), "{status}");
    }
    let threads = std::fs::read_dir(format!("/proc/{}/task", carrick.pid().as_raw_nonzero()))
        .expect("a process")
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok())
        .filter(|name| name.starts_with("worker-"))
        .count();
    assert_eq!(threads, 2);
}
