//! Reading from and writing to a shared `&TcpStream` with as few system calls as epoll allows.
//!
//! Readiness is edge-triggered. A read that brought less than there was room for has emptied the socket, so the
//! readiness is taken back without the call that would only return `EAGAIN`. This is sound because the runtime has one
//! thread: no event can be taken in between the read and the clearing; what arrives later makes a new event.
use bytes::BufMut;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Reads what is there into the spare room of `buffer` (which must have some); 0 means end of stream.
///
/// # Errors
/// Those of `recv(2)`.
pub fn read_some(
    stream: &TcpStream,
    buffer: &mut Vec<u8>,
) -> impl Future<Output = io::Result<usize>> + Unpin {
    read_at_most(stream, buffer, usize::MAX)
}

/// The same, at most `bytes_max`.
///
/// # Errors
/// Those of `recv(2)`.
pub fn read_at_most(
    stream: &TcpStream,
    buffer: &mut Vec<u8>,
    bytes_max: usize,
) -> impl Future<Output = io::Result<usize>> + Unpin {
    poll_fn(move |cx| {
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match try_read_at_most(stream, buffer, bytes_max) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    })
}

/// As [`read_some`], for the rest of a message of which something was read before: asks the kernel first, since a read stops at an urgent
/// byte, without an event for what is behind.
///
/// # Errors
/// Those of `recv(2)`.
pub fn read_rest(
    stream: &TcpStream,
    buffer: &mut Vec<u8>,
) -> impl Future<Output = io::Result<usize>> + Unpin {
    let mut was_asked = buffer.is_empty();
    poll_fn(move |cx| {
        if !std::mem::replace(&mut was_asked, true) {
            match recv(stream, spare_capacity(buffer), RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => {}
                received => return Poll::Ready(Ok(received?.0)),
            }
        }
        pin!(read_some(stream, buffer)).poll(cx)
    })
}

/// Whether a byte is there (true) or the end of the stream (false), without taking it.
///
/// # Errors
/// Those of `recv(2)`; `WouldBlock` when nothing is there, of which the runtime takes note.
pub fn try_peek(stream: &TcpStream) -> io::Result<bool> {
    stream.try_io(Interest::READABLE, || Ok(peek(stream)?))
}

/// The same, asked of the kernel even if the runtime knows of nothing.
///
/// # Errors
/// Those of `recv(2)`.
pub fn peek(stream: &TcpStream) -> rustix::io::Result<bool> {
    let (bytes, _) = recv(stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(bytes > 0)
}

/// Whether the client has reset its connection. One that only ended its side still waits for its response (RFC 9112 section 9.6): it is
/// watched no more, nor is one that has sent something.
pub fn poll_reset(client: &TcpStream, watches: &mut bool, cx: &mut Context<'_>) -> bool {
    while client.poll_read_ready(cx).is_ready() {
        match try_peek(client) {
            Ok(_) => {
                *watches = false;
                return false;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
    }
    false
}

/// Reads what is there, without waiting.
///
/// # Errors
/// Those of `recv(2)`; `WouldBlock` when nothing is there.
pub fn try_read_some(stream: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    try_read_at_most(stream, buffer, usize::MAX)
}

fn try_read_at_most(
    stream: &TcpStream,
    buffer: &mut Vec<u8>,
    bytes_max: usize,
) -> io::Result<usize> {
    let room = (buffer.capacity() - buffer.len()).min(bytes_max);
    debug_assert!(room > 0, "a read needs room");
    let count = stream.try_read_buf(&mut buffer.limit(room))?;
    if count > 0 && count < room {
        forget_readable(stream);
    }
    Ok(count)
}

/// Takes the stream's read readiness back without a system call.
pub fn forget_readable(stream: &TcpStream) {
    let nothing: io::Result<()> =
        stream.try_io(Interest::READABLE, || Err(io::ErrorKind::WouldBlock.into()));
    debug_assert!(nothing.is_err());
}

/// Whether the runtime knows the stream to be readable (or closed); costs no system call.
pub fn is_readable(stream: &TcpStream) -> bool {
    stream
        .poll_read_ready(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

/// Writes all of `bytes`.
///
/// # Errors
/// Those of `send(2)`; how much was written before is not told.
pub fn write_all<'a>(
    stream: &'a TcpStream,
    bytes: &'a [u8],
) -> impl Future<Output = io::Result<()>> + Unpin + 'a {
    let mut left = bytes.len();
    poll_fn(move |cx| poll_write(stream, bytes, &mut left, cx))
}

/// Writes all of `bytes`; `left` says how much has not been written.
///
/// # Errors
/// Those of `send(2)`.
pub fn write_some<'a>(
    stream: &'a TcpStream,
    bytes: &'a [u8],
    left: &'a mut usize,
) -> impl Future<Output = io::Result<()>> + Unpin + 'a {
    *left = bytes.len();
    poll_fn(move |cx| poll_write(stream, bytes, left, cx))
}

fn poll_write(
    stream: &TcpStream,
    bytes: &[u8],
    left: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while *left > 0 {
        match stream.try_write(bytes.get(bytes.len() - *left..).unwrap_or_default()) {
            Ok(count) => *left -= count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready!(stream.poll_write_ready(cx))?
            }
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}

/// Writes all of `first`, then all of `second`, with one call where the socket takes it; `left` says what has not been written.
///
/// # Errors
/// Those of `writev(2)`.
pub fn write_both<'a>(
    stream: &'a TcpStream,
    first: &'a [u8],
    second: &'a [u8],
    left: &'a mut usize,
) -> impl Future<Output = io::Result<()>> + Unpin + 'a {
    let total = first.len() + second.len();
    *left = total;
    poll_fn(move |cx| {
        while *left > 0 {
            let done = total - *left;
            let slices = [
                IoSlice::new(first.get(done..).unwrap_or_default()),
                IoSlice::new(
                    second
                        .get(done.saturating_sub(first.len())..)
                        .unwrap_or_default(),
                ),
            ];
            match stream.try_write_vectored(&slices) {
                Ok(count) => *left -= count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(stream.poll_write_ready(cx))?
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    })
}
