//! Which idle connections may carry another request.

use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;
use tokio::net::TcpStream;

/// An early byte would be taken for the response to the next request, which may be another client's.
#[tokio::test(flavor = "current_thread")]
async fn a_connection_on_which_something_has_come_is_not_taken_though_the_runtime_does_not_know() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let stream = TcpStream::connect(address).await.expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    let mut idle = IdleConnections::default();
    let now = Instant::now();
    idle.put(Upstream::new(stream, address, 0), 1, now);
    let taken = idle.take(|_| true).expect("nothing has come");
    idle.put(taken, 1, now);
    server
        .write_all(b"HTTP/1.1 200 OK\r\n\r\n")
        .expect("a socket");
    // On loopback it arrives at once. The runtime sees no event before this test waits.
    assert!(idle.take(|_| true).is_none());
}

/// So its port is free at once, also after the process has ended.
#[tokio::test(flavor = "current_thread")]
async fn idle_connections_are_reset_however_they_are_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let now = Instant::now();
    let closings: [fn(&mut IdleConnections, Instant); 4] = [
        |idle, now| idle.close_stale(now, Duration::ZERO),
        |idle, _| assert!(idle.close_oldest()),
        |idle, _| *idle = IdleConnections::default(),
        // It is at rest no more.
        |idle, _| drop(idle.take(|_| true).expect("nothing has come")),
    ];
    for (number, close) in closings.into_iter().enumerate() {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (mut server, _) = listener.accept().expect("a connection");
        let mut upstream = Upstream::new(stream, address, 0);
        upstream.is_at_rest = true;
        let mut idle = IdleConnections::default();
        idle.put(upstream, 1, now);
        close(&mut idle, now);
        let is_reset = server.read(&mut [0]).is_err();
        assert_eq!(is_reset, number < 3, "{number}");
    }
}

/// Thousands of requests at a time may have a connection each; their servers have them back soon.
#[tokio::test(flavor = "current_thread")]
async fn what_a_burst_has_left_behind_is_closed_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (now, age_max) = (Instant::now(), Duration::from_secs(60));
    let mut idle = IdleConnections::default();
    for _ in 0..LONG_MAX + 2 {
        let stream = TcpStream::connect(address).await.expect("a connection");
        idle.put(Upstream::new(stream, address, 0), 1000, now);
    }
    let counts = [4, 6, 59, 61].map(|age_s| {
        idle.close_stale(now + Duration::from_secs(age_s), age_max);
        idle.len()
    });
    assert_eq!(counts, [LONG_MAX + 2, LONG_MAX, LONG_MAX, 0]);
}
