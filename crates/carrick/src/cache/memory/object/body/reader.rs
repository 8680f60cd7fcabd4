//! Reading a body while it comes.
use super::waiting::Registration;
use super::{Body, Have, State};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Reads a body, and can wait for more of it. Once dropped, it is not woken any more.
#[derive(Debug)]
pub struct Reader {
    body: Arc<Body>,
    registration: Option<Registration>,
    /// The reader of the piece that was waited for last.
    of_piece: Option<Box<Reader>>,
}

impl Reader {
    pub(super) fn of(body: Arc<Body>) -> Self {
        Self {
            body,
            registration: None,
            of_piece: None,
        }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// Ready when there are more than `from` bytes, or when no more will come.
    ///
    /// A reader has one waker, the last one that it was polled with. It can be polled by one thread and woken by another.
    pub fn poll_more(&mut self, cx: &mut Context<'_>, from: u64) -> Poll<Have> {
        if !self.body.pieces().is_empty() {
            return self.poll_piece(cx, from);
        }
        let is_ready = |have: &Have| have.bytes > from || have.state != State::Filling;
        let have = self.body.have();
        if is_ready(&have) {
            return Poll::Ready(have);
        }
        let mut under_way = self.body.under_way();
        // The filler publishes under the lock: what is not seen here wakes the waker that is registered here.
        let have = self.body.have();
        if is_ready(&have) {
            return Poll::Ready(have);
        }
        let Some(under_way) = under_way.as_mut() else {
            debug_assert!(false, "a body that is being filled is under way");
            return Poll::Ready(have);
        };
        self.registration = Some(under_way.waiting.register(self.registration, cx.waker()));
        Poll::Pending
    }

    /// The same for a body that is made of pieces.
    fn poll_piece(&mut self, cx: &mut Context<'_>, from: u64) -> Poll<Have> {
        let Some(piece) = self.body.piece(from) else {
            return Poll::Ready(Have {
                bytes: from,
                state: State::Broken,
            });
        };
        let (start, end) = (piece.start, piece.range.end);
        let reader = match &mut self.of_piece {
            Some(reader) if Arc::ptr_eq(&reader.body, &piece.body) => reader,
            place => place.insert(Box::new(piece.body.reader())),
        };
        reader.poll_more(cx, from - start).map(|have| Have {
            bytes: end.min(start.saturating_add(have.bytes)),
            state: have.state,
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(registration) = self.registration else {
            return;
        };
        let waker = self
            .body
            .under_way()
            .as_mut()
            .and_then(|under_way| under_way.waiting.remove(registration));
        // Here, so that the waker's code does not run under the lock.
        drop(waker);
    }
}
