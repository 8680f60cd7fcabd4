//! One timer per session, armed as seldom as possible: a request that is answered in time never touches the timer wheel.
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// The time was over before the future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

/// A timer that is moved forward lazily.
///
/// The armed timer may be earlier than the moment that counts; when it fires too early it is armed again. It is
/// re-armed at once only when it stands too late.
#[derive(Debug, Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Waits for `future`, at most until `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`] at `deadline`.
    pub fn until<F: Future>(&mut self, deadline: Instant, future: F) -> Until<'_, F> {
        Until {
            timer: self,
            deadline,
            future,
        }
    }

    /// As [`until`](Self::until), with the time from now.
    ///
    /// # Errors
    /// [`TimedOut`] after `limit`.
    pub fn within<F: Future>(&mut self, limit: Duration, future: F) -> Until<'_, F> {
        self.until(Instant::now() + limit, future)
    }

    /// Ready at `deadline`.
    pub fn poll_expired(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let target = deadline.into();
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(target)));
        if sleep.deadline() > target {
            sleep.as_mut().reset(target);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(target);
        }
    }
}

/// The future of [`Timer::until`].
#[derive(Debug)]
pub struct Until<'t, F> {
    timer: &'t mut Timer,
    deadline: Instant,
    future: F,
}

impl<F: Future + Unpin> Until<'_, F> {
    fn poll_both(&mut self, cx: &mut Context<'_>) -> Poll<Result<F::Output, TimedOut>> {
        if let Poll::Ready(output) = Pin::new(&mut self.future).poll(cx) {
            return Poll::Ready(Ok(output));
        }
        self.timer
            .poll_expired(self.deadline, cx)
            .map(|()| Err(TimedOut))
    }
}

impl<F: Future + Unpin> Future for Until<'_, F> {
    type Output = Result<F::Output, TimedOut>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_both(cx)
    }
}
