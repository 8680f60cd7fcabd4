//! What the store counts.
use crate::cache::index::IndexCounters;
use std::sync::atomic::Ordering::Relaxed;

/// What the store holds, and what it has done since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStats {
    /// Objects in it.
    pub objects: u64,
    /// Bytes that count against the limit: of objects, and of bodies that are being filled.
    pub bytes: u64,
    /// Bytes of removed objects that readers still hold.
    pub bytes_held_by_readers: u64,
    /// Bodies that are being filled.
    pub fills: u64,
    /// Bodies that broke off, ever.
    pub broken: u64,
    /// Requests that found an object.
    pub hits: u64,
    /// Requests that found none.
    pub misses: u64,
    /// Objects that were stored.
    pub puts: u64,
    /// Objects that were evicted from the small queue: they were not hit since they were stored.
    pub evicted_small: u64,
    /// Objects that were evicted from the main queue.
    pub evicted_main: u64,
    /// Objects that were replaced by the same variant.
    pub replaced: u64,
    /// Objects that were removed as the oldest of too many variants.
    pub pushed_out: u64,
    /// Objects that were removed by a purge, because their bodies broke off, or because a response forbade storing them.
    pub removed: u64,
}

impl MemoryStats {
    pub(super) fn add(&mut self, counters: &IndexCounters) {
        self.hits += counters.hits.load(Relaxed);
        self.misses += counters.misses.load(Relaxed);
        self.puts += counters.puts.load(Relaxed);
        self.evicted_small += counters.evicted_small.load(Relaxed);
        self.evicted_main += counters.evicted_main.load(Relaxed);
        self.replaced += counters.replaced.load(Relaxed);
        self.pushed_out += counters.pushed_out.load(Relaxed);
        self.removed += counters.removed.load(Relaxed);
    }
}
