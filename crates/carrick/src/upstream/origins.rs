//! Idle connections of the forward proxy, by the host and port that clients requested.
use super::idle::IdleConnections;
use crate::net::transport::Transport;
use crate::upstream::Upstream;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Most idle connections to one origin, per worker.
pub const PER_ORIGIN_MAX: usize = 512;

/// Most idle connections to all origins, per worker.
pub const TOTAL_MAX: usize = 1024;

/// Idle connections to origins and parent proxies.
#[derive(Debug, Default)]
pub struct Origins {
    by_authority: RefCell<HashMap<Box<[u8]>, IdleConnections>>,
}

impl Origins {
    /// An idle connection to `authority` that `is_current`, if there is one.
    pub fn take(
        &self,
        authority: &[u8],
        is_current: impl Fn(&Transport) -> bool,
    ) -> Option<Upstream> {
        let mut by_authority = self.by_authority.borrow_mut();
        by_authority.get_mut(authority)?.take(is_current)
    }

    /// Keeps a connection for the next request to `authority`.
    pub fn put(&self, authority: &[u8], upstream: Upstream, now: Instant) {
        let mut by_authority = self.by_authority.borrow_mut();
        let known = by_authority.get_mut(authority);
        // The first of a known origin needs no count: there are no more origins than connections.
        if let Some(idle) = known.filter(|idle| idle.is_empty()) {
            return idle.put(upstream, PER_ORIGIN_MAX, now);
        }
        if by_authority.len() >= TOTAL_MAX {
            by_authority.retain(|_, idle| !idle.is_empty());
        }
        let count: usize = by_authority.values().map(IdleConnections::len).sum();
        if count < TOTAL_MAX {
            let idle = by_authority.entry(authority.into()).or_default();
            idle.put(upstream, PER_ORIGIN_MAX, now);
        }
    }

    /// Closes idle connections that are too old or were closed by the origin, and forgets origins without any. Whether one is
    /// current is known only where it leads: that is found when it would be taken.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_keep_no_more_than_the_total() {
        let origins = Origins::default();
        let (address, now) = (([192, 0, 2, 1], 80).into(), Instant::now());
        for _ in 0..PER_ORIGIN_MAX {
            for number in 0..2 * TOTAL_MAX / PER_ORIGIN_MAX {
                let upstream = Upstream::new(Transport::Taken, address, 0);
                origins.put(number.to_string().as_bytes(), upstream, now);
            }
        }
        assert_eq!(origins.idle_count(), TOTAL_MAX);
    }
}
