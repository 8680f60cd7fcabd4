//! A stream of an HTTP/2 connection to a server, in the form of a connection of HTTP/1.1 that carries one request.
//!
//! The mirror image of [`Http2Stream`](super::Http2Stream): a request is written to it as bytes of HTTP/1.1, and its response is
//! read so.
mod connection;
mod request;
mod response;
mod unended;

pub use connection::{Ended, Framing, STREAMS_MAX, ServerConnection};

use super::{Gather, StreamPlace};
use crate::net::deadline::now;
use crate::net::io::Stream;
use crate::net::transport::Transport;
use carrick_logic::http1::Refusal;
use h2::Reason;
use request::Outgoing;
use response::{Lost, Response};
use std::cell::{Cell, RefCell};
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

/// Most bytes of a request that are kept, should the server not begin with it.
const KEPT_BYTES_MAX: usize = 32 * 1024;

/// One stream.
#[derive(Debug)]
pub struct ServerStream {
    connection: Rc<ServerConnection>,
    request: RefCell<Outgoing>,
    response: RefCell<Response>,
    asked_at: Cell<Option<Instant>>,
    /// What was written, until a response comes or it is too much.
    written: RefCell<Option<Vec<u8>>>,
    /// Given up after everything else.
    place: Option<StreamPlace>,
}

impl ServerStream {
    fn new(connection: Rc<ServerConnection>, place: StreamPlace, request: Outgoing) -> Self {
        Self {
            connection,
            request: RefCell::new(request),
            response: RefCell::new(Response::new()),
            asked_at: Cell::default(),
            written: RefCell::new(Some(Vec::new())),
            place: Some(place),
        }
    }

    /// The connection that has the stream.
    #[must_use]
    pub fn connection(&self) -> &Rc<ServerConnection> {
        &self.connection
    }

    /// The connection below.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        self.connection.transport()
    }

    /// Whether a write would be accepted now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        (self.request.borrow_mut().state).has_room(self.connection.shared())
    }

    /// Whether the connection would take more, if the server's windows allow it.
    #[must_use]
    pub fn connection_has_room(&self) -> bool {
        self.connection.shared().room() > 0
    }

    /// Whether the server has not begun with the request, and says so: it may be sent again, whatever it asks for.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.response.borrow().lost() == Some(Lost::Refused)
    }

    /// Why the request cannot be sent to this server by HTTP/2.
    #[must_use]
    pub fn request_refusal(&self) -> Option<Refusal> {
        self.request.borrow().refusal()
    }

    /// What is wrong with the response, if it must not be passed on.
    #[must_use]
    pub fn malformed(&self) -> Option<Refusal> {
        match self.response.borrow().lost()? {
            Lost::Malformed(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The code with which the server has reset the stream before the end of the response. A refusal is none.
    #[must_use]
    pub fn reset_code(&self) -> Option<Reason> {
        self.response.borrow().reset()
    }

    /// Ready when the server has reset the stream, while the request's body is being sent.
    pub fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.request.borrow_mut().poll_reset(cx)
    }

    /// What was written. `None`: it was too much to be kept.
    #[must_use]
    pub fn take_back(&self) -> Option<Vec<u8>> {
        self.written.take()
    }

    fn keep(&self, bytes: &[u8]) {
        let mut written = self.written.borrow_mut();
        match &mut *written {
            Some(kept) if kept.len() + bytes.len() <= KEPT_BYTES_MAX => {
                kept.extend_from_slice(bytes)
            }
            _ => *written = None,
        }
    }

    /// Whether it was lost with its connection, or the request could not even be sent on that.
    #[must_use]
    pub fn has_lost_connection(&self) -> bool {
        let is_unasked = self.asked_at.get().is_none();
        is_unasked || self.response.borrow().lost() == Some(Lost::Connection)
    }

    /// Ends a tunnel. A request has ended with its last byte.
    ///
    /// # Errors
    /// The stream is lost.
    pub fn end(&self) -> std::io::Result<()> {
        Ok((self.request.borrow_mut().state).end(self.connection.shared())?)
    }

    /// Tells the server now that nothing more is needed.
    pub fn reset(&self) {
        self.request.borrow_mut().reset();
    }

    fn read(&self, buffer: &mut Vec<u8>, room: usize) -> rustix::io::Result<usize> {
        self.response.borrow_mut().read(buffer, room)
    }
}

impl Gather for ServerStream {
    fn gather(&self) {
        self.response.borrow_mut().gather();
    }
}

impl Stream for ServerStream {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut response = self.response.borrow_mut();
        let polled = response.poll_ready(cx);
        if response.has_come() {
            self.written.take();
        }
        polled.map(Ok)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut request = self.request.borrow_mut();
        let polled = (request.state).poll_ready(self.connection.shared(), cx);
        polled.map(Ok)
    }

    fn try_read(&self, buffer: &mut Vec<u8>, room: usize) -> std::io::Result<usize> {
        Ok(self.read(buffer, room)?)
    }

    fn read_now(&self, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
        let room = buffer.capacity() - buffer.len();
        self.read(buffer, room)
    }

    fn peek(&self) -> rustix::io::Result<bool> {
        self.response.borrow().peek()
    }

    fn try_write(&self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = (self.request.borrow_mut()).write(bytes, self.connection.shared(), |asked| {
            self.asked_at.set(Some(now()));
            self.response.borrow_mut().asked(asked);
        });
        let count = written?;
        self.keep(&bytes[..count]);
        Ok(count)
    }

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> std::io::Result<usize> {
        let mut written = 0;
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            match self.try_write(piece) {
                Ok(count) if count == piece.len() => written += count,
                Ok(count) => return Ok(written + count),
                // What was taken before counts; the error comes again.
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }
}

impl Drop for ServerStream {
    fn drop(&mut self) {
        let is_awaited = self.response.borrow().is_awaited();
        let is_under_way = self.response.borrow().is_under_way();
        let place = self.place.take();
        if let Some(place) = place
            && self.request.get_mut().is_whole()
            && let Some(stream) = self.response.get_mut().take_unended()
        {
            self.connection.await_end(stream, place);
        } else if is_under_way || self.request.get_mut().is_unfinished() {
            self.connection.is_cancelled();
        }
        self.connection
            .is_left(self.asked_at.get().filter(|_| is_awaited));
    }
}

#[cfg(test)]
mod tests;
