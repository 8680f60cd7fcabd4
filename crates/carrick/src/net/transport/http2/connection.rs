//! What the streams of an HTTP/2 connection share: the connection below, and the limits on what waits to be sent.
use super::super::Transport;
use super::buffers;
use crate::net::deadline::now;
use crate::net::io::Stream;
use bytes::Buf;
use carrick_logic::http1::ResponseHead;
use carrick_logic::http2::{FrameMeter, NuisanceBudget, SMALL_FRAMES_MAX};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

/// Bytes of bodies that may wait for room in the kernel, over all streams.
const QUEUED_BYTES_MAX: usize = 256 * 1024;

/// What a piece costs besides its bytes: the library's frame (some 310 bytes), and an allocation. Else a peer that lets one byte through at
/// a time would have a hundred times as much queued.
const PIECE_BYTES: usize = 384;

/// Bytes of frames that are gathered: the content of a whole record of TLS (RFC 8446 section 5.1).
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// Most pieces that the library writes at once: frames, and the content of the last.
const PIECES_MAX: usize = 8;

/// An HTTP/2 connection, as its streams and its framing layer have it.
#[derive(Debug)]
pub struct Http2Connection {
    transport: Transport,
    /// Frames that wait for others; without room while there are none.
    gathered: RefCell<Vec<u8>>,
    queued_bytes: Cell<usize>,
    /// Content that was sent, or is queued.
    content_bytes: Cell<u64>,
    /// Streams that wait for less to be queued, in the order of their turns.
    waiting: RefCell<VecDeque<Waker>>,
    when_full: WhenFull,
    /// The task that moves frames.
    task: RefCell<Option<Waker>>,
    streams: Cell<usize>,
    /// Of the heads of their requests.
    head_bytes: Cell<usize>,
    has_ended: Cell<bool>,
    moved_at: Cell<Instant>,
    came_at: Cell<Instant>,
    meter: RefCell<FrameMeter>,
    budget: RefCell<NuisanceBudget>,
    is_flooded: Cell<bool>,
    /// Streams, some of them over.
    gathering: RefCell<Vec<Weak<dyn Gather>>>,
    /// For one head at a time.
    pub(super) head: RefCell<ResponseHead>,
}

/// A stream that can take its content out of the library.
pub trait Gather {
    /// Takes what has come.
    fn gather(&self);
}

/// What small frames of content may cost the library, for which they are 256 bytes, less what they carry: of those that are
/// [many](FrameMeter::take_many_small), and of as many as one read can bring besides, each with a head of nine bytes.
pub const SMALL_FRAMES_BYTES: usize =
    (SMALL_FRAMES_MAX as usize + buffers::BUFFER_BYTES / 10) * 256;

/// Called when streams begin to wait for less to be queued.
struct WhenFull(Box<dyn Fn()>);

/// A place among the streams of a connection, given up when dropped.
#[derive(Debug)]
pub struct StreamPlace {
    connection: Rc<Http2Connection>,
    head_bytes: usize,
}

/// A part of a body on its way to the client.
#[derive(Debug)]
pub struct Piece {
    bytes: Vec<u8>,
    sent_bytes: usize,
    connection: Rc<Http2Connection>,
}

impl Http2Connection {
    /// Over this connection. `when_full` is called when as much is queued as may be.
    #[must_use]
    pub fn new(transport: Transport, when_full: impl Fn() + 'static) -> Self {
        let begun = now();
        Self {
            transport,
            gathered: RefCell::default(),
            queued_bytes: Cell::new(0),
            content_bytes: Cell::new(0),
            waiting: RefCell::default(),
            when_full: WhenFull(Box::new(when_full)),
            task: RefCell::default(),
            streams: Cell::new(0),
            head_bytes: Cell::new(0),
            has_ended: Cell::new(false),
            moved_at: Cell::new(begun),
            came_at: Cell::new(begun),
            meter: RefCell::default(),
            budget: RefCell::new(NuisanceBudget::new(begun)),
            is_flooded: Cell::new(false),
            gathering: RefCell::default(),
            head: RefCell::default(),
        }
    }

    /// To a server, over this connection; `when_full`: see [`new`](Self::new).
    #[must_use]
    pub fn to_server(transport: Transport, when_full: impl Fn() + 'static) -> Self {
        Self {
            meter: RefCell::new(FrameMeter::of_server()),
            ..Self::new(transport, when_full)
        }
    }

    /// The connection below.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Takes what the library writes: the frames of many streams make whole records, and few calls of the kernel.
    pub(super) fn poll_write(
        &self,
        pieces: &[IoSlice<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut gathered = self.gathered.borrow_mut();
        let pieces = pieces.get(..PIECES_MAX).unwrap_or(pieces);
        let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
        loop {
            if gathered.len() + offered < GATHERED_BYTES_MAX {
                if gathered.capacity() == 0 {
                    *gathered = buffers::take();
                }
                for piece in pieces {
                    gathered.extend_from_slice(piece);
                }
                return Poll::Ready(Ok(offered));
            }
            let count = ready!(self.poll_send(&gathered, pieces, cx))?;
            if count > gathered.len() {
                let of_pieces = count - gathered.len();
                gathered.clear();
                return Poll::Ready(Ok(of_pieces));
            }
            gathered.drain(..count);
        }
    }

    /// Encrypts a part of these bytes or, without TLS, gives it to the kernel. With `pieces`, no record is made that is
    /// not whole.
    fn poll_send(
        &self,
        gathered: &[u8],
        pieces: &[IoSlice<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut all = [IoSlice::new(&[]); PIECES_MAX + 1];
        let mut left = gathered.len() + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if let (Transport::Tls(_), false) = (&self.transport, pieces.is_empty()) {
            left -= left % GATHERED_BYTES_MAX;
        }
        let parts = std::iter::once(gathered).chain(pieces.iter().map(|piece| &**piece));
        for (slice, part) in all.iter_mut().zip(parts) {
            *slice = IoSlice::new(part.get(..left).unwrap_or(part));
            left -= slice.len();
        }
        if let Transport::Tls(stream) = &self.transport {
            return stream.poll_encrypt(&all, cx);
        }
        loop {
            match self.transport.try_write_vectored(&all) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(self.transport.poll_write_ready(cx))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }

    /// Gives the kernel all that the library has written.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = self.gathered.borrow_mut();
        while !gathered.is_empty() {
            let count = ready!(self.poll_send(&gathered, &[], cx))?;
            gathered.drain(..count);
        }
        // An idle connection has no buffer.
        buffers::give(std::mem::take(&mut gathered));
        match &self.transport {
            Transport::Tls(stream) => stream.poll_flush(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Gives the kernel what the library has written, to be called when it waits: the frames of many streams at once. What
    /// there is no room for is for the next call, for which `cx` is woken.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`.
    pub fn send_written(&self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.poll_flush(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }

    /// Call before dropping the connection: ends the sending direction, after what was written.
    pub fn finish(&self) {
        // Fails only if the connection is broken.
        let _ = self.send_written(&mut Context::from_waker(Waker::noop()));
        self.transport.finish();
    }

    /// How many streams are served.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.get()
    }

    /// How many bytes the heads of their requests have.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        self.head_bytes.get()
    }

    /// One more, whose request has a head of so many bytes, if that is to be counted.
    #[must_use]
    pub fn place(self: &Rc<Self>, head_bytes: usize) -> StreamPlace {
        self.streams.set(self.streams.get() + 1);
        self.head_bytes.set(self.head_bytes.get() + head_bytes);
        StreamPlace {
            connection: Rc::clone(self),
            head_bytes,
        }
    }

    /// Whether the client has sent more frames that cost work and carry nothing than any client has reason to.
    #[must_use]
    pub fn is_flooded(&self) -> bool {
        self.is_flooded.get()
    }

    /// No further requests are to be taken.
    pub fn end(&self) {
        self.has_ended.set(true);
        self.wake_task();
    }

    /// Whether [`end`](Self::end) was called.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// When bytes of bodies last went to the kernel.
    #[must_use]
    pub fn moved_at(&self) -> Instant {
        self.moved_at.get()
    }

    /// The task is to be woken when a stream has ended, or there was a flood.
    pub fn register(&self, cx: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        match &mut *task {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *task = Some(cx.waker().clone()),
        }
    }

    pub(super) fn wake_task(&self) {
        if let Some(waker) = &*self.task.borrow() {
            waker.wake_by_ref();
        }
    }

    /// When anything last came.
    #[must_use]
    pub fn came_at(&self) -> Instant {
        self.came_at.get()
    }

    /// The stream is to gather its content, should that come in small frames.
    pub fn watch(&self, stream: Weak<dyn Gather>) {
        let mut gathering = self.gathering.borrow_mut();
        if gathering.len() == gathering.capacity() {
            gathering.retain(|stream| stream.strong_count() > 0);
        }
        gathering.push(stream);
    }

    /// Lets all streams take their content, if much of it came in small frames; whether that is so. To be called before
    /// anything is read: by then the library has given the streams all that came before.
    pub(super) fn gather(&self) -> bool {
        let are_many = self.meter.borrow_mut().take_many_small();
        if are_many {
            for stream in self.gathering.borrow().iter().filter_map(Weak::upgrade) {
                stream.gather();
            }
        }
        are_many
    }

    /// Whether the other end takes so long a list of fields.
    pub(super) fn takes_list(&self, bytes: usize) -> bool {
        bytes <= self.meter.borrow().list_bytes_max() as usize
    }

    /// Whether the other end takes so much more content now, of whichever stream.
    pub(super) fn takes_content(&self, bytes: u64) -> bool {
        let window_bytes = self.meter.borrow().window_bytes();
        bytes == 0 || self.content_bytes.get().saturating_add(bytes) <= window_bytes
    }

    /// Notes a request to the server: it may say something about it.
    pub(super) fn asked(&self) {
        self.budget.borrow_mut().give_for_request();
    }

    /// One more request may be reset.
    pub fn allow_reset(&self) {
        self.budget.borrow_mut().give_for_reset();
    }

    /// Notes what has come from the other end.
    pub(super) fn came(&self, bytes: &[u8]) {
        self.came_at.set(now());
        let nuisances = self.meter.borrow_mut().pass(bytes);
        if nuisances > 0 {
            self.spend(nuisances);
        }
    }

    /// The client has been a nuisance.
    pub fn spend(&self, nuisances: u32) {
        if !self.budget.borrow_mut().spend(nuisances, now()) {
            self.is_flooded.set(true);
            self.wake_task();
        }
    }

    /// Bytes that may be queued now.
    pub(super) fn room(&self) -> usize {
        QUEUED_BYTES_MAX.saturating_sub(self.queued_bytes.get())
    }

    /// The stream is to be woken when there is room.
    pub(super) fn wait(&self, cx: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            (self.when_full.0)();
        }
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push_back(cx.waker().clone());
        }
    }

    /// These bytes, counted until they have been sent or given up.
    pub(super) fn piece(self: &Rc<Self>, bytes: Vec<u8>) -> Piece {
        let piece_bytes = bytes.len() + PIECE_BYTES;
        self.queued_bytes.set(self.queued_bytes.get() + piece_bytes);
        let content = &self.content_bytes;
        content.set(content.get() + bytes.len() as u64);
        Piece {
            bytes,
            sent_bytes: 0,
            connection: Rc::clone(self),
        }
    }
}

impl fmt::Debug for WhenFull {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WhenFull")
    }
}

impl StreamPlace {
    /// The connection that has the stream.
    #[must_use]
    pub fn connection(&self) -> &Http2Connection {
        &self.connection
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let connection = &self.connection;
        let streams = connection.streams.get().saturating_sub(1);
        connection.streams.set(streams);
        let head_bytes = connection.head_bytes.get();
        (connection.head_bytes).set(head_bytes.saturating_sub(self.head_bytes));
        if streams == 0 {
            // Streams that are over have their memory as long as they are known here.
            connection.gathering.take();
        }
        connection.wake_task();
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.sent_bytes
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.get(self.sent_bytes..).unwrap_or_default()
    }

    fn advance(&mut self, count: usize) {
        self.sent_bytes = (self.sent_bytes + count).min(self.bytes.len());
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let unsent_bytes = self.remaining() as u64;
        let bytes = std::mem::take(&mut self.bytes);
        let content_bytes = bytes.len();
        buffers::give(bytes);
        let connection = &self.connection;
        let content = &connection.content_bytes;
        content.set(content.get().saturating_sub(unsent_bytes));
        let queued = connection.queued_bytes.get();
        connection
            .queued_bytes
            .set(queued.saturating_sub(content_bytes + PIECE_BYTES));
        if content_bytes > 0 {
            connection.moved_at.set(now());
            connection.budget.borrow_mut().give(1);
        }
        // One after the other, for what this one leaves: there would not be room for all. The last piece wakes the rest.
        let mut turns = 1;
        if connection.queued_bytes.get() == 0 {
            turns = connection.waiting.borrow().len();
        }
        for _ in 0..turns {
            let next = connection.waiting.borrow_mut().pop_front();
            if let Some(waker) = next {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests;
