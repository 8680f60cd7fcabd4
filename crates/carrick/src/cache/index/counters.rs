//! What an index counts.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one shard.
#[derive(Debug, Default)]
pub(in crate::cache) struct IndexCounters {
    pub(in crate::cache) hits: AtomicU64,
    pub(in crate::cache) misses: AtomicU64,
    pub(in crate::cache) puts: AtomicU64,
    pub(in crate::cache) evicted_small: AtomicU64,
    pub(in crate::cache) evicted_main: AtomicU64,
    pub(in crate::cache) replaced: AtomicU64,
    pub(in crate::cache) pushed_out: AtomicU64,
    pub(in crate::cache) removed: AtomicU64,
}

/// Adds one.
pub(in crate::cache) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
