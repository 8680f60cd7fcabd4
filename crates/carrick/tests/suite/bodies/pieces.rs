//! Every split of a small exchange into two segments, on either side, has the same result.
use super::Stage;

const REQUEST: &str = "POST /p?q HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4;e\r\nbody\r\n0\r\nT: 1\r\n\r\n";
/// Sent by the server; otherwise carrick would add the current time.
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BODY: &str = "4;e\r\nbody\r\n0\r\nT: 1\r\n\r\n";

#[test]
fn every_split_of_a_request_gives_the_same_request() {
    let stage = Stage::new();
    let mut client = stage.carrick.connect();
    let mut upstream = None;
    let mut heads = std::collections::BTreeSet::new();
    for split in 1..REQUEST.len() {
        client.send_in_pieces(REQUEST, &[split, REQUEST.len()]);
        let upstream = upstream.get_or_insert_with(|| stage.server.accept());
        heads.insert(upstream.read_head());
        upstream.expect(BODY);
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n.");
        assert_eq!(client.read_response("POST").text(), ".");
    }
    assert_eq!(heads.len(), 1, "{heads:?}");
}

#[test]
fn every_split_of_a_response_gives_the_same_response() {
    let stage = Stage::new();
    let mut client = stage.carrick.connect();
    let mut upstream = None;
    let chunked = format!(
        "HTTP/1.1 103 Hints\r\nL: 1\r\n\r\nHTTP/1.1 200 OK\r\nDate: {DATE}\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n{BODY}"
    );
    let counted =
        format!("HTTP/1.1 200 OK\r\nDate: {DATE}\r\nContent-Length: 10\r\nX: y\r\n\r\n0123456789");
    for bytes in [chunked.as_str(), counted.as_str()] {
        let mut seen = Vec::new();
        for split in 1..bytes.len() {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let upstream = upstream.get_or_insert_with(|| stage.server.accept());
            upstream.read_head();
            upstream.send_in_pieces(bytes, &[split, bytes.len()]);
            let response = client.read_response("GET");
            if !seen.contains(&response) {
                seen.push(response);
            }
        }
        assert_eq!(seen.len(), 1, "{seen:?}");
    }
    stage.server.expect_no_connection();
}

/// `recv(2)` would omit the byte: carrick would wait for it, or relay a different request.
#[test]
fn an_urgent_byte_of_a_request_is_one_like_the_others() {
    let stage = Stage::new();
    let mut client = stage.carrick.connect();
    let mut upstream = None;
    for at in 0..REQUEST.len() {
        client.send(&REQUEST[..at]);
        client.send_urgent(&REQUEST[at..=at]);
        client.send(&REQUEST[at + 1..]);
        let upstream = upstream.get_or_insert_with(|| stage.server.accept());
        assert!(upstream.read_head().starts_with("POST /p?q HTTP/1.1\r\n"));
        upstream.expect(BODY);
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n.");
        assert_eq!(client.read_response("POST").text(), ".");
    }
}
