//! Tasks that serve streams of HTTP/2, one after the other: a task of its own would be allocated and freed with each.
use super::session;
use crate::context::client::Client;
use crate::net::deadline::Timer;
use crate::net::scratch::Lent;
use crate::net::spares::Spares;
use crate::net::transport::http2::StreamPlace;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

thread_local! {
    static IDLE: Spares<IdleTask> = const { Spares::new() };
    static TASKS: Cell<usize> = const { Cell::new(0) };
}

/// A stream, as a client with one request, whose head is in these buffers, and its place on its connection.
type Stream = (Client, Lent, StreamPlace);

/// Where a task learns what it does next. There is one for each, with room for a stream: a box would be allocated and freed
/// with each.
struct Mailbox {
    next: RefCell<Option<Stream>>,
    /// Whether nothing comes any more.
    has_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A task that waits; it ends when this is dropped.
struct IdleTask(Weak<Mailbox>);

/// Serves a stream.
pub fn serve(client: Client, scratch: Lent, place: StreamPlace) {
    let mut stream = (client, scratch, place);
    while let Some(idle) = IDLE.with(Spares::take) {
        match idle.start(stream) {
            None => return,
            Some(back) => stream = back,
        }
    }
    tokio::task::spawn_local(run(Rc::new(Mailbox::new(stream))));
}

/// Ends tasks that have had nothing to do since the last call. To be called now and then.
pub fn tidy() {
    IDLE.with(Spares::tidy);
}

/// The number of tasks, idle ones included.
pub fn count() -> usize {
    TASKS.get()
}

async fn run(mailbox: Rc<Mailbox>) {
    // One for all its streams: what one has armed is early enough for the next.
    let mut timer = Timer::default();
    while let Some((mut client, scratch, place)) = poll_fn(|cx| mailbox.poll_next(cx)).await {
        client.downstream.timer = timer;
        let is_last = session::run_stream(&mut client, scratch).await;
        timer = std::mem::take(&mut client.downstream.timer);
        // Its stream is over before its place is free.
        drop(client);
        if is_last {
            place.connection().end();
        }
        drop(place);
        IDLE.with(|idle| idle.give(IdleTask(Rc::downgrade(&mailbox))));
    }
}

impl Mailbox {
    /// Of a task that begins with this stream.
    fn new(stream: Stream) -> Self {
        TASKS.set(TASKS.get() + 1);
        Self {
            next: RefCell::new(Some(stream)),
            has_ended: Cell::default(),
            waker: RefCell::default(),
        }
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Stream>> {
        let next = self.next.take();
        if next.is_some() || self.has_ended.get() {
            return Poll::Ready(next);
        }
        self.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        TASKS.set(TASKS.get() - 1);
    }
}

impl IdleTask {
    /// Gives the task a stream; returns it if the task is gone with its runtime.
    fn start(self, stream: Stream) -> Option<Stream> {
        let Some(mailbox) = self.0.upgrade() else {
            return Some(stream);
        };
        mailbox.next.replace(Some(stream));
        mailbox.wake();
        None
    }
}

impl Drop for IdleTask {
    fn drop(&mut self) {
        let Some(mailbox) = self.0.upgrade() else {
            return;
        };
        let is_waiting = mailbox.next.borrow().is_none();
        if is_waiting {
            mailbox.has_ended.set(true);
            mailbox.wake();
        }
    }
}
