//! What the streams of an HTTP/2 connection share: the connection below, and the limits on what waits to be sent.
use super::super::Transport;
use crate::net::deadline::now;
use bytes::{Buf, Bytes};
use carrick_logic::http1::ResponseHead;
use carrick_logic::http2::{FrameMeter, NUISANCES_PER_REQUEST, NuisanceBudget};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Bytes of bodies that may wait for room in the kernel, over all streams.
const QUEUED_BYTES_MAX: usize = 256 * 1024;

/// An HTTP/2 connection, as its streams and its framing layer have it.
#[derive(Debug)]
pub struct Http2Connection {
    transport: Transport,
    queued_bytes: Cell<usize>,
    /// Streams that wait for less to be queued.
    waiting: RefCell<Vec<Waker>>,
    when_full: WhenFull,
    /// The task that moves frames.
    task: RefCell<Option<Waker>>,
    streams: Cell<usize>,
    has_ended: Cell<bool>,
    moved_at: Cell<Instant>,
    came_at: Cell<Instant>,
    meter: RefCell<FrameMeter>,
    budget: RefCell<NuisanceBudget>,
    is_flooded: Cell<bool>,
    /// For one head at a time.
    pub(super) head: RefCell<ResponseHead>,
}

/// Called when streams begin to wait for less to be queued.
struct WhenFull(Box<dyn Fn()>);

/// A place among the streams of a connection, given up when dropped.
#[derive(Debug)]
pub struct StreamPlace(Rc<Http2Connection>);

/// A part of a body on its way to the client.
#[derive(Debug)]
pub struct Piece {
    bytes: Bytes,
    counted_bytes: usize,
    connection: Rc<Http2Connection>,
}

impl Http2Connection {
    /// Over this connection. `when_full` is called when as much is queued as may be.
    #[must_use]
    pub fn new(transport: Transport, when_full: impl Fn() + 'static) -> Self {
        let begun = now();
        Self {
            transport,
            queued_bytes: Cell::new(0),
            waiting: RefCell::default(),
            when_full: WhenFull(Box::new(when_full)),
            task: RefCell::default(),
            streams: Cell::new(0),
            has_ended: Cell::new(false),
            moved_at: Cell::new(begun),
            came_at: Cell::new(begun),
            meter: RefCell::default(),
            budget: RefCell::new(NuisanceBudget::new(begun)),
            is_flooded: Cell::new(false),
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

    /// Gives the kernel what the library has written, to be called when it waits: the frames of many streams at once. What
    /// there is no room for is for the next call, for which `cx` is woken.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`.
    pub fn send_written(&self, cx: &mut Context<'_>) -> io::Result<()> {
        match &self.transport {
            Transport::Tls(stream) => match stream.poll_flush(cx) {
                Poll::Ready(result) => result,
                Poll::Pending => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// How many streams are served.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.get()
    }

    /// One more.
    #[must_use]
    pub fn place(self: &Rc<Self>) -> StreamPlace {
        self.streams.set(self.streams.get() + 1);
        StreamPlace(Rc::clone(self))
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

    fn wake_task(&self) {
        if let Some(waker) = &*self.task.borrow() {
            waker.wake_by_ref();
        }
    }

    /// When anything last came.
    #[must_use]
    pub fn came_at(&self) -> Instant {
        self.came_at.get()
    }

    /// Notes a request to the server: it may say something about it.
    pub(super) fn asked(&self) {
        self.budget.borrow_mut().give(NUISANCES_PER_REQUEST);
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
            waiting.push(cx.waker().clone());
        }
    }

    /// A copy of `bytes`, counted until it has been sent or given up.
    pub(super) fn piece(self: &Rc<Self>, bytes: &[u8]) -> Piece {
        self.queued_bytes.set(self.queued_bytes.get() + bytes.len());
        Piece {
            bytes: Bytes::copy_from_slice(bytes),
            counted_bytes: bytes.len(),
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
        &self.0
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get().saturating_sub(1));
        self.0.wake_task();
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn chunks_vectored<'a>(&'a self, pieces: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(pieces)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.counted_bytes == 0 {
            return;
        }
        let connection = &self.connection;
        let queued = connection.queued_bytes.get();
        connection
            .queued_bytes
            .set(queued.saturating_sub(self.counted_bytes));
        connection.moved_at.set(now());
        connection.budget.borrow_mut().give(1);
        for waker in connection.waiting.take() {
            waker.wake();
        }
    }
}
