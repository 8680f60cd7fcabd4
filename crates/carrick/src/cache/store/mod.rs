//! What the cache keeps in memory: objects under keys, whose bodies can be read while they are filled.
//!
//! All workers share one [`Store`]. [`Store::find`] finds the object for a request; its [`Body`] is sent by
//! [`Body::send`]. What is to be stored is announced by [`Store::fill`], made known by [`Store::put`] (before, while or
//! after it is filled), and appended to the [`Filling`]. `docs/internals/cache-store.md` says how it works.
//!
//! Nothing here waits: locks are held for nanoseconds, and what is evicted is given back to the kernel when none is held.
mod arena;
mod body;
mod control;
mod ghost;
mod index;
mod key;
mod ledger;
mod memory;
mod object;
mod parts;
mod stats;
#[cfg(test)]
mod tests;

pub use body::{Body, FillError, Filling, HEAP_BYTES_MAX, Have, Piece, Reader, State};
pub use control::{Objects, Purge, Which};
pub use index::VARIANTS_MAX;
pub use key::Key;
pub use ledger::Limits;
pub use object::{OVERHEAD_BYTES, Object};
pub use parts::{PIECES_MAX, Part};
pub use stats::Stats;

use arena::Arena;
use carrick_logic::cache::{Fields, Meta, Variant, select};
use index::{Shard, Step};
use memory::Memory;
use stats::{Counters, count};
use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most shards of the index.
const SHARDS_MAX: u64 = 64;

/// Objects that a shard should have place for: with few, its queues say little.
const SHARD_OBJECTS_MIN: u64 = 1024;

/// What an object takes that is not large, to guess how many there will be.
const OBJECT_BYTES_GUESS: u64 = 4096;

/// Objects that are looked at for eviction while one lock is held.
const STEPS_MAX: usize = 16;

/// Why something is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It is longer than objects may be.
    #[error("it is too large")]
    TooLarge,
    /// There is no room, and nothing to be evicted: bodies that are being filled take all.
    #[error("there is no room")]
    Full,
    /// The body is broken, belongs to another object, or is another store's.
    #[error("its body cannot be stored")]
    Body,
    /// What it should replace is not there any more.
    #[error("what it replaces is gone")]
    Gone,
}

impl NotTaken {
    /// A short stable word for metrics and the log.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Full => "full",
            Self::Body => "body",
            Self::Gone => "gone",
        }
    }
}

/// What there is for a request.
#[derive(Debug)]
pub enum Found {
    /// Nothing under this key.
    Nothing,
    /// Objects, but for other values of the fields that `Vary` names.
    OtherVariant,
    /// This one. Its body may still be filled.
    Object(Arc<Object>),
}

/// The store.
#[derive(Debug)]
pub struct Store {
    memory: Arc<Memory>,
    seed: RandomState,
    shards: Box<[(Mutex<Shard>, Counters)]>,
    /// Which shard is the next to evict from.
    hand: AtomicUsize,
}

impl Store {
    /// A store, empty. Where the kernel has no `memfd_create(2)`, would put its pages together to huge ones, or limits the
    /// size of files, all bodies are on the heap, and [`heap_only`](Self::heap_only) says why.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::with_arena(limits, Arena::new().map_err(|error| error.to_string()))
    }

    /// One that has all bodies on the heap, for the reason given.
    #[must_use]
    pub fn on_heap(limits: Limits, why: &str) -> Self {
        Self::with_arena(limits, Err(why.to_owned()))
    }

    fn with_arena(limits: Limits, arena: Result<Arena, String>) -> Self {
        let objects = limits.objects.min(limits.bytes / OBJECT_BYTES_GUESS);
        let shards = (objects / SHARD_OBJECTS_MIN).clamp(1, SHARDS_MAX);
        let shards = 1_usize << shards.ilog2();
        Self {
            memory: Arc::new(Memory::new(limits, arena)),
            seed: RandomState::new(),
            shards: (0..shards)
                .map(|_| (Mutex::new(Shard::new()), Counters::default()))
                .collect(),
            hand: AtomicUsize::new(0),
        }
    }

    /// Why everything is on the heap, and nothing is sent by `sendfile(2)`; `None` if that is not so.
    #[must_use]
    pub fn heap_only(&self) -> Option<&str> {
        self.memory.heap_only()
    }

    /// Other limits from now on. Evicts what is above them.
    pub fn set_limits(&self, limits: Limits) {
        self.memory.ledger.limit(limits);
        while self.memory.ledger.is_above_limits() && self.evict_one() {}
    }

    /// The key that these bytes are.
    #[must_use]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::of(&self.seed, bytes)
    }

    /// The object for a request with these fields.
    #[must_use]
    pub fn find(&self, key: Key<'_>, request: Fields<'_>) -> Found {
        let mut variants = self.lock(key.hash()).find(key);
        let mut count_found = 0;
        for place in 0..variants.len() {
            let is_broken = |object: &Arc<Object>| object.body().have().state == State::Broken;
            if variants[place]
                .as_ref()
                .is_some_and(|object| !is_broken(object))
            {
                variants.swap(count_found, place);
                count_found += 1;
            }
        }
        let variants = &mut variants[..count_found];
        let each = variants.iter().flatten();
        let chosen = select(
            each.map(|object| (object.variant(), object.meta())),
            request,
        )
        .and_then(|chosen| variants.get_mut(chosen)?.take());
        let counters = self.counters(key.hash());
        if let Some(object) = chosen {
            object.note_hit();
            count(&counters.hits);
            return Found::Object(object);
        }
        count(&counters.misses);
        if count_found == 0 {
            Found::Nothing
        } else {
            Found::OtherVariant
        }
    }

    /// All variants under a key, the one that came last first. Counts as no hit.
    #[must_use]
    pub fn variants(&self, key: Key<'_>) -> Vec<Arc<Object>> {
        let variants = self.lock(key.hash()).find(key);
        variants.into_iter().flatten().collect()
    }

    /// Begins a body of `total_bytes`, or of a length that is not known. Memory for a known length is taken at once.
    ///
    /// # Errors
    /// [`NotTaken::TooLarge`], [`NotTaken::Full`].
    pub fn fill(self: &Arc<Self>, total_bytes: Option<u64>) -> Result<Filling, NotTaken> {
        Filling::begin(Arc::clone(self), total_bytes)
    }

    /// Stores a response: `head` is what `write_stored_fields` wrote. The same variant is replaced. Its body may be whole
    /// or be filled later; if it breaks off, the object is taken out.
    ///
    /// # Errors
    /// Nothing is stored.
    pub fn put(
        &self,
        key: Key<'_>,
        variant: &Variant,
        meta: Meta,
        head: &[u8],
        body: &Arc<Body>,
    ) -> Result<Arc<Object>, NotTaken> {
        self.put_from(None, key, (variant, meta, head), body)
    }

    /// The same for a response that came from this address, if rules for addresses are about it.
    ///
    /// # Errors
    /// Nothing is stored.
    pub fn put_from(
        &self,
        origin: Option<IpAddr>,
        key: Key<'_>,
        (variant, meta, head): (&Variant, Meta, &[u8]),
        body: &Arc<Body>,
    ) -> Result<Arc<Object>, NotTaken> {
        if !body.is_of(&self.memory) || body.have().state == State::Broken || !body.mark_stored() {
            return Err(NotTaken::Body);
        }
        let object = match self.make(key, variant, meta, (head, origin), body) {
            Ok(object) => object,
            Err(error) => {
                body.unmark_stored();
                return Err(error);
            }
        };
        let [replaced, left] = self.lock(key.hash()).put(Arc::clone(&object));
        let counters = self.counters(key.hash());
        count(&counters.puts);
        if let Some(replaced) = replaced {
            count(&counters.replaced);
            self.let_go(replaced);
        }
        if let Some(left) = left {
            count(&counters.pushed_out);
            self.let_go(left);
        }
        if !body.belongs_to(&object) {
            self.remove(&object);
            return Err(NotTaken::Body);
        }
        Ok(object)
    }

    /// An object for which everything was taken.
    fn make(
        &self,
        key: Key<'_>,
        variant: &Variant,
        meta: Meta,
        head: (&[u8], Option<IpAddr>),
        body: &Arc<Body>,
    ) -> Result<Arc<Object>, NotTaken> {
        let ledger = &self.memory.ledger;
        let charge = Object::charge_of(key, variant, head);
        let loose = body.loose_bytes();
        self.take(charge + loose)?;
        while !ledger.try_take_object() {
            if !self.evict_one() {
                ledger.give_back(charge + loose);
                return Err(NotTaken::Full);
            }
        }
        body.tighten(loose);
        Object::new(key, variant, meta, head, Arc::clone(body))
            .map(Arc::new)
            .ok_or_else(|| {
                ledger.give_back_object();
                ledger.give_back(charge);
                NotTaken::TooLarge
            })
    }

    /// Puts another head and other decisions in the place of `old`'s, for the same body.
    ///
    /// # Errors
    /// Nothing is changed. [`NotTaken::Gone`] if `old` is not stored any more; its body can still be sent.
    pub fn replace(
        &self,
        old: &Arc<Object>,
        meta: Meta,
        head: &[u8],
    ) -> Result<Arc<Object>, NotTaken> {
        self.freshen(old, meta, head, old.origin())
    }

    /// The same for what a 304 or the answer to HEAD makes of it, which came from this address.
    ///
    /// # Errors
    /// As those of [`replace`](Self::replace).
    pub fn freshen(
        &self,
        old: &Arc<Object>,
        meta: Meta,
        head: &[u8],
        origin: Option<IpAddr>,
    ) -> Result<Arc<Object>, NotTaken> {
        let key = old.key();
        let head = (head, origin);
        let charge = Object::charge_of(key, old.variant(), head);
        self.take(charge)?;
        let Some(mut new) = Object::new(key, old.variant(), meta, head, Arc::clone(old.body()))
        else {
            self.memory.ledger.give_back(charge);
            return Err(NotTaken::TooLarge);
        };
        new.set_hits(old.hits());
        let new = Arc::new(new);
        let replaced = self.lock(key.hash()).replace(old, &new);
        let Some(replaced) = replaced else {
            return Err(NotTaken::Gone);
        };
        replaced.loosen(false);
        drop(replaced);
        if !new.body().belongs_to(&new) {
            self.remove(&new);
        }
        Ok(new)
    }

    /// Takes an object out; `false` if it is not there any more. Who reads it can go on.
    pub fn remove(&self, object: &Arc<Object>) -> bool {
        let hash = object.key().hash();
        let removed = self.lock(hash).remove(object);
        let is_removed = removed.is_some();
        if let Some(removed) = removed {
            count(&self.counters(hash).removed);
            self.let_go(removed);
        }
        is_removed
    }

    /// What it holds and has done. Cheap; the numbers are of about the same moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let ledger = &self.memory.ledger;
        let mut stats = Stats {
            objects: ledger.objects(),
            bytes: ledger.used(),
            bytes_held_by_readers: ledger.loose(),
            fills: self.memory.fills.load(Relaxed),
            broken: self.memory.broken.load(Relaxed),
            ..Stats::default()
        };
        for (_, counters) in &self.shards {
            stats.add(counters);
        }
        stats
    }

    /// Bytes of memory that the arena has in the kernel; 0 if there is none.
    #[must_use]
    pub fn arena_bytes(&self) -> u64 {
        self.memory
            .arena()
            .and_then(|arena| arena.memory_bytes().ok())
            .unwrap_or(0)
    }

    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Takes bytes, evicting as much as that needs.
    fn take(&self, bytes: u64) -> Result<(), NotTaken> {
        if !self.memory.ledger.could_take(bytes) {
            return Err(NotTaken::TooLarge);
        }
        while !self.memory.ledger.try_take(bytes) {
            if !self.evict_one() {
                return Err(NotTaken::Full);
            }
        }
        Ok(())
    }

    /// Evicts one object; `false` if all that there is, is being filled.
    fn evict_one(&self) -> bool {
        // Each object is looked at four times before it leaves, at most: after its first and its three further chances.
        let looks = 5 * self.memory.ledger.objects() / STEPS_MAX as u64;
        // Where bodies that are being filled make up a queue, the other one has to give.
        let mut other = false;
        for _ in 0..looks + 4 * self.shards.len() as u64 {
            let number = self.hand.fetch_add(1, Relaxed) & (self.shards.len() - 1);
            let (shard, counters) = &self.shards[number];
            let mut shard = locked(shard);
            let mut under_way = 0;
            for _ in 0..STEPS_MAX {
                match shard.evict(other) {
                    Step::Evicted(object, from_main) => {
                        drop(shard);
                        count(if from_main {
                            &counters.evicted_main
                        } else {
                            &counters.evicted_small
                        });
                        self.let_go(object);
                        return true;
                    }
                    Step::Stays => {}
                    Step::UnderWay => under_way += 1,
                    Step::Empty => break,
                }
            }
            other ^= under_way > 0;
        }
        false
    }

    /// The object was taken out of the index. Called without a lock: what it had goes back to the kernel.
    fn let_go(&self, object: Arc<Object>) {
        self.memory.ledger.give_back_object();
        object.loosen(true);
        drop(object);
    }

    fn weigh_again(&self, object: &Arc<Object>) {
        self.lock(object.key().hash()).weigh_again(object);
    }

    fn lock(&self, hash: u64) -> MutexGuard<'_, Shard> {
        locked(&self.shards[self.number(hash)].0)
    }

    fn counters(&self, hash: u64) -> &Counters {
        &self.shards[self.number(hash)].1
    }

    /// By other bits of the hash than those that the tables use.
    fn number(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    fn shard(&self, number: usize) -> Option<MutexGuard<'_, Shard>> {
        self.shards.get(number).map(|(shard, _)| locked(shard))
    }
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
