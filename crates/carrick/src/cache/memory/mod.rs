//! What the cache keeps in memory: objects under keys, whose bodies can be read while they come.
//!
//! All workers share one [`Store`]. [`Store::find`] finds the object for a request; [`Body::send`] sends its body. To store a
//! response, [`Store::fill`] begins its body, bytes are appended to the [`BodyWriter`], and [`Store::put`] stores the object before,
//! while or after that. `docs/internals/cache-store.md` says how it works.
//!
//! Only [`Store::bring`] waits. Locks are held for nanoseconds, and memory is freed when none is held.
mod accounting;
mod body_writer;
mod chunk;
mod control;
mod object;
mod on_disk;
mod open_files;
mod parts;
mod stats;
#[cfg(test)]
pub(in crate::cache) mod tests;

pub use body_writer::{BodyWriter, FillError};
pub use object::{
    Body, BodyProgress, BodyReader, BodyState, HEAP_BYTES_MAX, OVERHEAD_BYTES, Object, Piece,
};
pub use parts::{PIECES_MAX, Part};
pub use stats::MemoryStats;

use super::disk::Disk;
use super::index::{Index, Item as _, count};
use super::key::Key;
use super::ledger::Limits;
use accounting::Memory;
use carrick_logic::cache::{Fields, Meta, Variant, select};
use object::BodyPlace;
use open_files::OpenFiles;
use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What a typical object takes, to estimate how many there will be.
const OBJECT_BYTES_GUESS: u64 = 4096;

carrick_logic::named! {
    /// Why something is not stored.
    #[derive(thiserror::Error)]
    pub enum NotTaken with label {
        /// It is longer than `object_bytes_max`.
        #[error("it is too large")]
        TooLarge = "too_large",
        /// There is no room, and nothing can be evicted: all of it is being filled, or too much of what was evicted is
        /// still being read; or bodies of announced lengths that are being filled have half of it already.
        #[error("there is no room")]
        Full = "full",
        /// The body is broken, or belongs to another object or another store.
        #[error("its body cannot be stored")]
        Body = "body",
        /// The object that it should replace is not stored any more.
        #[error("what it replaces is gone")]
        Gone = "gone",
    }
}

/// What the store has for a request.
#[derive(Debug)]
pub enum Found {
    /// Nothing under this key.
    Nothing,
    /// Only objects for other values of the fields that `Vary` names.
    OtherVariant,
    /// An object, whose body may still be filled.
    Object(Arc<Object>),
}

/// The store.
#[derive(Debug)]
pub struct Store {
    memory: Arc<Memory>,
    seed: RandomState,
    index: Index<Object>,
    disk: Option<Arc<Disk>>,
    open_files: OpenFiles,
}

impl Store {
    /// An empty store without a disk.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::with_disk(limits, None)
    }

    /// A store with a disk that no other store uses.
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
            open_files: OpenFiles::new(),
        }
    }

    /// The key of these bytes.
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
            let Some(object) = &variants[place] else {
                break;
            };
            if object.progress().state != BodyState::Broken {
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
            self.offer_found(&object);
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

    /// All variants under a key, the newest first. Does not count as a hit.
    #[must_use]
    pub fn variants(&self, key: Key<'_>) -> Vec<Arc<Object>> {
        let variants = self.index.lock(key.hash()).find(key);
        variants.into_iter().flatten().collect()
    }

    /// Begins a body of `total_bytes`, or of unknown length. Memory for a known length is taken at once.
    ///
    /// # Errors
    /// [`NotTaken::TooLarge`], [`NotTaken::Full`].
    pub fn fill(self: &Arc<Self>, total_bytes: Option<u64>) -> Result<BodyWriter, NotTaken> {
        self.fill_for(total_bytes, true)
    }

    /// The same. A body that is too long for memory is refused unless [its head fits a file](super::disk::fits_file).
    ///
    /// # Errors
    /// The same.
    pub fn fill_for(
        self: &Arc<Self>,
        total_bytes: Option<u64>,
        fits_file: bool,
    ) -> Result<BodyWriter, NotTaken> {
        BodyWriter::begin(Arc::clone(self), total_bytes, fits_file)
    }

    /// Stores a response, replacing the same variant: `head` is what `write_stored_fields` wrote. The body may be whole, or be filled
    /// later; if it breaks off, the object is removed.
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

    /// The same with the address of the server that sent it, if a rule about addresses applies to it.
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
        if !body.is_of(&self.memory)
            || body.progress().state == BodyState::Broken
            || !body.mark_stored()
        {
            return Err(NotTaken::Body);
        }
        let object = match self.make(key, variant, meta, (head, origin), body) {
            Ok(object) => object,
            Err(error) => {
                body.unmark_stored();
                return Err(error);
            }
        };
        // The disk first: what is loaded from it meanwhile is replaced below.
        if let Some(disk) = &self.disk {
            disk.supersede(key, variant);
        }
        let [replaced, left] = self.index.lock(key.hash()).put(Arc::clone(&object));
        // Once more: the old object may have been written in between.
        if let Some(disk) = &self.disk {
            disk.remove_variant(key, variant, |entry| body.is_kept_as(entry));
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
        if object.apart().is_some_and(|body| !body.belongs_to(&object)) {
            self.remove(&object);
            return Err(NotTaken::Body);
        }
        Ok(object)
    }

    /// Makes an object, and takes what it needs.
    fn make(
        &self,
        key: Key<'_>,
        variant: &Variant,
        meta: Meta,
        head: (&[u8], Option<IpAddr>),
        body: &Arc<Body>,
    ) -> Result<Arc<Object>, NotTaken> {
        let ledger = &self.memory.ledger;
        let inside = (body.short()).filter(|_| self.disk.is_none() && meta.part.is_none());
        let charge = Object::charge_of(key, variant, head, inside.map(<[u8]>::len));
        let loose = match inside {
            Some(_) => 0,
            None => body.loose_bytes(),
        };
        self.take(charge + loose)?;
        while !ledger.try_take_object() {
            if !self.evict_one() {
                ledger.give_back(charge + loose);
                return Err(NotTaken::Full);
            }
        }
        let place = if inside.is_some() {
            body.loosen();
            BodyPlace::Inside(Arc::clone(&self.memory))
        } else {
            body.tighten(loose);
            BodyPlace::Apart(Arc::clone(body))
        };
        Object::new(
            key,
            variant,
            meta,
            head,
            (place, inside.unwrap_or_default()),
        )
        .map(Arc::new)
        .ok_or_else(|| {
            ledger.give_back_object();
            ledger.give_back(charge);
            NotTaken::TooLarge
        })
    }

    /// Replaces head and decisions of `old`; the body stays.
    ///
    /// # Errors
    /// Nothing is changed. [`NotTaken::Gone`]: `old` is not stored any more; its body can still be sent.
    pub fn replace(
        &self,
        old: &Arc<Object>,
        meta: Meta,
        head: &[u8],
    ) -> Result<Arc<Object>, NotTaken> {
        self.freshen(old, meta, head, old.origin())
    }

    /// The same after a 304 or a response to HEAD from this address.
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
        let successor = old.successor();
        let old = successor.as_ref().unwrap_or(old);
        let (key, variant) = (old.key(), old.variant());
        let head = (head, origin);
        let inside = old.apart().is_none().then(|| old.inside());
        let charge = Object::charge_of(key, variant, head, inside.map(<[u8]>::len));
        self.take(charge)?;
        let body = (old.place().clone(), old.inside());
        let Some(mut new) = Object::new(key, variant, meta, head, body) else {
            self.memory.ledger.give_back(charge);
            return Err(NotTaken::TooLarge);
        };
        new.set_hits(old.hits());
        let new = Arc::new(new);
        // The disk first: what is loaded from it has the new head from now on.
        if let (Some(disk), Some(body)) = (&self.disk, new.apart())
            && let Some(entry) = &body.kept()
        {
            disk.freshen(entry, new.new_head());
        }
        let replaced = self.index.lock(key.hash()).replace(old, &new);
        let Some(replaced) = replaced else {
            return Err(NotTaken::Gone);
        };
        replaced.loosen(false);
        if let Some(body) = new.apart() {
            if !Arc::ptr_eq(&replaced, old) {
                // The object was moved meanwhile, and its body was loosened.
                body.mark_stored();
                body.tighten(0);
            }
            if !body.belongs_to(&new) {
                self.remove(&new);
            }
        }
        Ok(new)
    }

    /// Removes an object; `false` if it is not stored any more. Its readers can go on.
    pub fn remove(&self, object: &Arc<Object>) -> bool {
        let is_removed = self.take_out(object);
        if is_removed {
            count(&self.index.counters(object.key().hash()).removed);
            if let (Some(disk), Some(body)) = (&self.disk, object.apart())
                && let Some(entry) = &body.kept()
            {
                disk.remove(entry);
            }
        }
        is_removed
    }

    /// Takes an object out of memory alone.
    fn take_out(&self, object: &Arc<Object>) -> bool {
        let removed = self.index.lock(object.key().hash()).remove(object);
        let is_removed = removed.is_some();
        if let Some(removed) = removed {
            self.let_go(removed);
        }
        is_removed
    }

    /// What it holds and has done. Cheap; the numbers are from about the same time.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        let ledger = &self.memory.ledger;
        let mut stats = MemoryStats {
            objects: ledger.objects(),
            bytes: ledger.used(),
            bytes_held_by_readers: ledger.loose(),
            fills: self.memory.fills.load(Relaxed),
            broken: self.memory.broken.load(Relaxed),
            ..MemoryStats::default()
        };
        for counters in self.index.all_counters() {
            stats.add(counters);
        }
        stats
    }

    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Takes bytes, and evicts objects for them.
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

    /// The same for bytes of a body, unless readers hold more than there is room for of what is not stored any more.
    fn take_for_body(&self, bytes: u64) -> Result<(), NotTaken> {
        let ledger = &self.memory.ledger;
        if ledger.loose() > ledger.bytes_max() {
            return Err(NotTaken::Full);
        }
        self.take(bytes)
    }

    /// Evicts one object; `false`: there is none, or all are being filled.
    fn evict_one(&self) -> bool {
        let evicted = self.index.evict_one(self.memory.ledger.objects());
        let is_evicted = evicted.is_some();
        if let Some(object) = evicted {
            self.let_go(object);
        }
        is_evicted
    }

    /// Gives back what an object that left the index had taken. Called without a lock, as it frees memory.
    fn let_go(&self, object: Arc<Object>) {
        self.memory.ledger.give_back_object();
        object.loosen(true);
        drop(object);
    }

    /// The body of an object has become whole: a short one moves inside.
    fn is_whole_now(&self, object: &Arc<Object>) {
        if self.disk.is_some() || !self.move_inside(object).unwrap_or(false) {
            self.index.lock(object.key().hash()).weigh_again(object);
        }
        self.offer_new(object);
    }

    /// Replaces an object by one that has the body inside; whether that was done.
    fn move_inside(&self, object: &Arc<Object>) -> Option<bool> {
        let (key, variant, meta) = (object.key(), object.variant(), object.meta());
        let body = object.apart().filter(|_| meta.part.is_none())?;
        let inside = body.short()?;
        let head = (object.head(), object.origin());
        self.take(Object::charge_of(key, variant, head, Some(inside.len())))
            .ok()?;
        let place = BodyPlace::Inside(Arc::clone(&self.memory));
        let Some(mut new) = Object::new(key, variant, meta, head, (place, inside)) else {
            debug_assert!(false, "the object has the same head");
            return None;
        };
        new.set_hits(object.hits());
        let new = Arc::new(new);
        body.note_move(object, &new);
        let replaced = self.index.lock(key.hash()).replace(object, &new)?;
        replaced.loosen(true);
        Some(true)
    }
}
