//! What bodies and objects share with their store: the ledger, and counters.
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
}

impl Memory {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            ledger: Ledger::new(limits),
            fills: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        }
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
