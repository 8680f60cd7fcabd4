//! Responses from the store.
use super::{Play, age, get, ok, status};
use crate::support::message::field;

#[test]
fn what_is_fresh_is_not_asked_for_again() {
    let play = Play::begin("");
    let first = play.fetch(
        "/a",
        &ok("Cache-Control: max-age=60\r\nX-Is: kept\r\n", "hello"),
    );
    assert_eq!((first.status, first.text()), (200, "hello".into()));
    assert!(
        status(&first).contains("fwd=uri-miss") && status(&first).contains("stored"),
        "{}",
        first.head
    );
    assert_eq!(first.field("age"), None, "it is new");
    let second = play.find("/a");
    assert_eq!((second.status, second.text()), (200, "hello".into()));
    assert_eq!(second.field("x-is").as_deref(), Some("kept"));
    assert_eq!(second.field("content-length").as_deref(), Some("5"));
    assert!(second.field("date").is_some());
    assert!(age(&second).is_some_and(|age| age < 60), "{}", second.head);
    assert!(
        status(&second).starts_with("carrick; hit; ttl="),
        "{}",
        second.head
    );
}

/// RFC 9110 section 15.5.22.
#[test]
fn a_426_from_the_store_tells_a_client_what_to_upgrade_to() {
    let play = Play::begin("");
    let required = "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nno";
    for response in [play.fetch("/a", required), play.find("/a")] {
        assert_eq!((response.status, response.text()), (426, "no".into()));
        assert_eq!(response.field("upgrade").as_deref(), Some("websocket"));
        assert_eq!(response.field("connection").as_deref(), Some("Upgrade"));
    }
    let mut client = play.carrick.connect();
    let last = client.ask(&get("/a", "Connection: close\r\n"));
    assert_eq!(last.field("connection").as_deref(), Some("close, Upgrade"));
    client.expect_end();
    play.server.expect_no_connection();
}

#[test]
fn one_connection_gets_one_answer_after_the_other_from_the_store() {
    let play = Play::begin("");
    play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", "a"));
    play.fetch(
        "/b",
        &ok("Cache-Control: max-age=60\r\n", &"b".repeat(100_000)),
    );
    let mut client = play.carrick.connect();
    // The second request arrives before the first is answered.
    client.send(format!("{}{}", get("/a", ""), get("/b", "")));
    assert_eq!(client.read_response("GET").text(), "a");
    assert_eq!(client.read_response("GET").text(), "b".repeat(100_000));
    let head = client.ask("HEAD /b HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(head.field("content-length").as_deref(), Some("100000"));
    assert!(head.body.is_empty());
    assert_eq!(client.ask(&get("/a", "Connection: close\r\n")).text(), "a");
    client.expect_end();
    play.server.expect_no_connection();
}

#[test]
fn ranges_and_conditions_are_answered_from_the_store() {
    let play = Play::begin("");
    let body: String = ('a'..='z').collect();
    play.fetch(
        "/a",
        &ok(
            "Cache-Control: max-age=60\r\nETag: \"v\"\r\nContent-Type: text/x\r\n",
            &body,
        ),
    );
    let part = play.find_with("/a", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text()), (206, "cde".into()));
    assert_eq!(part.field("content-range").as_deref(), Some("bytes 2-4/26"));
    let last = play.find_with("/a", "Range: bytes=-3\r\n");
    assert_eq!((last.status, last.text()), (206, "xyz".into()));
    let several = play.find_with("/a", "Range: bytes=0-1,4-5\r\n");
    assert_eq!(several.status, 206);
    let boundary = several.field("content-type").unwrap();
    assert!(
        boundary.starts_with("multipart/byteranges; boundary="),
        "{boundary}"
    );
    assert!(
        several.text().contains("bytes 0-1/26\r\n\r\nab\r\n")
            && several.text().contains("bytes 4-5/26\r\n\r\nef\r\n")
    );
    let none = play.find_with("/a", "Range: bytes=99-\r\n");
    assert_eq!(none.status, 416);
    assert_eq!(none.field("content-range").as_deref(), Some("bytes */26"));
    let other = play.find_with("/a", "Range: bytes=2-4\r\nIf-Range: \"w\"\r\n");
    assert_eq!((other.status, other.text()), (200, body));
    let same = play.find_with("/a", "If-None-Match: \"v\"\r\n");
    assert_eq!((same.status, same.text()), (304, String::new()));
    assert_eq!(same.field("etag").as_deref(), Some("\"v\""));
}

#[test]
fn variants_are_told_apart() {
    let play = Play::begin("");
    let answer = |body: &str| {
        ok(
            "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n",
            body,
        )
    };
    play.fetch_with("/a", "Accept-Language: de\r\n", &answer("hallo"));
    let (english, _) = play.fetch_with("/a", "Accept-Language: en\r\n", &answer("hello"));
    assert!(
        status(&english).contains("fwd=vary-miss"),
        "{}",
        english.head
    );
    assert_eq!(
        play.find_with("/a", "Accept-Language: de\r\n").text(),
        "hallo"
    );
    assert_eq!(
        play.find_with("/a", "Accept-Language: en\r\n").text(),
        "hello"
    );
}

#[test]
fn only_if_cached_gets_504_for_what_is_not_stored() {
    let play = Play::begin("");
    let none = play.find_with("/a", "Cache-Control: only-if-cached\r\n");
    assert_eq!(none.status, 504);
    play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", "a"));
    assert_eq!(
        play.find_with("/a", "Cache-Control: only-if-cached\r\n")
            .text(),
        "a"
    );
}

#[test]
fn only_if_cached_gets_504_where_the_cache_is_bypassed() {
    let play = Play::begin_with("", "cache_bypass = { cookie = \"session\" }");
    play.fetch("/a", &ok("Cache-Control: max-age=60\r\n", "a"));
    for (path, lines) in [
        ("/a", "Cookie: session=1\r\n"),
        ("/x/../a", ""),
        ("/a", "Connection: Upgrade\r\nUpgrade: x\r\n"),
    ] {
        let lines = format!("{lines}Cache-Control: only-if-cached\r\n");
        assert_eq!(play.find_with(path, &lines).status, 504, "{path} {lines}");
    }
}

#[test]
fn a_forward_proxy_keeps_what_it_fetches_too() {
    use crate::support::carrick::FORWARD_TEXT;
    use crate::support::server::answer_requests;
    use crate::support::{Carrick, Place, Server};
    let place = Place::claim();
    let serving = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |head| {
            assert!(field(head, "host").is_some());
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: max-age=60\r\n\r\nok".to_vec()
        });
    });
    let carrick = Carrick::start(&place, &format!("[cache]\n{FORWARD_TEXT}"));
    let request = format!(
        "GET http://{}/x HTTP/1.1\r\nHost: {0}\r\n\r\n",
        serving.address()
    );
    let mut client = carrick.connect_forward();
    assert!(status(&client.ask(&request)).contains("fwd=uri-miss"));
    for _ in 0..3 {
        assert!(status(&carrick.connect_forward().ask(&request)).contains("hit"));
    }
    assert_eq!(serving.accepted(), 1);
}

/// RFC 9111 sections 5.2.2.4 and 5.2.2.7.
#[test]
fn what_caches_must_not_keep_reaches_the_client_that_asked() {
    use super::cached_switch;
    use crate::support::carrick::FORWARD_TEXT;
    use crate::support::{Carrick, Place, Server};
    let place = Place::claim();
    let server = Server::listen(&place);
    let origin = server.address();
    let text = cached_switch(&[origin], "", "");
    let carrick = Carrick::start(&place, &format!("{text}\n{FORWARD_TEXT}"));
    for is_forward in [false, true] {
        for directive in ["private", "no-cache"] {
            for body in [
                "Content-Length: 4\r\n\r\npage",
                "Transfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n",
            ] {
                let path = format!("/{directive}/{}", body.len());
                let target = match is_forward {
                    true => format!("http://{origin}{path}"),
                    false => path,
                };
                let request = format!("GET {target} HTTP/1.1\r\nHost: {origin}\r\n\r\n");
                let connect = || match is_forward {
                    true => carrick.connect_forward(),
                    false => carrick.connect(),
                };
                let mut client = connect();
                client.send(&request);
                let mut upstream = server.accept();
                upstream.read_head();
                upstream.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60, {directive}=\"set-cookie\"\r\n\
                     Set-Cookie: a=b\r\nConnection: close\r\n{body}"
                ));
                let first = client.read_response("GET");
                assert_eq!(
                    first.field("set-cookie").as_deref(),
                    Some("a=b"),
                    "{target}"
                );
                drop(upstream);
                let second = connect().ask(&request);
                server.expect_no_connection();
                assert_eq!(
                    (second.text(), second.field("set-cookie")),
                    ("page".into(), None)
                );
            }
        }
    }
}

#[test]
fn a_stored_response_has_all_its_fields() {
    let play = Play::begin("");
    let lines = "Cache-Control: max-age=60\r\nContent-Range: bytes 0-1/2\r\nSet-Cookie2: a=b\r\n";
    play.fetch("/a", &ok(lines, "hello"));
    let found = play.find("/a");
    assert_eq!((found.status, found.text()), (200, "hello".into()));
    assert_eq!(found.field("content-range").as_deref(), Some("bytes 0-1/2"));
    assert_eq!(found.field("set-cookie2").as_deref(), Some("a=b"));
}
