//! What bodies and objects share with their store: the ledger, and counters.
use super::HEAP_BYTES_MAX;
use crate::cache::ledger::{Ledger, Limits};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of a store.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) ledger: Ledger,
    /// Bodies that are being filled.
    pub(super) fills: AtomicU64,
    /// Bodies that broke off.
    pub(super) broken: AtomicU64,
    /// Bytes taken for announced lengths of bodies that are being filled.
    announced: AtomicU64,
}

/// Bodies of announced lengths, but for short ones, may take one in so many bytes of the memory while they are being filled.
/// Servers may take their time, and meanwhile nothing of it can be evicted: also not what has come, which therefore
/// counts until the end. Otherwise a few servers that hold back the last byte could empty the cache.
const ANNOUNCED_SHARE: u64 = 2;

impl Memory {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            ledger: Ledger::new(limits),
            fills: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            announced: AtomicU64::new(0),
        }
    }

    /// Counts bytes that will be taken for an announced length, unless such bodies have their share already.
    pub(super) fn try_announce(&self, bytes: u64) -> bool {
        if bytes <= HEAP_BYTES_MAX {
            return true;
        }
        let most = self.ledger.bytes_max() / ANNOUNCED_SHARE;
        let added = |now: u64| now.checked_add(bytes).filter(|after| *after <= most);
        self.announced.try_update(Relaxed, Relaxed, added).is_ok()
    }

    /// The body has ended, or was not begun.
    pub(super) fn forget_announced(&self, bytes: u64) {
        if bytes <= HEAP_BYTES_MAX {
            return;
        }
        let before = self.announced.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "forgot more than was announced");
    }

    pub(super) fn fill_begins(&self) {
        self.fills.fetch_add(1, Relaxed);
    }

    pub(super) fn fill_ends(&self, whole: bool) {
        self.fills.fetch_sub(1, Relaxed);
        if !whole {
            self.broken.fetch_add(1, Relaxed);
        }
    }
}
