//! Requests that are refused before they reach an upstream.
use super::{expect_healthy, expect_refusal, send_what_it_takes};
use crate::support::{Carrick, Place, Server};

/// Description, status, and bytes.
type Row = (&'static str, u16, &'static [u8]);

const REQUEST_LINES: &[Row] = &[
    ("HTTP/0.9", 400, b"GET /\r\n"),
    ("HTTP/0.9 with fields", 400, b"GET /\r\nHost: a\r\n\r\n"),
    ("HTTP/2.0", 505, b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    ("HTTP/3.1", 505, b"GET / HTTP/3.1\r\nHost: a\r\n\r\n"),
    (
        "HTTP/0.9 by name",
        505,
        b"GET / HTTP/0.9\r\nHost: a\r\n\r\n",
    ),
    (
        "small letters in the version",
        400,
        b"GET / http/1.1\r\nHost: a\r\n\r\n",
    ),
    ("HTTP/1.10", 400, b"GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
    ("HTTP/+1.1", 400, b"GET / HTTP/+1.1\r\nHost: a\r\n\r\n"),
    ("HTTP/1.", 400, b"GET / HTTP/1.\r\nHost: a\r\n\r\n"),
    (
        "two spaces before the target",
        400,
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "two spaces before the version",
        400,
        b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a tab for a space",
        400,
        b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a tab in the target",
        400,
        b"GET /\t HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a space in the target",
        400,
        b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a space after the version",
        400,
        b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
    ),
    (
        "a leading space",
        400,
        b" GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "CR in the request line",
        400,
        b"GET /\rX: HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "LF ends the request line",
        400,
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
    ),
    ("only LF", 400, b"GET / HTTP/1.1\nHost: a\n\n"),
    (
        "NUL in the target",
        400,
        b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "DEL in the target",
        400,
        b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "beyond ASCII in the target",
        400,
        b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    ("a fragment", 400, b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("no method", 400, b"/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "brackets in the method",
        400,
        b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a colon in the method",
        400,
        b"GET: / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "NUL in the method",
        400,
        b"GE\0T / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a method without end",
        501,
        b"GETGETGETGETGETGETGETGETGETGETGETGETGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a target that is no path",
        400,
        b"GET a/b HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    ("an empty target", 400, b"GET  HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("`*` with GET", 400, b"GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "https in the target",
        400,
        b"GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "ftp in the target",
        400,
        b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "no host in the target",
        400,
        b"GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a user in the target",
        400,
        b"GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "one slash after the scheme",
        400,
        b"GET http:/a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "a backslash in the authority",
        400,
        b"GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "port 0 in the target",
        400,
        b"GET http://a:0/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "port 65536 in the target",
        400,
        b"GET http://a:65536/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "CONNECT to a path",
        400,
        b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "CONNECT without a port",
        400,
        b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "CONNECT to a URL",
        400,
        b"CONNECT http://a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "CONNECT with a user",
        400,
        b"CONNECT u@a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    ("TLS", 400, b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"),
    (
        "five empty lines first",
        400,
        b"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    ("LF first", 400, b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "a PROXY header where none is expected",
        400,
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    ("SSH", 400, b"SSH-2.0-OpenSSH_9.2\r\n"),
];

const FIELDS: &[Row] = &[
    (
        "a space before the colon",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n",
    ),
    (
        "a tab before the colon",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX\t: 1\r\n\r\n",
    ),
    (
        "a space before Content-Length's colon",
        400,
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello",
    ),
    (
        "obs-fold",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n",
    ),
    (
        "obs-fold with a tab",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\t2\r\n\r\n",
    ),
    (
        "a space before the first field",
        400,
        b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    ),
    (
        "obs-fold of Transfer-Encoding",
        400,
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    ),
    ("no colon", 400, b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
    (
        "an empty name",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n",
    ),
    (
        "brackets in a name",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX(): 1\r\n\r\n",
    ),
    (
        "NUL in a name",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX\0Y: 1\r\n\r\n",
    ),
    (
        "beyond ASCII in a name",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX\xe9: 1\r\n\r\n",
    ),
    (
        "NUL in a value",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\x002\r\n\r\n",
    ),
    (
        "a control byte in a value",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\x012\r\n\r\n",
    ),
    (
        "DEL in a value",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\x7f\r\n\r\n",
    ),
    (
        "bare CR in a value",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r2\r\n\r\n",
    ),
    (
        "bare CR that hides a field",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\rContent-Length: 5\r\n\r\nhello",
    ),
    (
        "bare LF that hides a field",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "LF ends a field",
        400,
        b"GET / HTTP/1.1\r\nHost: a\nX: 1\r\n\r\n",
    ),
    (
        "LF ends the head",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\n",
    ),
    (
        "LF LF ends the head",
        400,
        b"GET / HTTP/1.1\r\nHost: a\n\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    ("CR CR LF", 400, b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
    (
        "a vertical tab before chunked",
        400,
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "Connection that is no list of names",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: a b\r\n\r\n",
    ),
    (
        "an unknown expectation",
        417,
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\nx",
    ),
];

const HOSTS: &[Row] = &[
    ("no Host", 400, b"GET / HTTP/1.1\r\n\r\n"),
    (
        "no Host, absolute form",
        400,
        b"GET http://a/ HTTP/1.1\r\n\r\n",
    ),
    ("an empty Host", 400, b"GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    (
        "two Hosts",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ),
    (
        "the same Host twice",
        400,
        b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
    ),
    (
        "two hosts in one",
        400,
        b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
    ),
    (
        "a Host with a space",
        400,
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    ),
    (
        "a Host with a path",
        400,
        b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    ),
    (
        "a Host with a user",
        400,
        b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
    ),
    (
        "a Host with a scheme",
        400,
        b"GET / HTTP/1.1\r\nHost: http://a\r\n\r\n",
    ),
    (
        "a Host with an escape",
        400,
        b"GET / HTTP/1.1\r\nHost: a%2eb\r\n\r\n",
    ),
    (
        "a Host with a bad port",
        400,
        b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n",
    ),
    (
        "a Host with port 0",
        400,
        b"GET / HTTP/1.1\r\nHost: a:0\r\n\r\n",
    ),
    (
        "a Host with a padded port",
        400,
        b"GET / HTTP/1.1\r\nHost: a:080\r\n\r\n",
    ),
    (
        "a Host with two ports",
        400,
        b"GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n",
    ),
    (
        "a Host with brackets unclosed",
        400,
        b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
    ),
    (
        "a Host with a zone",
        400,
        b"GET / HTTP/1.1\r\nHost: [fe80::1%lo]\r\n\r\n",
    ),
    (
        "a Host with junk after brackets",
        400,
        b"GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n",
    ),
    (
        "a bad Host beside a good target",
        400,
        b"GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n",
    ),
];

const LENGTHS: &[Row] = &[
    ("CL.TE", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"),
    ("TE.CL", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n"),
    ("TE.TE", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n"),
    ("two Content-Lengths", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    ("the same Content-Length twice", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    ("a list as Content-Length", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello"),
    ("+5", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello"),
    ("-5", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello"),
    ("5 5", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\nhello"),
    ("05", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 05\r\n\r\nhello"),
    ("0x5", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello"),
    ("5.0", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\nhello"),
    ("1e1", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1e1\r\n\r\nhello"),
    ("a quoted length", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \"5\"\r\n\r\nhello"),
    ("an empty length", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nhello"),
    ("a length beyond 64 bits", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\nhello"),
    ("a length without end", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999999999999\r\n\r\nhello"),
    ("a GET with both lengths", 400, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("Content_Length", 400, b"POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\nhello"),
    ("Transfer_Encoding", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("chunked twice", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ("chunked twice in two lines", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("chunked and then gzip", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    ("gzip and then chunked", 501, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("gzip", 501, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n"),
    ("identity", 501, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
    ("xchunked", 501, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ("chunked in quotes", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    ("chunked with a parameter", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    ("chunked after a comma", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"),
    ("an empty transfer coding", 400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n"),
    ("chunked in HTTP/1.0", 400, b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("TRACE with a body", 400, b"TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
    ("CONNECT with a body", 400, b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
];

#[test]
fn every_refused_request_line_is_answered_and_nothing_reaches_the_upstream() {
    play(REQUEST_LINES);
}

#[test]
fn every_refused_field_is_answered_and_nothing_reaches_the_upstream() {
    play(FIELDS);
}

#[test]
fn every_refused_host_is_answered_and_nothing_reaches_the_upstream() {
    play(HOSTS);
}

#[test]
fn every_refused_length_is_answered_and_nothing_reaches_the_upstream() {
    play(LENGTHS);
}

fn play(rows: &[Row]) {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    for (what, status, bytes) in rows {
        // Alone; followed by a request that must not be processed; and byte by byte.
        let mut smuggled = bytes.to_vec();
        smuggled.extend_from_slice(b"\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        for (bytes, sizes) in [(*bytes, 4096), (smuggled.as_slice(), 4096), (*bytes, 1)] {
            let mut client = carrick.connect();
            send_what_it_takes(&mut client, bytes, sizes);
            expect_refusal(&mut client, *status, what);
        }
        server.expect_no_connection();
    }
    expect_healthy(&carrick, &server);
}

#[test]
fn the_request_before_a_refused_one_is_answered_first() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    let mut client = carrick.connect();
    client.send(
        "GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    );
    let mut upstream = server.accept();
    assert!(upstream.read_head().starts_with("GET /first "));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.read_response("GET").body, b"ok");
    expect_refusal(&mut client, 400, "the second request");
    assert!(
        !upstream.has_more(),
        "bytes arrived after the first request"
    );
}

#[test]
fn a_switch_refuses_connect_and_says_what_it_takes() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    let mut client = carrick.connect();
    let response = client.ask("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
    assert_eq!(response.status, 405);
    assert!(
        response
            .field("allow")
            .is_some_and(|methods| methods.contains("GET"))
    );
    server.expect_no_connection();
}
