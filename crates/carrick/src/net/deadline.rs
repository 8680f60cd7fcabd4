//! One timer per session, armed as seldom as possible: a request that is answered in time never touches the timer wheel.
use std::borrow::BorrowMut;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// The present time. In tests with virtual time, the virtual one.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time ran out before the future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

/// A point in time. The clock is read at the first wait, so a future that is ready at once does not read it at all.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    limit: Duration,
    at: Option<Instant>,
}

impl Deadline {
    /// This long after the first wait.
    #[must_use]
    pub fn after(limit: Duration) -> Self {
        Self { limit, at: None }
    }

    /// At this time.
    #[must_use]
    pub fn at(moment: Instant) -> Self {
        Self {
            limit: Duration::ZERO,
            at: Some(moment),
        }
    }

    /// How long after the first wait.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.limit
    }

    fn moment(&mut self) -> Instant {
        *self.at.get_or_insert_with(|| now() + self.limit)
    }
}

/// A timer that is moved forward lazily.
///
/// The armed timer may be earlier than the deadline; when it fires too early it is armed again. It is re-armed at once
/// only if it is too late.
#[derive(Debug, Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Waits for `future`, at most until `deadline`, which several waits can share.
    ///
    /// # Errors
    /// [`TimedOut`] at `deadline`.
    pub fn until<'d, F: Future>(
        &mut self,
        deadline: &'d mut Deadline,
        future: F,
    ) -> Until<'_, F, &'d mut Deadline> {
        Until {
            timer: self,
            deadline,
            future,
        }
    }

    /// Waits for `future`, at most for `limit`.
    ///
    /// # Errors
    /// [`TimedOut`] after `limit`.
    pub fn within<F: Future>(&mut self, limit: Duration, future: F) -> Until<'_, F, Deadline> {
        Until {
            timer: self,
            deadline: Deadline::after(limit),
            future,
        }
    }

    fn poll_expired(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let target = deadline.into();
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(target)));
        if sleep.deadline() > target {
            sleep.as_mut().reset(target);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(target);
        }
    }
}

/// The future of [`Timer::until`] and [`Timer::within`].
#[derive(Debug)]
pub struct Until<'t, F, D> {
    timer: &'t mut Timer,
    deadline: D,
    future: F,
}

impl<F: Future + Unpin, D: BorrowMut<Deadline> + Unpin> Future for Until<'_, F, D> {
    type Output = Result<F::Output, TimedOut>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Poll::Ready(output) = Pin::new(&mut this.future).poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let moment = this.deadline.borrow_mut().moment();
        this.timer.poll_expired(moment, cx).map(|()| Err(TimedOut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn what_is_ready_arms_nothing() {
        let mut timer = Timer::default();
        assert_eq!(timer.within(Duration::from_secs(1), ready(7)).await, Ok(7));
        assert!(timer.sleep.is_none());
    }

    #[tokio::test]
    async fn a_deadline_is_shared_by_waits_and_kept() {
        let mut timer = Timer::default();
        // A far deadline first: an earlier one must still be met.
        let far = timer
            .within(
                Duration::from_secs(3600),
                Box::pin(tokio::time::sleep(Duration::from_millis(1))),
            )
            .await;
        assert_eq!(far, Ok(()));
        let begun = Instant::now();
        let mut deadline = Deadline::after(Duration::from_millis(30));
        assert_eq!(
            timer.until(&mut deadline, pending::<()>()).await,
            Err(TimedOut)
        );
        assert!(begun.elapsed() >= Duration::from_millis(30));
        assert_eq!(
            timer.until(&mut deadline, pending::<()>()).await,
            Err(TimedOut),
            "an expired deadline stays expired"
        );
        assert_eq!(
            timer.until(&mut deadline, ready(())).await,
            Ok(()),
            "a ready future wins over the deadline"
        );
    }
}
