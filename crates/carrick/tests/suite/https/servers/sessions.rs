//! Sessions that are resumed, and connections that are kept.
use super::*;
use crate::support::Carrick;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn sessions_are_resumed_by_every_worker() {
    let Some(place) = stage() else { return };
    for offers in [Offers::Tls12, Offers::Tls13] {
        let resumed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&resumed);
        let server = serve(
            &place,
            &config(&place, "server", offers),
            move |end, number| {
                count.fetch_add(usize::from(end.is_resumed()), Ordering::SeqCst);
                answer(end, number);
            },
        );
        let text = switch_text(
            &[server.address()],
            "keepalive = 0\ntls = { ca = \"ca.pem\" }",
        );
        let carrick = Carrick::start(&place, &text.replace("count = 1", "count = 2"));
        for _ in 0..12 {
            assert_eq!(carrick.connect().ask(GET).status, 200);
        }
        assert_eq!(server.accepted(), 12);
        assert_eq!(resumed.load(Ordering::SeqCst), 11, "{offers:?}");
        for (result, count) in [("full", 1.0), ("resumed", 11.0)] {
            let label = format!("result=\"{result}\"");
            assert_eq!(
                carrick.metric(HANDSHAKES, &[&label]),
                count,
                "{offers:?} {result}"
            );
        }
    }
}

#[test]
fn connections_are_kept_for_other_clients() {
    for offers in [Offers::Tls12, Offers::Tls13] {
        // With an access log of its own.
        let Some(place) = stage() else { return };
        let server = serve(&place, &config(&place, "server", offers), answer);
        let carrick = Carrick::start(
            &place,
            &switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }"),
        );
        for _ in 0..5 {
            assert_eq!(carrick.connect().ask(GET).status, 200);
        }
        assert_eq!(server.accepted(), 1);
        let lines = carrick.access_log(5);
        let reused: Vec<_> = lines.iter().map(|line| line.value("reused")).collect();
        assert_eq!(reused, [false, true, true, true, true], "{lines:?}");
    }
}

#[test]
fn a_kept_connection_that_ends_is_no_error() {
    let Some(place) = stage() else { return };
    for is_announced in [true, false] {
        let server = serve(
            &place,
            &config(&place, "server", Offers::All),
            move |mut end, _| {
                if end.next_head().is_some() {
                    end.send(OK);
                    match is_announced {
                        true => end.end(),
                        false => end.cut_off(),
                    }
                    while end.next_head().is_some() {}
                }
            },
        );
        let carrick = Carrick::start(
            &place,
            &switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }"),
        );
        for _ in 0..5 {
            assert_eq!(carrick.connect().ask(GET).status, 200);
        }
        assert_eq!(server.accepted(), 5);
    }
}

#[test]
fn a_request_that_dies_on_a_kept_connection_is_asked_again() {
    let Some(place) = stage() else { return };
    let server = serve(
        &place,
        &config(&place, "server", Offers::All),
        |mut end, number| {
            while let Some(head) = end.next_head() {
                // The first connection dies with its second request.
                if number == 0 && head.contains("second") {
                    return;
                }
                end.send(OK);
            }
        },
    );
    let carrick = Carrick::start(
        &place,
        &switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }"),
    );
    for path in ["first", "second", "third"] {
        let request = format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(carrick.connect().ask(&request).status, 200, "{path}");
    }
    assert_eq!(server.accepted(), 2);
    assert_eq!(carrick.metric("carrick_retries_total", &[]), 1.0);
}

#[test]
fn connections_of_other_rules_are_not_used_after_a_reload() {
    let Some(place) = stage() else { return };
    crate::https::certificates::make_other_authority(&place, "other");
    let server = serve(&place, &config(&place, "server", Offers::All), answer);
    let text = |tls: &str| switch_text(&[server.address()], tls);
    let carrick = Carrick::start(&place, &text("tls = { ca = \"ca.pem\" }"));
    assert_eq!(carrick.connect().ask(GET).status, 200);
    carrick.reload_as(&place, &text("tls = { ca = \"other.pem\" }"), "ok");
    assert_eq!(carrick.connect().ask(GET).status, 502);
    carrick.reload_as(&place, &text("tls = { ca = \"ca.pem\" }"), "ok");
    assert_eq!(carrick.connect().ask(GET).status, 200);
    let before = server.accepted();
    // The same rules: the connection stays.
    carrick.reload_as(&place, &text("tls = { ca = \"ca.pem\" }"), "ok");
    assert_eq!(carrick.connect().ask(GET).status, 200);
    assert_eq!(server.accepted(), before);
}
