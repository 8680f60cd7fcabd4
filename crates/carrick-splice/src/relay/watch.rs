//! What a waiting splice watches besides its bytes: the clock, and connections that are not being read.

#[cfg(test)]
mod tests;

use crate::{Ended, Leg, Side, sys};
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
    /// The rate is checked once per interval, from the last time on at which it was kept. The first interval is
    /// thus a grace period. A receiver may be [`STEP_BYTES`] behind.
    pub grace: Duration,
}

/// How far a receiver may be behind [`RateMin`]: it does not acknowledge what it takes evenly, but opens its
/// window when a part of its buffer is free again (`__tcp_select_window`).
pub const STEP_BYTES: u64 = 64 << 10;

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
    /// What the receiver had acknowledged, if the splice waited for it.
    seen_acked: Option<u64>,
    /// Boxed, since few splices have a least rate.
    level: Option<Box<Level>>,
}

/// When the least rate was kept last, and the bytes moved and acknowledged by then.
struct Level {
    at: Instant,
    bytes: u64,
    acked: Option<u64>,
    checked_at: Instant,
}

impl Watch {
    /// Checks the clock of a splice that waits for this side. Neither `moved_bytes` nor what the receiver has
    /// `acked` ever decreases.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        (moved_bytes, waits): (u64, Side),
        acked: impl Fn() -> Option<u64>,
        idle: Duration,
        rate: Option<RateMin>,
    ) -> Poll<Alarm> {
        let armed = (self.0).get_or_insert_with(|| Armed::new(moved_bytes, &acked, idle, rate));
        if armed.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let now = Instant::now();
        let is_receivers = waits == Side::To;
        let acked = (is_receivers || rate.is_some()).then(acked).flatten();
        let quiet = moved_bytes == armed.seen_bytes;
        // What a slow receiver takes does not make room for more at once.
        let is_taken = is_receivers && acked > armed.seen_acked && armed.seen_acked.is_some();
        if !quiet || is_taken {
            armed.quiet_since = now;
        } else if now.saturating_duration_since(armed.quiet_since) >= idle {
            self.0 = None;
            return Poll::Ready(Alarm::Ended(Ended::Idle));
        }
        (armed.seen_bytes, armed.seen_acked) = (moved_bytes, acked.filter(|_| is_receivers));
        if let (Some(rate), Some(level)) = (rate, &mut armed.level)
            && !level.is_kept(rate, now, (moved_bytes, acked), is_receivers)
        {
            self.0 = None;
            return Poll::Ready(Alarm::Ended(Ended::TooSlow));
        }
        let check_at = armed.next_check(rate);
        let next = next_tick(now, armed.quiet_since, idle, check_at);
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
    fn new(
        moved_bytes: u64,
        acked: impl Fn() -> Option<u64>,
        idle: Duration,
        rate: Option<RateMin>,
    ) -> Armed {
        let now = Instant::now();
        let level = rate.map(|_| {
            Box::new(Level {
                at: now,
                bytes: moved_bytes,
                acked: acked(),
                checked_at: now,
            })
        });
        let mut armed = Armed {
            timer: Box::pin(tokio::time::sleep_until(now)),
            seen_bytes: moved_bytes,
            quiet_since: now,
            seen_acked: None,
            level,
        };
        let next = next_tick(now, now, idle, armed.next_check(rate));
        armed.timer.as_mut().reset(next);
        armed
    }

    /// When to check the rate next.
    fn next_check(&self, rate: Option<RateMin>) -> Option<Instant> {
        let level = self.level.as_ref()?;
        Some(level.checked_at + rate?.grace.min(NEVER))
    }
}

impl Level {
    /// Whether the rate is kept, as far as it is time to check it.
    fn is_kept(
        &mut self,
        rate: RateMin,
        now: Instant,
        (moved_bytes, acked): (u64, Option<u64>),
        is_receivers: bool,
    ) -> bool {
        if now.saturating_duration_since(self.checked_at) < rate.grace {
            return true;
        }
        self.checked_at = now;
        let time = now.saturating_duration_since(self.at);
        let wanted = rate.bytes_per_second as f64 * time.as_secs_f64();
        let done = match acked.zip(self.acked) {
            Some((acked, level)) if is_receivers => acked.saturating_sub(level),
            _ => moved_bytes.saturating_sub(self.bytes),
        };
        let behind = wanted - done as f64;
        if behind <= 0.0 {
            (self.at, self.bytes, self.acked) = (now, moved_bytes, acked);
        }
        behind <= if is_receivers { STEP_BYTES as f64 } else { 0.0 }
    }
}

/// When to check next.
fn next_tick(
    now: Instant,
    quiet_since: Instant,
    idle: Duration,
    check_at: Option<Instant>,
) -> Instant {
    let idle = idle.min(NEVER);
    let tick = (now + idle / TICKS_PER_IDLE).min((quiet_since + idle).max(now));
    check_at
        .map_or(tick, |check_at| tick.min(check_at.max(now)))
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
