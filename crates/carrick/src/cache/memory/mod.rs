//! What the cache keeps in memory: objects under keys, whose bodies can be read while they are filled.
//!
//! All workers share one [`Store`]. [`Store::find`] finds the object for a request; its [`Body`] is sent by
//! [`Body::send`]. What is to be stored is announced by [`Store::fill`], made known by [`Store::put`] (before, while or
//! after it is filled), and appended to the [`Filling`]. `docs/internals/cache-store.md` says how it works.
//!
//! Nothing here waits: locks are held for nanoseconds, and what is evicted is freed when none is held.
pub mod accounting;
mod below;
mod body;
mod control;
mod object;
mod parts;
mod stats;
#[cfg(test)]
pub(in crate::cache) mod tests;

pub use body::{Body, FillError, Filling, HEAP_BYTES_MAX, Have, Piece, Reader, State};
pub use control::Objects;
pub use object::{OVERHEAD_BYTES, Object};
pub use parts::{PIECES_MAX, Part};
pub use stats::Stats;

use super::disk::Disk;
use super::index::{Index, count};
use super::key::Key;
use super::ledger::Limits;
use accounting::Memory;
use carrick_logic::cache::{Fields, Meta, Variant, select};
use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What an object takes that is not large, to guess how many there will be.
const OBJECT_BYTES_GUESS: u64 = 4096;

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
    index: Index<Object>,
    /// The second level.
    disk: Option<Arc<Disk>>,
}

impl Store {
    /// A store, empty.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::with_disk(limits, None)
    }

    /// One with a second level, which no other store has.
    #[must_use]
    pub fn with_disk(limits: Limits, disk: Option<Arc<Disk>>) -> Self {
        let objects = limits.objects.min(limits.bytes / OBJECT_BYTES_GUESS);
        Self {
            memory: Arc::new(Memory::new(limits)),
            seed: disk
                .as_ref()
                .map_or_else(RandomState::new, |disk| disk.seed().clone()),
            index: Index::new(objects),
            disk,
        }
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
        let mut variants = self.index.lock(key.hash()).find(key);
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
        let counters = self.index.counters(key.hash());
        if let Some(object) = chosen {
            object.note_hit();
            if let Some(disk) = &self.disk {
                disk.offer(&object, || self.is_still(&object));
                self.close_evicted(disk);
            }
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
        let variants = self.index.lock(key.hash()).find(key);
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
        // First there: what was loaded from there meanwhile is replaced here.
        if let Some(disk) = &self.disk {
            disk.supersede(key, variant);
        }
        let [replaced, left] = self.index.lock(key.hash()).put(Arc::clone(&object));
        // And once more: what was before may have been offered to it in between.
        if let Some(disk) = &self.disk {
            disk.supersede_but(key, variant, object.body());
        }
        let counters = self.index.counters(key.hash());
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
        // First there: what is loaded from there counts in the new head from now on.
        if let (Some(disk), Some(entry)) = (&self.disk, &*new.body().kept()) {
            disk.freshen(entry, &new);
        }
        let replaced = self.index.lock(key.hash()).replace(old, &new);
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
        let is_removed = self.take_out(object);
        if is_removed {
            count(&self.index.counters(object.key().hash()).removed);
            if let (Some(disk), Some(entry)) = (&self.disk, &*object.body().kept()) {
                disk.remove(entry);
            }
        }
        is_removed
    }

    /// The same in memory alone.
    fn take_out(&self, object: &Arc<Object>) -> bool {
        let removed = self.index.lock(object.key().hash()).remove(object);
        let is_removed = removed.is_some();
        if let Some(removed) = removed {
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
        for counters in self.index.all_counters() {
            stats.add(counters);
        }
        stats
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
        let evicted = self.index.evict_one(self.memory.ledger.objects());
        let is_evicted = evicted.is_some();
        if let Some(object) = evicted {
            self.let_go(object);
        }
        is_evicted
    }

    /// The object was taken out of the index. Called without a lock: what it had goes back to the kernel.
    fn let_go(&self, object: Arc<Object>) {
        self.memory.ledger.give_back_object();
        object.loosen(true);
        drop(object);
    }

    fn weigh_again(&self, object: &Arc<Object>) {
        self.index.lock(object.key().hash()).weigh_again(object);
    }
}
