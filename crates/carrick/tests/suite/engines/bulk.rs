//! Many bytes, many connections, small buffers, slow readers: compares hashes of sent and received bytes.
use super::{ENGINES, forward, switch, tunnel};
use crate::support::random::{Random, hash};
use crate::support::{Carrick, Peer, Place, Server};
use std::time::Duration;

/// How one end of a connection behaves.
#[derive(Debug, Clone, Copy)]
struct Manner {
    /// Total bytes that it sends.
    bytes: usize,
    /// Most bytes sent or read at once.
    piece_bytes: usize,
    /// Whether it pauses occasionally.
    is_slow: bool,
}

impl Manner {
    fn any(random: &mut Random) -> Self {
        Self {
            bytes: [0, 1, 1000, 65_536, 70_001, 400_000, 1 << 20][random.below(7)],
            piece_bytes: [1 << 20, 64 * 1024, 4096, 1500][random.below(4)],
            is_slow: random.below(3) == 0,
        }
    }
}

/// Sends bytes derived from `seed`, closes its side, reads until the other end closes; returns the hash of what it read.
fn converse(mut peer: Peer, seed: u64, manner: Manner) -> [u8; 32] {
    let mut sender = peer.second();
    let sending = std::thread::spawn(move || {
        let mut random = Random::new(seed ^ 0x5eed);
        let bytes = Random::new(seed).bytes(manner.bytes);
        for piece in bytes.chunks(manner.piece_bytes) {
            sender.send(piece);
            if manner.is_slow && random.below(8) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        sender.half_close();
    });
    let mut random = Random::new(seed ^ 0xbeef);
    let mut came = peer.take_ahead();
    let mut buffer = vec![0; manner.piece_bytes];
    loop {
        let count = std::io::Read::read(&mut peer.stream(), &mut buffer).expect("bytes or an end");
        if count == 0 {
            break;
        }
        came.extend_from_slice(&buffer[..count]);
        if manner.is_slow && random.below(8) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    sending.join().expect("no panic");
    hash(&came)
}

/// `count` connections at once, each side with its own manner and bytes. The client sends its number in four bytes
/// first.
fn play(server: Server, count: usize, seed: u64, connect: impl Fn(usize) -> Peer + Sync) {
    let manners: Vec<[Manner; 2]> = {
        let mut random = Random::new(seed);
        (0..count)
            .map(|_| [Manner::any(&mut random), Manner::any(&mut random)])
            .collect()
    };
    let of_client = move |number: usize| seed + 2 * number as u64;
    let of_server = move |number: usize| seed + 2 * number as u64 + 1;
    let theirs = manners.clone();
    let expected = move |seed: u64, manner: Manner| hash(&Random::new(seed).bytes(manner.bytes));
    let serving = server.serve(move |mut peer, _| {
        let number =
            u32::from_be_bytes(peer.read_exact(4).try_into().expect("four bytes")) as usize;
        let rest = peer.take_ahead();
        assert!(rest.is_empty(), "the client waits for the answer");
        peer.send([b'!']);
        let [client, server] = theirs[number];
        let came = converse(peer, of_server(number), server);
        assert_eq!(
            came,
            expected(of_client(number), client),
            "connection {number}, up: {client:?}, {server:?}"
        );
    });
    std::thread::scope(|scope| {
        for (number, [client, server]) in manners.iter().copied().enumerate() {
            let connect = &connect;
            scope.spawn(move || {
                let mut peer = connect(number);
                peer.send(u32::try_from(number).expect("a small number").to_be_bytes());
                peer.expect(b"!");
                let came = converse(peer, of_client(number), client);
                assert_eq!(
                    came,
                    expected(of_server(number), server),
                    "connection {number}, down: {client:?}, {server:?}"
                );
            });
        }
    });
    assert_eq!(serving.accepted(), count);
}

#[test]
fn seventy_tunnels_at_once_carry_what_they_are_given() {
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen(&place);
        let carrick = tunnel(&place, engine, server.address());
        play(server, 70, 11, |_| carrick.connect_tunnel());
        expect_counted(&carrick, 70);
    }
}

#[test]
fn tunnels_with_tiny_buffers_carry_what_they_are_given() {
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen_with_buffers(&place, 2048);
        let carrick = tunnel(&place, engine, server.address());
        play(server, 16, 12, |number| match number % 2 {
            0 => Peer::connect_with_buffers(carrick.tunnel_address(), 2048),
            _ => carrick.connect_tunnel(),
        });
        expect_counted(&carrick, 16);
    }
}

#[test]
fn connects_carry_what_they_are_given() {
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen(&place);
        let address = server.address();
        let carrick = forward(&place, engine);
        play(server, 24, 13, |_| {
            let mut client = carrick.connect_forward();
            client.send(format!(
                "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n"
            ));
            assert!(client.read_head().starts_with("HTTP/1.1 200 "));
            client
        });
        expect_counted(&carrick, 24);
    }
}

/// Checks every tunnel's line in the log, and the total of bytes.
fn expect_counted(carrick: &Carrick, count: usize) {
    let lines = carrick.access_log(count);
    assert_eq!(lines.len(), count);
    assert!(
        lines.iter().all(|line| line.text("ended") == "complete"),
        "{lines:?}"
    );
    assert_eq!(carrick.metric("carrick_tunnels_open", &[]), 0.0);
}

/// Bodies of all sizes around the limits at which the path changes, each on a kept connection.
#[test]
fn bodies_of_every_size_are_the_same_with_every_engine() {
    const KB: usize = 1024;
    let mut sizes = vec![0, 1, 2, 100, 4095, 4096, 4097];
    for middle in [
        8 * KB,
        16 * KB,
        32 * KB,
        64 * KB,
        128 * KB,
        256 * KB,
        1024 * KB,
    ] {
        sizes.extend([middle - 1, middle, middle + 1]);
    }
    for engine in ENGINES {
        let place = Place::claim();
        let serving = Server::listen(&place).serve(|mut peer, _| {
            while peer.waits_for_head() {
                let head = peer.read_head();
                let length = crate::support::message::field(&head, "content-length")
                    .map_or(0, |text| text.parse().expect("a length"));
                let body = peer.read_exact(length);
                let mut response =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
                response.extend(body.iter().rev());
                peer.send(response);
            }
        });
        let carrick = switch(&place, engine, serving.address());
        std::thread::scope(|scope| {
            for client_number in 0..4 {
                let (carrick, sizes) = (&carrick, &sizes);
                scope.spawn(move || {
                    let mut client = carrick.connect();
                    for (number, size) in sizes.iter().enumerate() {
                        let mut body =
                            Random::new((client_number * 1000 + number) as u64).bytes(*size);
                        client.send(format!(
                            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n"
                        ));
                        client.send(&body);
                        let response = client.read_response("POST");
                        body.reverse();
                        assert!(response.body == body, "{engine}: {size} bytes");
                    }
                });
            }
        });
    }
}

/// Until close, with all engines: the end of the connection is the body's end.
#[test]
fn bodies_until_close_are_whole() {
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen(&place);
        let carrick = switch(&place, engine, server.address());
        for size in [0, 1, 5000, 65_536, 1_000_001] {
            let body = Random::new(size as u64).bytes(size);
            let (mut client, mut upstream) =
                carrick.asked(&server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let sent = body.clone();
            let sending = std::thread::spawn(move || {
                upstream.send("HTTP/1.1 200 OK\r\n\r\n");
                upstream.send(sent);
            });
            let response = client.read_response("GET");
            assert_eq!(hash(&response.body), hash(&body), "{engine}: {size}");
            sending.join().expect("no panic");
        }
    }
}
