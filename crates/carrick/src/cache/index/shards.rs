//! All shards of an index: which one has a key, and from which one is evicted next.
use super::counters::{IndexCounters, count};
use super::{Item, Shard, Step};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shards of an index, at most.
const SHARDS_MAX: u64 = 64;

/// Objects of a shard, at least: with fewer, its queues say little.
const SHARD_OBJECTS_MIN: u64 = 1024;

/// Objects that eviction looks at while it holds one lock.
const STEPS_MAX: usize = 16;

/// Objects that are listed under one lock.
const BATCH: usize = 32;

/// The index.
pub(in crate::cache) struct Index<T> {
    shards: Box<[(Mutex<Shard<T>>, IndexCounters)]>,
    /// The next shard to evict from.
    hand: AtomicUsize,
}

impl<T: Item> Index<T> {
    /// An index for about so many objects.
    pub(in crate::cache) fn new(objects: u64) -> Self {
        let shards = (objects / SHARD_OBJECTS_MIN).clamp(1, SHARDS_MAX);
        let shards = 1_usize << shards.ilog2();
        Self {
            shards: (0..shards)
                .map(|_| (Mutex::new(Shard::new()), IndexCounters::default()))
                .collect(),
            hand: AtomicUsize::new(0),
        }
    }

    /// Evicts an object, of `objects` in all; `None`: all are under way.
    pub(in crate::cache) fn evict_one(&self, objects: u64) -> Option<Arc<T>> {
        // An object is evicted at the fifth look at the latest.
        let looks = 5 * objects / STEPS_MAX as u64;
        // If a queue consists of objects under way, the other one is taken.
        let mut other = false;
        for _ in 0..looks + 4 * self.shards.len() as u64 {
            let number = self.hand.fetch_add(1, Relaxed) & (self.shards.len() - 1);
            let (shard, counters) = &self.shards[number];
            let mut shard = locked(shard);
            let mut under_way = 0;
            for _ in 0..STEPS_MAX {
                match shard.evict(other) {
                    Step::Evicted(object, from_main) => {
                        count(if from_main {
                            &counters.evicted_main
                        } else {
                            &counters.evicted_small
                        });
                        return Some(object);
                    }
                    Step::Stays => {}
                    Step::UnderWay => under_way += 1,
                    Step::Empty => break,
                }
            }
            other ^= under_way > 0;
        }
        None
    }

    /// The shard of a hash.
    pub(in crate::cache) fn lock(&self, hash: u64) -> MutexGuard<'_, Shard<T>> {
        locked(&self.shards[self.number(hash)].0)
    }

    /// The counters of the shard of a hash.
    pub(in crate::cache) fn counters(&self, hash: u64) -> &IndexCounters {
        &self.shards[self.number(hash)].1
    }

    /// The counters of all shards.
    pub(in crate::cache) fn all_counters(&self) -> impl Iterator<Item = &IndexCounters> {
        self.shards.iter().map(|(_, counters)| counters)
    }

    /// All objects, in no order. No lock is held between two: those that are added or removed meanwhile may be left out.
    pub(in crate::cache) fn items(&self) -> Items<'_, T> {
        Items {
            index: self,
            batch: Vec::new(),
            next: Some((0, 0)),
        }
    }

    /// The tables use other bits of the hash.
    fn number(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }
}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an index of {} shards", self.shards.len())
    }
}

/// See [`Index::items`].
#[derive(Debug)]
pub(in crate::cache) struct Items<'i, T> {
    index: &'i Index<T>,
    batch: Vec<Arc<T>>,
    /// Shard and node.
    next: Option<(usize, u32)>,
}

impl<T: Item> Iterator for Items<'_, T> {
    type Item = Arc<T>;

    fn next(&mut self) -> Option<Arc<T>> {
        loop {
            if let Some(object) = self.batch.pop() {
                return Some(object);
            }
            let (number, place) = self.next?;
            let (shard, _) = self.index.shards.get(number)?;
            self.batch.reserve(BATCH);
            let next = locked(shard).some_from(place, BATCH, &mut self.batch);
            self.next = Some(match next {
                Some(place) => (number, place),
                None => (number + 1, 0),
            });
        }
    }
}

fn locked<T>(shard: &Mutex<Shard<T>>) -> MutexGuard<'_, Shard<T>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
