//! Reading from and writing to a shared connection with as few system calls as epoll allows.
//!
//! Readiness is edge-triggered. A read that fills less than the offered room has emptied the socket, so the readiness
//! is cleared without the call that would only return `EAGAIN`. This is sound because the runtime has one thread: it
//! takes in no event between the read and the clearing, and later data raises a new event.
use bytes::BufMut;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// A source and sink of bytes: a TCP connection, or a replacement. No method waits; readiness is that of a socket
/// watched by the runtime, edge-triggered.
pub trait Stream {
    /// The TCP connection, whose bytes the kernel can move; `None`: bytes have to pass through the process.
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }

    /// The connection to which the kernel can move this many bytes, by `splice(2)` and `sendfile(2)`: TCP, or one for which
    /// it encrypts.
    fn sink(&self, _bytes: u64) -> Option<&TcpStream> {
        self.tcp()
    }

    /// So many bytes were moved to [`sink`](Self::sink).
    fn note_sunk(&self, _bytes: u64) {}

    /// Ready when a read may yield bytes, the end, or an error.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when a write may accept bytes.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads up to `room` bytes into the spare room of `buffer`.
    ///
    /// # Errors
    /// Those of `recv(2)`; `WouldBlock` clears the readiness.
    fn try_read(&self, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize>;

    /// Reads into the spare room of `buffer`, whatever the readiness.
    ///
    /// # Errors
    /// Those of `recv(2)`.
    fn read_now(&self, buffer: &mut Vec<u8>) -> rustix::io::Result<usize>;

    /// Whether a byte is available (true) or the end (false), without taking it, whatever the readiness.
    ///
    /// # Errors
    /// Those of `recv(2)`.
    fn peek(&self) -> rustix::io::Result<bool>;

    /// Like [`peek`](Self::peek), if the stream is ready.
    ///
    /// # Errors
    /// Those of `recv(2)`; `WouldBlock` clears the readiness.
    fn try_peek(&self) -> io::Result<bool> {
        Ok(self.peek()?)
    }

    /// Clears the read readiness, if there is one, without a system call.
    fn forget_readable(&self) {}

    /// Writes a part of `bytes`.
    ///
    /// # Errors
    /// Those of `send(2)`; `WouldBlock` clears the readiness.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    /// Writes a part of `pieces`.
    ///
    /// # Errors
    /// Those of `writev(2)`; `WouldBlock` clears the readiness.
    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Writes a part of `pieces`, whose total is `_offered` bytes; accepting fewer clears the readiness, too. With
    /// `_more`, the kernel delays a last segment that is not full, to send it with later bytes.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`.
    fn try_send(&self, pieces: &[IoSlice<'_>], _offered: usize, _more: bool) -> io::Result<usize> {
        self.try_write_vectored(pieces)
    }
}

impl Stream for TcpStream {
    fn tcp(&self) -> Option<&TcpStream> {
        Some(self)
    }

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(cx)
    }

    fn try_read(&self, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
        self.try_read_buf(&mut buffer.limit(room))
    }

    fn read_now(&self, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
        Ok(recv(self, spare_capacity(buffer), RecvFlags::DONTWAIT)?.0)
    }

    fn peek(&self) -> rustix::io::Result<bool> {
        let (bytes, _) = recv(self, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
        Ok(bytes > 0)
    }

    fn try_peek(&self) -> io::Result<bool> {
        self.try_io(Interest::READABLE, || Ok(Stream::peek(self)?))
    }

    fn forget_readable(&self) {
        let nothing: io::Result<()> =
            self.try_io(Interest::READABLE, || Err(io::ErrorKind::WouldBlock.into()));
        debug_assert!(nothing.is_err());
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_write_vectored(pieces)
    }

    fn try_send(&self, pieces: &[IoSlice<'_>], offered: usize, more: bool) -> io::Result<usize> {
        let flags = if more {
            SendFlags::NOSIGNAL | SendFlags::MORE
        } else {
            SendFlags::NOSIGNAL
        };
        let mut sent = 0;
        let result = self.try_io(Interest::WRITABLE, || {
            sent = retry_on_intr(|| {
                sendmsg(self, pieces, &mut SendAncillaryBuffer::default(), flags)
            })?;
            if sent < offered {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match result {
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    }
}

/// Reads available bytes into the spare room of `buffer` (which must have some); 0 means end of stream.
///
/// # Errors
/// Those of `recv(2)`.
pub fn read_some<S: Stream>(
    stream: &S,
    buffer: &mut Vec<u8>,
) -> impl Future<Output = io::Result<usize>> + Unpin {
    read_at_most(stream, buffer, usize::MAX)
}

/// Like [`read_some`], at most `bytes_max`.
///
/// # Errors
/// Those of `recv(2)`.
pub fn read_at_most<S: Stream>(
    stream: &S,
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

/// Like [`read_some`], for the rest of a message that was partly read: asks the kernel first, since a read stops at an
/// urgent byte, and no event follows for the bytes after it.
///
/// # Errors
/// Those of `recv(2)`.
pub fn read_rest<S: Stream>(
    stream: &S,
    buffer: &mut Vec<u8>,
) -> impl Future<Output = io::Result<usize>> + Unpin {
    let mut was_asked = buffer.is_empty();
    poll_fn(move |cx| {
        if !std::mem::replace(&mut was_asked, true) {
            match stream.read_now(buffer) {
                Err(Errno::AGAIN) => {}
                received => return Poll::Ready(Ok(received?)),
            }
        }
        pin!(read_some(stream, buffer)).poll(cx)
    })
}

/// Whether a byte is available (true) or the end of the stream (false), without taking it.
///
/// # Errors
/// Those of `recv(2)`; `WouldBlock` if neither is, which clears the readiness.
pub fn try_peek<S: Stream>(stream: &S) -> io::Result<bool> {
    stream.try_peek()
}

/// Like [`try_peek`], but asks the kernel whatever the readiness.
///
/// # Errors
/// Those of `recv(2)`.
pub fn peek<S: Stream>(stream: &S) -> rustix::io::Result<bool> {
    stream.peek()
}

/// Whether the client has reset its connection. A client that sent something, or closed only its side and still waits
/// for its response (RFC 9112 section 9.6), is no longer watched.
pub fn poll_reset<S: Stream>(client: &S, watches: &mut bool, cx: &mut Context<'_>) -> bool {
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

/// Reads available bytes, without waiting.
///
/// # Errors
/// Those of `recv(2)`; `WouldBlock` if there are none.
pub fn try_read_some<S: Stream>(stream: &S, buffer: &mut Vec<u8>) -> io::Result<usize> {
    try_read_at_most(stream, buffer, usize::MAX)
}

/// Like [`try_read_some`], at most `bytes_max`.
///
/// # Errors
/// As there.
pub fn try_read_at_most<S: Stream>(
    stream: &S,
    buffer: &mut Vec<u8>,
    bytes_max: usize,
) -> io::Result<usize> {
    let room = (buffer.capacity() - buffer.len()).min(bytes_max);
    debug_assert!(room > 0, "a read needs room");
    let count = stream.try_read(buffer, room)?;
    if count > 0 && count < room {
        stream.forget_readable();
    }
    Ok(count)
}

/// Whether the runtime considers the stream readable (or closed); costs no system call.
pub fn is_readable<S: Stream>(stream: &S) -> bool {
    stream
        .poll_read_ready(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

/// Writes all of `bytes`.
///
/// # Errors
/// Those of `send(2)`; how much was written is unknown then.
pub fn write_all<'a, S: Stream>(
    stream: &'a S,
    bytes: &'a [u8],
) -> impl Future<Output = io::Result<()>> + Unpin + 'a {
    let mut left = bytes.len();
    poll_fn(move |cx| poll_write(stream, bytes, &mut left, false, cx))
}

/// Like [`write_all`], for the last bytes of a connection that ends at once: its end goes in the same segment.
///
/// # Errors
/// Those of `sendmsg(2)`.
pub fn write_last<'a, S: Stream>(
    stream: &'a S,
    bytes: &'a [u8],
) -> impl Future<Output = io::Result<()>> + Unpin + 'a {
    let mut left = bytes.len();
    poll_fn(move |cx| poll_write(stream, bytes, &mut left, true, cx))
}

/// Writes all of `bytes`; `left` is the number of bytes not yet written.
///
/// # Errors
/// Those of `send(2)`.
pub fn write_some<'a, S: Stream>(
    stream: &'a S,
    bytes: &'a [u8],
    left: &'a mut usize,
) -> impl Future<Output = io::Result<()>> + Unpin + 'a {
    *left = bytes.len();
    poll_fn(move |cx| poll_write(stream, bytes, left, false, cx))
}

fn poll_write<S: Stream>(
    stream: &S,
    bytes: &[u8],
    left: &mut usize,
    more: bool,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while *left > 0 {
        let rest = bytes.get(bytes.len() - *left..).unwrap_or_default();
        let written = match more {
            false => stream.try_write(rest),
            true => stream.try_send(&[IoSlice::new(rest)], rest.len(), true),
        };
        match written {
            Ok(count) => *left -= count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready!(stream.poll_write_ready(cx))?
            }
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}

/// Writes all of `first`, then all of `second`, in one call if the socket accepts it; `left` is what is not yet written.
///
/// # Errors
/// Those of `writev(2)`.
pub fn write_both<'a, S: Stream>(
    stream: &'a S,
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
