//! What a waiting splice watches besides its bytes: the clock, and connections that are not being read.

use crate::{Ended, Leg, sys};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// The least rate at which bytes must move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateMin {
    /// Bytes passed on per second. A slow sender and a slow receiver count alike.
    pub bytes_per_second: u64,
    /// The rate is checked once per interval, over that interval. The first interval is thus a grace period.
    pub grace: Duration,
}

/// Checks of the clock per `idle`.
const TICKS_PER_IDLE: u32 = 4;

/// Far enough to mean never, near enough for every clock.
const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The result of checking the clock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// The splice is over.
    Ended(Ended),
    /// Time has passed and nothing has moved.
    Quiet,
}

/// Ends a splice in which too little moves.
///
/// A splice that never waits never touches it. One that waits arms one timer, which is not moved when bytes
/// move: when it fires, it compares byte counts. This costs nothing per byte or wake-up, but idleness is
/// noticed up to a quarter of `idle` late.
#[derive(Default)]
pub(crate) struct Watch(Option<Armed>);

struct Armed {
    timer: Pin<Box<Sleep>>,
    seen_bytes: u64,
    quiet_since: Instant,
    window_start: Instant,
    window_bytes: u64,
}

impl Watch {
    /// Checks the clock. `moved_bytes` never decreases.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        moved_bytes: u64,
        idle: Duration,
        rate: Option<RateMin>,
    ) -> Poll<Alarm> {
        let armed = self
            .0
            .get_or_insert_with(|| Armed::new(moved_bytes, idle, rate));
        if armed.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let now = Instant::now();
        let quiet = moved_bytes == armed.seen_bytes;
        if !quiet {
            armed.seen_bytes = moved_bytes;
            armed.quiet_since = now;
        } else if now.saturating_duration_since(armed.quiet_since) >= idle {
            self.0 = None;
            return Poll::Ready(Alarm::Ended(Ended::Idle));
        }
        if let Some(rate) = rate {
            let window = now.saturating_duration_since(armed.window_start);
            if window >= rate.grace {
                let moved = moved_bytes.saturating_sub(armed.window_bytes);
                if (moved as f64) < rate.bytes_per_second as f64 * window.as_secs_f64() {
                    self.0 = None;
                    return Poll::Ready(Alarm::Ended(Ended::TooSlow));
                }
                armed.window_start = now;
                armed.window_bytes = moved_bytes;
            }
        }
        let next = next_tick(now, armed.quiet_since, armed.window_start, idle, rate);
        armed.timer.as_mut().reset(next);
        // Registers the new deadline; one that has come already wakes the task.
        if armed.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        if quiet {
            Poll::Ready(Alarm::Quiet)
        } else {
            Poll::Pending
        }
    }

    /// Starts afresh at the next poll.
    pub(crate) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Armed {
    fn new(moved_bytes: u64, idle: Duration, rate: Option<RateMin>) -> Armed {
        let now = Instant::now();
        Armed {
            timer: Box::pin(tokio::time::sleep_until(next_tick(
                now, now, now, idle, rate,
            ))),
            seen_bytes: moved_bytes,
            quiet_since: now,
            window_start: now,
            window_bytes: moved_bytes,
        }
    }
}

/// When to check next.
fn next_tick(
    now: Instant,
    quiet_since: Instant,
    window_start: Instant,
    idle: Duration,
    rate: Option<RateMin>,
) -> Instant {
    let idle = idle.min(NEVER);
    let tick = (now + idle / TICKS_PER_IDLE).min((quiet_since + idle).max(now));
    match rate {
        Some(rate) => tick.min((window_start + rate.grace.min(NEVER)).max(now)),
        None => tick,
    }
    // tokio's timers have a resolution of one millisecond.
    .max(now + Duration::from_millis(1))
}

/// Watches a connection that is not being read for a reset. A FIN of the peer's is no reason.
#[derive(Default)]
pub(crate) struct ErrorWatch<'a> {
    waiting: Option<Pin<Box<dyn Future<Output = io::Result<Ready>> + 'a>>>,
    is_deaf: bool,
}

impl<'a> ErrorWatch<'a> {
    /// Ready with the error if the connection has failed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, stream: &Leg<'a>) -> Poll<io::Error> {
        if self.is_deaf {
            return Poll::Pending;
        }
        if self.waiting.is_none() {
            // A reset makes a connection readable. Until it is readable, the reader's slot suffices, without
            // an allocation.
            match stream.poll_read_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Ready(Ok(())) => {}
            }
            if stream.try_io(Interest::ERROR, || Ok(())).is_ok() {
                return self.take_error(stream);
            }
        }
        let waiting = self.waiting.get_or_insert_with(|| {
            let stream = stream.clone();
            Box::pin(async move { stream.ready(Interest::ERROR).await })
        });
        match waiting.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(error),
            Poll::Ready(Ok(_)) => {
                self.waiting = None;
                self.take_error(stream)
            }
        }
    }

    /// The error that the socket reported.
    fn take_error(&mut self, stream: &TcpStream) -> Poll<io::Error> {
        match stream.take_error() {
            Ok(Some(error)) | Err(error) => Poll::Ready(error),
            Ok(None) if sys::is_hung_up(stream) => {
                Poll::Ready(io::ErrorKind::ConnectionReset.into())
            }
            // Readiness for errors is never cleared: polling again would spin.
            Ok(None) => {
                self.is_deaf = true;
                Poll::Pending
            }
        }
    }
}

/// Watches the receiver for input.
#[derive(Default)]
pub(crate) struct InputWatch {
    is_deaf: bool,
}

impl InputWatch {
    /// Ready when there is something to be read, or with the error if the connection has failed.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &TcpStream,
    ) -> Poll<io::Result<()>> {
        while !self.is_deaf {
            match stream.poll_read_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
            match sys::has_input(stream) {
                Ok(true) => return Poll::Ready(Ok(())),
                // The peer has sent its FIN, and can still receive.
                Ok(false) => self.is_deaf = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }

    /// Stops reporting input.
    pub(crate) fn ignore(&mut self) {
        self.is_deaf = true;
    }

    pub(crate) fn is_deaf(&self) -> bool {
        self.is_deaf
    }
}
