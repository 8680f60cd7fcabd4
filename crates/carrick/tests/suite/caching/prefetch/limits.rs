//! Limits of prefetching, and what ends it: failing origins, clients that disconnect, rules.
use super::super::{cached_switch, get, status};
use super::{FRESH, Origin, Play, answer, chunked, objects, page, path};
use crate::support::carrick::FORWARD_TEXT;
use crate::support::message::field;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Peer, Place, Server, wait_until};
use std::sync::Arc;

#[test]
fn limits_hold() {
    let (mut all, names) = objects(4);
    all.push(("/large".to_owned(), answer(FRESH, vec![b'x'; 5000])));
    let body = "x".repeat(5000);
    all.push(("/large-chunked".to_owned(), chunked(FRESH, &body)));
    let html = format!("<img src=/large><img src=/large-chunked>{names}");
    all.push(("/".to_owned(), page("", &html)));
    let play = Play::begin("{ objects = 5, object_max = 4000 }", all.clone());
    play.ask("/");
    play.wait("stored", 3.0);
    play.wait("too_large", 2.0);
    assert_eq!((play.count("too_many"), play.count("asked")), (1.0, 5.0));
    assert_eq!(play.origin.asked("/3"), 0);
    // An object that was given up can still be requested.
    assert_eq!(play.ask("/large").body.len(), 5000);
    assert_eq!(play.ask("/large-chunked").text(), body);

    let play = Play::begin("{ page_max = \"6 KB\", at_once = 1 }", all);
    play.ask("/");
    play.wait("stored", 5.0);
    assert_eq!(play.count("too_large"), 1.0);
}

#[test]
fn so_many_are_fetched_at_a_time() {
    let names: String = (0..10)
        .map(|number| format!("<img src=/slow{number}>"))
        .collect();
    let slow = (0..10).map(|number| (format!("/slow{number}"), answer(FRESH, "slow")));
    let pages = [("/a", &names), ("/b", &names.replace("slow", "slow-b"))]
        .map(|(path, names)| (path.to_owned(), page("", names)));
    let play = Play::begin("{ at_once = 3, worker_at_once = 4 }", slow.chain(pages));
    play.ask("/a");
    play.wait("asked", 3.0);
    play.ask("/b");
    play.wait("too_many", 9.0);
    assert_eq!(play.count("asked"), 4.0);
    play.origin.go_on();
    play.wait("stored", 10.0);
}

#[test]
fn a_page_that_embeds_itself_makes_no_loop() {
    let html = "<img src=/><script src=/></script><link rel=preload href=/other>";
    let other = "<img src=/other?2><img src=/>";
    let play = Play::begin(
        "true",
        [
            ("/".to_owned(), page("Cache-Control: no-store\r\n", html)),
            ("/other".to_owned(), page(FRESH, other)),
        ],
    );
    play.ask("/");
    play.wait("stored", 1.0);
    assert_eq!(play.origin.heads().len(), 2);
    assert_eq!(play.count("asked"), 1.0);
}

#[test]
fn a_client_that_asks_meanwhile_reads_along() {
    let play = Play::begin(
        "true",
        [
            ("/".to_owned(), page("", "<img src=/slow>")),
            ("/slow".to_owned(), answer(FRESH, "slow")),
        ],
    );
    play.ask("/");
    play.wait("asked", 1.0);
    let mut client = play.carrick.connect();
    client.send(get("/slow", ""));
    play.carrick
        .wait_for_metric("carrick_cache_waited_total", &[], 1.0);
    // Another page that embeds it finds the fetch in progress.
    play.ask("/");
    play.wait("in_flight", 1.0);
    play.origin.go_on();
    let response = client.read_response("GET");
    assert_eq!(response.text(), "slow");
    assert!(status(&response).contains("hit"), "{}", response.head);
    assert_eq!(play.origin.asked("/slow"), 1);
    assert_eq!(play.count("used"), 1.0);
}

#[test]
fn what_is_not_stored_is_not_asked_for_again() {
    let play = Play::begin(
        "true",
        [
            (
                "/".to_owned(),
                page("", "<img src=/private><img src=/cookie><img src=/fresh>"),
            ),
            (
                "/private".to_owned(),
                answer("Cache-Control: private\r\n", "x"),
            ),
            (
                "/cookie".to_owned(),
                answer(&format!("{FRESH}Set-Cookie: a=b\r\n"), "x"),
            ),
            ("/fresh".to_owned(), answer(FRESH, "x")),
        ],
    );
    play.ask("/");
    play.wait("stored", 1.0);
    play.wait("not_stored", 2.0);
    play.ask("/");
    play.wait("not_stored", 4.0);
    play.wait("fresh", 1.0);
    assert_eq!(play.count("asked"), 3.0);
    assert_eq!(
        play.origin.asked("/private") + play.origin.asked("/cookie"),
        2
    );
}

#[test]
fn an_origin_that_fails_costs_the_page_nothing() {
    let broken =
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nCache-Control: max-age=60\r\n\r\nxx".to_vec();
    let place = Place::claim();
    let server = Server::listen(&place);
    let text =
        cached_switch(&[server.address()], "", "prefetch = true") + "[timeouts]\nidle = \"5s\"\n";
    let html = "<img src=/close><img src=/broken><img src=/junk><img src=/never><img src=/0>";
    let (mut answers, _) = objects(1);
    answers.extend([
        ("/".to_owned(), page("", html)),
        ("/broken".to_owned(), broken),
        ("/junk".to_owned(), b"what is this\r\n\r\n".to_vec()),
    ]);
    let origin = Origin::with(answers);
    let serves = Arc::clone(&origin);
    let serving = server.serve(move |mut peer, _| {
        while peer.waits_for_head() {
            let head = peer.read_head();
            let target = path(&head);
            if target == "/never" {
                // Until carrick gives up.
                peer.waits_for_head();
                return;
            }
            let sent = peer.try_send(serves.answers.get(target).cloned().unwrap_or_default());
            if sent.is_err() || !matches!(target, "/" | "/0") {
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
    assert_eq!(play.ask("/").text(), html);
    play.wait("failed", 4.0);
    assert_eq!((play.count("stored"), play.count("asked")), (1.0, 5.0));
}

#[test]
fn nothing_more_is_asked_for_once_the_pages_client_has_gone() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = cached_switch(&[server.address()], "", "prefetch = { at_once = 1 }");
    let carrick = Carrick::start(&place, &text);
    let (client, mut upstream) = carrick.asked(&server, get("/", ""));
    let (_, names) = objects(10);
    upstream.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000\r\n\r\n<html>{names}"
    ));
    let mut first = server.accept();
    assert!(first.read_head().starts_with("GET /0 "));
    client.reset();
    carrick.wait_for_metric(
        "carrick_cache_prefetches_total",
        &["result=\"aborted\""],
        9.0,
    );
    first.send(answer(FRESH, "object"));
    carrick.wait_for_metric(
        "carrick_cache_prefetches_total",
        &["result=\"stored\""],
        1.0,
    );
    server.expect_no_connection();
}

/// Behind a forward proxy: which hosts are asked, and what the listener's rules deny.
#[test]
fn other_hosts_are_asked_only_if_that_is_wanted_and_allowed() {
    let (own, other) = (Place::claim(), Place::claim());
    let denied = Place::claim();
    let origin = Arc::new(Origin::default());
    let serves = |place: &Place| {
        let (seen, own, other) = (Arc::clone(&origin), own.ip(), other.ip());
        let denied = denied.ip();
        Server::listen_at(place.at(80)).serve(move |peer, _| {
            answer_requests(peer, |head| {
                let html = format!(
                    "<img src=/own><img src=http://{other}/other><img src=http://{own}:81/port><img src=http://{denied}/denied>\
                     <img src=https://{own}/tls>"
                );
                seen.heads().push(head.to_owned());
                if path(head) == "/" {
                    page("", &html)
                } else {
                    answer(FRESH, "object")
                }
            });
        })
    };
    let _serving = [serves(&own), serves(&other), serves(&denied)];
    for (hosts, expected, foreign) in [
        ("same", ["/", "/own"].as_slice(), 4.0),
        ("any", &["/", "/other", "/own"], 2.0),
    ] {
        origin.heads().clear();
        let text = format!(
            "[cache]\n{FORWARD_TEXT}deny_to = [\"{}/32\"]\nprefetch = {{ hosts = \"{hosts}\" }}\n",
            denied.ip()
        );
        let carrick = Carrick::start(&own, &text);
        let count = |result: &str| {
            let label = format!("result=\"{result}\"");
            carrick.metric("carrick_cache_prefetches_total", &[&label])
        };
        let ask = |url: &str| {
            let request = format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n");
            carrick.connect_forward().ask(&request)
        };
        let url = format!("http://{}/", own.ip());
        assert_eq!(ask(&url).status, 200);
        let stored = expected.len() as f64 - 1.0;
        carrick.wait_for_metric(
            "carrick_cache_prefetches_total",
            &["result=\"stored\""],
            stored,
        );
        wait_until("the denied object", || {
            hosts == "same" || count("denied") + count("failed") >= 1.0
        });
        let mut paths: Vec<String> = (origin.heads().iter())
            .map(|head| path(head).to_owned())
            .collect();
        paths.sort();
        assert_eq!(paths, expected, "{hosts}");
        assert_eq!(count("foreign"), foreign, "{hosts}");
        let own_url = format!("{url}own");
        assert!(status(&ask(&own_url)).contains("; hit"));
        let referers: Vec<_> = (origin.heads().iter())
            .filter(|head| path(head) == "/other")
            .map(|head| field(head, "referer").unwrap_or_default())
            .collect();
        assert!(
            referers.iter().all(|referer| *referer == url),
            "{referers:?}"
        );
    }
}

/// Stored objects that are stale are validated in advance.
#[test]
fn what_is_out_of_date_is_validated_ahead() {
    let old = answer("Cache-Control: max-age=0\r\nETag: \"v\"\r\n", "object");
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = cached_switch(&[server.address()], "", "prefetch = true");
    let _serving = server.serve(move |peer: Peer, _| {
        answer_requests(peer, |head| match path(head) {
            "/" => page("", "<img src=/0>"),
            _ if head.to_lowercase().contains("if-none-match") => {
                b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nETag: \"v\"\r\n\r\n"
                    .to_vec()
            }
            _ => old.clone(),
        });
    });
    let carrick = Carrick::start(&place, &text);
    carrick.connect().ask(&get("/0", ""));
    carrick.connect().ask(&get("/", ""));
    carrick.wait_for_metric(
        "carrick_cache_prefetches_total",
        &["result=\"stored\""],
        1.0,
    );
    let response = carrick.connect().ask(&get("/0", ""));
    assert!(status(&response).contains("; hit"), "{}", response.head);
    assert_eq!(response.text(), "object");
}
