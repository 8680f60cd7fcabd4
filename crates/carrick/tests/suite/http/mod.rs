//! One request through the switch and back: which fields stay, are removed or added.
mod circles;
mod connecting;
pub mod fields;
mod places;
mod rate;
mod senders;
mod time_outs;

use crate::support::carrick::switch_text;
use crate::support::{Carrick, Place, Server};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A switch to `server` with additional tables in its configuration.
fn start(place: &Place, server: &Server, tables: &str) -> Carrick {
    Carrick::start(
        place,
        &format!("{tables}\n{}", switch_text(&[server.address()])),
    )
}

#[test]
fn a_request_goes_to_the_server_and_its_response_comes_back() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    let mut client = carrick.connect();
    client.send("GET /a?b=c HTTP/1.1\r\nHost: a.example\r\nX-One: 1\r\n\r\n");
    let mut upstream = server.accept();
    let head = upstream.read_head();
    assert!(head.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("X-One: 1\r\n"), "{head}");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Two: 2\r\n\r\nhello");
    let response = client.read_response("GET");
    assert_eq!((response.status, response.text().as_str()), (200, "hello"));
    assert_eq!(response.field("x-two").as_deref(), Some("2"));
    let line = &carrick.access_log(1)[0];
    assert_eq!(
        (line.text("method"), line.text("target"), line.status()),
        ("GET", "/a?b=c", 200)
    );
    assert_eq!(line.text("server"), server.address().to_string());
    assert_eq!(
        (
            line.text("upstream"),
            line.number("sent"),
            line.number("received")
        ),
        ("u", 5, 0)
    );
    assert_eq!(
        (line.text("ended"), line.text("mode")),
        ("complete", "switch")
    );
    for time in ["connect", "first_byte", "total"] {
        assert!(
            line.value(time)
                .as_f64()
                .is_some_and(|seconds| seconds >= 0.0),
            "{line:?}"
        );
    }
}

#[test]
fn the_access_log_goes_to_standard_output_in_the_combined_format() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[log]\naccess = \"stdout\"\nformat = \"combined\"",
    );
    let mut client = carrick.connect();
    client.send(
        "GET /x HTTP/1.1\r\nHost: a\r\nReferer: http://b/\"\\\r\nUser-Agent: play \u{e9}\r\n\r\n",
    );
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.read_response("GET").text(), "ok");
    drop(client);
    let output = carrick.stop().standard_output;
    let [line] = output.lines().collect::<Vec<_>>()[..] else {
        panic!("expected one line: {output:?}")
    };
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    let request =
        "] \"GET /x HTTP/1.1\" 200 2 \"http://b/\\x22\\x5C\" \"play \\xC3\\xA9\" mode=switch ";
    assert!(
        line.to_lowercase().contains(&request.to_lowercase()),
        "{line}"
    );
    assert!(
        line.contains(&format!(" upstream=u server={} ", server.address())),
        "{line}"
    );
}

#[test]
fn connections_and_bytes_are_counted_on_both_sides() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &server, "[workers]\ncount = 1");
    let mut upstream = None;
    for close in ["", "Connection: close\r\n"] {
        let mut client = carrick.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        let upstream = upstream.get_or_insert_with(|| server.accept());
        upstream.read_head();
        upstream.expect("abc");
        upstream.send(format!(
            "HTTP/1.1 200 OK\r\n{close}Content-Length: 5\r\n\r\nhello"
        ));
        assert_eq!(client.read_response("POST").text(), "hello");
        let open = if close.is_empty() { 1.0 } else { 0.0 };
        carrick.wait_until_metric("carrick_upstream_connections_open", &[], open);
    }
    for name in [
        "carrick_client_bytes_total",
        "carrick_upstream_bytes_total",
        "carrick_server_bytes_total",
    ] {
        assert_eq!(carrick.wait_for_metric(name, &[], 16.0), 16.0, "{name}");
    }
    assert_eq!(
        carrick.metric("carrick_upstream_connections_opened_total", &[]),
        1.0
    );
    assert_eq!(carrick.metric("carrick_server_requests_total", &[]), 2.0);
    carrick.wait_until_metric("carrick_server_active", &[], 0.0);
}
