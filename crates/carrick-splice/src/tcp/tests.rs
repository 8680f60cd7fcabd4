//! Options whose effect is visible on loopback only.
use super::*;
use std::net::{SocketAddr, TcpListener, TcpStream as BlockingStream};

/// Long enough for loopback, and shorter than the client's first retransmission (1 s).
const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_listener_that_requires_255_hops_accepts_no_handshake_until_it_is_reset() {
    for (listen, ask) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("[::1]:0", "::1"),
        ("[::]:0", "127.0.0.1"),
    ] {
        let Ok(listener) = TcpListener::bind(listen) else {
            carrick_test::lacks!("{listen} cannot be bound here");
            continue;
        };
        let port = listener.local_addr().unwrap().port();
        let to = SocketAddr::new(ask.parse().unwrap(), port);
        set_hops_min(&listener, 255).unwrap();
        let error = BlockingStream::connect_timeout(&to, SHORT).unwrap_err();
        // Dropped, not refused: the client retransmits.
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{listen}: {error}");
        set_hops_min(&listener, 0).unwrap();
        BlockingStream::connect_timeout(&to, 10 * SHORT).unwrap();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_reset_behind_another_error_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (peer, _) = listener.accept().unwrap();
    // What it tells of what is sent is in the queue for errors.
    let stamps = libc::SOF_TIMESTAMPING_TX_ACK | libc::SOF_TIMESTAMPING_SOFTWARE;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    sockopt::set(stream.as_fd(), level, option, stamps).unwrap();
    assert_eq!(stream.try_write(b"x").unwrap(), 1);
    stream.ready(Interest::ERROR).await.unwrap();
    let mut reset = std::pin::pin!(until_reset(&stream));
    tokio::select! {
        biased;
        () = &mut reset => panic!("nobody has reset it"),
        () = tokio::task::yield_now() => {}
    }
    SockRef::from(&peer)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(peer);
    reset.await;
    assert!(is_hung_up(&stream));
}
