//! Reading a body while it comes.
use super::waiting::Registration;
use super::{Body, BodyProgress, BodyState};
use crate::net::deadline::{TimedOut, Timer};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Reads a body, and can wait for more of it. Once dropped, it is not woken any more.
#[derive(Debug)]
pub struct BodyReader {
    body: Arc<Body>,
    registration: Option<Registration>,
    /// The reader of the piece that was waited for last.
    of_piece: Option<Box<BodyReader>>,
}

impl BodyReader {
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
    pub fn poll_more(&mut self, cx: &mut Context<'_>, from: u64) -> Poll<BodyProgress> {
        if !self.body.pieces().is_empty() {
            return self.poll_piece(cx, from);
        }
        let is_ready =
            |progress: &BodyProgress| progress.bytes > from || progress.state != BodyState::Filling;
        let progress = self.body.progress();
        if is_ready(&progress) {
            return Poll::Ready(progress);
        }
        let mut under_way = self.body.under_way();
        // The writer publishes under the lock: what is not seen here wakes the waker that is registered here.
        let progress = self.body.progress();
        if is_ready(&progress) {
            return Poll::Ready(progress);
        }
        let Some(under_way) = under_way.as_mut() else {
            debug_assert!(false, "a body that is being filled is under way");
            return Poll::Ready(progress);
        };
        self.registration = Some(under_way.waiting.register(self.registration, cx.waker()));
        Poll::Pending
    }

    /// Waits for more than `from` bytes, or until no more will come: at most so long as nothing comes at all for `idle`.
    ///
    /// # Errors
    /// [`TimedOut`] when nothing has come for so long.
    pub async fn more(
        &mut self,
        timer: &mut Timer,
        idle: Duration,
        from: u64,
    ) -> Result<BodyProgress, TimedOut> {
        loop {
            let before = self.received_bytes(from);
            let more = poll_fn(|cx| match self.poll_more(cx, from) {
                Poll::Ready(progress) => Poll::Ready(Some(progress)),
                Poll::Pending if self.received_bytes(from) > before => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            if let Some(progress) = timer.within(idle, more).await? {
                return Ok(progress);
            }
        }
    }

    /// Whether the body breaks off before its first byte: where only the disk would have it, and does not take it.
    pub async fn breaks_at_once(&mut self, timer: &mut Timer, idle: Duration) -> bool {
        (self.more(timer, idle, 0).await)
            .is_ok_and(|there| (there.bytes, there.state) == (0, BodyState::Broken))
    }

    /// Bytes that have come of the body, or of the piece that has the byte at `from`.
    fn received_bytes(&self, from: u64) -> u64 {
        let body = (self.body.piece(from)).map_or(&self.body, |piece| &piece.body);
        body.progress().bytes
    }

    /// The same as [`poll_more`](Self::poll_more) for a body that is made of pieces.
    fn poll_piece(&mut self, cx: &mut Context<'_>, from: u64) -> Poll<BodyProgress> {
        let Some(piece) = self.body.piece(from) else {
            return Poll::Ready(BodyProgress {
                bytes: from,
                state: BodyState::Broken,
            });
        };
        let (start, end) = (piece.start, piece.range.end);
        let reader = match &mut self.of_piece {
            Some(reader) if Arc::ptr_eq(&reader.body, &piece.body) => reader,
            place => place.insert(Box::new(piece.body.reader())),
        };
        reader
            .poll_more(cx, from - start)
            .map(|progress| BodyProgress {
                bytes: end.min(start.saturating_add(progress.bytes)),
                state: progress.state,
            })
    }
}

impl Drop for BodyReader {
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
