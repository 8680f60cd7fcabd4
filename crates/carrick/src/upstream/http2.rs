//! The connections of HTTP/2 to one server, which a worker's requests share.
use super::Unreachable;
use crate::net::transport::Transport;
use crate::net::transport::http2::server::{STREAMS_MAX, ServerConnection, ServerStream};
use std::cell::{Cell, OnceCell, RefCell};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Connections, and those that are being opened.
#[derive(Debug, Default)]
pub struct Http2Connections {
    connections: RefCell<Vec<Rc<ServerConnection>>>,
    opening: RefCell<Weak<Opening>>,
    /// The requests that the last connection to be opened may carry at the same time; `None`: there was none yet.
    streams_max: Cell<Option<usize>>,
    /// Whether the server has last agreed to HTTP/1.1 instead.
    speaks_http1: Cell<bool>,
    /// Whether it last spoke HTTP/2 without WebSockets.
    takes_no_websockets: Cell<bool>,
    is_retired: Cell<bool>,
}

/// An attempt to open a connection, which other requests wait for.
#[derive(Debug, Default)]
struct Opening {
    waiting: Cell<usize>,
    is_over: Cell<bool>,
    /// What came of it; nothing if it was given up.
    result: OnceCell<Result<(), Arc<Unreachable>>>,
    done: Notify,
}

/// An attempt that is one's own. Dropped without a result, it is given up.
#[derive(Debug)]
pub struct OwnOpening(Rc<Opening>);

/// How to get a connection when there is none with room.
#[derive(Debug)]
pub enum Access {
    /// To be opened by the caller, who tells the others.
    Open(OwnOpening),
    /// Another request opens one.
    Wait(Waiting),
}

/// A place among those that wait for an attempt.
#[derive(Debug)]
pub struct Waiting(Rc<Opening>);

impl Http2Connections {
    /// A stream on a connection that `is_current` and has room for one with so much content. The first is filled first, so that others become
    /// idle and are closed. Those that are not current end with what is under way there.
    pub fn stream(
        &self,
        content_bytes: u32,
        is_current: impl Fn(&Transport) -> bool,
    ) -> Option<Rc<ServerStream>> {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|connection| {
            if !is_current(connection.transport()) {
                connection.end();
            }
            // Looks at its state.
            connection.has_room() || !connection.is_ending()
        });
        connections
            .iter()
            .find_map(|connection| connection.stream(content_bytes))
    }

    /// Whether one has room for a request without content.
    pub fn has_room(&self) -> bool {
        let connections = self.connections.borrow();
        connections.iter().any(|connection| connection.has_room())
    }

    /// Gets in line for a connection. As many wait for one as it is likely to carry.
    pub fn access(&self) -> Access {
        let streams_max = self.streams_max.get().unwrap_or(STREAMS_MAX);
        let mut opening = self.opening.borrow_mut();
        if let Some(under_way) = opening.upgrade()
            && !self.speaks_http1.get()
            // Its connection will not be shared.
            && !self.is_retired.get()
            && !under_way.is_over.get()
            && under_way.waiting.get() + 1 < streams_max
        {
            under_way.waiting.set(under_way.waiting.get() + 1);
            return Access::Wait(Waiting(under_way));
        }
        let own = Rc::new(Opening::default());
        *opening = Rc::downgrade(&own);
        Access::Open(OwnOpening(own))
    }

    /// Shares a connection from now on.
    pub fn put(&self, connection: Rc<ServerConnection>) {
        self.speaks_http1.set(false);
        self.streams_max.set(Some(connection.streams_max()));
        self.note_websockets(&connection);
        if self.is_retired.get() {
            connection.end();
            return;
        }
        self.connections.borrow_mut().push(connection);
    }

    /// The server speaks HTTP/1.1: nobody waits for another's connection.
    pub fn speaks_http1(&self) {
        self.speaks_http1.set(true);
    }

    /// Notes whether the server takes WebSockets on a new connection.
    pub fn note_websockets(&self, connection: &ServerConnection) {
        self.takes_no_websockets.set(!connection.takes_websockets());
    }

    /// Whether it took none on the last one.
    #[must_use]
    pub fn takes_no_websockets(&self) -> bool {
        self.takes_no_websockets.get()
    }

    /// Closes connections that have had no request for `age_max`, and those that are idle beyond `idle_max`.
    pub fn close_stale(&self, now: Instant, age_max: Duration, idle_max: usize) {
        let mut idle = 0;
        self.connections.borrow_mut().retain(|connection| {
            let Some(since) = connection.idle_since() else {
                return connection.has_room() || !connection.is_ending();
            };
            idle += 1;
            let is_kept = idle <= idle_max
                && now.saturating_duration_since(since) < age_max
                && connection.has_room();
            if !is_kept {
                connection.end();
            }
            is_kept
        });
    }

    /// Closes an idle connection; false if there is none.
    pub fn close_one(&self) -> bool {
        let mut connections = self.connections.borrow_mut();
        let idle = connections.iter().position(|one| one.streams() == 0);
        let idle = idle.map(|index| connections.swap_remove(index));
        if let Some(connection) = &idle {
            connection.end();
        }
        idle.is_some()
    }

    /// Requests under way go on; no others are sent.
    pub fn retire(&self) {
        self.is_retired.set(true);
        self.leave(|_, _| true);
    }

    /// The same for some connections, by their addresses or whatever else is known of them, until others are opened.
    pub fn leave(&self, is_left: impl Fn(IpAddr, &Transport) -> bool) {
        self.connections.borrow_mut().retain(|connection| {
            let is_left = is_left(connection.address().ip(), connection.transport());
            if is_left {
                connection.end();
            }
            !is_left
        });
    }

    /// Connections without a request.
    #[must_use]
    pub fn idle_count(&self) -> usize {
        let connections = self.connections.borrow();
        connections.iter().filter(|one| one.streams() == 0).count()
    }
}

impl OwnOpening {
    /// Tells those who wait what came of it.
    pub fn done(self, result: Result<(), Arc<Unreachable>>) {
        // Set once: this takes `self`.
        let _ = self.0.result.set(result);
    }
}

impl Drop for OwnOpening {
    fn drop(&mut self) {
        self.0.is_over.set(true);
        self.0.done.notify_waiters();
    }
}

impl Waiting {
    /// Waits for the other's attempt.
    ///
    /// # Errors
    /// It failed.
    pub async fn wait(self) -> Result<(), Arc<Unreachable>> {
        let done = self.0.done.notified();
        if !self.0.is_over.get() {
            done.await;
        }
        self.0.result.get().cloned().unwrap_or(Ok(()))
    }
}
