//! The way of one request through the switch, and back: what of its head stays, goes and comes.
mod fields;
mod limits;

use crate::support::{Carrick, Place, Server};

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
