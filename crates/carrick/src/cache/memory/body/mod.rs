//! A body: bytes that are appended by one and read by many, also while it is being filled.
mod chunk;
mod filling;
mod pieces;
mod place;
mod reader;
mod receiving;
mod sending;
mod waiting;

pub use filling::{FillError, Filling};
pub use pieces::Piece;
pub(super) use pieces::{PIECE_BYTES, joined};
pub use reader::Reader;

use super::object::Object;
use crate::cache::disk::Entry;
use crate::cache::ledger::{Charge, Ledger};
use crate::cache::memory::accounting::Memory;
use arc_swap::ArcSwapOption;
use carrick_logic::cache::UnixTime;
use chunk::Chunk;
pub(super) use place::Place;
use place::copy_chunks;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::sync::oneshot;
use waiting::Waiting;

/// Bodies up to so many bytes are in one piece of memory, longer ones in several.
pub const HEAP_BYTES_MAX: u64 = 64 * 1024;

/// How far a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// More may come.
    Filling,
    /// All is there.
    Whole,
    /// It ended before its end. What is there is right, but who has sent its beginning must not let it pass for whole.
    Broken,
}

/// What there is of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Have {
    /// So many bytes, from the first on.
    pub bytes: u64,
    /// How far it is.
    pub state: State,
}

impl Have {
    fn of_word(word: u64) -> Self {
        Self {
            bytes: word >> 2,
            state: match word & 3 {
                0 => State::Filling,
                1 => State::Whole,
                _ => State::Broken,
            },
        }
    }

    fn word(self) -> u64 {
        self.bytes << 2
            | match self.state {
                State::Filling => 0,
                State::Whole => 1,
                State::Broken => 2,
            }
    }
}

/// The bytes of a response. They are never changed once they are there.
#[derive(Debug)]
pub struct Body {
    memory: Arc<Memory>,
    /// [`Have`], in one word: the count and the state are always of the same moment.
    have: AtomicU64,
    charge: Charge,
    /// Where the bytes are. Unknown as long as they are in [`Under`].
    place: OnceLock<Place>,
    /// The same on the disk, or on its way there.
    kept: ArcSwapOption<Entry>,
    /// What only a body that is being filled needs.
    under_way: Mutex<Option<Box<Under>>>,
}

/// A body that is being filled.
#[derive(Debug, Default)]
struct Under {
    /// The bytes of a short body, or of one whose length is not known, while they are few.
    heap: Vec<u8>,
    /// The bytes of another.
    chunks: Vec<Chunk>,
    waiting: Waiting,
    /// Which object has the body: it is taken out of the store if the body breaks off.
    object: Weak<Object>,
    /// How long it is going to be, if that is known.
    announced_bytes: Option<u64>,
}

impl Body {
    /// An empty one that is going to be filled, and for which `charge` bytes were taken.
    fn begin(
        memory: Arc<Memory>,
        announced_bytes: Option<u64>,
        charge: u64,
        place: OnceLock<Place>,
        heap: Vec<u8>,
    ) -> Self {
        memory.fill_begins();
        Self {
            memory,
            have: AtomicU64::new(0),
            charge: Charge::new(charge),
            place,
            kept: ArcSwapOption::empty(),
            under_way: Mutex::new(Some(Box::new(Under {
                heap,
                announced_bytes,
                ..Under::default()
            }))),
        }
    }

    /// One of this many bytes that is whole, and for which `charge` bytes were taken.
    pub(super) fn loaded(memory: Arc<Memory>, bytes: u64, charge: u64, place: Place) -> Self {
        let have = Have {
            bytes,
            state: State::Whole,
        };
        Self {
            memory,
            have: have.word().into(),
            charge: Charge::new(charge),
            place: OnceLock::from(place),
            kept: ArcSwapOption::empty(),
            under_way: None.into(),
        }
    }

    /// What there is now. Does not wait.
    #[must_use]
    pub fn have(&self) -> Have {
        Have::of_word(self.have.load(Ordering::Acquire))
    }

    /// Whether all of it is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.have().state == State::Whole
    }

    /// How long it is, or is going to be; `None` as long as nobody knows, and if it is broken.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        let have = self.have();
        match have.state {
            State::Whole => Some(have.bytes),
            State::Broken => None,
            State::Filling => match &*self.under_way() {
                Some(under_way) => under_way.announced_bytes,
                // It has just ended.
                None => self.is_whole().then(|| self.have().bytes),
            },
        }
    }

    /// Whether anybody has it but who fills it and the store; of one that is made of pieces: but its object.
    #[must_use]
    pub fn is_read(self: &Arc<Self>) -> bool {
        let others = if self.pieces().is_empty() { 2 } else { 1 };
        Arc::strong_count(self) > others
    }

    /// How many have it, about: who fills it, and its object, are among them.
    #[must_use]
    pub fn readers(self: &Arc<Self>) -> usize {
        Arc::strong_count(self)
    }

    /// A reader, who can wait for more.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> Reader {
        Reader::of(Arc::clone(self))
    }

    /// Copies bytes from `from` on to `buffer`; returns how many: 0 if there is none yet.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn read_at(&self, buffer: &mut [u8], from: u64) -> io::Result<usize> {
        let there = self.have().bytes.saturating_sub(from);
        let bytes = usize::try_from(there).map_or(buffer.len(), |there| there.min(buffer.len()));
        let buffer = &mut buffer[..bytes];
        if bytes == 0 {
            return Ok(0);
        }
        if let Some(place) = self.place_or(|under_way| under_way.copy(from, buffer)) {
            place.read_at(buffer, from)?;
        }
        Ok(bytes)
    }

    /// Where it is on the disk, or was.
    pub(in crate::cache) fn kept(&self) -> arc_swap::Guard<Option<Arc<Entry>>> {
        self.kept.load()
    }

    /// Notes where it is on the disk; `false` if somebody else has noted something since `before` was read.
    pub(in crate::cache) fn set_kept(
        &self,
        before: &Option<Arc<Entry>>,
        entry: &Arc<Entry>,
    ) -> bool {
        let found = self.kept.compare_and_swap(before, Some(Arc::clone(entry)));
        match (&*found, before) {
            (Some(found), Some(before)) => Arc::ptr_eq(found, before),
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether its bytes are in a file of the disk's, and nowhere else.
    #[must_use]
    pub fn is_file(&self) -> bool {
        matches!(self.place.get(), Some(Place::File(_)))
    }

    /// Whether its bytes are still where they were: `false` if somebody has removed or changed the file that has them. Does not wait.
    pub(in crate::cache) fn stands(&self, now: UnixTime) -> bool {
        match self.place.get() {
            Some(Place::File(file)) => file.stands(now),
            _ => true,
        }
    }

    /// Has these bytes read into memory by somebody else, if to send them could mean to wait for a disk; `None`: it does not. The
    /// answer is `true` if they can be sent.
    #[must_use]
    pub fn fetch(&self, from: u64, bytes: u64) -> Option<oneshot::Receiver<bool>> {
        match self.place.get() {
            Some(Place::File(file)) if !file.is_resident(from, bytes) => {
                Some(file.fetch(from, bytes))
            }
            Some(Place::Beginning(of)) => of.fetch(from, bytes),
            _ => None,
        }
    }

    /// What was thought to be there is not: it is sent to nobody any more.
    pub fn spoil(&self) {
        let have = Have {
            bytes: self.have().bytes,
            state: State::Broken,
        };
        self.have.store(have.word(), Ordering::Release);
    }

    /// Where the bytes are; if it is still being filled, `with` gets what there is, under the lock.
    fn place_or(&self, with: impl FnOnce(&Under)) -> Option<&Place> {
        if let Some(place) = self.place.get() {
            return Some(place);
        }
        let under_way = self.under_way();
        // Only who has the lock moves the bytes.
        if let Some(place) = self.place.get() {
            return Some(place);
        }
        if let Some(under_way) = under_way.as_deref() {
            with(under_way);
        }
        None
    }

    fn under_way(&self) -> MutexGuard<'_, Option<Box<Under>>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of memory that it is charged with.
    pub(super) fn charged_bytes(&self) -> u64 {
        let of_pieces = self.pieces().iter().map(|piece| piece.body.charged_bytes());
        self.owner().charge.bytes() + of_pieces.sum::<u64>()
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.memory.ledger
    }

    pub(super) fn is_of(&self, memory: &Arc<Memory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }

    /// Notes that an object in the index has it. `false`: another one has.
    pub(super) fn mark_stored(&self) -> bool {
        self.owner().charge.mark_stored()
    }

    pub(super) fn unmark_stored(&self) {
        self.owner().charge.unmark_stored();
    }

    /// Notes which object has it, to be taken out of the store if it breaks off. `false`: it has broken off already.
    pub(super) fn belongs_to(&self, object: &Arc<Object>) -> bool {
        match self.under_way().as_mut() {
            Some(under_way) => {
                under_way.object = Arc::downgrade(object);
                true
            }
            None => self.have().state != State::Broken,
        }
    }

    /// Bytes that have to be taken before it can be stored again.
    pub(super) fn loose_bytes(&self) -> u64 {
        let charge = &self.owner().charge;
        if charge.is_loose() { charge.bytes() } else { 0 }
    }

    /// So many were taken.
    pub(super) fn tighten(&self, taken: u64) {
        self.owner().charge.tighten(self.ledger(), taken);
    }

    /// No object in the index has it any more.
    pub(super) fn loosen(&self) {
        self.loosen_itself();
        for piece in self.pieces() {
            piece.body.loosen();
        }
    }

    /// The same, but for the pieces that it is made of.
    pub(super) fn loosen_itself(&self) {
        self.owner().charge.loosen(self.ledger());
    }

    #[cfg(test)]
    pub(super) fn readers_waiting(&self) -> usize {
        self.under_way()
            .as_ref()
            .map_or(0, |under_way| under_way.waiting.len())
    }

    /// The body that has the bytes.
    fn owner(&self) -> &Body {
        match self.place.get() {
            Some(Place::Beginning(of)) => of,
            _ => self,
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.charge.settle(&self.memory.ledger);
    }
}

impl Under {
    /// Fills `buffer` from `from`; so many bytes are there.
    fn copy(&self, from: u64, buffer: &mut [u8]) {
        if self.chunks.is_empty() {
            copy(&self.heap, from, buffer);
        } else {
            copy_chunks(&self.chunks, from, buffer);
        }
    }
}

/// Fills `buffer` from `from` of `bytes`, which has that much.
fn copy(bytes: &[u8], from: u64, buffer: &mut [u8]) {
    if let Some(source) = usize::try_from(from)
        .ok()
        .and_then(|from| bytes.get(from..)?.get(..buffer.len()))
    {
        buffer.copy_from_slice(source);
    } else {
        debug_assert!(false, "bytes that are counted are there");
    }
}
