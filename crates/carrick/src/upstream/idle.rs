//! Idle connections to one destination, the most recently used first.
use crate::net::io::{Stream, is_readable, peek, try_peek};
use crate::net::transport::Transport;
use crate::upstream::Upstream;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How many are kept for as long as a pool's user says; the others are what a burst has left behind.
const LONG_MAX: usize = 64;

/// How long the others are kept.
const BURST_AGE_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Parked {
    upstream: Upstream,
    since: Instant,
}

/// A bounded stack of idle connections.
#[derive(Debug, Default)]
pub struct IdleConnections {
    parked: VecDeque<Parked>,
}

impl IdleConnections {
    /// Takes the most recently used connection that is still usable and `is_current`.
    pub fn take(&mut self, is_current: impl Fn(&Transport) -> bool) -> Option<Upstream> {
        while let Some(Parked { mut upstream, .. }) = self.parked.pop_back() {
            if is_current(&upstream.transport) && is_silent(&upstream.transport) {
                upstream.is_at_rest = false;
                return Some(upstream);
            }
        }
        None
    }

    /// Keeps a connection that [may be reused](super::reuse), at most `max`; the oldest is dropped first.
    pub fn put(&mut self, mut upstream: Upstream, max: usize, now: Instant) {
        if max == 0 {
            return;
        }
        while self.parked.len() >= max {
            self.parked.pop_front();
        }
        upstream.reused = true;
        self.parked.push_back(Parked {
            upstream,
            since: now,
        });
    }

    /// Closes connections that were idle for longer than `age_max`, beyond the 64 used last for longer than 5 s, or that
    /// the other end has closed.
    pub fn close_stale(&mut self, now: Instant, age_max: Duration) {
        let mut older = self.parked.len();
        self.parked.retain(|parked| {
            older -= 1;
            let age_max = if older < LONG_MAX {
                age_max
            } else {
                age_max.min(BURST_AGE_MAX)
            };
            now.duration_since(parked.since) < age_max && is_quiet(&parked.upstream.transport)
        });
    }

    /// Closes some connections, by their addresses or whatever else is known of them.
    pub fn leave(&mut self, is_left: impl Fn(IpAddr, &Transport) -> bool) {
        self.parked
            .retain(|Parked { upstream, .. }| !is_left(upstream.address.ip(), &upstream.transport));
    }

    /// Closes the longest-idle connection; false if there is none.
    pub fn close_oldest(&mut self) -> bool {
        self.parked.pop_front().is_some()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parked.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }
}

/// Neither data nor an end has arrived on an idle connection; either would make it unusable.
///
/// Usually the runtime knows this without a system call. Only after a splice, which stops at the last byte without
/// finding the socket empty, the kernel is asked. Before a request is sent, it always is: [`is_silent`].
pub fn is_quiet<S: Stream>(stream: &S) -> bool {
    if !is_readable(stream) {
        return true;
    }
    try_peek(stream).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Like [`is_quiet`], but always asks the kernel: bytes that arrive before a request would be taken for its response. One system call.
pub fn is_silent<S: Stream>(stream: &S) -> bool {
    peek(stream) == Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests;
