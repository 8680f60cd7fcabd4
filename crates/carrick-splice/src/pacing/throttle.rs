//! Paces bytes that the owner of a connection writes itself.

use super::{PaceHandle, Pacer, turn::Turn};
use std::future::poll_fn;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// For bodies that are processed rather than spliced: they keep to the same rates, and wait for the same
/// worker.
pub struct Throttle(Option<Box<ThrottledTurn>>);

struct ThrottledTurn {
    turn: Turn,
    pacer: Pacer,
}

impl Throttle {
    /// For a direction with this pacing, in the worker of this pacer. Without one, nothing waits.
    #[must_use]
    pub fn new(handle: PaceHandle, pacer: Option<&Pacer>) -> Throttle {
        let pacer = pacer.filter(|_| !handle.is_none());
        Throttle(pacer.map(|pacer| {
            Box::new(ThrottledTurn {
                turn: Turn::new(handle),
                pacer: pacer.clone(),
            })
        }))
    }

    /// The best number of bytes per request, so that bursts stay small: `u64::MAX` if there is no rate.
    #[must_use]
    pub fn piece_bytes(&self) -> u64 {
        self.0
            .as_ref()
            .map_or(u64::MAX, |held| held.turn.quantum(&held.pacer))
    }

    /// Waits until this many bytes may be written to `to`; returns how long that took.
    pub async fn pass(&mut self, to: &TcpStream, bytes: u64) -> Duration {
        match &mut self.0 {
            None => Duration::ZERO,
            // Boxed: large, and rarely used.
            Some(held) => Box::pin(held.pass(to, bytes)).await,
        }
    }
}

impl ThrottledTurn {
    async fn pass(&mut self, to: &TcpStream, bytes: u64) -> Duration {
        let ThrottledTurn { turn, pacer } = self;
        let (begun, mut left) = (Instant::now(), bytes);
        while left > 0 {
            let allowed = poll_fn(|cx| turn.poll(cx, Some(pacer), to)).await;
            let passed = allowed.min(left);
            turn.took(Some(pacer), passed);
            left -= passed;
        }
        begun.elapsed()
    }
}

impl Drop for ThrottledTurn {
    fn drop(&mut self) {
        self.turn.release(Some(&self.pacer));
    }
}
