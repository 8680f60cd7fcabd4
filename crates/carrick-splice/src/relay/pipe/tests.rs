//! Pipes between sockets: partial splices.

use super::*;
use std::net::TcpListener;

/// splice(2) may return early, as after a signal that stops and continues the process. No event would follow, since there is still room.
#[tokio::test(flavor = "current_thread")]
async fn a_socket_that_took_less_than_it_was_offered_is_offered_more() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (_receiver, _) = listener.accept().unwrap();
    to.writable().await.unwrap();
    let pipe = Pipe::open(USABLE_BYTES_MIN).unwrap();
    for _ in 0..2 {
        assert_eq!(rustix::io::write(pipe.writer(), &[7; 100]), Ok(100));
        assert_eq!(pipe.drain(&to, 1000, false).unwrap(), 100);
    }
}
