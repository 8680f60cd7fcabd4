//! HTTP/1.0 on either side.
use super::Stage;

#[test]
fn a_client_of_http_1_0_is_answered_and_closed() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin("GET /old HTTP/1.0\r\nHost: a\r\n\r\n");
    let head = upstream.read_head();
    assert!(
        head.starts_with("GET /old HTTP/1.1\r\n"),
        "the next hop gets carrick's version: {head}"
    );
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let response = client.read_response("GET");
    assert_eq!(response.text(), "ok");
    assert_eq!(response.field("connection").as_deref(), Some("close"));
    client.expect_end();
}

#[test]
fn a_client_of_http_1_0_may_keep_its_connection() {
    let stage = Stage::new();
    let (mut client, mut upstream) =
        stage.begin("GET /1 HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n11");
    let response = client.read_response("GET");
    assert_eq!(response.field("connection").as_deref(), Some("keep-alive"));
    client.send("GET /2 HTTP/1.0\r\nHost: a\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n22");
    assert_eq!(client.read_response("GET").text(), "22");
    client.expect_end();
}

#[test]
fn a_client_of_http_1_0_needs_no_host() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin("GET / HTTP/1.0\r\n\r\n");
    let head = upstream.read_head();
    assert!(
        head.contains("\r\nHost:"),
        "RFC 9112 section 3.2: an empty Host is allowed: {head:?}"
    );
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
}

#[test]
fn a_chunked_response_is_decoded_for_a_client_of_http_1_0() {
    let stage = Stage::new();
    for keep in ["", "Connection: keep-alive\r\n"] {
        for sizes in [&[4096][..], &[1], &[3, 11]] {
            let (mut client, mut upstream) =
                stage.begin(&format!("GET / HTTP/1.0\r\nHost: a\r\n{keep}\r\n"));
            upstream.read_head();
            let long = "y".repeat(100_000);
            let bytes = format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\nConnection: close\r\n\r\n5;a=b\r\nhello\r\n1\r\n \r\n{}0\r\nX: y\r\n\r\n",
                if sizes == [4096] {
                    format!("{:x}\r\n{long}\r\n", long.len())
                } else {
                    String::new()
                },
            );
            upstream.send_in_pieces(bytes, sizes);
            let response = client.read_response("GET");
            let expected = if sizes == [4096] {
                format!("hello {long}")
            } else {
                "hello ".to_owned()
            };
            assert!(response.text() == expected, "{} bytes", response.body.len());
            assert_eq!(response.field("transfer-encoding"), None);
            assert_eq!(response.field("trailer"), None);
            assert_eq!(response.field("connection").as_deref(), Some("close"));
        }
    }
}

#[test]
fn a_server_of_http_1_0_is_understood() {
    let stage = Stage::new();
    // Until close.
    let (mut client, mut upstream) = stage.begin("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nold");
    drop(upstream);
    let response = client.read_response("GET");
    assert_eq!(
        (response.version.as_str(), response.text().as_str()),
        ("HTTP/1.1", "old")
    );
    // With a length but without keep-alive, the client's connection continues and the upstream's does not.
    let (mut client, mut upstream) = stage.begin("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\ntwo");
    let response = client.read_response("GET");
    assert_eq!(
        (response.text().as_str(), response.field("connection")),
        ("two", None)
    );
    upstream.expect_reset();
    client.send("GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut upstream = stage.server.accept();
    upstream.read_head();
    // With keep-alive, it does.
    upstream.send("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nthree");
    let response = client.read_response("GET");
    assert_eq!(
        (response.text().as_str(), response.field("keep-alive")),
        ("three", None)
    );
    client.send("GET /4 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(upstream.read_head().starts_with("GET /4 "));
    upstream.send("HTTP/1.0 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
}

#[test]
fn a_higher_minor_version_counts_as_1_1() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin("GET / HTTP/1.7\r\nHost: a\r\n\r\n");
    assert!(upstream.read_head().starts_with("GET / HTTP/1.1\r\n"));
    upstream.send("HTTP/1.9 204 No Content\r\n\r\n");
    assert!(
        client
            .read_response("GET")
            .head
            .starts_with("HTTP/1.1 204 ")
    );
}
