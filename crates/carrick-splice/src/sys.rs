//! The system calls that move bytes, each with its effect on the socket's readiness.
//!
//! tokio registers sockets edge-triggered: readiness stays set until a call reports that it is gone. A short
//! read has emptied the socket's queue, and a short write has filled it (epoll(7), question 9), so both clear
//! the readiness here, which saves the call that would return `EAGAIN`. Only before an urgent byte a read stops
//! with more in the queue ([`is_at_mark`]).

pub(crate) mod clock;
pub(crate) mod mmap;
pub(crate) mod release;
pub(crate) mod sockopt;
pub(crate) mod tcp_info;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;

/// asm-generic/sockios.h; see sockatmark(3).
const SIOCATMARK: libc::Ioctl = 0x8905;

/// Registers with the runtime what can only be waited for.
#[expect(unsafe_code, reason = "tokio has no safe one")]
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same descriptor every time, and is open until it is dropped.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    Ok(registered?)
}

/// Runs `call`, which returns how much it moved and whether that used up the readiness.
#[inline]
fn with_readiness(
    stream: &TcpStream,
    interest: Interest,
    call: impl FnOnce() -> Result<(usize, bool), Errno>,
) -> io::Result<usize> {
    let mut moved = None;
    let result = stream.try_io(interest, || {
        let (bytes, used_up) = call()?;
        moved = Some(bytes);
        if used_up {
            Err(ErrorKind::WouldBlock.into())
        } else {
            Ok(())
        }
    });
    match (moved, result) {
        (Some(bytes), _) => Ok(bytes),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(ErrorKind::WouldBlock.into()),
    }
}

/// Reads into `buffer`, if the socket is known to be readable. 0 is the end of the stream.
#[inline]
pub(crate) fn receive(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let asked = buffer.len();
    with_readiness(from, Interest::READABLE, || {
        let (_, received) =
            retry_on_intr(|| rustix::net::recv(from, &mut *buffer, RecvFlags::empty()))?;
        let is_short = 0 < received && received < asked;
        Ok((received, is_short && !is_at_mark(from)))
    })
}

/// Whether the next byte in the queue is the urgent one: `recv(2)` stops before it, and `splice(2)` takes
/// nothing more (`tcp_recvmsg_locked`, `tcp_read_sock`), although the rest causes no event of its own.
#[expect(unsafe_code, reason = "no library has this ioctl")]
pub(crate) fn is_at_mark(stream: &TcpStream) -> bool {
    let mut is_at_mark: libc::c_int = 0;
    // SAFETY: SIOCATMARK writes one int, which lives for the call.
    let outcome = unsafe { libc::ioctl(stream.as_raw_fd(), SIOCATMARK, &raw mut is_at_mark) };
    outcome == 0 && is_at_mark != 0
}

/// Reads into `buffer` whether or not the socket is known to be readable, and leaves the readiness as it is.
pub(crate) fn receive_anyway(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let (_, received) =
        retry_on_intr(|| rustix::net::recv(from, &mut *buffer, RecvFlags::DONTWAIT))?;
    Ok(received)
}

/// Checks for input, whether or not the socket is known to be readable. `Ok(false)` is the end of the stream.
pub(crate) fn peek_anyway(stream: &TcpStream) -> io::Result<bool> {
    let mut byte = [0; 1];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let (_, peeked) = retry_on_intr(|| rustix::net::recv(stream, &mut byte, flags))?;
    Ok(peeked > 0)
}

/// Checks for input without reading it. `Ok(false)` is the end of the stream.
pub(crate) fn has_input(stream: &TcpStream) -> io::Result<bool> {
    let mut byte = [0; 1];
    with_readiness(stream, Interest::READABLE, || {
        let (_, peeked) = retry_on_intr(|| rustix::net::recv(stream, &mut byte, RecvFlags::PEEK))?;
        Ok((peeked, false))
    })
    .map(|peeked| peeked > 0)
}

/// Writes `head` and `body` in one call. `more`: bytes follow at once, so a last partial segment may wait.
#[inline]
pub(crate) fn send(to: &TcpStream, head: &[u8], body: &[u8], more: bool) -> io::Result<usize> {
    let flags = if more {
        SendFlags::NOSIGNAL | SendFlags::MORE
    } else {
        SendFlags::NOSIGNAL
    };
    let offered = head.len() + body.len();
    with_readiness(to, Interest::WRITABLE, || {
        let sent = if head.is_empty() {
            retry_on_intr(|| rustix::net::send(to, body, flags))?
        } else if body.is_empty() {
            retry_on_intr(|| rustix::net::send(to, head, flags))?
        } else {
            let parts = [IoSlice::new(head), IoSlice::new(body)];
            retry_on_intr(|| {
                rustix::net::sendmsg(to, &parts, &mut SendAncillaryBuffer::default(), flags)
            })?
        };
        Ok((sent, sent < offered))
    })
}

/// Runs `splice` from a socket. A short result says nothing: splice(2) stops early on a pending signal, even
/// one that only stops the thread.
#[inline]
pub(crate) fn splice_from(
    from: &TcpStream,
    splice: impl FnOnce() -> Result<usize, Errno>,
) -> io::Result<usize> {
    with_readiness(from, Interest::READABLE, || {
        splice().map(|taken| (taken, false))
    })
}

/// Runs `splice` to a socket. Likewise.
#[inline]
pub(crate) fn splice_to(
    to: &TcpStream,
    splice: impl FnOnce() -> Result<usize, Errno>,
) -> io::Result<usize> {
    with_readiness(to, Interest::WRITABLE, || {
        splice().map(|sent| (sent, false))
    })
}

/// Sends a FIN.
pub(crate) fn shutdown_write(to: &TcpStream) -> io::Result<()> {
    Ok(rustix::net::shutdown(to, rustix::net::Shutdown::Write)?)
}

/// Whether the connection is closed in both directions (`POLLHUP`).
pub(crate) fn is_hung_up(stream: &TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut descriptors = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut descriptors, Some(&now)).is_ok() && descriptors[0].revents().contains(PollFlags::HUP)
}
