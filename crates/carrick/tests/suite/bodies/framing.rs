//! The framings of RFC 9112 section 6.3, one by one, in both directions.
use super::{Stage, expect_reusable};

#[test]
fn bodies_with_a_length_pass_both_ways_and_both_connections_are_kept() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin(
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
    );
    let head = upstream.read_head();
    assert!(
        head.contains("Content-Length: 5\r\n") && head.contains("Content-Type: text/plain\r\n"),
        "{head}"
    );
    upstream.expect("hello");
    upstream.send("HTTP/1.1 201 Made\r\nContent-Length: 6\r\nETag: \"1\"\r\n\r\nanswer");
    let response = client.read_response("POST");
    assert!(
        response.head.starts_with("HTTP/1.1 201 Made\r\n"),
        "{}",
        response.head
    );
    assert_eq!(
        (response.text().as_str(), response.field("etag").as_deref()),
        ("answer", Some("\"1\""))
    );
    assert_eq!(response.field("connection"), None);
    expect_reusable(&mut client, &mut upstream);
}

#[test]
fn chunked_bodies_pass_both_ways_with_extensions_and_trailers() {
    let stage = Stage::new();
    let request_body =
        "5;a=b;c=\"d;\\\"e\"\r\nhello\r\n1\r\n!\r\n0;last\r\nX-Sum: 1\r\nX-Other: two\r\n\r\n";
    let (mut client, mut upstream) = stage.begin(&format!(
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nTrailer: X-Sum\r\nTE: trailers\r\nConnection: TE\r\n\r\n{request_body}"
    ));
    let head = upstream.read_head();
    assert!(
        head.contains("Transfer-Encoding: chunked\r\n") && head.contains("Trailer: X-Sum\r\n"),
        "{head}"
    );
    assert!(!head.to_lowercase().contains("content-length"), "{head}");
    upstream.expect(request_body);
    let response_body = "A;x\r\n0123456789\r\n3\r\nabc\r\n0\r\nX-Check: ok\r\n\r\n";
    upstream.send(format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Check\r\n\r\n{response_body}"
    ));
    let response = client.read_response("POST");
    assert_eq!(response.text(), "0123456789abc");
    assert_eq!(response.trailers, ["X-Check: ok"]);
    assert_eq!(
        String::from_utf8_lossy(&response.raw_body),
        response_body,
        "framing in the usual form is unchanged"
    );
    assert_eq!(response.field("trailer").as_deref(), Some("X-Check"));
    expect_reusable(&mut client, &mut upstream);
}

#[test]
fn a_body_until_close_ends_the_clients_connection_too() {
    let stage = Stage::new();
    for body in ["", "x", "a body that ends with the connection"] {
        let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        upstream.read_head();
        upstream.send(format!("HTTP/1.1 200 OK\r\n\r\n{body}"));
        drop(upstream);
        let response = client.read_response("GET");
        assert_eq!(response.text(), body);
        assert_eq!(response.field("connection").as_deref(), Some("close"));
        assert_eq!(response.field("content-length"), None);
    }
}

/// The length that a GET would have is relayed, and no content is awaited.
#[test]
fn responses_without_a_body_whatever_they_announce() {
    let stage = Stage::new();
    let mut client = stage.carrick.connect();
    let mut upstream = None;
    for (method, status, field) in [
        ("HEAD", "200 OK", "Content-Length: 1000\r\n"),
        ("HEAD", "200 OK", "Transfer-Encoding: chunked\r\n"),
        ("HEAD", "404 Not Found", "Content-Length: 7\r\n"),
        ("HEAD", "200 OK", ""),
        (
            "GET",
            "304 Not Modified",
            "Content-Length: 1000\r\nETag: \"e\"\r\n",
        ),
        ("GET", "304 Not Modified", "Transfer-Encoding: chunked\r\n"),
        ("GET", "204 No Content", ""),
        ("DELETE", "204 No Content", "X: y\r\n"),
        ("GET", "200 OK", "Content-Length: 0\r\n"),
    ] {
        client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        let upstream = upstream.get_or_insert_with(|| stage.server.accept());
        let head = upstream.read_head();
        assert!(head.starts_with(&format!("{method} / ")), "{head}");
        upstream.send(format!("HTTP/1.1 {status}\r\n{field}\r\n"));
        let response = client.read_response(method);
        assert!(
            response.head.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{}",
            response.head
        );
        assert_eq!(response.body, b"");
        for line in field.split_inclusive("\r\n") {
            assert!(
                response.head.contains(line),
                "{line:?} in {}",
                response.head
            );
        }
        assert_eq!(
            response.field("connection"),
            None,
            "{method} {status} {field}"
        );
    }
    stage.server.expect_no_connection();
}

/// Content may follow a 204 that announces it: the connection is not reused, and the client sees no length.
#[test]
fn a_204_that_announces_content_does_not_poison_the_next_response() {
    let stage = Stage::new();
    for field in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        upstream.read_head();
        upstream.send(format!("HTTP/1.1 204 No Content\r\n{field}\r\n\r\n"));
        let response = client.read_response("GET");
        assert_eq!(response.status, 204);
        assert!(!response.head.contains(field), "{}", response.head);
        client.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut fresh = stage.server.accept();
        fresh.read_head();
        fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(client.read_response("GET").text(), "ok");
        upstream.expect_reset();
        // The next round needs its own connection.
        drop((client, fresh));
    }
}

/// Bytes after a response's end belong to no request.
#[test]
fn excess_bytes_after_a_response_are_thrown_away_with_their_connection() {
    let stage = Stage::new();
    let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    for (method, response) in [
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\n\r\n"),
    ] {
        // Directly behind it, or a moment later, when the connection is idle.
        for at_once in [true, false] {
            let (mut client, mut upstream) =
                stage.begin(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
            upstream.read_head();
            if at_once {
                upstream.send(format!("{response}{evil}"));
            } else {
                upstream.send(response);
            }
            assert_eq!(
                client.read_response(method).status / 100 % 2,
                u16::from(response.contains(" 304 "))
            );
            if !at_once {
                upstream.send(evil);
            }
            client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut fresh = stage.server.accept();
            assert!(fresh.read_head().starts_with("GET /next "));
            fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngood");
            assert_eq!(
                client.read_response("GET").text(),
                "good",
                "{response:?} at once: {at_once}"
            );
            // No byte of the second request went there, however the connection ends.
            assert!(upstream.read_ending().bytes().is_empty());
        }
    }
}

/// The body of one request is never taken for the head of another, nor the reverse.
#[test]
fn a_longer_body_than_announced_is_the_next_request() {
    let stage = Stage::new();
    let (mut client, mut upstream) =
        stage.begin("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.read_head();
    upstream.expect("abc");
    assert!(
        !upstream.has_more(),
        "the second request came before the first response"
    );
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    assert_eq!(client.read_response("POST").text(), "1");
    assert!(upstream.read_head().starts_with("GET /2 "));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    assert_eq!(client.read_response("GET").text(), "2");
}
