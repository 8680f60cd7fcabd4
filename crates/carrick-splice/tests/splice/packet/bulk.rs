//! Many bytes at once: windows, and wrapping numbers.

use super::bed::*;
use crate::support::*;
use carrick_splice::ExchangeEnd;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

#[test]
fn a_slow_reader_closes_and_opens_the_window() {
    const BYTES: usize = 4_000_000;
    let Some(bed) = Bed::new() else {
        return;
    };
    let serving = bed.serve(V4[1], 1, |mut stream| {
        SockRef::from(&stream).set_recv_buffer_size(40_000).unwrap();
        greet_back(&mut stream);
        let mut random = Random::new(5);
        let mut read = Vec::new();
        let mut buffer = vec![0; 200_000];
        let mut pauses = 0;
        loop {
            if random.below(4) == 0 && pauses < 40 {
                pauses += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            let piece = 1 + random.below(buffer.len());
            match stream.read(&mut buffer[..piece]).unwrap() {
                0 => break,
                bytes => read.extend_from_slice(&buffer[..bytes]),
            }
        }
        assert_same(&read, &sample(3, BYTES), "what the server read");
    });
    let proxying = bed.tunnels(V4, 1);
    let sending = bed.on(Host::Client, || {
        let mut stream = connect(V4[0]);
        greet(&mut stream);
        stream.write_all(&sample(3, BYTES)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    sending.join().unwrap();
    serving.join().unwrap();
    proxying.join().unwrap()[0].assert_closed((GREETING + BYTES as u64, GREETING));
}

/// Sends this many bytes, whose values depend on their position.
fn send(stream: &mut TcpStream, bytes: u64) {
    let piece = pattern();
    let mut left = bytes;
    while left > 0 {
        let now = left.min(piece.len() as u64) as usize;
        stream.write_all(&piece[..now]).unwrap();
        left -= now as u64;
    }
}

/// Pieces whose length is not a power of two, so that wrapping errors show.
fn pattern() -> Vec<u8> {
    sample(9, 1_000_003)
}

fn receive_all(stream: &mut TcpStream) -> u64 {
    let piece = pattern();
    let mut buffer = vec![0; piece.len()];
    let mut sum = 0;
    loop {
        let mut filled = 0;
        while filled < buffer.len() {
            match stream.read(&mut buffer[filled..]).unwrap() {
                0 => {
                    assert!(buffer[..filled] == piece[..filled], "after {sum}");
                    return sum + filled as u64;
                }
                bytes => filled += bytes,
            }
        }
        assert!(buffer == piece, "after {sum}");
        sum += filled as u64;
    }
}

fn one_large_tunnel(bytes: u64) {
    let Some(bed) = Bed::new() else { return };
    let serving = bed.serve(V4[1], 1, move |mut stream| {
        greet_back(&mut stream);
        let read = receive_all(&mut stream);
        send(&mut stream, 5000);
        read
    });
    let proxying = bed.tunnels(V4, 1);
    let sending = bed.on(Host::Client, move || {
        let mut stream = connect(V4[0]);
        greet(&mut stream);
        send(&mut stream, bytes);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(receive_all(&mut stream), 5000);
    });
    sending.join().unwrap();
    assert_eq!(serving.join().unwrap(), [bytes]);
    let told = proxying.join().unwrap().remove(0);
    assert!(matches!(told.end, ExchangeEnd::Closed), "{told:?}");
    assert_eq!(told.bytes, (bytes + GREETING, 5000 + GREETING), "{told:?}");
    assert!(told.by_kernel >= bytes, "{told:?}");
}

#[test]
fn a_hundred_megabytes_go_through() {
    one_large_tunnel(100_000_000);
}

#[test]
#[ignore = "takes many seconds on a busy machine; the tables have the numbers that wrap"]
fn more_than_4_gib_go_through() {
    one_large_tunnel((4 << 30) + 700_000_000);
}

/// Longer than IPv6's own length field can say (BIG TCP): the kernel tells it by an option of its own.
#[test]
fn packets_longer_than_64_kilobytes_go_whole() {
    const BYTES: u64 = 200_000_000;
    let Some(bed) = Bed::new() else { return };
    for (host, interface) in INTERFACES {
        let most = format!("link set {interface} gso_max_size 200000 gro_max_size 200000");
        bed.ip(host, &most);
    }
    let serving = bed.serve(V6[1], 1, |mut stream| {
        greet_back(&mut stream);
        receive_all(&mut stream)
    });
    let proxying = bed.tunnels(V6, 1);
    let sending = bed.on(Host::Client, || {
        let mut stream = connect(V6[0]);
        greet(&mut stream);
        send(&mut stream, BYTES);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    sending.join().unwrap();
    assert_eq!(serving.join().unwrap(), [BYTES]);
    proxying.join().unwrap()[0].assert_closed((GREETING + BYTES, GREETING));
}
