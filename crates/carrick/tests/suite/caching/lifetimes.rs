//! Configured lifetimes: of responses without one, and of errors.
use super::{Play, get, ok, status};

/// A response with this status and no lifetime.
fn silent(status: u16, lines: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: 4\r\nConnection: close\r\n{lines}\r\nbody")
}

/// Whether it is stored: the second request is answered from the store.
fn is_kept(play: &Play, path: &str, answer: &str) -> bool {
    let first = play.fetch(path, answer);
    let lines = "Cache-Control: only-if-cached\r\n";
    let found = play.carrick.connect().ask(&get(path, lines));
    let is_kept = status(&found).contains("hit");
    if is_kept {
        assert_eq!((found.status, found.text()), (first.status, first.text()));
    }
    is_kept
}

#[test]
fn errors_are_kept_as_long_as_the_configuration_says() {
    let play = Play::begin("negative_ttl = \"1m\"");
    for status in [404, 405, 410, 500, 502, 503, 504] {
        let path = format!("/{status}");
        assert!(is_kept(&play, &path, &silent(status, "")), "{status}");
    }
    // Other statuses, or the server sets a lifetime itself.
    for (status, lines) in [
        (200, ""),
        (302, ""),
        (400, ""),
        (401, ""),
        (403, ""),
        (414, ""),
        (501, ""),
        (429, ""),
        (408, ""),
        (404, "Cache-Control: no-store\r\n"),
        (404, "Cache-Control: private\r\n"),
        (500, "Cache-Control: max-age=0\r\n"),
        (404, "Set-Cookie: a=b\r\n"),
        (404, "Vary: *\r\n"),
    ] {
        let path = format!("/not/{status}?{}", lines.len());
        assert!(
            !is_kept(&play, &path, &silent(status, lines)),
            "{status} {lines}"
        );
    }
}

#[test]
fn errors_are_not_kept_by_default() {
    let play = Play::begin("");
    for status in [400, 403, 404, 410, 500, 503] {
        assert!(
            !is_kept(&play, &format!("/{status}"), &silent(status, "")),
            "{status}"
        );
    }
    // The server may allow storing any of them.
    let lines = "Cache-Control: max-age=60\r\n";
    for status in [403, 404, 429, 500, 503] {
        assert!(
            is_kept(&play, &format!("/said/{status}"), &silent(status, lines)),
            "{status}"
        );
    }
}

#[test]
fn an_error_that_is_over_is_asked_about_again() {
    let play = Play::begin("negative_ttl = \"1s\"");
    assert_eq!(play.fetch("/a", &silent(404, "")).status, 404);
    crate::support::wait_until("the end of its lifetime", || {
        let lines = "Cache-Control: only-if-cached\r\n";
        let found = play.carrick.connect().ask(&get("/a", lines));
        found.status == 504
    });
    let now_there = ok("Cache-Control: max-age=60\r\n", "there");
    assert_eq!(play.fetch("/a", &now_there).text(), "there");
    assert_eq!(play.find("/a").text(), "there");
}

#[test]
fn a_failure_takes_no_place_of_what_may_be_sent_stale() {
    let play = Play::begin("negative_ttl = \"1m\"");
    let lines = "Cache-Control: max-age=0, stale-if-error=60\r\nETag: \"v\"\r\n";
    play.fetch("/a", &ok(lines, "good"));
    assert_eq!(play.fetch("/a", &silent(503, "")).text(), "good");
}

/// A client can provoke errors, such as by a field that the server refuses.
#[test]
fn an_error_that_a_reload_meets_does_not_replace_what_is_fresh() {
    let play = Play::begin("negative_ttl = \"1m\"");
    let fresh = "Cache-Control: max-age=60\r\n";
    let vary = format!("{fresh}Vary: Accept\r\n");
    let reload = "Cache-Control: no-cache\r\n";
    for (path, lines) in [("/a", fresh), ("/b", &vary)] {
        play.fetch(path, &ok(lines, "good"));
        for code in [404, 500] {
            let (response, _) = play.fetch_with(path, reload, &silent(code, ""));
            assert_eq!(response.status, code);
            assert!(
                status(&response).contains("stored_is_fresh"),
                "{}",
                response.head
            );
            assert_eq!(play.find(path).text(), "good");
        }
    }
    // Nor if it begins before that, and ends later.
    let head = "HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/d", ""));
    upstream.send(head);
    client.read_head();
    play.fetch_with("/d", reload, &ok(fresh, "good"));
    upstream.send("0\r\n\r\n");
    client.read_exact(5);
    assert_eq!(play.find("/d").text(), "good");
    // The server may say that it stays so.
    play.fetch_with("/a", reload, &silent(410, fresh));
    assert_eq!(play.find("/a").status, 410);
    // One error replaces another.
    play.fetch("/c", &silent(404, ""));
    play.fetch_with("/c", reload, &silent(500, ""));
    assert_eq!(play.find("/c").status, 500);
}

#[test]
fn a_route_has_lifetimes_of_its_own() {
    let play = Play::begin_with("default_ttl = \"0s\"", "default_ttl = \"1m\"");
    for status in [200, 301] {
        assert!(
            is_kept(&play, &format!("/{status}"), &silent(status, "")),
            "{status}"
        );
    }
    for status in [302, 404, 500] {
        assert!(
            !is_kept(&play, &format!("/{status}"), &silent(status, "")),
            "{status}"
        );
    }
}

/// RFC 9213: a cache that works for the server obeys its own field; an invalid field counts as absent. It is relayed all the same.
#[test]
fn cdn_cache_control_goes_before_cache_control_and_expires() {
    let play = Play::begin("");
    let past = "Expires: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    for (number, (lines, expected)) in [
        (
            "CDN-Cache-Control: max-age=60\r\nCache-Control: no-store\r\n",
            true,
        ),
        (
            "CDN-Cache-Control: max-age=60, unknown=\"a\";b\r\nCache-Control: private\r\n",
            true,
        ),
        (
            "CDN-Cache-Control: no-store\r\nCache-Control: max-age=60\r\n",
            false,
        ),
        (
            "CDN-Cache-Control: max-age=60, private\r\nCache-Control: max-age=60\r\n",
            false,
        ),
        (
            "CDN-Cache-Control: max-age=0\r\nCDN-Cache-Control: max-age=60\r\n",
            true,
        ),
        // Invalid or empty: the other fields count.
        (
            "CDN-Cache-Control: max-age=60, &\r\nCache-Control: no-store\r\n",
            false,
        ),
        (
            "CDN-Cache-Control: max-age=\"60\"\r\nCache-Control: no-store\r\n",
            false,
        ),
        (
            "CDN-Cache-Control: MAX-AGE=60\r\nCache-Control: no-store\r\n",
            false,
        ),
        ("CDN-Cache-Control:\r\nCache-Control: max-age=60\r\n", true),
        (
            "CDN-Cache-Control: no-store, &\r\nCache-Control: max-age=60\r\n",
            true,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{number}");
        let past = if lines.contains("\nCache-Control: max-age") {
            ""
        } else {
            past
        };
        let first = play.fetch(&path, &ok(&format!("{lines}{past}"), "body"));
        assert_eq!(status(&first).contains("stored"), expected, "{lines}");
        if expected {
            let found = play.find(&path);
            assert!(status(&found).contains("hit"), "{lines}: {}", found.head);
            assert!(found.field("cdn-cache-control").is_some(), "{}", found.head);
        }
    }
}
