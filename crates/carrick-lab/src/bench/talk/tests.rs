//! Tests of both ends, against each other on loopback.

use super::*;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

fn serve(talk: Talk) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || server::serve_on(&listener, talk));
    address
}

#[test]
fn messages_are_counted_and_timed() {
    let address = serve(Talk::PingPong);
    for bytes in [1, 64, 1024, 60_000] {
        let time = Duration::from_millis(20);
        let measured = client::run((address, None), Talk::PingPong, 2, bytes, time).unwrap();
        assert!(measured.requests >= 2);
        assert_eq!(measured.bytes, measured.requests * bytes as u64);
        assert!(measured.duration_us >= 20_000);
        let latency = measured.latency_us;
        assert!(latency.p50 > 0.0 && latency.p50 <= latency.p99 && latency.p99 <= latency.max);
    }
}

#[test]
fn even_without_time_there_is_one_message_on_each_connection() {
    let address = serve(Talk::PingPong);
    let measured = client::run((address, None), Talk::PingPong, 3, 64, Duration::ZERO).unwrap();
    assert_eq!((measured.requests, measured.bytes), (3, 3 * 64));
}

#[test]
fn a_stream_brings_the_file_again_and_again() {
    let address = serve(Talk::Stream);
    // Longer each time, until something arrives in time.
    let times = (1..).map(|times| Duration::from_millis(200) * times);
    let mut runs =
        times.map(|time| client::run((address, None), Talk::Stream, 2, 0, time).unwrap());
    let measured = runs.find(|measured| measured.bytes > 0).unwrap();
    assert_eq!(measured.latency_us.max, 0.0);

    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let mut read = vec![0; (16 << 20) + 1000];
    stream.read_exact(&mut read).unwrap();
    assert!(
        read.iter()
            .enumerate()
            .all(|(index, byte)| *byte == index as u8)
    );
}

#[test]
fn each_page_has_a_connection_of_its_own() {
    let address = serve(Talk::Pages);
    let time = Duration::from_millis(20);
    let measured = client::run((address, None), Talk::Pages, 2, 0, time).unwrap();
    let page: usize = PAGE.iter().map(|(_, answered)| answered).sum();
    assert!(measured.requests >= 2);
    assert_eq!(measured.bytes, measured.requests * page as u64);
}

#[test]
fn wrong_bytes_and_connections_that_end_are_told() {
    let listener = carrick_test::listen("127.0.0.1:0");
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut wrong = listener.accept().unwrap().0;
        let _ = wrong.write_all(&[1; 64]);
        let ending = listener.accept().unwrap().0;
        drop(ending);
        drop(listener.accept());
        let _ = wrong.read_to_end(&mut Vec::new());
    });
    for (talk, part) in [
        (Talk::PingPong, "other bytes came back"),
        (Talk::PingPong, "nothing came back"),
        (Talk::Stream, "the stream ended"),
    ] {
        let error = client::run((address, None), talk, 1, 64, Duration::ZERO).unwrap_err();
        assert!(format!("{error:#}").contains(part), "{error:#}");
    }
}
