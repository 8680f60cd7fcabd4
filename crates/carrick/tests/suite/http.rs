//! The way of one request through the switch, and back.
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
}
