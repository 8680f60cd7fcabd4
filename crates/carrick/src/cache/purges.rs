//! Recent purges: a response that was requested before a purge, and stored after it, must not bring back what was purged.
use super::memory::Object;
use super::purge::{Pattern, Purge};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Purges that are remembered, at most. A request that is older than all of them counts as purged.
const REMEMBERED_MAX: usize = 1024;

/// Places for the hashes of keys that were invalidated. Keys that share a place are invalidated together, as far as they are under way.
const PLACES: usize = 1 << 14;

/// A purge.
#[derive(Debug)]
struct PastPurge {
    number: u64,
    which: Pattern,
    how: Purge,
}

/// The recent purges.
#[derive(Debug, Default)]
struct Past {
    purges: VecDeque<PastPurge>,
    /// The number of the last one that is not remembered.
    forgotten: u64,
}

/// The recent purges and invalidations, which are numbered from 1.
#[derive(Debug)]
pub struct Purges {
    /// How many there were.
    count: AtomicU64,
    past: Mutex<Past>,
    /// The number of the last invalidation of a key, by the key's hash. Anybody can cause them, so they have no part in `past`.
    invalidated: Box<[AtomicU64]>,
}

/// The number of purges and invalidations so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeEpoch(u64);

impl PurgeEpoch {
    /// The epoch after so many further purges.
    #[must_use]
    pub fn after(self, purges: usize) -> Self {
        Self(self.0 + purges as u64)
    }
}

impl Default for Purges {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            past: Mutex::default(),
            invalidated: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Purges {
    /// The present epoch, which a request notes before it asks the origin.
    #[must_use]
    pub fn now(&self) -> PurgeEpoch {
        PurgeEpoch(self.count.load(Ordering::Acquire))
    }

    /// Notes a purge, before it looks through the store: objects that are stored later are checked against it.
    pub fn note(&self, which: &Pattern, how: Purge) {
        let mut past = self.lock();
        if past.purges.len() == REMEMBERED_MAX {
            past.forgotten = past.purges.pop_front().map_or(0, |purge| purge.number);
        }
        let number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        past.purges.push_back(PastPurge {
            number,
            which: which.clone(),
            how,
        });
    }

    /// Notes that what is stored under the key with this hash is removed, in the same way.
    pub fn note_invalidation(&self, hash: u64) {
        let number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        self.place(hash).fetch_max(number, Ordering::AcqRel);
    }

    /// How purges since `epoch` treat an object like this one; the strictest counts.
    #[must_use]
    pub fn since(&self, epoch: PurgeEpoch, object: &Object) -> Option<Purge> {
        if self.now() == epoch {
            return None;
        }
        if self.place(object.key().hash()).load(Ordering::Acquire) > epoch.0 {
            return Some(Purge::Remove);
        }
        let past = self.lock();
        if past.forgotten > epoch.0 {
            return Some(Purge::Remove);
        }
        let recent = past.purges.iter().rev();
        let missed = recent.take_while(|purge| purge.number > epoch.0);
        let mut how = None;
        for purge in missed.filter(|purge| object.matches(&purge.which)) {
            if purge.how == Purge::Remove {
                return Some(Purge::Remove);
            }
            how = Some(purge.how);
        }
        how
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        // There are as many as the hash is divided by.
        &self.invalidated[usize::try_from(hash % PLACES as u64).unwrap_or(0)]
    }

    fn lock(&self) -> MutexGuard<'_, Past> {
        // No code under the lock can leave the list half changed.
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::ledger::Limits;
    use crate::cache::memory::Store;
    use carrick_logic::cache::{Fields, Meta, Policy, Response, Times, UnixTime, Variant};
    use std::sync::Arc;

    /// A stored object without a body.
    fn object_named(key: &[u8]) -> Arc<Object> {
        let store = Arc::new(Store::new(Limits {
            bytes: 1 << 20,
            objects: 10,
            object_bytes_max: 1000,
        }));
        let policy = Policy::default();
        let now = UnixTime(1_800_000_000);
        let response = Response::read(200, Fields::of_text(b""), now, &policy);
        let times = Times {
            request: now,
            response: now,
        };
        let meta = Meta::of(&response, times, &policy);
        let writer = store.fill(Some(0)).unwrap();
        let body = Arc::clone(writer.body());
        assert!(writer.finish());
        let key = store.key(key);
        store
            .put(key, &Variant::default(), meta, b"", &body)
            .unwrap()
    }

    #[test]
    fn what_began_before_a_purge_is_purged() {
        let purges = Purges::default();
        let object = object_named(b"listener=127.0.0.1:3128 http://h:80/a");
        let url = |text| Pattern::url(text).unwrap();
        let before = purges.now();
        assert_eq!(purges.since(before, &object), None);
        purges.note(&url("http://h/b"), Purge::Remove);
        assert_eq!(purges.since(before, &object), None, "it is another one");
        purges.note(&url("http://h/a"), Purge::Outdate);
        assert_eq!(purges.since(before, &object), Some(Purge::Outdate));
        assert_eq!(purges.since(purges.now(), &object), None);
        purges.note(&Pattern::All, Purge::Remove);
        purges.note(&url("http://h/a"), Purge::Outdate);
        assert_eq!(purges.since(before, &object), Some(Purge::Remove));
    }

    #[test]
    fn what_began_before_all_that_is_remembered_is_purged() {
        let purges = Purges::default();
        let object = object_named(b"listener=127.0.0.1:3128 http://h:80/a");
        let other = Pattern::url("http://h/b").unwrap();
        let before = purges.now();
        for _ in 0..REMEMBERED_MAX {
            purges.note(&other, Purge::Remove);
        }
        assert_eq!(purges.since(before, &object), None);
        purges.note(&other, Purge::Remove);
        assert_eq!(purges.since(before, &object), Some(Purge::Remove));
    }

    #[test]
    fn only_what_is_under_way_for_an_invalidated_key_is_purged() {
        let purges = Purges::default();
        let object = object_named(b"listener=127.0.0.1:3128 http://h:80/a");
        let hash = object.key().hash();
        let before = purges.now();
        for number in 1..REMEMBERED_MAX as u64 * 4 {
            purges.note_invalidation(hash.wrapping_add(number));
        }
        assert_eq!(purges.since(before, &object), None);
        purges.note_invalidation(hash);
        assert_eq!(purges.since(before, &object), Some(Purge::Remove));
        assert_eq!(purges.since(purges.now(), &object), None);
        // Purges are found among invalidations.
        let before = purges.now();
        purges.note(&Pattern::All, Purge::Outdate);
        purges.note_invalidation(hash.wrapping_add(1));
        assert_eq!(purges.since(before, &object), Some(Purge::Outdate));
    }
}
