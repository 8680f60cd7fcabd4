//! Facts about resources that hold for a while, such as that the last response was not stored, in a table of fixed size.
use carrick_logic::cache::UnixTime;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slots of the table. A resource displaces the one that was in its slot.
const SLOTS: usize = 1 << 14;

/// The table: in each slot, the upper half of a key's hash, and until when it is remembered.
#[derive(Debug)]
pub struct RecentKeys {
    seconds: u64,
    slots: Box<[AtomicU64]>,
}

impl RecentKeys {
    /// A table that remembers resources for so many seconds.
    #[must_use]
    pub fn new(seconds: u64) -> Self {
        Self {
            seconds,
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Remembers the resource whose key has this hash.
    pub fn note(&self, hash: u64, now: UnixTime) {
        self.slot(hash)
            .store(entry(hash, (now.0 + self.seconds) & 0xffff_ffff), Relaxed);
    }

    /// Forgets it.
    pub fn forget(&self, hash: u64) {
        if self.slot(hash).load(Relaxed) >> 32 == hash >> 32 {
            self.slot(hash).store(0, Relaxed);
        }
    }

    /// Whether it is remembered.
    #[must_use]
    pub fn has(&self, hash: u64, now: UnixTime) -> bool {
        let found = self.slot(hash).load(Relaxed);
        let until = found & 0xffff_ffff;
        found >> 32 == hash >> 32 && (now.0 & 0xffff_ffff) < until
    }

    fn slot(&self, hash: u64) -> &AtomicU64 {
        // The length is a power of two, and not 0.
        &self.slots[hash as usize & (SLOTS - 1)]
    }
}

fn entry(hash: u64, until: u64) -> u64 {
    hash >> 32 << 32 | until
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_remembered_for_a_while() {
        let (passes, now) = (RecentKeys::new(120), UnixTime(1_800_000_000));
        let (a, b) = (7 << 32 | 5, 8 << 32 | 5);
        assert!(!passes.has(a, now));
        passes.note(a, now);
        assert!(passes.has(a, now) && !passes.has(b, now));
        assert!(passes.has(a, now.plus(119)) && !passes.has(a, now.plus(120)));
        passes.forget(b);
        assert!(passes.has(a, now));
        passes.note(b, now);
        assert!(
            passes.has(b, now) && !passes.has(a, now),
            "the slot was the same"
        );
        passes.note(a, now);
        passes.forget(a);
        assert!(!passes.has(a, now));
    }
}
