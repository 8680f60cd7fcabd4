//! What was noted of resources lately, in a table of fixed size: that the answer was not stored, so that requests do not wait for each
//! other, and the like.
use carrick_logic::cache::UnixTime;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Resources that are remembered at most. Others that fall into the same place displace them.
const PLACES: usize = 1 << 14;

/// What is remembered: in each place the upper half of a key's hash, and until when.
#[derive(Debug)]
pub struct Lately {
    seconds: u64,
    places: Box<[AtomicU64]>,
}

impl Lately {
    /// Remembers so long.
    #[must_use]
    pub fn new(seconds: u64) -> Self {
        Self {
            seconds,
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// It is so of a name with this hash.
    pub fn note(&self, hash: u64, now: UnixTime) {
        self.place(hash)
            .store(entry(hash, (now.0 + self.seconds) & 0xffff_ffff), Relaxed);
    }

    /// It is not so any more.
    pub fn forget(&self, hash: u64) {
        if self.place(hash).load(Relaxed) >> 32 == hash >> 32 {
            self.place(hash).store(0, Relaxed);
        }
    }

    /// Whether it was so lately.
    #[must_use]
    pub fn has(&self, hash: u64, now: UnixTime) -> bool {
        let found = self.place(hash).load(Relaxed);
        let until = found & 0xffff_ffff;
        found >> 32 == hash >> 32 && (now.0 & 0xffff_ffff) < until
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        // The length is a power of two, and not 0.
        &self.places[hash as usize & (PLACES - 1)]
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
        let (passes, now) = (Lately::new(120), UnixTime(1_800_000_000));
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
            "the place was the same"
        );
        passes.note(a, now);
        passes.forget(a);
        assert!(!passes.has(a, now));
    }
}
