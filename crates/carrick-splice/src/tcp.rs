//! Small things that a program that splices asks of its TCP sockets.

use socket2::SockRef;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// Segments leave at once instead of waiting for acknowledgements (`TCP_NODELAY`). A relay wants it on both sides.
///
/// # Errors
/// What `setsockopt` says.
pub fn set_nodelay(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_tcp_nodelay(true)
}

/// Closing this connection will reset it (`SO_LINGER` with zero), so that the peer does not take what it received for
/// everything. Unsent bytes are dropped.
///
/// # Errors
/// What `setsockopt` says.
pub fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

/// How many bytes wait in the socket to be read (`FIONREAD`).
///
/// # Errors
/// What `ioctl` says.
pub fn pending_input(stream: &TcpStream) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(stream)?)
}
