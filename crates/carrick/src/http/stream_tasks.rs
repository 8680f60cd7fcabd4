//! Tasks that serve streams of HTTP/2, one after the other: a task of its own would be allocated and freed with each.
use super::session;
use crate::context::client::Client;
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

/// A stream, as a client with one request, and its place on its connection.
type Stream = (Client, StreamPlace);

/// What a task does next.
#[derive(Default)]
enum Next {
    /// It waits.
    #[default]
    Nothing,
    Serve(Box<Stream>),
    End,
}

/// Where a task learns of it. There is one for each.
struct Mailbox {
    next: RefCell<Next>,
    waker: RefCell<Option<Waker>>,
}

/// A task that waits; it ends when this is dropped.
struct IdleTask(Weak<Mailbox>);

/// Serves a stream.
pub fn serve(client: Client, place: StreamPlace) {
    let mut stream = Box::new((client, place));
    while let Some(idle) = IDLE.with(Spares::take) {
        match idle.start(stream) {
            Ok(()) => return,
            Err(back) => stream = back,
        }
    }
    tokio::task::spawn_local(run(stream));
}

/// Ends tasks that have had nothing to do since the last call. To be called now and then.
pub fn tidy() {
    IDLE.with(Spares::tidy);
}

/// The number of tasks, idle ones included.
pub fn count() -> usize {
    TASKS.get()
}

async fn run(mut stream: Box<Stream>) {
    let mailbox = Rc::new(Mailbox::new());
    loop {
        let (client, place) = *stream;
        if session::run_stream(client).await {
            place.connection().end();
        }
        drop(place);
        IDLE.with(|idle| idle.give(IdleTask(Rc::downgrade(&mailbox))));
        match poll_fn(|cx| mailbox.poll_next(cx)).await {
            Some(next) => stream = next,
            None => return,
        }
    }
}

impl Mailbox {
    fn new() -> Self {
        TASKS.set(TASKS.get() + 1);
        Self {
            next: RefCell::default(),
            waker: RefCell::default(),
        }
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Box<Stream>>> {
        match self.next.take() {
            Next::Serve(stream) => Poll::Ready(Some(stream)),
            Next::End => Poll::Ready(None),
            Next::Nothing => {
                self.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }

    fn tell(&self, next: Next) {
        self.next.replace(next);
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
    /// Gives the task a stream, or the stream back if the task is gone with its runtime.
    fn start(self, stream: Box<Stream>) -> Result<(), Box<Stream>> {
        match self.0.upgrade() {
            Some(mailbox) => mailbox.tell(Next::Serve(stream)),
            None => return Err(stream),
        }
        Ok(())
    }
}

impl Drop for IdleTask {
    fn drop(&mut self) {
        let Some(mailbox) = self.0.upgrade() else {
            return;
        };
        let is_waiting = matches!(*mailbox.next.borrow(), Next::Nothing);
        if is_waiting {
            mailbox.tell(Next::End);
        }
    }
}
