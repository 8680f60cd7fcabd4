//! A stream of an HTTP/2 connection, in the form of a connection of HTTP/1.1 that has one request and one response.
//!
//! A request's content is read from it, and its response written to it, as bytes of HTTP/1.1, so that whoever serves
//! HTTP/1.1 serves HTTP/2. The request's head goes to its session beside it, and heads of most responses can be
//! [sent](Http2Stream::send_head) without being written first. Nothing of a request is read ahead of its reader, and no
//! more of a response is taken than the client's window and the limits of [`Http2Connection`] allow.
pub mod buffers;
mod connection;
mod content;
mod head;
mod io;
mod request;
mod response;
pub mod server;
mod websocket;

pub use connection::{Gather, Http2Connection, Piece, SMALL_FRAMES_BYTES, StreamPlace};
pub use head::FIELD_BYTES;
pub use io::Http2Io;
pub use request::Incoming;
pub use response::Outgoing;
pub use websocket::websocket_accept;

use super::Transport;
use crate::net::io::Stream;
use carrick_logic::http1::{ResponseHead, ResponseRewrite};
use h2::Reason;
use http::HeaderMap;
use rustix::io::Errno;
use std::cell::RefCell;
use std::io::{ErrorKind, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// One stream.
#[derive(Debug)]
pub struct Http2Stream {
    connection: Rc<Http2Connection>,
    request: RefCell<Incoming>,
    response: RefCell<Outgoing>,
}

/// The client has reset the stream, or its connection is lost.
const RESET: Errno = Errno::CONNRESET;

impl Http2Stream {
    /// Of a request, and for its response.
    #[must_use]
    pub fn new(connection: Rc<Http2Connection>, request: Incoming, response: Outgoing) -> Self {
        Self {
            connection,
            request: RefCell::new(request),
            response: RefCell::new(response),
        }
    }

    /// The connection that has the stream.
    #[must_use]
    pub fn connection(&self) -> &Transport {
        self.connection.transport()
    }

    /// When bytes of bodies last went to the client, on any stream.
    #[must_use]
    pub fn moved_at(&self) -> Instant {
        self.connection.moved_at()
    }

    /// Whether the connection would take more, if the client's windows allow it.
    #[must_use]
    pub fn connection_has_room(&self) -> bool {
        self.connection.room() > 0
    }

    /// Ready when the client has reset the stream, or is gone.
    pub fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.response.borrow_mut().poll_reset(cx)
    }

    /// Whether a write would be accepted now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        (self.response.borrow_mut().state).has_room(&self.connection)
    }

    /// Ready with as many of `wanted` bytes of a body as may be [sent](Self::send) now, at least one.
    ///
    /// # Errors
    /// The stream is lost, or nothing more belongs to its response.
    pub fn poll_room(&self, wanted: u64, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let mut response = self.response.borrow_mut();
        let room = ready!(response.poll_room(&self.connection, wanted, cx));
        Poll::Ready(Ok(room?))
    }

    /// Of the room that there [was](Self::poll_room), so many bytes will be sent: the rest is for other streams.
    pub fn keep_room(&self, bytes: usize) {
        self.response.borrow_mut().keep_room(bytes);
    }

    /// Sends a part of a body whose length the response's head says; `bytes` is best one of the [`buffers`].
    ///
    /// # Errors
    /// The stream is lost, or nothing more belongs to its response.
    pub fn send(&self, bytes: Vec<u8>) -> std::io::Result<()> {
        Ok(self.response.borrow_mut().send(bytes, &self.connection)?)
    }

    /// Whether a response with this head can be sent: not one that grants a WebSocket otherwise than it must.
    #[must_use]
    pub fn takes(&self, head: &ResponseHead, bytes: &[u8]) -> bool {
        self.response.borrow().status(head, bytes).is_some()
    }

    /// Sends the head of a final response without a body, or with one of known length: that in `bytes`, changed as `how` says, and the fields
    /// that `add` adds. `false`: the head must be written, like all others, or the stream is lost.
    ///
    /// A reset wakes nobody who waits for it already: call this only if the caller's task does nothing else meanwhile.
    pub fn send_head(
        &self,
        (head, bytes): (&ResponseHead, &[u8]),
        how: &ResponseRewrite<'_>,
        add: impl FnOnce(&mut HeaderMap),
    ) -> bool {
        (self.response.borrow_mut()).send_parsed(&self.connection, (head, bytes), how, add)
    }

    /// Ends a response that ends with its stream. Others have ended with their last byte.
    ///
    /// # Errors
    /// The stream is lost.
    pub fn end(&self) -> std::io::Result<()> {
        Ok((self.response.borrow_mut().state).end(&self.connection)?)
    }

    /// Ready when nothing more of the request comes; what comes before is discarded.
    pub fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.request.borrow_mut().poll_discard(cx)
    }

    /// With this code the client is told that something is missing, should it be.
    pub fn set_reset_code(&self, code: Reason) {
        self.response.borrow_mut().set_reset_code(code);
    }

    /// Tells the client now that something is missing.
    pub fn reset(&self) {
        self.response.borrow_mut().reset();
    }

    fn read(&self, buffer: &mut Vec<u8>, room: usize) -> rustix::io::Result<usize> {
        self.request.borrow_mut().read(buffer, room)
    }
}

impl Gather for Http2Stream {
    fn gather(&self) {
        self.request.borrow_mut().gather();
    }
}

impl Stream for Http2Stream {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut request = self.request.borrow_mut();
        if request.poll_ready(cx).is_pending() {
            // A whole request is followed by nothing but, perhaps, a reset.
            ready!(self.response.borrow_mut().poll_reset(cx));
            request.fail();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut response = self.response.borrow_mut();
        response.state.poll_ready(&self.connection, cx).map(Ok)
    }

    fn try_read(&self, buffer: &mut Vec<u8>, room: usize) -> std::io::Result<usize> {
        Ok(self.read(buffer, room)?)
    }

    fn read_now(&self, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
        let room = buffer.capacity() - buffer.len();
        self.read(buffer, room)
    }

    fn peek(&self) -> rustix::io::Result<bool> {
        self.request.borrow().peek()
    }

    fn try_write(&self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(self.response.borrow_mut().write(bytes, &self.connection)?)
    }

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> std::io::Result<usize> {
        let mut written = 0;
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            match self.try_write(piece) {
                Ok(count) if count == piece.len() => written += count,
                Ok(count) => return Ok(written + count),
                Err(error) if error.kind() == ErrorKind::WouldBlock && written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }
}
