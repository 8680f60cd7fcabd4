//! Connections that are lost at any moment: received bytes are a prefix of the sent ones, the other side notices, and nothing leaks.
use super::{ENGINES, switch, tunnel};
use crate::support::random::Random;
use crate::support::{Ending, Peer, Place, Server, wait_until};
use std::sync::Mutex;

const BODY_BYTES: usize = 600_000;

fn body() -> Vec<u8> {
    Random::new(99).bytes(BODY_BYTES)
}

/// One side sends, and one of the two resets after some bytes. The received bytes are a prefix of the sent ones.
#[test]
fn a_tunnel_that_is_reset_at_any_moment_delivers_a_beginning() {
    let expected = body();
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen(&place);
        let carrick = tunnel(&place, engine, server.address());
        let mut random = Random::new(21);
        for round in 0..40 {
            let client = carrick.connect_tunnel();
            let upstream = server.accept();
            let (mut sender, mut reader) = if round % 2 == 0 {
                (client, upstream)
            } else {
                (upstream, client)
            };
            let at = random.below(BODY_BYTES);
            let resets_sender = random.below(2) == 0;
            let bytes = expected.clone();
            let sending = std::thread::spawn(move || {
                let result = sender.try_send(&bytes[..if resets_sender { at } else { BODY_BYTES }]);
                if resets_sender {
                    sender.reset();
                    return result.is_ok();
                }
                // The reader is gone: sending fails, or the connection has ended.
                result.is_err()
                    || !matches!(sender.read_ending(), Ending::Closed(rest) if !rest.is_empty())
            });
            if resets_sender {
                let ending = reader.read_ending();
                assert!(
                    matches!(ending, Ending::Reset(_)),
                    "{engine}, round {round}: a reset must not look like an end"
                );
                assert!(
                    expected.starts_with(ending.bytes()),
                    "{engine}, round {round}: other bytes came"
                );
            } else {
                let came = reader.read_exact(at);
                assert!(
                    expected.starts_with(&came),
                    "{engine}, round {round}: other bytes came"
                );
                reader.reset();
            }
            assert!(sending.join().expect("no panic"));
        }
        carrick.wait_until_clients(0);
        assert_eq!(carrick.metric("carrick_tunnels_open", &[]), 0.0);
        assert_eq!(carrick.metric("carrick_copy_buffers_in_use", &[]), 0.0);
    }
}

/// Many at once, in both directions, each ended by either side at some moment; afterwards another one must work.
#[test]
fn many_tunnels_that_are_reset_at_random_leave_nothing_behind() {
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen(&place);
        let address = server.address();
        let carrick = tunnel(&place, engine, address);
        // A worker that has served a client has started.
        drop((carrick.connect_tunnel(), server.accept()));
        carrick.wait_until_clients(0);
        let before = carrick.descriptors();
        let kept = Mutex::new(Vec::new());
        let serving = server.serve(move |peer, number| act(peer, 1000 + number as u64));
        std::thread::scope(|scope| {
            for number in 0..64 {
                let (carrick, kept) = (&carrick, &kept);
                scope.spawn(move || {
                    for round in 0..3 {
                        act(carrick.connect_tunnel(), 64 * round + number);
                    }
                    kept.lock().expect("no panic").push(number);
                });
            }
        });
        assert_eq!(kept.lock().expect("no panic").len(), 64);
        drop(serving);
        carrick.wait_until_clients(0);
        assert_eq!(carrick.metric("carrick_tunnels_open", &[]), 0.0);
        assert_eq!(carrick.metric("carrick_copy_buffers_in_use", &[]), 0.0);
        let pooled = carrick.metric("carrick_pipes_pooled", &[]) as usize;
        assert_eq!(carrick.metric("carrick_pipes_open", &[]) as usize, pooled);
        wait_until("the descriptors to be closed", || {
            carrick.descriptors() <= before + 2 * pooled + 4
        });
        let again = Server::listen_at(address);
        let mut client = carrick.connect_tunnel();
        let mut upstream = again.accept();
        client.send("still there?");
        upstream.expect("still there?");
        upstream.send("yes");
        client.expect("yes");
    }
}

/// Sends and reads, and ends in one of several ways, according to `seed`.
fn act(mut peer: Peer, seed: u64) {
    let mut random = Random::new(seed);
    let bytes = random.bytes(1 + random.clone().below(200_000));
    peer.stream()
        .set_read_timeout(Some(std::time::Duration::from_millis(
            1 + random.below(50) as u64,
        )))
        .expect("a time-out");
    peer.stream()
        .set_write_timeout(Some(std::time::Duration::from_millis(100)))
        .expect("a time-out");
    for piece in bytes.chunks(1 + random.below(40_000)) {
        if peer.try_send(piece).is_err() {
            break;
        }
        let _ = std::io::Read::read(&mut peer.stream(), &mut vec![0; 1 + random.below(100_000)]);
    }
    match random.below(4) {
        0 => peer.reset(),
        1 => {
            let _ = peer.stream().shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut peer.stream(), &mut std::io::sink());
        }
        2 => {
            let _ = peer.stream().shutdown(std::net::Shutdown::Both);
        }
        _ => drop(peer),
    }
}

/// Responses that are cut at any byte: the client never takes a part for the whole.
#[test]
fn a_response_that_is_cut_at_any_byte_is_seen_to_be_cut() {
    let content = body();
    for engine in ENGINES {
        let place = Place::claim();
        let server = Server::listen(&place);
        let carrick = switch(&place, engine, server.address());
        let mut random = Random::new(31);
        for round in 0..40 {
            let mut client = carrick.connect();
            // A POST is not retried, wherever the response is cut.
            client.send("POST / HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut upstream = server.accept();
            upstream.read_head();
            let is_chunked = round % 2 == 0;
            let mut bytes = if is_chunked {
                format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n",
                    content.len()
                )
                .into_bytes()
            } else {
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                    content.len()
                )
                .into_bytes()
            };
            let head_bytes = bytes.len();
            bytes.extend_from_slice(&content);
            if is_chunked {
                bytes.extend_from_slice(b"\r\n0\r\n\r\n");
            }
            let cut = match round % 4 {
                0 | 1 => random.below(head_bytes),
                _ => random.below(bytes.len()),
            };
            let with_reset = random.below(2) == 0;
            let sending = std::thread::spawn(move || {
                let _ = upstream.try_send(&bytes[..cut]);
                if with_reset {
                    upstream.reset();
                }
            });
            // The client closes its side, so that the connection also closes after a 502.
            let _ = client.stream().shutdown(std::net::Shutdown::Write);
            let ending = client.read_ending();
            sending.join().expect("no panic");
            let came = ending.bytes();
            if came.starts_with(b"HTTP/1.1 502 ") {
                // No part of the response was relayed.
                continue;
            }
            let start = crate::support::message::head_end(came).unwrap_or(came.len());
            let is_whole = came.ends_with(b"\r\n0\r\n\r\n")
                || (!is_chunked && came.len() - start >= content.len());
            assert!(
                !is_whole,
                "{engine}, round {round}: cut at {cut}, but complete for the client"
            );
        }
    }
}
