//! Stale responses: the server validates them, or cannot be asked.
use super::{Play, get, ok, status};
use crate::support::message::field;
use crate::support::{Response, wait_for, wait_until};

const NOT_MODIFIED: &str = "HTTP/1.1 304 Not Modified\r\nConnection: close\r\nETag: \"v\"\r\nCache-Control: max-age=60\r\nX-Is: new\r\n\r\n";

#[test]
fn a_304_makes_what_is_stored_fresh() {
    let play = Play::begin("");
    play.fetch(
        "/a",
        &ok(
            "Cache-Control: max-age=0\r\nETag: \"v\"\r\nX-Is: old\r\n",
            "body",
        ),
    );
    let (again, asked) = play.fetch_with("/a", "Range: bytes=1-2\r\n", NOT_MODIFIED);
    assert_eq!(field(&asked, "if-none-match").as_deref(), Some("\"v\""));
    assert_eq!(field(&asked, "range"), None);
    assert_eq!((again.status, again.text()), (206, "od".into()));
    assert!(
        status(&again).contains("fwd=stale; fwd-status=304"),
        "{}",
        again.head
    );
    assert_eq!(again.field("age"), None, "it is newly validated");
    let found = play.find("/a");
    assert_eq!(
        (found.text(), found.field("x-is").as_deref()),
        ("body".into(), Some("new"))
    );
}

#[test]
fn a_new_answer_takes_the_place_of_the_old_one() {
    let play = Play::begin("");
    play.fetch(
        "/a",
        &ok("Cache-Control: max-age=0\r\nETag: \"v\"\r\n", "old"),
    );
    let (again, asked) = play.fetch_with(
        "/a",
        "",
        &ok("Cache-Control: max-age=60\r\nETag: \"w\"\r\n", "new"),
    );
    assert_eq!(field(&asked, "if-none-match").as_deref(), Some("\"v\""));
    assert_eq!(again.text(), "new");
    assert_eq!(play.find("/a").text(), "new");
}

#[test]
fn a_client_may_insist_on_a_new_answer() {
    let play = Play::begin("");
    play.fetch(
        "/a",
        &ok("Cache-Control: max-age=60\r\nETag: \"v\"\r\n", "old"),
    );
    let (again, _) = play.fetch_with(
        "/a",
        "Cache-Control: no-cache\r\n",
        &ok("Cache-Control: max-age=60\r\n", "new"),
    );
    assert_eq!(again.text(), "new");
    assert!(status(&again).contains("fwd=request"), "{}", again.head);
    assert_eq!(play.find("/a").text(), "new");
}

#[test]
fn a_clients_own_copy_is_validated_at_the_server() {
    let play = Play::begin("");
    // Nothing is stored: the condition is only the client's.
    let (answer, asked) = play.fetch_with(
        "/a",
        "If-None-Match: \"mine\"\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"mine\"\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(field(&asked, "if-none-match").as_deref(), Some("\"mine\""));
    assert_eq!(answer.status, 304);
}

#[test]
fn what_is_stale_is_sent_where_the_server_fails() {
    let play = Play::begin("");
    play.fetch(
        "/a",
        &ok(
            "Cache-Control: max-age=0, stale-if-error=60\r\nETag: \"v\"\r\n",
            "old",
        ),
    );
    let (failed, _) = play.fetch_with(
        "/a",
        "",
        "HTTP/1.1 503 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
    );
    assert_eq!((failed.status, failed.text()), (200, "old".into()));
    // No server listens any more.
    let Play {
        place: _place,
        server,
        carrick,
    } = play;
    drop(server);
    let gone = carrick.connect().ask(&get("/a", ""));
    assert_eq!((gone.status, gone.text()), (200, "old".into()));
    let other = carrick.connect().ask(&get("/b", ""));
    assert!(other.status >= 502, "{}", other.head);
}

#[test]
fn what_is_stale_is_sent_while_a_new_one_is_fetched() {
    let play = Play::begin("");
    play.fetch(
        "/a",
        &ok(
            "Cache-Control: max-age=0, stale-while-revalidate=60\r\nETag: \"v\"\r\n",
            "old",
        ),
    );
    let mut client = play.carrick.connect();
    assert_eq!(client.ask(&get("/a", "")).text(), "old");
    let mut upstream = play.server.accept();
    assert!(upstream.read_head().starts_with("GET /a "));
    // Meanwhile others get the old one, and no second request goes out.
    assert_eq!(client.ask(&get("/a", "")).text(), "old");
    play.server.expect_no_connection();
    upstream.send(ok("Cache-Control: max-age=60\r\nETag: \"w\"\r\n", "new"));
    wait_until("the new answer", || {
        client.ask(&get("/a", "")).text() == "new"
    });
    play.server.expect_no_connection();
}

/// Regression test: it was given up, since no client read it, and what was stored was gone.
#[test]
fn a_long_body_that_replaces_what_is_stale_is_fetched_to_its_end() {
    let play = Play::begin("");
    let stale = "Cache-Control: max-age=0, stale-while-revalidate=60\r\n";
    play.fetch("/a", &ok(stale, "old"));
    assert_eq!(
        play.carrick.connect().ask(&get("/a", "")).text(),
        "old".to_owned()
    );
    let mut upstream = play.server.accept();
    upstream.read_head();
    let body = "x".repeat(3_000_000);
    upstream.send(ok("Cache-Control: max-age=60\r\n", &body));
    wait_until("the new answer", || {
        play.carrick.connect().ask(&get("/a", "")).text() == body
    });
    play.server.expect_no_connection();
}

#[test]
fn unsafe_methods_make_what_is_stored_invalid() {
    let play = Play::begin("");
    for path in ["/a", "/b"] {
        play.fetch(path, &ok("Cache-Control: max-age=60\r\n", "old"));
    }
    let (mut client, mut upstream) = play.carrick.asked(
        &play.server,
        "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nhi",
    );
    upstream.read_exact(2);
    upstream.send(
        "HTTP/1.1 201 Created\r\nLocation: /b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(client.read_response("POST").status, 201);
    for path in ["/a", "/b"] {
        assert_eq!(
            play.fetch(path, &ok("Cache-Control: max-age=60\r\n", "new"))
                .text(),
            "new"
        );
        assert_eq!(play.find(path).text(), "new");
    }
}

/// A HEAD that must be answered by the server, with this response.
fn head(play: &Play, answer: &str) -> (Response, String) {
    let mut client = play.carrick.connect();
    client.send("HEAD /a HTTP/1.1\r\nHost: a.example\r\nCache-Control: no-cache\r\n\r\n");
    let mut upstream = play.server.accept();
    let asked = upstream.read_head();
    upstream.send(answer);
    (client.read_response("HEAD"), asked)
}

#[test]
fn head_tells_that_what_is_stored_is_out_of_date() {
    let play = Play::begin("");
    play.fetch(
        "/a",
        &ok("Cache-Control: max-age=60\r\nETag: \"v\"\r\n", "old"),
    );
    let said = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"w\"\r\nConnection: close\r\n\r\n";
    let (answer, _) = head(&play, said);
    assert_eq!(
        (answer.status, answer.field("etag").as_deref()),
        (200, Some("\"w\""))
    );
    let new = ok("Cache-Control: max-age=60\r\nETag: \"w\"\r\n", "new");
    assert_eq!(play.fetch("/a", &new).text(), "new");
}

#[test]
fn head_is_answered_from_what_is_still_right() {
    let play = Play::begin("");
    play.fetch(
        "/a",
        &ok("Cache-Control: max-age=60\r\nETag: \"v\"\r\n", "body"),
    );
    let (answer, asked) = head(&play, NOT_MODIFIED);
    assert_eq!(field(&asked, "if-none-match").as_deref(), Some("\"v\""));
    // The client did not ask for a 304.
    assert_eq!(
        (answer.status, answer.field("content-length").as_deref()),
        (200, Some("4"))
    );
    assert_eq!(play.find("/a").field("x-is").as_deref(), Some("new"));
}

#[test]
fn a_request_that_may_fill_nothing_changes_nothing_that_is_stored() {
    let play = Play::begin("");
    let strange = "X-Original-URL: /other\r\n";
    let old = "Cache-Control: max-age=0\r\nETag: \"v\"\r\nX-Is: old\r\n";
    play.fetch("/a", &ok(old, "body"));
    let (again, _) = play.fetch_with("/a", strange, NOT_MODIFIED);
    assert_eq!(again.field("x-is").as_deref(), Some("old"));
    let fresh = "Cache-Control: max-age=60\r\nX-Is: old\r\n";
    play.fetch("/b", &ok(fresh, "body"));
    let head = |lines: &str| {
        let mut client = play.carrick.connect();
        let no_cache = "Cache-Control: no-cache\r\n";
        client.send(format!(
            "HEAD /b HTTP/1.1\r\nHost: a.example\r\n{no_cache}{lines}"
        ));
        let mut upstream = play.server.accept();
        upstream.read_head();
        upstream.send("HTTP/1.1 200 OK\r\nX-Is: new\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response("HEAD").status, 200);
    };
    head(&format!("{strange}\r\n"));
    head("Content-Length: 1\r\n\r\nx");
    assert_eq!(play.find("/b").field("x-is").as_deref(), Some("old"));
    head("\r\n");
    assert_eq!(play.find("/b").field("x-is").as_deref(), Some("new"));
    // Nor is it taken out.
    let not_stored = "Cache-Control: no-cache, no-store\r\n";
    play.fetch_with("/b", not_stored, &ok("", "own"));
    let insisting = format!("{strange}Cache-Control: no-cache\r\n");
    play.fetch_with("/b", &insisting, &ok("", "own"));
    assert_eq!(play.find("/b").text(), "body");
}

/// RFC 9111 section 4.1: what varies with another field now cannot answer requests that have another value of it.
#[test]
fn a_304_with_another_vary_takes_out_what_is_stored() {
    let play = Play::begin("");
    let stale = "Cache-Control: max-age=0\r\nETag: \"v\"\r\n";
    play.fetch("/a", &ok(stale, "one"));
    let varied = NOT_MODIFIED.replace("X-Is: new", "Vary: Cookie");
    let (again, _) = play.fetch_with("/a", "Cookie: a=1\r\n", &varied);
    assert_eq!(again.text(), "one");
    let (other, _) = play.fetch_with("/a", "Cookie: a=2\r\n", &ok(stale, "two"));
    assert_eq!(other.text(), "two");
}

#[test]
fn what_caches_must_not_keep_of_a_304_reaches_the_client_that_asked() {
    let play = Play::begin("");
    let lines = "Cache-Control: max-age=0\r\nETag: \"v\"\r\n";
    play.fetch("/a", &ok(lines, "body"));
    let not_modified =
        "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nConnection: close\r\nSet-Cookie: a=b\r\n";
    for directives in ["", "Cache-Control: max-age=60, private=\"set-cookie\"\r\n"] {
        let again = play.fetch("/a", &format!("{not_modified}{directives}\r\n"));
        assert_eq!(again.field("set-cookie").as_deref(), Some("a=b"));
    }
    let found = play.find("/a");
    assert_eq!(
        (found.text(), found.field("set-cookie")),
        ("body".into(), None)
    );
}

#[test]
fn requests_that_ask_for_another_protocol_invalidate_stored_objects() {
    let play = Play::begin("");
    play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", "old"));
    let (mut client, mut upstream) = play.carrick.asked(&play.server, "POST /a HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n");
    // It would answer later requests, were it not for whom knows the protocol.
    let own = "Cache-Control: max-age=60\r\nContent-Location: /a\r\n";
    upstream.send(ok(own, "own"));
    assert_eq!(client.read_response("POST").text(), "own");
    assert_eq!(play.fetch("/a", &ok("", "new")).text(), "new");
}

/// The servers of both may have the same data.
#[test]
fn requests_to_one_upstream_invalidate_what_another_has_answered() {
    let place = crate::support::Place::claim();
    let primary = crate::support::Server::listen(&place);
    let play = Play::configured(|server| {
        let route =
            "[[listener.route]]\nmethod = \"POST\"\nupstream = \"primary\"\n[[listener.route]]\n";
        super::cached_switch(&[server], "", "").replacen("[[listener.route]]\n", route, 1)
            + &crate::support::carrick::upstream_text("primary", &[primary.address()])
    });
    play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", "old"));
    let (mut client, mut upstream) = play.carrick.asked(
        &primary,
        "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n",
    );
    upstream.send(ok("", "changed"));
    assert_eq!(client.read_response("POST").text(), "changed");
    assert_eq!(play.fetch("/a", &ok("", "new")).text(), "new");
}

/// The answer to an upload may come before its end.
#[test]
fn an_upload_that_is_answered_early_invalidates_before_its_client_hears_of_it_and_at_its_end() {
    for route in [
        "",
        "[[listener.route]]\nmethod = \"POST\"\nupstream = \"u\"\n",
    ] {
        let play = Play::configured(|server| {
            let routes = format!("{route}[[listener.route]]");
            super::cached_switch(&[server], "", "").replacen("[[listener.route]]", &routes, 1)
        });
        play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", "old"));
        let (mut client, mut upstream) = play.carrick.asked(
            &play.server,
            "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\nhello",
        );
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nchanged");
        assert_eq!(client.read_response("POST").text(), "changed");
        let between = ok("Cache-Control: max-age=60\r\n", "between");
        let said = play.fetch("/a", &between).text();
        assert_eq!(said, "between", "{route}");
        // The server has the whole request only now.
        client.send("world");
        play.carrick
            .wait_for_metric("carrick_cache_invalidated_total", &[], 2.0);
        assert_eq!(play.fetch("/a", &ok("", "new")).text(), "new", "{route}");
    }
}

#[test]
fn requests_that_bypass_the_cache_still_invalidate_stored_objects() {
    let play = Play::begin_with("", "cache_bypass = { cookie = \"session\" }");
    let fresh = ok("Cache-Control: max-age=60\r\n", "old");
    play.fetch("/a", &fresh);
    let (own, _) = play.fetch_with(
        "/a",
        "Cookie: session=1\r\n",
        &ok("Cache-Control: max-age=60\r\n", "own"),
    );
    assert_eq!(
        (own.text(), status(&own)),
        ("own".into(), "carrick; fwd=bypass".into())
    );
    assert_eq!(play.find("/a").text(), "old");
    let (mut client, mut upstream) = play.carrick.asked(
        &play.server,
        "DELETE /a HTTP/1.1\r\nHost: a.example\r\nCookie: session=1\r\n\r\n",
    );
    upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    assert_eq!(client.read_response("DELETE").status, 204);
    assert_eq!(play.fetch("/a", &ok("", "new")).text(), "new");
}

/// Requests by POST on a connection of its own, and answers as the server.
fn post(play: &Play, path: &str, lines: &str, answer: &str) -> Response {
    let mut client = play.carrick.connect();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n{lines}\r\nhi"
    ));
    let mut upstream = play.server.accept();
    upstream.read_head();
    upstream.expect("hi");
    upstream.send(answer);
    upstream.half_close();
    client.read_response("POST")
}

#[test]
fn an_answer_to_post_is_not_stored_where_one_to_get_is_not() {
    const OWN: &str = "Cache-Control: max-age=60\r\nContent-Location: /a\r\n";
    let play = Play::begin_with("", "cache_bypass = { cookie = \"session\" }");
    post(&play, "/a", "Cookie: session=1\r\n", &ok(OWN, "own"));
    assert_eq!(play.fetch("/a", &ok("", "got")).text(), "got");
    // The server knows the client by the connection.
    let (mut client, mut upstream) = play
        .carrick
        .asked(&play.server, get("/b", "Authorization: NTLM alice\r\n"));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    client.read_response("GET");
    client.send("POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n");
    upstream.read_head();
    upstream.send(ok(OWN, "own"));
    assert_eq!(client.read_response("POST").text(), "own");
    assert_eq!(play.fetch("/a", &ok("", "got")).text(), "got");
}

/// Servers resolve the segments.
#[test]
fn an_unsafe_request_with_dot_segments_invalidates() {
    let play = Play::begin("");
    for path in ["/x/../a", "/./a"] {
        play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", "old"));
        assert_eq!(play.find("/a").text(), "old");
        post(
            &play,
            path,
            "",
            &ok("Cache-Control: max-age=60\r\n", "changed"),
        );
        assert_eq!(play.fetch("/a", &ok("", "new")).text(), "new");
    }
}

/// RFC 9110 section 9.3.3.
#[test]
fn an_answer_to_post_that_says_so_answers_later_gets() {
    let play = Play::begin("");
    let post = |path: &str, lines: &str, answer: &str| post(&play, path, lines, answer);
    let fresh = "Cache-Control: max-age=60\r\nETag: \"a\"\r\n";
    let long = "x".repeat(100_000);
    for (path, body) in [("/a1", "posted"), ("/a2", ""), ("/a3", &long)] {
        // What was stored before is replaced.
        play.fetch(path, &ok(fresh, "old"));
        assert_eq!(play.find(path).text(), "old");
        // Conditions and ranges of the POST were the server's business.
        let lines = "If-None-Match: \"a\"\r\nRange: bytes=0-0\r\n";
        let own = format!("{fresh}Content-Location: {path}\r\n");
        let posted = post(path, lines, &ok(&own, body));
        assert_eq!((posted.status, posted.text()), (200, body.into()));
        // The client may have the whole response a moment before it is stored.
        let found = wait_for("the answer to POST", || {
            let lines = "Cache-Control: only-if-cached\r\n";
            let found = play.carrick.connect().ask(&get(path, lines));
            (found.status != 504).then_some(found)
        });
        assert_eq!((found.status, found.text()), (200, body.into()));
    }
    for own in [
        fresh.to_owned(),
        format!("{fresh}Content-Location: /c\r\n"),
        "Content-Location: /b\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n".to_owned(),
        format!("{fresh}Content-Location: /b\r\nSet-Cookie: a=b\r\n"),
    ] {
        post("/b", "", &ok(&own, "posted"));
        assert_eq!(play.fetch("/b", &ok("", "got")).text(), "got", "{own}");
    }
    // A response that breaks off is not stored.
    let (mut client, mut upstream) = play.carrick.asked(
        &play.server,
        "POST /d HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n",
    );
    upstream.send(format!(
        "HTTP/1.1 200 OK\r\n{fresh}Content-Location: /d\r\nContent-Length: 10\r\n\r\nhello"
    ));
    drop(upstream);
    client.read_ending();
    assert_eq!(play.fetch("/d", &ok("", "got")).text(), "got");
}
