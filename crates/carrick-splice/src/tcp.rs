//! Socket options and queries for programs that splice.

mod delivery;
mod unread;

pub use delivery::{Delivery, delivery};
pub use unread::{UnreadLimit, UnreadWindow};

use crate::sys::sockopt;
use socket2::SockRef;
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// The range of `TCP_MAXSEG`: `TCP_MIN_MSS`, and more than `MAX_TCP_WINDOW` (net/tcp.h).
const SEGMENT_LIMIT_MIN: u32 = 88;
const SEGMENT_LIMIT_MAX: u32 = 32768;

/// Sends segments at once instead of waiting for acknowledgements (`TCP_NODELAY`). A relay needs it on both
/// sides.
///
/// # Errors
/// What `setsockopt` says.
pub fn set_nodelay(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_tcp_nodelay(true)
}

/// Makes close reset this connection (`SO_LINGER` with zero), so that the peer does not take a truncated
/// stream for a whole one. Unsent bytes are dropped.
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

/// Bytes sent and not acknowledged; `None` if unknown. One system call (`SIOCOUTQ`).
#[must_use]
pub fn unacknowledged_bytes(stream: &TcpStream) -> Option<u64> {
    crate::sys::tcp_info::unacked_bytes(stream).ok()
}

/// Bytes that the other end has acknowledged over the connection's life; `None` if unknown, as of one that is
/// gone. One system call (`TCP_INFO`).
#[must_use]
pub fn acknowledged_bytes(stream: &impl AsFd) -> Option<u64> {
    crate::sys::tcp_info::acked_bytes(stream).ok().flatten()
}

/// Whether a connection is closed both ways: it was reset, or both ends have sent a FIN. One system call
/// (`poll`).
#[must_use]
pub fn is_hung_up(stream: &TcpStream) -> bool {
    crate::sys::is_hung_up(stream)
}

/// Waits until a connection [is closed both ways](is_hung_up) by an error, such as a reset; it need not be read.
pub async fn until_reset(stream: &TcpStream) {
    while stream.ready(Interest::ERROR).await.is_ok() {
        // There are other errors. And a reset's is there a moment before the connection is closed, of which the kernel tells as well.
        let is_over = stream.try_io(Interest::ERROR, || match is_hung_up(stream) {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        });
        if is_over.is_ok() {
            return;
        }
    }
}

/// Statistics of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathState {
    /// Round-trip time, smoothed, to the microsecond; `None`: never measured.
    pub rtt: Option<Duration>,
    /// Segments retransmitted.
    pub retransmissions: u32,
}

/// Statistics of a connection so far; also when it has ended and is not closed yet. One system call
/// (`TCP_INFO`).
///
/// # Errors
/// What `getsockopt` says.
pub fn path_state(stream: &TcpStream) -> io::Result<PathState> {
    let connection_statistics = crate::sys::tcp_info::connection_statistics(stream)?;
    Ok(PathState {
        rtt: (connection_statistics.rtt_us > 0)
            .then(|| Duration::from_micros(connection_statistics.rtt_us.into())),
        retransmissions: connection_statistics.retransmissions,
    })
}

/// Lets the kernel hold back connections that have not sent anything yet, for about so many seconds (`TCP_DEFER_ACCEPT`, tcp(7)):
/// for protocols in which the client speaks first.
///
/// # Errors
/// Those of `setsockopt(2)`.
pub fn defer_accept(listener: &impl AsFd, seconds: u32) -> io::Result<()> {
    let listener = listener.as_fd();
    sockopt::set(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}

/// Drops what comes with fewer hops left ("time to live") than this, without a word (`IP_MINTTL`, `IPV6_MINHOPCOUNT`; made for
/// RFC 5082). 0: nothing. With 255 a listening socket lets no handshake begin of anybody who is a router away or begins with
/// less, as all usual systems do; those that have begun end as they would, and their connections inherit the value, which is
/// to be set back to 0.
///
/// # Errors
/// Those of `setsockopt(2)`.
pub fn set_hops_min(socket: &impl AsFd, hops: u8) -> io::Result<()> {
    let set = |level, name| sockopt::set(socket.as_fd(), level, name, hops.into());
    // A socket of IPv6 has both: `[::]` takes IPv4, too.
    set(libc::IPPROTO_IP, libc::IP_MINTTL)?;
    match set(libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT) {
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        result => result,
    }
}

/// How long segments to the peer may be now: what it takes, and what its road takes. In bytes without headers, but with timestamps, as
/// TCP's option MSS counts (RFC 6691). One system call (`TCP_INFO`).
///
/// # Errors
/// What `getsockopt` says.
pub fn segment_bytes(stream: &impl AsFd) -> io::Result<u32> {
    crate::sys::tcp_info::segment_bytes(stream)
}

/// Lets a socket whose SYN has not left yet say in it that segments may be so long at most, in bytes as
/// [`segment_bytes`] counts them (`TCP_MAXSEG`). What its peer says in the answer is cut to that, too: unless the
/// limit is taken away before the answer is there, with 0. The kernel takes nothing below 88; what is more than 32767 is no limit to it.
///
/// # Errors
/// What `setsockopt` says.
pub fn limit_segments(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = match bytes {
        0 | SEGMENT_LIMIT_MAX.. => 0,
        bytes => bytes.max(SEGMENT_LIMIT_MIN),
    };
    sockopt::set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes)
}

/// Bytes that may wait in the kernel without having been sent (`TCP_NOTSENT_LOWAT`); what has been sent and not been acknowledged is not
/// limited by it. Connections inherit it from a listening socket.
///
/// # Errors
/// What `setsockopt` says.
pub fn limit_unsent(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let (socket, bytes) = (socket.as_fd(), bytes.min(i32::MAX as u32));
    sockopt::set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// `net.core.rmem_max`, as it was when it was asked for first.
fn socket_receive_buffer_max() -> u32 {
    static MAX: OnceLock<u32> = OnceLock::new();
    *MAX.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    })
}

/// What a connection holds of the kernel's memory, both ways (`SO_MEMINFO`); 0: that cannot be known.
#[expect(unsafe_code, reason = "no library has this option")]
pub(crate) fn held_bytes(socket: RawFd) -> u64 {
    // `SK_MEMINFO_RMEM_ALLOC`, `SK_MEMINFO_WMEM_QUEUED` (linux/sock_diag.h).
    const SO_MEMINFO: i32 = 55;
    const UNREAD: usize = 0;
    const QUEUED: usize = 5;
    let mut info = [0_u32; 9];
    let mut size = std::mem::size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes, all of which are in `info`; a descriptor that is no socket's is refused.
    let result = unsafe {
        let place = info.as_mut_ptr().cast();
        libc::getsockopt(socket, libc::SOL_SOCKET, SO_MEMINFO, place, &raw mut size)
    };
    if result == 0 {
        u64::from(info[UNREAD]) + u64::from(info[QUEUED])
    } else {
        0
    }
}

#[cfg(test)]
mod tests;
