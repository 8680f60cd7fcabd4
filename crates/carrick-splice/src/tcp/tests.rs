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
