//! What the disk store counts.
use super::Disk;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the index does not count.
#[derive(Debug, Default)]
pub(super) struct DiskCounters {
    pub(super) loads: AtomicU64,
    pub(super) loads_at_once: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Files that were found at the start.
    pub(super) found: AtomicU64,
    /// How many of those were removed.
    pub(super) swept: AtomicU64,
    /// Files that are not carrick's.
    pub(super) foreign: AtomicU64,
}

/// What the disk has, and what it has done since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskStats {
    /// Objects on it.
    pub objects: u64,
    /// Bytes of their files, in pages.
    pub bytes: u64,
    /// Bytes that are queued to be written.
    pub write_queue_bytes: u64,
    /// Whether all files are indexed.
    pub is_indexed: bool,
    /// Files that were found at the start.
    pub found: u64,
    /// How many of those were removed: incomplete, purged, or replaced.
    pub swept: u64,
    /// Files that are not carrick's.
    pub foreign: u64,
    /// Objects that were loaded into memory.
    pub loads: u64,
    /// How many of those were read at once, from the page cache.
    pub loads_at_once: u64,
    /// Files that were written.
    pub writes: u64,
    /// Bytes of those.
    pub written_bytes: u64,
    /// Objects that were not written because the queue was full.
    pub refused: u64,
    /// Objects that were evicted from the small queue.
    pub evicted_small: u64,
    /// Objects that were evicted from the main queue.
    pub evicted_main: u64,
    /// Failed calls for reading.
    pub read_errors: u64,
    /// Failed calls for writing and removing.
    pub write_errors: u64,
    /// Damaged files.
    pub damaged: u64,
}

impl Disk {
    /// Cheap; the numbers are from about the same time.
    #[must_use]
    pub fn stats(&self) -> DiskStats {
        let counters = &self.counters;
        let mut stats = DiskStats {
            objects: self.ledger.objects(),
            bytes: self.ledger.used(),
            write_queue_bytes: self.pool.write_bytes(),
            is_indexed: self.is_indexed.load(Relaxed),
            found: counters.found.load(Relaxed),
            swept: counters.swept.load(Relaxed),
            foreign: counters.foreign.load(Relaxed),
            loads: counters.loads.load(Relaxed),
            loads_at_once: counters.loads_at_once.load(Relaxed),
            writes: counters.writes.load(Relaxed),
            written_bytes: counters.written_bytes.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            read_errors: self.health.read_errors.load(Relaxed),
            write_errors: self.health.write_errors.load(Relaxed),
            damaged: self.health.damaged.load(Relaxed),
            ..DiskStats::default()
        };
        for counters in self.index.all_counters() {
            stats.evicted_small += counters.evicted_small.load(Relaxed);
            stats.evicted_main += counters.evicted_main.load(Relaxed);
        }
        stats
    }

    /// Why nothing can be written at present, if that is so.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.health.fault()
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        self.folder.path()
    }
}
