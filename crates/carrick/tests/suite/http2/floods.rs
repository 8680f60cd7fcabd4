//! Clients that make work, and nothing else (RFC 9113 section 10.5).
use super::frames::{
    ACK, Answer, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS,
    PING, RST_STREAM, RawClient, SETTINGS, block, frame, get,
};
use super::{ok_server, start};
use crate::support::carrick::Carrick;
use crate::support::{Place, Server};

/// Sends this again and again, and reads all the while; the error with which the connection is closed.
fn flood(carrick: &Carrick, begins: &[u8], mut next: impl FnMut(u32) -> Vec<u8>) -> Option<u32> {
    let mut client = RawClient::connect(carrick.listener(), b"");
    client.peer.send(begins);
    let mut writer = client.peer.second();
    let bytes: Vec<u8> = (0..20_000).flat_map(&mut next).collect();
    let writing = std::thread::spawn(move || {
        // The connection is closed in the midst of it.
        let _ = writer.try_send(bytes);
    });
    let mut error = None;
    while error.is_none()
        && let Some(frame) = client.read()
    {
        error = (frame.kind == GOAWAY).then(|| frame.error());
    }
    // Ends the writer's wait, too.
    client.peer.reset();
    writing.join().expect("the writer");
    error
}

fn still_serves(carrick: &Carrick) {
    let mut client = RawClient::connect(carrick.listener(), b"");
    client.ask(1, &get("/"));
    assert_eq!(client.read_answer(1), Answer::Status(200, b"ok".to_vec()));
}

#[test]
fn floods_end_their_connection() {
    let place = Place::claim();
    let server = ok_server(&place);
    let carrick = start(&place, &[server.address()]);
    let headers = frame(HEADERS, END_HEADERS, 1, &block(&get("/")));
    let open = frame(HEADERS, 0, 1, &block(&get("/")));
    type Next = Box<dyn FnMut(u32) -> Vec<u8>>;
    let floods: [(&str, &[u8], Next); 5] = [
        ("PING", b"", Box::new(|_| frame(PING, 0, 0, &[0; 8]))),
        ("SETTINGS", b"", Box::new(|_| frame(SETTINGS, 0, 0, b""))),
        (
            "PRIORITY",
            b"",
            Box::new(|_| frame(2, 0, 1, &[0, 0, 0, 3, 1])),
        ),
        ("empty DATA", &headers, Box::new(|_| frame(DATA, 0, 1, b""))),
        (
            "CONTINUATION",
            &open,
            Box::new(|_| frame(CONTINUATION, 0, 1, b"")),
        ),
    ];
    for (name, begins, next) in floods {
        let error = flood(&carrick, begins, next);
        assert_eq!(error, Some(ENHANCE_YOUR_CALM), "{name}");
    }
    still_serves(&carrick);
    assert!(carrick.limit_reached("http2_flood") > 2.5);
}

#[test]
fn requests_that_are_taken_back_at_once_end_the_connection() {
    let place = Place::claim();
    let server = ok_server(&place);
    let carrick = start(&place, &[server.address()]);
    let fields = block(&get("/"));
    let error = flood(&carrick, b"", |index| {
        let stream = 2 * index + 1;
        let mut both = frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields);
        both.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        both
    });
    assert_eq!(error, Some(ENHANCE_YOUR_CALM));
    still_serves(&carrick);
}

#[test]
fn a_few_of_them_do_no_harm() {
    let place = Place::claim();
    let server = ok_server(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    for index in 0..50 {
        client.send(PING, 0, 0, &[index; 8]);
        client.send(SETTINGS, 0, 0, b"");
        client.ask(4 * u32::from(index) + 1, &get("/"));
        client.send(
            RST_STREAM,
            0,
            4 * u32::from(index) + 1,
            &8_u32.to_be_bytes(),
        );
        let pong = loop {
            let frame = client.read_kind(PING);
            if frame.flags & ACK != 0 {
                break frame;
            }
        };
        assert_eq!(pong.content, [index; 8]);
    }
    client.ask(1001, &get("/"));
    assert_eq!(
        client.read_answer(1001),
        Answer::Status(200, b"ok".to_vec())
    );
}

#[test]
fn a_server_makes_no_flood_of_interim_responses() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    client.ask(1, &get("/"));
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(1000));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let mut heads = 0;
    loop {
        let frame = client.read().expect("a response");
        heads += u32::from(frame.kind == HEADERS);
        if frame.flags & END_STREAM != 0 && frame.kind == DATA {
            break;
        }
    }
    assert_eq!(heads, 16 + 1);
}

#[test]
fn a_head_that_grows_when_it_is_decompressed_is_refused() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    // A field of 4000 bytes goes into the table, and is named 16 000 times by one byte each.
    let mut bomb = block(&get("/"));
    bomb.extend([0x40, 1, b'x', 127]);
    let length = 4000_usize - 127;
    bomb.extend([
        u8::try_from(length % 128).unwrap() | 128,
        u8::try_from(length / 128).unwrap(),
    ]);
    bomb.extend([b'y'; 4000]);
    bomb.extend([0x80 | 62; 12_000]);
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, &bomb);
    let answer = client.read_answer(1);
    assert!(
        matches!(
            answer,
            Answer::Closed(_) | Answer::Reset(_) | Answer::Status(1, _)
        ),
        "{answer:?}"
    );
    server.expect_no_connection();
}

#[test]
fn a_burst_of_requests_that_are_taken_back_leaves_the_others_alone() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    client.ask(1, &get("/"));
    let mut upstream = server.accept();
    upstream.read_head();
    let fields = block(&get("/"));
    let burst: Vec<u8> = (1..=100)
        .flat_map(|index| {
            let stream = 2 * index + 1;
            let mut both = frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields);
            both.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            both
        })
        .collect();
    client.peer.send(burst);
    client.send(PING, 0, 0, &[7; 8]);
    client.read_kind(PING);
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.read_answer(1), Answer::Status(200, b"ok".to_vec()));
}

#[test]
fn content_in_many_small_frames_is_no_flood() {
    const PIECES: usize = 6000;
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = RawClient::connect(carrick.listener(), b"");
    let mut fields = get("/");
    fields[0].1 = "POST";
    client.send(HEADERS, END_HEADERS, 1, &block(&fields));
    let pieces: Vec<Vec<u8>> = (0..PIECES)
        .map(|index| index.to_be_bytes()[..=index % 8].to_vec())
        .collect();
    let mut frames: Vec<u8> = pieces
        .iter()
        .flat_map(|piece| frame(DATA, 0, 1, piece))
        .collect();
    frames.extend(frame(DATA, END_STREAM, 1, b"end"));
    client.peer.send(frames);
    // Nothing of it was read when all has come.
    client.send(PING, 0, 0, &[7; 8]);
    client.read_kind(PING);
    let mut upstream = server.accept();
    upstream.read_head();
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        while !line.ends_with("\r\n") {
            line.push(char::from(upstream.read_exact(1)[0]));
        }
        let bytes = usize::from_str_radix(line.trim_end(), 16).expect("a size");
        body.extend(upstream.read_exact(bytes));
        upstream.read_exact(2);
        if bytes == 0 {
            break;
        }
    }
    assert_eq!(body, [&pieces.concat()[..], b"end"].concat());
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.read_answer(1), Answer::Status(200, b"ok".to_vec()));
}
