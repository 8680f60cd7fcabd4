//! What must not be stored, and what must not be served from the store.
use super::{Play, get, ok};
use crate::support::Ending;

/// The server answers both requests.
fn is_not_kept(play: &Play, path: &str, lines: &str, answer: &str) {
    for _ in 0..2 {
        play.fetch_with(path, lines, answer);
    }
}

#[test]
fn what_is_private_or_forbidden_is_not_stored() {
    let play = Play::begin("");
    for (path, asked, said) in [
        ("/no-store", "", "Cache-Control: no-store, max-age=60\r\n"),
        ("/private", "", "Cache-Control: private, max-age=60\r\n"),
        (
            "/cookie",
            "",
            "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n",
        ),
        ("/vary", "", "Cache-Control: max-age=60\r\nVary: *\r\n"),
        ("/nothing", "", ""),
        (
            "/asked",
            "Cache-Control: no-store\r\n",
            "Cache-Control: max-age=60\r\n",
        ),
        (
            "/user",
            "Authorization: Basic YTpi\r\n",
            "Cache-Control: max-age=60\r\n",
        ),
    ] {
        is_not_kept(&play, path, asked, &ok(said, "x"));
    }
}

#[test]
fn what_varies_with_what_carrick_writes_is_not_stored() {
    const FRESH: &str = "Cache-Control: max-age=60\r\nVary: Accept, ";
    let play = Play::begin("");
    for (path, name) in [("/for", "x-Forwarded-For"), ("/via", "Via")] {
        is_not_kept(&play, path, "", &ok(&format!("{FRESH}{name}\r\n"), "x"));
    }
    // It has the scheme of the URL, for all; and these go on as they come.
    for (path, name) in [
        ("/proto", "X-Forwarded-Proto"),
        ("/forwarded", "Forwarded"),
        ("/loop", "CDN-Loop"),
    ] {
        play.fetch(path, &ok(&format!("{FRESH}{name}\r\n"), "x"));
        play.find(path);
    }
    // A 304 that says so ends it.
    play.fetch(
        "/a",
        &ok("Cache-Control: max-age=0\r\nETag: \"v\"\r\n", "body"),
    );
    let not_modified = format!(
        "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nConnection: close\r\n{FRESH}X-Forwarded-For\r\n\r\n"
    );
    assert_eq!(play.fetch("/a", &not_modified).text(), "body");
    let (_, asked) = play.fetch_with("/a", "", &ok("", "other"));
    assert!(!asked.contains("If-None-Match"), "{asked}");
}

/// The front has verified the client's certificate, and says whose it is.
#[test]
fn what_a_server_says_to_a_client_that_a_trusted_proxy_knows_is_not_for_others() {
    use super::{cached_switch, status};
    const ALICE: &str = "X-Forwarded-Client-Subject: CN=alice\r\n";
    let begin = |route: &str| {
        Play::configured(|server| {
            cached_switch(&[server], "", route).replace(
                "mode = \"switch\"\n",
                "mode = \"switch\"\ntrusted_proxies = [\"127.0.0.0/8\"]\n",
            )
        })
    };
    let play = begin("prefetch = true");
    let page = ok(
        "Cache-Control: max-age=60\r\nContent-Type: text/html\r\n",
        "<img src=/b>",
    );
    for _ in 0..2 {
        let (response, _) = play.fetch_with("/a", ALICE, &page);
        assert_eq!(status(&response), "carrick; fwd=bypass");
    }
    let parsed = (play.carrick).metric("carrick_cache_prefetch_pages_total", &[]);
    assert_eq!(parsed, 0.0);
    for line in [
        "Client-Cert: :YWxpY2U=:",
        "X-SSL-Client-S-DN: CN=alice",
        "X-Forwarded-Client-Cert: Hash=1",
        "X-Forwarded-User: alice",
        "Remote-User: alice",
    ] {
        let (response, _) = play.fetch_with("/b", &format!("{line}\r\n"), &page);
        assert_eq!(status(&response), "carrick; fwd=bypass", "{line}");
    }
    // What is empty tells nothing, and neither does a field that is not for identities.
    let plain = ok("Cache-Control: max-age=60\r\n", "for all");
    play.fetch_with("/c", "Remote-User:\r\nX-Real-IP: 192.0.2.1\r\n", &plain);
    play.find("/c");
    // A stranger's is removed, or passed on.
    let strange = Play::configured(|server| cached_switch(&[server], "", ""));
    strange.fetch_with("/d", "X-SSL-Client-S-DN: CN=alice\r\n", &plain);
    strange.find("/d");
    let (response, _) = strange.fetch_with("/e", "X-Remote-User: alice\r\n", &plain);
    assert_eq!(status(&response), "carrick; fwd=bypass");
    // Where it is in the key, each has a copy.
    let play = begin("cache_key = { headers = \"X-Forwarded-Client-Subject\" }");
    for (lines, body) in [(ALICE, "for alice"), ("", "for strangers")] {
        play.fetch_with("/a", lines, &ok("Cache-Control: max-age=60\r\n", body));
    }
    assert_eq!(play.find_with("/a", ALICE).text(), "for alice");
    assert_eq!(play.find("/a").text(), "for strangers");
}

#[test]
fn what_varies_with_what_carrick_writes_now_is_not_found() {
    use super::cached_switch;
    use crate::support::{Carrick, Place, Server};
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = |forwarded: &str| {
        cached_switch(&[server.address()], "", "").replace(
            "mode = \"switch\"\n",
            &format!("mode = \"switch\"\nforwarded = \"{forwarded}\"\n"),
        )
    };
    let carrick = Carrick::start(&place, &text("unchanged"));
    let fetch = |body: &str| {
        let (mut client, mut upstream) = carrick.asked(&server, get("/a", ""));
        let lines = "Cache-Control: max-age=60\r\nVary: X-Forwarded-For\r\n";
        upstream.send(ok(lines, body));
        upstream.half_close();
        assert_eq!(client.read_response("GET").text(), body);
    };
    fetch("one");
    assert_eq!(carrick.connect().ask(&get("/a", "")).text(), "one");
    server.expect_no_connection();
    carrick.reload_as(&place, &text("x-forwarded"), "ok");
    fetch("two");
    fetch("three");
}

#[test]
fn a_body_that_breaks_off_is_not_kept_and_does_not_look_whole() {
    let play = Play::begin("");
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nCache-Control: max-age=60\r\n\r\nbeginning",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n5\r\nhello\r\n5\r\nwo",
    ] {
        let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
        upstream.send(answer);
        drop(upstream);
        client.read_head();
        let ending = client.read_ending();
        assert!(matches!(ending, Ending::Reset(_)), "{ending:?}");
        assert_eq!(
            play.fetch("/a", &ok("Cache-Control: no-store\r\n", "x"))
                .text(),
            "x"
        );
    }
}

#[test]
fn hosts_and_queries_are_told_apart() {
    let play = Play::begin("");
    let lines = "Cache-Control: max-age=60\r\n";
    play.fetch("/a?x=1", &ok(lines, "one"));
    assert_eq!(play.fetch("/a?x=2", &ok(lines, "two")).text(), "two");
    assert_eq!(play.fetch("/a", &ok(lines, "none")).text(), "none");
    assert_eq!(play.find("/a?x=1").text(), "one");
    let (mut other, mut upstream) = play.carrick.asked(
        &play.server,
        "GET /a?x=1 HTTP/1.1\r\nHost: b.example\r\n\r\n",
    );
    upstream.send(ok(lines, "other"));
    assert_eq!(other.read_response("GET").text(), "other");
}

/// A server may repeat the port in links, which all who ask without it would get.
#[test]
fn a_default_port_that_is_written_fills_nothing() {
    let play = Play::begin("");
    let lines = "Cache-Control: max-age=60\r\n";
    let with_port = get("/a", "").replace("a.example", "a.example:80");
    for _ in 0..2 {
        let mut client = play.carrick.connect();
        client.send(&with_port);
        let mut upstream = play.server.accept();
        let asked = upstream.read_head();
        assert!(asked.contains("Host: a.example:80\r\n"), "{asked}");
        upstream.send(ok(lines, "with port"));
        assert_eq!(client.read_response("GET").text(), "with port");
    }
    play.fetch("/a", &ok(lines, "usual"));
    let found = play.carrick.connect().ask(&with_port);
    assert_eq!(found.text(), "usual");
    play.server.expect_no_connection();
}

#[test]
fn without_cache_nothing_is_kept() {
    use crate::support::{Carrick, Place, Server};
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    for _ in 0..2 {
        let (mut client, mut upstream) = carrick.asked(&server, get("/a", ""));
        upstream.send(ok("Cache-Control: max-age=60\r\n", "x"));
        assert_eq!(client.read_response("GET").field("cache-status"), None);
    }
}

#[test]
fn what_is_denied_by_rules_that_came_later_is_not_sent_from_the_store() {
    use crate::support::carrick::FORWARD_TEXT;
    use crate::support::{Carrick, Place, Server};
    let place = Place::claim();
    let server = Server::listen_at(([127, 0, 0, 1], 0).into());
    let text = format!("[cache]\n{FORWARD_TEXT}");
    let carrick = Carrick::start(&place, &format!("{text}deny_to = []\n"));
    let address = server.address();
    let requests = ["localhost", "127.0.0.1"].map(|host| {
        format!(
            "GET http://{host}:{}/x HTTP/1.1\r\nHost: {host}\r\n\r\n",
            address.port()
        )
    });
    for request in &requests {
        let mut client = carrick.connect_forward();
        client.send(request);
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(ok("Cache-Control: max-age=60\r\n", "secret"));
        assert_eq!(client.read_response("GET").text(), "secret");
        drop(upstream);
        let found = carrick.connect_forward().ask(request);
        assert!(super::status(&found).contains("hit"), "{}", found.head);
    }
    // A client that connected earlier is treated like all others.
    let mut early = carrick.connect_forward();
    assert_eq!(early.ask(&requests[0]).text(), "secret");
    let reload = |deny: &str| {
        carrick.reload_as(&place, &format!("{text}deny_to = [{deny}]\n"), "ok");
    };
    reload("\"127.0.0.0/8\", \"::1\"");
    for request in &requests {
        assert_eq!(carrick.connect_forward().ask(request).status, 403);
        assert_eq!(early.ask(request).status, 403);
    }
    server.expect_no_connection();
    // Once allowed again, it is served again.
    reload("");
    for request in &requests {
        assert_eq!(carrick.connect_forward().ask(request).text(), "secret");
    }
    server.expect_no_connection();
}
