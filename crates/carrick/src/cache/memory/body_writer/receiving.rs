//! Receiving a body's bytes from a connection, where possible without a copy.
use super::{BodyWriter, FillError};
use crate::cache::memory::object::BodyState;
use crate::net::io::{Stream, read_at_most};
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes that are read at once if they have to be copied.
const BURST_BYTES: usize = 128 << 10;

impl BodyWriter {
    /// Waits for bytes from a connection and appends them, at most what was announced; returns how many, 0 at the connection's end.
    /// `buffer` is for bytes that have to be copied. Dropped before it is ready, it has taken nothing.
    ///
    /// # Errors
    /// Those of the connection, which leave the body as it is; else those of [`append`](Self::append).
    pub async fn receive<S: Stream>(
        &mut self,
        from: &S,
        buffer: &mut Vec<u8>,
    ) -> Result<usize, FillError> {
        let announced_bytes = self.announced_bytes.unwrap_or(u64::MAX);
        let left = announced_bytes - self.written_bytes;
        if left == 0 || self.ended {
            return Err(FillError::TooLong);
        }
        if let Some(from) = from.tcp()
            && self.stream.is_none()
            && self.is_in_chunks()
        {
            return poll_fn(|cx| self.poll_receive(from, cx)).await;
        }
        let bytes_max = usize::try_from(left).unwrap_or(usize::MAX);
        buffer.clear();
        buffer.reserve(BURST_BYTES.min(bytes_max));
        let count = read_at_most(from, buffer, bytes_max)
            .await
            .map_err(FillError::Connection)?;
        self.append(buffer)?;
        Ok(count)
    }

    fn poll_receive(
        &mut self,
        from: &TcpStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, FillError>> {
        loop {
            ready!(from.poll_read_ready(cx)).map_err(FillError::Connection)?;
            let writer = match self.writer(self.written_bytes) {
                Ok(writer) => writer,
                Err(error) => {
                    self.end(BodyState::Broken);
                    return Poll::Ready(Err(error));
                }
            };
            let room = writer.left_bytes();
            match from.try_io(Interest::READABLE, || writer.receive(from)) {
                Ok(count) => {
                    if count > 0 && count < room {
                        from.forget_readable();
                    }
                    self.written_bytes += count as u64;
                    self.body.publish(self.written_bytes, BodyState::Filling);
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(FillError::Connection(error))),
            }
        }
    }
}
