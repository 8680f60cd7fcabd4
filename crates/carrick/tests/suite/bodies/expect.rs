//! Interim responses (RFC 9110 section 15.2) and `Expect: 100-continue` (section 10.1.1).
use super::{Stage, expect_reusable};

const REQUEST: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn a_client_that_waits_for_100_gets_the_servers() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin(REQUEST);
    let head = upstream.read_head();
    assert!(head.contains("Expect: 100-continue\r\n"), "{head}");
    assert!(!client.has_more(), "carrick must not answer for the server");
    upstream.send("HTTP/1.1 100 Continue\r\n\r\n");
    let interim = client.read_head();
    assert!(
        interim.starts_with("HTTP/1.1 100 Continue\r\n"),
        "{interim}"
    );
    assert!(!interim.to_lowercase().contains("connection"), "{interim}");
    client.send("hello");
    upstream.expect("hello");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let response = client.read_response("POST");
    assert_eq!((response.status, response.interim.len()), (200, 0));
    expect_reusable(&mut client, &mut upstream);
}

#[test]
fn a_client_that_waits_for_100_may_be_refused_instead() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin(REQUEST);
    upstream.read_head();
    upstream.send("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    let response = client.read_response("POST");
    assert_eq!((response.status, response.text().as_str()), (413, "no"));
    // The body was never sent, so it is unclear where the next request would begin: the connections are not reused.
    assert_eq!(response.field("connection").as_deref(), Some("close"));
    client.expect_end();
    assert!(upstream.read_ending().bytes().is_empty());
}

#[test]
fn a_client_need_not_wait_for_100() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin(&format!("{REQUEST}hello"));
    upstream.read_head();
    upstream.expect("hello");
    upstream.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let response = client.read_response("POST");
    assert_eq!((response.status, response.interim.len()), (200, 1));
    expect_reusable(&mut client, &mut upstream);
}

#[test]
fn a_server_may_answer_the_expectation_with_the_final_response_and_read_the_body() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin(REQUEST);
    upstream.read_head();
    client.send("hello");
    upstream.expect("hello");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.read_response("POST").text(), "ok");
    expect_reusable(&mut client, &mut upstream);
}

#[test]
fn several_interim_responses_go_through_in_order_with_their_fields() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.read_head();
    let bytes = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n\
        HTTP/1.1 102 Processing\r\n\r\n\
        HTTP/1.1 103 Early Hints\r\nLink: </b.css>; rel=preload\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    upstream.send_in_pieces(bytes, &[7, 40, 1]);
    let response = client.read_response("GET");
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    let [first, second, third] = response.interim.as_slice() else {
        panic!("{:?}", response.interim)
    };
    assert!(
        first.starts_with("HTTP/1.1 103 Early Hints\r\n")
            && first.contains("Link: </a.css>; rel=preload\r\n"),
        "{first}"
    );
    assert!(
        second.starts_with("HTTP/1.1 102 Processing\r\n"),
        "{second}"
    );
    assert!(
        third.contains("</b.css>") && !third.to_lowercase().contains("x-hop"),
        "{third}"
    );
    expect_reusable(&mut client, &mut upstream);
}

/// An interim response is relayed at once, not with the final one.
#[test]
fn an_interim_response_is_not_held_back() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    assert!(client.read_head().starts_with("HTTP/1.1 103 "));
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
}

/// The server has begun with it.
#[test]
fn a_request_is_not_sent_again_after_an_interim_response() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.1 102 Processing\r\n\r\n");
    assert!(client.read_head().starts_with("HTTP/1.1 102 "));
    drop(upstream);
    assert_eq!(client.read_response("DELETE").status, 502);
    stage.server.expect_no_connection();
}

/// RFC 9110 section 15.2: an HTTP/1.0 client must not get interim responses.
#[test]
fn a_client_of_http_1_0_gets_no_interim_responses() {
    let stage = Stage::new();
    let (mut client, mut upstream) = stage.begin(
        "POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    );
    let head = upstream.read_head();
    assert!(
        !head.to_lowercase().contains("expect"),
        "an HTTP/1.0 client's expectation is ignored: {head}"
    );
    upstream.expect("hello");
    upstream.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let response = client.read_response("POST");
    assert_eq!(
        (
            response.status,
            response.interim.len(),
            response.text().as_str()
        ),
        (200, 0, "ok")
    );
}

#[test]
fn an_interim_response_may_come_in_the_middle_of_the_body() {
    let stage = Stage::new();
    let (mut client, mut upstream) =
        stage.begin("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    upstream.read_head();
    upstream.expect("3\r\nabc\r\n");
    upstream.send("HTTP/1.1 102 Processing\r\n\r\n");
    assert!(client.read_head().starts_with("HTTP/1.1 102 "));
    client.send("2\r\nde\r\n0\r\n\r\n");
    upstream.expect("2\r\nde\r\n0\r\n\r\n");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_response("POST").status, 200);
    expect_reusable(&mut client, &mut upstream);
}
