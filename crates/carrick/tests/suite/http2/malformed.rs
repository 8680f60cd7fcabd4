//! Requests that another server could read as something else (RFC 9113 sections 8.1.1, 8.2 and 10.3).
use super::frames::{
    Answer, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PROTOCOL_ERROR, RawClient, block,
    get, get_with,
};
use super::{ok_server, start};
use crate::support::{Place, Server};

#[test]
fn what_may_smuggle_never_reaches_a_server() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    let changed = |name: &'static str, value: &'static str| {
        get("/")
            .map(|(one, old)| (one, if one == name { value } else { old }))
            .to_vec()
    };
    let without = |name: &str| -> Vec<_> {
        get("/")
            .into_iter()
            .filter(|(one, _)| *one != name)
            .collect()
    };
    let cases: Vec<Vec<(&str, &str)>> = vec![
        get_with(&[("transfer-encoding", "chunked")]),
        get_with(&[("connection", "keep-alive")]),
        get_with(&[
            ("connection", "Upgrade, HTTP2-Settings"),
            ("upgrade", "h2c"),
        ]),
        get_with(&[("upgrade", "h2c")]),
        get_with(&[("proxy-connection", "close")]),
        get_with(&[("keep-alive", "5")]),
        get_with(&[("te", "gzip")]),
        get_with(&[("x", "a\r\ntransfer-encoding: chunked")]),
        get_with(&[("x", "a\nb: c")]),
        get_with(&[("x", "a\0b")]),
        get_with(&[("x", " a")]),
        get_with(&[("x", "a ")]),
        get_with(&[("x: y\r\nz", "a")]),
        get_with(&[("x ", "a")]),
        get_with(&[("X", "a")]),
        get_with(&[("", "a")]),
        get_with(&[("host", "b.example")]),
        get_with(&[("host", "a.example"), ("host", "a.example")]),
        get_with(&[("content-length", "5")]),
        get_with(&[("content-length", "0"), ("content-length", "0")]),
        get_with(&[("content-length", "+0")]),
        get_with(&[("content-length", "0, 0")]),
        get_with(&[(":path", "/b")]),
        get_with(&[("x", "a"), (":method", "POST")]),
        get_with(&[(":status", "200")]),
        get_with(&[(":what", "a")]),
        get_with(&[(":protocol", "websocket")]),
        changed(":path", ""),
        changed(":path", "a"),
        changed(":path", "*"),
        changed(":path", "/ HTTP/1.1\r\nHost: b.example"),
        changed(":path", "/a b"),
        changed(":method", "GET / HTTP/1.1\r\nx: y"),
        changed(":method", ""),
        changed(":authority", "a.example\r\nx: y"),
        changed(":authority", "a b"),
        changed(":scheme", "http://b.example/?"),
        without(":method"),
        without(":scheme"),
        without(":path"),
    ];
    for (index, fields) in cases.into_iter().enumerate() {
        let stream = 2 * u32::try_from(index).expect("few") + 1;
        client.ask(stream, &fields);
        let answer = client.read_answer(stream);
        if matches!(answer, Answer::Closed(_)) {
            // What cannot be a field at all may end the connection (RFC 9113 section 8.1.1).
            client = RawClient::connect(carrick.listener(), b"");
            continue;
        }
        assert!(
            matches!(
                answer,
                Answer::Reset(PROTOCOL_ERROR) | Answer::Status(400, _)
            ),
            "{fields:?}: {answer:?}"
        );
    }
    server.expect_no_connection();
}

#[test]
fn hosts_that_are_none_are_answered_with_400() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    let hosts = ["user@a.example", "a.example:x", "[::1", "a,b"];
    for (stream, host) in (1..).step_by(2).zip(hosts) {
        let fields =
            get("/").map(|(name, value)| (name, if name == ":authority" { host } else { value }));
        client.ask(stream, &fields);
        let answer = client.read_answer(stream);
        let is_refused = matches!(
            answer,
            Answer::Status(400, _) | Answer::Reset(PROTOCOL_ERROR)
        );
        assert!(is_refused, "{host}: {answer:?}");
    }
    // Neither `:authority` nor `Host`.
    let fields: Vec<_> = get("/")
        .into_iter()
        .filter(|(name, _)| *name != ":authority")
        .collect();
    client.ask(101, &fields);
    assert!(matches!(client.read_answer(101), Answer::Status(400, _)));
    server.expect_no_connection();
}

#[test]
fn content_must_be_as_long_as_it_says() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    for content in ["1234", "123456"] {
        let mut client = RawClient::connect(carrick.listener(), b"");
        let fields = get_with(&[("content-length", "5")]);
        client.send(HEADERS, END_HEADERS, 1, &block(&fields));
        let mut upstream = server.accept();
        assert!(
            upstream
                .read_head()
                .to_lowercase()
                .contains("content-length: 5")
        );
        client.send(DATA, END_STREAM, 1, content.as_bytes());
        assert_eq!(
            client.read_answer(1),
            Answer::Reset(PROTOCOL_ERROR),
            "{content}"
        );
        // Not one byte of it looks like a whole request, or the beginning of another.
        assert!(upstream.read_ending().bytes().len() < 5);
    }
}

#[test]
fn a_field_block_may_be_cut_anywhere() {
    let place = Place::claim();
    let server = ok_server(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    let block = block(&get_with(&[("x", "yz")]));
    for (stream, at) in (1..).step_by(2).zip(0..=block.len()) {
        client.send(HEADERS, END_STREAM, stream, &block[..at]);
        client.send(CONTINUATION, END_HEADERS, stream, &block[at..]);
        assert_eq!(
            client.read_answer(stream),
            Answer::Status(200, b"ok".to_vec())
        );
    }
}

#[test]
fn an_upgrade_to_http2_is_not_passed_on() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = carrick.connect();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n");
    let mut upstream = server.accept();
    let head = upstream.read_head().to_lowercase();
    assert!(
        !head.contains("http2-settings") && !head.contains("upgrade"),
        "{head}"
    );
    upstream.send(super::OK);
    assert_eq!(client.read_response("GET").status, 200);
}
