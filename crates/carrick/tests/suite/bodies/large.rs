//! Bodies larger than any buffer, in both directions at once, with every engine.
use super::Stage;
use crate::support::random::{Random, hash};
use crate::support::{Carrick, Peer, Place, Server};

const LARGE_BYTES: usize = 3 << 20;

/// In chunks of odd sizes, some large enough to be spliced.
fn chunked(body: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let size = match random.below(4) {
            0 => 1 + random.below(16),
            1 => 1 + random.below(5000),
            2 => 64 * 1024 + random.below(3) - 1,
            _ => 1 + random.below(300_000),
        };
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        rest = after;
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

fn send_apart(peer: &Peer, bytes: Vec<u8>) -> std::thread::JoinHandle<()> {
    let mut sender = peer.second();
    std::thread::spawn(move || sender.send(bytes))
}

#[test]
fn large_bodies_go_up_and_down_at_the_same_time() {
    let mut random = Random::new(1);
    for engine in ["copy", "pipe", "auto"] {
        let stage = Stage::with(&format!("[splice]\nengine = \"{engine}\""));
        for (up_chunked, down_chunked) in
            [(false, false), (true, true), (false, true), (true, false)]
        {
            let (up, down) = (random.bytes(LARGE_BYTES), random.bytes(LARGE_BYTES + 1));
            let field = |is_chunked: bool, length: usize| match is_chunked {
                true => "Transfer-Encoding: chunked".to_owned(),
                false => format!("Content-Length: {length}"),
            };
            let raw_up = if up_chunked {
                chunked(&up, &mut random)
            } else {
                up.clone()
            };
            let raw_down = if down_chunked {
                chunked(&down, &mut random)
            } else {
                down.clone()
            };
            let request = format!(
                "POST / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n",
                field(up_chunked, up.len())
            );
            let (mut client, mut upstream) = stage.begin(&request);
            let client_sends = send_apart(&client, raw_up.clone());
            upstream.read_head();
            upstream.send(format!(
                "HTTP/1.1 200 OK\r\n{}\r\n\r\n",
                field(down_chunked, down.len())
            ));
            let upstream_sends = send_apart(&upstream, raw_down.clone());
            let reading = std::thread::spawn(move || {
                let came = upstream.read_exact(raw_up.len());
                assert_eq!(hash(&came), hash(&raw_up), "the request's body");
                upstream
            });
            let response = client.read_response("POST");
            assert_eq!(
                hash(&response.body),
                hash(&down),
                "{engine} {up_chunked} {down_chunked}"
            );
            assert_eq!(hash(&response.raw_body), hash(&raw_down));
            client_sends.join().expect("no panic");
            upstream_sends.join().expect("no panic");
            let mut upstream = reading.join().expect("no panic");
            // The response's head went out before the request's body was complete, so the connection closes afterwards.
            client.half_close();
            client.expect_end();
            drop(client);
            let _ = upstream.has_more();
        }
        let lines = stage.carrick.access_log(4);
        for line in lines {
            assert_eq!(line.number("received"), LARGE_BYTES as u64);
            assert_eq!(line.number("sent"), LARGE_BYTES as u64 + 1);
            if engine != "auto" {
                assert_eq!(line.text("engine"), engine);
            }
        }
    }
}

/// An echo that answers while it reads: neither side may wait for the other to finish.
#[test]
fn a_full_duplex_echo_does_not_hang() {
    let stage = Stage::new();
    let (mut client, mut upstream) =
        stage.begin("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.read_head();
    for number in 0..100 {
        let chunk = format!("8\r\n{number:08}\r\n");
        client.send(&chunk);
        upstream.expect(&chunk);
        upstream.send(&chunk);
        client.expect(&chunk);
    }
    client.send("0\r\n\r\n");
    upstream.expect("0\r\n\r\n");
    upstream.send("0\r\n\r\n");
    client.expect("0\r\n\r\n");
}

#[test]
fn a_slow_reader_on_a_small_window_gets_everything() {
    let body = Random::new(2).bytes(1 << 20);
    for engine in ["copy", "pipe"] {
        let place = Place::claim();
        let server = Server::listen_with_buffers(&place, 4096);
        let text = crate::support::carrick::switch_text(&[server.address()]);
        let carrick = Carrick::start(&place, &format!("[splice]\nengine = \"{engine}\"\n{text}"));
        let mut client = Peer::connect_with_buffers(carrick.listener(), 4096);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        let sending = send_apart(&upstream, body.clone());
        client.read_head();
        let mut came = Vec::new();
        while came.len() < body.len() {
            let count = (body.len() - came.len()).min(50_000);
            came.extend(client.read_exact(count));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(hash(&came), hash(&body), "{engine}");
        sending.join().expect("no panic");
    }
}
