//! Which idle connections may carry another request.

use super::*;
use std::io::Write;
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
    let taken = idle.take().expect("nothing has come");
    idle.put(taken, 1, now);
    server
        .write_all(b"HTTP/1.1 200 OK\r\n\r\n")
        .expect("a socket");
    // On loopback it arrives at once. The runtime sees no event before this test waits.
    assert!(idle.take().is_none());
}
