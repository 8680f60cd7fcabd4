//! Who counts what is kept: what bodies and objects share with the store.
use crate::cache::ledger::{Ledger, Limits};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The books.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) ledger: Ledger,
    /// Bodies under way.
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
