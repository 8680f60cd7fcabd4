//! The index of a store: which objects are under which key, and which is evicted next.
//!
//! Each shard has a lock, which is held for nanoseconds: under it, there are no system calls, no object is dropped, and no field of a
//! request is read.
mod counters;
mod ghost;
mod nodes;
mod queues;
mod shards;

pub(in crate::cache) use counters::{IndexCounters, count};

use super::key::Key;
use carrick_logic::cache::Variant;
use ghost::{Ghost, MOMENTS};
use hashbrown::HashTable;
use nodes::{NONE, Nodes};
use queues::Queue;
pub(in crate::cache) use shards::Index;
use std::sync::Arc;

/// What a node takes.
#[cfg(test)]
pub(in crate::cache) const NODE_BYTES: usize = size_of::<nodes::Node<()>>();

/// Variants of one key, at most. A new one replaces the oldest.
pub const VARIANTS_MAX: usize = 64;

/// The small queue's share of the bytes, in parts of 65,536: from a tenth, with which it begins, to nine tenths.
const SMALL_SHARE_MIN: u64 = 6_554;
const SMALL_SHARE_MAX: u64 = 58_982;

/// The time in which an eighth of the objects is evicted: a key that returns within it would have been found if its queue were a little
/// longer.
const JUST_MISSED: u16 = MOMENTS / 8;

/// Hits in the small queue with which an object goes to the main queue.
const LOOKS_FOR_MAIN: u8 = 1;

/// The variants of a key, the newest first.
pub(in crate::cache) type Variants<T> = [Option<Arc<T>>; VARIANTS_MAX];

/// What one step of eviction did.
#[derive(Debug)]
enum Step<T> {
    /// An object was evicted from the small queue (`false`) or the main queue (`true`).
    Evicted(Arc<T>, bool),
    /// An object was hit, and stays for another round.
    Stays,
    /// An object is being filled. Its writer holds the memory, so evicting it frees nothing.
    UnderWay,
    /// There are no objects.
    Empty,
}

/// An item of an index: it has a key, under which there may be several variants.
pub(in crate::cache) trait Item {
    fn key(&self) -> Key<'_>;
    fn variant(&self) -> &Variant;
    /// Bytes that it takes.
    fn charged_bytes(&self) -> u64;
    /// Whether evicting it would free nothing yet.
    fn is_under_way(&self) -> bool;
    /// How often it was hit since eviction looked at it, up to a small maximum.
    fn frequency(&self) -> u8;
    fn set_frequency(&self, frequency: u8);
    /// The item that has replaced it and is the same to others.
    fn successor(self: &Arc<Self>) -> Option<Arc<Self>> {
        None
    }
}

/// A shard.
#[derive(Debug)]
pub(in crate::cache) struct Shard<T> {
    table: HashTable<u32>,
    nodes: Nodes<T>,
    small: Queue,
    main: Queue,
    /// Keys that were evicted from the small queue.
    ghost: Ghost,
    /// Keys that were evicted from the main queue.
    main_ghost: Ghost,
    small_share: u64,
}

impl<T: Item> Shard<T> {
    fn new() -> Self {
        Self {
            table: HashTable::new(),
            nodes: Nodes::new(),
            small: Queue::new(false),
            main: Queue::new(true),
            ghost: Ghost::default(),
            main_ghost: Ghost::default(),
            small_share: SMALL_SHARE_MIN,
        }
    }

    /// The objects under a key.
    pub(in crate::cache) fn find(&self, key: Key<'_>) -> Variants<T> {
        let mut found = [const { None }; VARIANTS_MAX];
        let mut place = self.first(key);
        for slot in &mut found {
            if place == NONE {
                break;
            }
            *slot = self.nodes.object(place).cloned();
            place = self.nodes.get(place).next_variant;
        }
        found
    }

    /// Adds an object. Returns what it replaces: the same variant, or one above [`VARIANTS_MAX`]. If there is no node for it, it is
    /// returned itself.
    pub(in crate::cache) fn put(&mut self, object: Arc<T>) -> [Option<Arc<T>>; 2] {
        let mut same = NONE;
        let mut last = NONE;
        let mut count = 0;
        let mut place = self.first(object.key());
        while place != NONE {
            count += 1;
            last = place;
            let node = self.nodes.get(place);
            if node
                .object()
                .is_some_and(|held| held.variant() == object.variant())
            {
                same = place;
            }
            place = node.next_variant;
        }
        let replaced = (same != NONE).then(|| self.take_out(same)).flatten();
        let pushed_out = (same == NONE && count >= VARIANTS_MAX)
            .then(|| self.take_out(last))
            .flatten();
        let remembered = self.remembers(object.key().hash());
        let (hash, bytes) = (object.key().hash(), object.charged_bytes());
        // A replaced object that was hit shows that this one will be.
        let to_main = remembered
            || replaced
                .as_ref()
                .is_some_and(|held| held.frequency() >= LOOKS_FOR_MAIN);
        let first = self.first(object.key());
        let Some(place) = self.nodes.insert(Arc::clone(&object)) else {
            return [replaced.or(pushed_out), Some(object)];
        };
        self.nodes.get_mut(place).next_variant = first;
        self.set_first(hash, first, place);
        let queue = if to_main {
            &mut self.main
        } else {
            &mut self.small
        };
        queue.push(&mut self.nodes, place, bytes);
        [replaced, pushed_out]
    }

    /// Adds an object if there is none of its variant. Returns what it replaces; `None`: it was not added.
    pub(in crate::cache) fn put_new(&mut self, object: &Arc<T>) -> Option<[Option<Arc<T>>; 2]> {
        let variants = self.find(object.key());
        let is_there = |held: &Arc<T>| held.variant() == object.variant();
        (!variants.iter().flatten().any(is_there)).then(|| self.put(Arc::clone(object)))
    }

    /// Replaces an object that is still there; returns it.
    pub(in crate::cache) fn replace(&mut self, old: &Arc<T>, new: &Arc<T>) -> Option<Arc<T>> {
        let place = self.place_of(old)?;
        new.set_frequency(old.frequency());
        let replaced = self.nodes.get_mut(place).swap(Arc::clone(new));
        self.weigh_at(place, new);
        replaced
    }

    /// Counts the bytes of an object again, as they have changed.
    pub(in crate::cache) fn weigh_again(&mut self, object: &Arc<T>) {
        if let Some(place) = self.place_of(object) {
            self.weigh_at(place, object);
        }
    }

    /// Removes an object, if it is there.
    pub(in crate::cache) fn remove(&mut self, object: &Arc<T>) -> Option<Arc<T>> {
        let place = self.place_of(object)?;
        self.take_out(place)
    }

    /// Adds up to `count` objects from a node on to `found`; returns the next node.
    fn some_from(&self, place: u32, count: usize, found: &mut Vec<Arc<T>>) -> Option<u32> {
        self.nodes.some_from(place, count, found)
    }

    /// Looks at one object and evicts it, or keeps it for another round. With `other`, it takes the queue whose turn it is not.
    fn evict(&mut self, other: bool) -> Step<T> {
        let all = self.small.bytes() + self.main.bytes();
        let small_is_full = self.small.bytes() * 65_536 > all * self.small_share;
        let (first, second) = if small_is_full != other {
            (self.small.oldest(), self.main.oldest())
        } else {
            (self.main.oldest(), self.small.oldest())
        };
        let Some(place) = first.or(second) else {
            return Step::Empty;
        };
        let is_main = self.nodes.get(place).is_main();
        let Some(object) = self.nodes.object(place).cloned() else {
            debug_assert!(false, "a queued node has an object");
            return Step::Empty;
        };
        let frequency = object.frequency();
        let is_under_way = object.is_under_way();
        let stays = is_under_way || frequency >= if is_main { 1 } else { LOOKS_FOR_MAIN };
        if !stays {
            self.take_out(place);
            let hash = object.key().hash();
            let capacity = self.table.len();
            if is_main {
                self.main_ghost.insert(hash, capacity / 8);
            } else {
                self.ghost.insert(hash, capacity);
            }
            return Step::Evicted(object, is_main);
        }
        if is_main {
            self.main.remove(&mut self.nodes, place);
        } else {
            self.small.remove(&mut self.nodes, place);
        }
        let to_main = is_main || frequency >= LOOKS_FOR_MAIN;
        object.set_frequency(if is_main {
            frequency.saturating_sub(1)
        } else {
            0
        });
        let bytes = object.charged_bytes();
        let queue = if to_main {
            &mut self.main
        } else {
            &mut self.small
        };
        queue.push(&mut self.nodes, place, bytes);
        if is_under_way {
            Step::UnderWay
        } else {
            Step::Stays
        }
    }

    /// Whether a key was evicted a short while ago. Then its queue gets a larger share.
    fn remembers(&mut self, hash: u64) -> bool {
        let from_small = self.ghost.take(hash);
        let from_main = self.main_ghost.take(hash);
        let step = (65_536 / (self.table.len() as u64 + 1)).max(8);
        let wanted = if from_small.is_some_and(|age| age <= JUST_MISSED) {
            self.small_share + step
        } else if from_main.is_some() {
            self.small_share.saturating_sub(step)
        } else {
            self.small_share
        };
        self.small_share = wanted.clamp(SMALL_SHARE_MIN, SMALL_SHARE_MAX);
        from_small.is_some() || from_main.is_some()
    }

    fn weigh_at(&mut self, place: u32, object: &T) {
        let bytes = object.charged_bytes();
        let queue = if self.nodes.get(place).is_main() {
            &mut self.main
        } else {
            &mut self.small
        };
        queue.weigh_again(&mut self.nodes, place, bytes);
    }

    /// The node of the newest object under a key.
    fn first(&self, key: Key<'_>) -> u32 {
        self.table
            .find(key.hash(), |&place| {
                self.nodes.object(place).is_some_and(|held| {
                    held.key().hash() == key.hash() && held.key().bytes() == key.bytes()
                })
            })
            .copied()
            .unwrap_or(NONE)
    }

    /// Lets a key's list begin with `place` instead of `before`. One of them may be [`NONE`].
    fn set_first(&mut self, hash: u64, before: u32, place: u32) {
        let nodes = &self.nodes;
        if before == NONE {
            self.table.insert_unique(hash, place, |&other| {
                nodes.object(other).map_or(0, |object| object.key().hash())
            });
        } else if let Ok(mut entry) = self.table.find_entry(hash, |&other| other == before) {
            if place == NONE {
                entry.remove();
            } else {
                *entry.get_mut() = place;
            }
        }
    }

    /// The node of an object or of its successor.
    fn place_of(&self, object: &Arc<T>) -> Option<u32> {
        self.place_of_itself(object)
            .or_else(|| self.place_of_itself(&object.successor()?))
    }

    fn place_of_itself(&self, object: &Arc<T>) -> Option<u32> {
        let mut place = self.first(object.key());
        while place != NONE {
            let node = self.nodes.get(place);
            if node.object().is_some_and(|held| Arc::ptr_eq(held, object)) {
                return Some(place);
            }
            place = node.next_variant;
        }
        None
    }

    /// Removes the object of a node from list, queue and nodes.
    fn take_out(&mut self, place: u32) -> Option<Arc<T>> {
        let (hash, first) = {
            let key = self.nodes.object(place)?.key();
            (key.hash(), self.first(key))
        };
        let next = self.nodes.get(place).next_variant;
        if first == place {
            self.set_first(hash, first, next);
        } else {
            let mut before = first;
            while self.nodes.get(before).next_variant != place {
                before = self.nodes.get(before).next_variant;
            }
            self.nodes.get_mut(before).next_variant = next;
        }
        if self.nodes.get(place).is_main() {
            self.main.remove(&mut self.nodes, place);
        } else {
            self.small.remove(&mut self.nodes, place);
        }
        self.nodes.remove(place)
    }
}
