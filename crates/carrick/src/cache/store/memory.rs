//! Where bytes are kept and who counts them: what bodies and objects share with the store.
use super::arena::Arena;
use super::ledger::{Ledger, Limits};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The books and the file.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) ledger: Ledger,
    /// The file, or why there is none.
    arena: Result<Arena, String>,
    /// Bodies under way.
    pub(super) fills: AtomicU64,
    /// Bodies that broke off.
    pub(super) broken: AtomicU64,
}

impl Memory {
    pub(super) fn new(limits: Limits, arena: Result<Arena, String>) -> Self {
        Self {
            ledger: Ledger::new(limits),
            arena,
            fills: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        }
    }

    pub(super) fn arena(&self) -> Option<&Arena> {
        self.arena.as_ref().ok()
    }

    /// Why everything is on the heap; `None` if it is not.
    pub(super) fn heap_only(&self) -> Option<&str> {
        self.arena.as_ref().err().map(String::as_str)
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
