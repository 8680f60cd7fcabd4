//! Servers that are down: marked by failed requests, and by active checks.
use crate::support::carrick::switch_text;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Passive marking: after some failures a server is not used for a while.
#[test]
fn a_server_that_refuses_is_not_asked_again_and_again() {
    let place = Place::claim();
    let serving = Server::listen(&place)
        .serve(|peer, _| answer_requests(peer, |_| b"HTTP/1.1 204 No Content\r\n\r\n".into()));
    let (refusing, _guard) = place.refusing();
    let text = switch_text(&[refusing, serving.address()]);
    let carrick = Carrick::start(
        &place,
        &format!("[workers]\ncount = 1\n{text}failures_max = 3\nkeepalive = 0\n"),
    );
    let mut client = carrick.connect();
    for _ in 0..40 {
        assert_eq!(client.ask(GET).status, 204);
    }
    let failed = carrick.metric("carrick_upstream_connections_failed_total", &[]);
    // On a slow machine, some of the forty come after the first pause.
    assert!((3.0..15.0).contains(&failed), "{failed} attempts");
    let server = format!("server=\"{refusing}\"");
    assert_eq!(
        carrick.metric("carrick_server_failures_total", &[&server]),
        failed
    );
}

/// A server that answers is up, whatever it answers; one that drops requests is marked.
#[test]
fn a_server_that_drops_requests_is_marked_and_comes_back() {
    let place = Place::claim();
    let is_broken = Arc::new(AtomicBool::new(true));
    let (flag, asked) = (Arc::clone(&is_broken), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&asked);
    let flaky = Server::listen(&place).serve(move |mut peer, _| {
        peer.read_head();
        count.fetch_add(1, Ordering::SeqCst);
        if flag.load(Ordering::SeqCst) {
            peer.reset();
        } else {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nflaky");
        }
    });
    let steady = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| {
            b"HTTP/1.1 500 Oh\r\nContent-Length: 6\r\n\r\nsteady".into()
        })
    });
    let text = switch_text(&[flaky.address(), steady.address()]);
    let carrick = Carrick::start(
        &place,
        &format!("[workers]\ncount = 1\n{text}failures_max = 1\n"),
    );
    let mut client = carrick.connect();
    for _ in 0..20 {
        let response = client.ask(GET);
        assert_eq!((response.status, response.text().as_str()), (500, "steady"));
    }
    assert!(
        asked.load(Ordering::SeqCst) < 15,
        "the broken server was asked {asked:?} times of 20"
    );
    is_broken.store(false, Ordering::SeqCst);
    // After its pause it is tried again.
    wait_until("the server to come back", || {
        client.ask(GET).text() == "flaky"
    });
}

#[test]
fn the_last_server_is_asked_even_when_it_is_marked() {
    let place = Place::claim();
    let is_broken = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&is_broken);
    let serving = Server::listen(&place).serve(move |mut peer, _| {
        peer.read_head();
        if flag.load(Ordering::SeqCst) {
            peer.reset();
        } else {
            peer.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
    });
    let text = switch_text(&[serving.address()]);
    let carrick = Carrick::start(&place, &format!("{text}failures_max = 1\n"));
    let mut client = carrick.connect();
    for _ in 0..5 {
        assert_eq!(client.ask(GET).status, 502);
    }
    is_broken.store(false, Ordering::SeqCst);
    assert_eq!(client.ask(GET).status, 204);
}

/// Active checks: `GET path`; a server that fails them gets no requests.
#[test]
fn a_server_that_fails_its_checks_gets_no_requests_until_it_passes_them() {
    let place = Place::claim();
    let serve = |name: &'static str, is_healthy: Arc<AtomicBool>| {
        Server::listen(&place).serve(move |peer, _| {
            answer_requests(peer, |head| {
                if head.starts_with("GET /healthz ") {
                    assert!(head.contains("\r\nHost: health.example\r\n"), "{head}");
                    let status = if is_healthy.load(Ordering::SeqCst) {
                        "200 OK"
                    } else {
                        "503 Down"
                    };
                    return format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes();
                }
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}",
                    name.len()
                )
                .into_bytes()
            });
        })
    };
    let (first_is_healthy, second_is_healthy) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(AtomicBool::new(true)),
    );
    let first = serve("first", Arc::clone(&first_is_healthy));
    let second = serve("second", Arc::clone(&second_is_healthy));
    let text = switch_text(&[first.address(), second.address()]);
    let carrick = Carrick::start(
        &place,
        &format!(
            "{text}health = {{ path = \"/healthz\", host = \"health.example\", every = \"100ms\", fall = 2, rise = 2 }}\n"
        ),
    );
    // Not 503: on a busy machine, a healthy server may be checked too late.
    let seen = || -> std::collections::BTreeSet<String> {
        let answers = (0..8).map(|_| carrick.connect().ask(GET));
        answers
            .filter(|answer| answer.status != 503)
            .map(|answer| answer.text())
            .collect()
    };
    let both = ["first".to_owned(), "second".to_owned()].into();
    let only_second = ["second".to_owned()].into();
    wait_until("both to be up", || seen() == both);
    let up = |server: &crate::support::server::Serving| {
        carrick.metric(
            "carrick_server_up",
            &[&format!("server=\"{}\"", server.address())],
        )
    };
    first_is_healthy.store(false, Ordering::SeqCst);
    wait_until("the first to be down", || up(&first) == 0.0);
    let says = |what: &str| {
        let message = format!("upstream u: server {} is {what}", first.address());
        carrick.standard_error().wait_for(&message).expect("it");
    };
    says("down: ");
    let told = &carrick.status()["upstreams"][0]["servers"][0];
    assert_eq!(told["address"], first.address().to_string());
    assert_eq!(told["up"], false);
    assert!(!seen().contains("first"));
    wait_until("the second to be asked", || seen() == only_second);
    // All are down: there is no server to use.
    second_is_healthy.store(false, Ordering::SeqCst);
    wait_until("the second to be down", || up(&second) == 0.0);
    let response = carrick.connect().ask(GET);
    assert_eq!(response.status, 503);
    assert!(
        response.text().contains("no server of the upstream is up"),
        "{}",
        response.text()
    );
    first_is_healthy.store(true, Ordering::SeqCst);
    second_is_healthy.store(true, Ordering::SeqCst);
    wait_until("both to be up again", || seen() == both);
    says("up again");
    assert!(carrick.metric("carrick_health_checks_total", &["result=\"failed\""]) >= 4.0);
    assert!(carrick.metric("carrick_health_checks_total", &["result=\"good\""]) >= 4.0);
}

#[test]
fn a_server_that_is_gone_is_found_by_connecting_alone() {
    let place = Place::claim();
    let serving = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
    });
    let (gone, _reserved) = place.refusing();
    let text = switch_text(&[gone, serving.address()])
        + "health = { every = \"100ms\", fall = 1, rise = 1 }\n";
    let carrick = Carrick::start(&place, &text);
    let label = format!("server=\"{gone}\"");
    carrick.wait_until_metric("carrick_server_up", &[&label], 0.0);
    wait_until("the other one to answer", || {
        carrick.connect().ask(GET).status == 204
    });
}
