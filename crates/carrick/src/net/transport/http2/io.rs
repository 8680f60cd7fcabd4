//! The connection below HTTP/2, as the library has connections.
use super::Http2Connection;
use super::buffers::{self, BUFFER_BYTES};
use crate::net::io::Stream;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads and writes the connection of an [`Http2Connection`], and shows it what is read.
#[derive(Debug)]
pub struct Http2Io {
    connection: Rc<Http2Connection>,
    /// What has been read already.
    first: Vec<u8>,
}

impl Http2Io {
    /// `first` has been read already.
    #[must_use]
    pub fn new(connection: Rc<Http2Connection>, first: Vec<u8>) -> Self {
        Self { connection, first }
    }
}

impl AsyncRead for Http2Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let count = self.first.len().min(buffer.remaining());
            let rest = self.first.split_off(count);
            let first = std::mem::replace(&mut self.first, rest);
            self.connection.came(&first);
            buffer.put_slice(&first);
            return Poll::Ready(Ok(()));
        }
        if self.connection.gather() {
            // A stream that has not begun yet gathers nothing: its turn is now.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let transport = self.connection.transport();
        let room = buffer.remaining().min(BUFFER_BYTES);
        loop {
            ready!(transport.poll_read_ready(cx))?;
            let mut bytes = buffers::take();
            let read = transport.try_read(&mut bytes, room);
            if !bytes.is_empty() {
                self.connection.came(&bytes);
                buffer.put_slice(&bytes);
            }
            buffers::give(bytes);
            match read {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    if count > 0 && count < room {
                        transport.forget_readable();
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for Http2Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.connection.poll_write(&[IoSlice::new(bytes)], cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection.poll_write(pieces, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The library does so after each frame of a body. See `Http2Connection::send_written`.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The client reads at its own pace, also the last frames.
        ready!(self.connection.poll_flush(cx))?;
        Poll::Ready(self.connection.transport().end())
    }
}
