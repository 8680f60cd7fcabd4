//! Heads that are too long, in total or in a part.
use super::send_what_it_takes;
use crate::support::carrick::switch_text;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server};

#[test]
fn heads_that_are_too_long_are_refused_as_what_they_are() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = switch_text(&[server.address()]);
    let carrick = Carrick::start(
        &place,
        &format!("[workers]\ncount = 1\n[limits]\nrequest_head = 4096\nheaders = 20\n{text}"),
    );
    let line = |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(bytes));
    let value = |bytes: usize| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
            "b".repeat(bytes)
        )
    };
    let fields = |count: usize| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "X: 1\r\n".repeat(count - 1)
        )
    };
    // The longest allowed one passes: the limit applies to the whole head.
    let longest = line(4096 - line(0).len());
    assert_eq!(longest.len(), 4096);
    let most = fields(20);
    let serving = server.serve(|peer, _| {
        answer_requests(peer, |_| b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
    });
    for (what, status, request) in [
        ("the longest line", 204, longest.clone()),
        ("the most fields", 204, most),
        (
            "a line one byte longer",
            414,
            longest.replace("aaa ", "aaaa "),
        ),
        ("a line far too long", 414, line(1_000_000)),
        ("a value too long", 431, value(5000)),
        ("a value far too long", 431, value(1_000_000)),
        ("one field too many", 431, fields(21)),
        ("far too many fields", 431, fields(100_000)),
    ] {
        let mut client = carrick.connect();
        send_what_it_takes(&mut client, request.as_bytes(), 4096);
        if status == 204 {
            assert_eq!(client.read_response("GET").status, 204, "{what}");
            continue;
        }
        let response = client.read_response("GET");
        // A line that fits within a head that does not: the head is too long.
        let wanted = if what == "a line one byte longer" {
            [414, 431]
        } else {
            [status; 2]
        };
        assert!(
            wanted.contains(&response.status),
            "{what}: {}",
            response.head
        );
        // A client that sends more than is read may be reset, but only after it got the response.
        assert!(client.read_ending().bytes().is_empty(), "{what}");
    }
    assert!(carrick.limit_reached("head_bytes") >= 2.0);
    assert!(carrick.limit_reached("head_fields") >= 2.0);
    assert_eq!(
        serving.accepted(),
        1,
        "one connection served all valid requests"
    );
}

#[test]
fn a_line_without_end_is_refused_without_waiting_for_its_end() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::switch(&place, &[server.address()]);
    for (start, filler, status) in [
        ("GET /", "a", 414),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: ", "b", 431),
        ("GET / HTTP/1.1\r\nHost: a\r\nX", "c", 431),
    ] {
        let mut client = carrick.connect();
        client.send(start);
        let filler = filler.repeat(70 * 1024);
        let _ = client.try_send(&filler);
        // No line end was sent.
        let response = client.read_response("GET");
        assert_eq!(response.status, status, "{start}: {}", response.head);
    }
    server.expect_no_connection();
}
