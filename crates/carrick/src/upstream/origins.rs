//! Idle connections of the forward proxy, by the host and port that clients requested.
use super::idle::IdleConnections;
use crate::upstream::Upstream;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Most idle connections to one origin, per worker.
pub const PER_ORIGIN_MAX: usize = 64;

/// Most idle connections to all origins, per worker.
pub const TOTAL_MAX: usize = 1024;

/// Idle connections to origins and parent proxies.
#[derive(Debug, Default)]
pub struct Origins {
    by_authority: RefCell<HashMap<Box<[u8]>, IdleConnections>>,
}

impl Origins {
    /// An idle connection to `authority`, if there is one.
    pub fn take(&self, authority: &[u8]) -> Option<Upstream> {
        self.by_authority.borrow_mut().get_mut(authority)?.take()
    }

    /// Keeps a connection for the next request to `authority`.
    pub fn put(&self, authority: &[u8], upstream: Upstream, now: Instant) {
        let mut by_authority = self.by_authority.borrow_mut();
        if let Some(idle) = by_authority.get_mut(authority) {
            idle.put(upstream, PER_ORIGIN_MAX, now);
            return;
        }
        if by_authority.len() >= TOTAL_MAX {
            by_authority.retain(|_, idle| !idle.is_empty());
        }
        if by_authority
            .values()
            .map(IdleConnections::len)
            .sum::<usize>()
            < TOTAL_MAX
        {
            by_authority
                .entry(authority.into())
                .or_default()
                .put(upstream, PER_ORIGIN_MAX, now);
        }
    }

    /// Closes idle connections that are too old or were closed by the origin, and forgets origins without any.
    pub fn close_stale(&self, now: Instant, age_max: Duration) {
        self.by_authority.borrow_mut().retain(|_, idle| {
            idle.close_stale(now, age_max);
            !idle.is_empty()
        });
    }

    /// Closes one; false if there is none.
    pub fn close_one(&self) -> bool {
        let mut by_authority = self.by_authority.borrow_mut();
        by_authority.values_mut().any(IdleConnections::close_oldest)
    }

    /// Closes all: the rules may have changed.
    pub fn clear(&self) {
        self.by_authority.borrow_mut().clear();
    }

    /// Idle connections, over all origins.
    #[must_use]
    pub fn idle_count(&self) -> usize {
        self.by_authority
            .borrow()
            .values()
            .map(IdleConnections::len)
            .sum()
    }
}
