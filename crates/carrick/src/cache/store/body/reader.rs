//! Reading a body while it comes.
use super::waiting::Ticket;
use super::{Body, Have, State};
use std::sync::Arc;
use std::task::{Context, Poll};

/// One who reads a body, and may wait for more of it. Dropped, it is woken no more.
#[derive(Debug)]
pub struct Reader {
    body: Arc<Body>,
    ticket: Option<Ticket>,
}

impl Reader {
    pub(super) fn of(body: Arc<Body>) -> Self {
        Self { body, ticket: None }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// Ready when there are more than `from` bytes, or when no more will come.
    ///
    /// A reader has one waker: the last that it polled with. It may be polled in one thread and woken by another.
    pub fn poll_more(&mut self, cx: &mut Context<'_>, from: u64) -> Poll<Have> {
        let is_ready = |have: &Have| have.bytes > from || have.state != State::Filling;
        let have = self.body.have();
        if is_ready(&have) {
            return Poll::Ready(have);
        }
        let mut under_way = self.body.under_way();
        // Who fills publishes first and takes the lock to wake afterwards: what was not seen here wakes what is
        // registered here.
        let have = self.body.have();
        if is_ready(&have) {
            return Poll::Ready(have);
        }
        let Some(under_way) = under_way.as_mut() else {
            debug_assert!(false, "a body that is being filled has what that needs");
            return Poll::Ready(have);
        };
        self.ticket = Some(under_way.waiting.register(self.ticket, cx.waker()));
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let waker = self
            .body
            .under_way()
            .as_mut()
            .and_then(|under_way| under_way.waiting.remove(ticket));
        // Dropped here: a waker's own code is not run under the lock.
        drop(waker);
    }
}
