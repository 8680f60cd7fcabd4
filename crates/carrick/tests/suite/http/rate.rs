//! The minimum rate of clients.
use super::{GET, start};
use crate::support::{Peer, Place, Server};
use std::time::{Duration, Instant};

#[test]
fn a_body_slower_than_rate_min_is_cut_off() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[limits]\nrate_min = \"10 KB\"\n[timeouts]\nhead = \"3s\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    // The bytes arrive steadily, so that the idle time-out does not apply.
    let mut clients = [
        "Content-Length: 1000000\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffff\r\n",
        "Transfer-Encoding: chunked\r\n\r\n",
    ]
    .map(|framing| {
        let (client, upstream) =
            carrick.asked(&server, format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}"));
        let mut sender = client.second();
        let is_small_chunks = framing.ends_with("chunked\r\n\r\n");
        let sending = std::thread::spawn(move || {
            let block: &[u8] = if is_small_chunks {
                b"a\r\n0123456789\r\n"
            } else {
                b"0123456789"
            };
            let begun = Instant::now();
            while sender.try_send(block).is_ok() && begun.elapsed() < crate::support::PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        (framing, client, upstream, sending)
    });
    for (framing, client, ..) in &mut clients {
        let response = client.read_response("POST");
        assert_eq!(response.status, 408, "{framing:?}");
    }
    for (_, client, mut upstream, sending) in clients {
        drop(client);
        sending.join().expect("no panic");
        let _ = upstream.read_ending();
    }
    assert_eq!(carrick.limit_reached("rate_min"), 3.0);
}

#[test]
fn a_body_faster_than_rate_min_is_not_cut_off() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[limits]\nrate_min = \"1 KB\"\n[timeouts]\nhead = \"3s\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    let mut client = carrick.connect();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 700000\r\n\r\n";
    // The first bytes are enough for many seconds, in which a busy machine may do other work.
    client.send([head.as_bytes(), &[b'x'; 50_000][..]].concat());
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.expect([b'x'; 50_000]);
    // For longer than the grace period.
    for _ in 5..70 {
        client.send([b'x'; 10_000]);
        upstream.expect([b'x'; 10_000]);
        std::thread::sleep(Duration::from_millis(50));
    }
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("POST").status, 204);
}

#[test]
fn a_reader_slower_than_rate_min_is_cut_off() {
    let place = Place::claim();
    let server = Server::listen_with_buffers(&place, 4096);
    let carrick = start(
        &place,
        &server,
        "[limits]\nrate_min = \"1 MB\"\n[timeouts]\nhead = \"3s\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    let mut client = Peer::connect_with_buffers(carrick.listener(), 4096);
    client.send(GET);
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    let sending = std::thread::spawn(move || {
        let block = vec![b'x'; 64 * 1024];
        while upstream.try_send(&block).is_ok() {}
    });
    client.read_head();
    let begun = Instant::now();
    while !sending.is_finished() && begun.elapsed() < crate::support::PATIENCE {
        let _ = std::io::Read::read(&mut client.stream(), &mut [0; 1000]);
        std::thread::sleep(Duration::from_millis(20));
    }
    sending.join().expect("no panic");
    let line = &carrick.access_log(1)[0];
    assert_eq!(line.text("ended"), "too_slow");
    assert_eq!(carrick.limit_reached("rate_min"), 1.0);
}

/// The minimum rate applies to clients, not to a server that streams slowly.
#[test]
fn a_slow_server_is_not_held_to_rate_min() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(
        &place,
        &server,
        "[limits]\nrate_min = \"1 MB\"\n[timeouts]\nhead = \"3s\"\nidle = \"60s\"\ndrain = \"1s\"",
    );
    let mut responses = [
        ("Content-Length: 100", "0123456789", ""),
        (
            "Transfer-Encoding: chunked",
            "a\r\n0123456789\r\n",
            "0\r\n\r\n",
        ),
        ("Content-Length: 1000000", "0123456789", ""),
    ]
    .map(|(framing, piece, end)| {
        let (mut client, mut upstream) = carrick.asked(&server, GET);
        upstream.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
        client.read_head();
        (client, upstream, piece, end)
    });
    // For longer than the grace period.
    for _ in 0..10 {
        for (client, upstream, piece, _) in &mut responses {
            upstream.send(*piece);
            client.expect(*piece);
        }
        std::thread::sleep(Duration::from_millis(350));
    }
    for (mut client, mut upstream, _, end) in responses {
        upstream.send(end);
        client.expect(end);
    }
    assert_eq!(carrick.limit_reached("rate_min"), 0.0);
}
