//! A body: one thread appends its bytes, and many read them, also while they come.
mod reader;
mod sending;
mod storage;
mod waiting;

pub use reader::BodyReader;
pub use storage::Piece;
pub(in crate::cache::memory) use storage::{PIECE_BYTES, Storage, joined};

use super::{INSIDE_BYTES_MAX, Object};
use crate::cache::disk::Entry;
use crate::cache::ledger::{Charge, Ledger};
use crate::cache::memory::accounting::Memory;
use crate::cache::memory::chunk::Chunk;
use carrick_logic::cache::UnixTime;
use std::io;
use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use storage::copy_chunks;
use tokio::sync::oneshot;
use waiting::Waiting;

/// Bodies of up to so many bytes are in one allocation, longer ones in chunks.
pub const HEAP_BYTES_MAX: u64 = 64 * 1024;

/// How far a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyState {
    /// More may come.
    Filling,
    /// All bytes are there.
    Whole,
    /// It ended too early. Its bytes are right, but a response that began with them must not end as if it were whole.
    Broken,
}

/// What there is of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyProgress {
    /// How many bytes, from the first on.
    pub bytes: u64,
    /// How far it is.
    pub state: BodyState,
}

impl BodyProgress {
    fn of_word(word: u64) -> Self {
        Self {
            bytes: word >> 2,
            state: match word & 3 {
                0 => BodyState::Filling,
                1 => BodyState::Whole,
                _ => BodyState::Broken,
            },
        }
    }

    fn word(self) -> u64 {
        self.bytes << 2
            | match self.state {
                BodyState::Filling => 0,
                BodyState::Whole => 1,
                BodyState::Broken => 2,
            }
    }
}

/// The bytes of a response. Once they are there, they never change.
#[derive(Debug)]
pub struct Body {
    memory: Arc<Memory>,
    /// [`BodyProgress`] in one word, so that count and state always belong together.
    progress: AtomicU64,
    pub(in crate::cache::memory) charge: Charge,
    /// Where the bytes are; unset while they are in [`UnderWay`].
    pub(in crate::cache::memory) storage: OnceLock<Storage>,
    /// The entry of its file on the disk, which may not be written yet.
    kept: Mutex<Option<Arc<Entry>>>,
    /// The object that had it, and the one that has a copy inside instead.
    moved: OnceLock<[Weak<Object>; 2]>,
    under_way: Mutex<Option<Box<UnderWay>>>,
}

/// What only a body that is being filled needs.
#[derive(Debug, Default)]
pub(in crate::cache::memory) struct UnderWay {
    /// The bytes of a short body, and the first ones of a body of unknown length.
    pub(in crate::cache::memory) heap: Vec<u8>,
    /// The bytes of a longer one.
    pub(in crate::cache::memory) chunks: Vec<Chunk>,
    waiting: Waiting,
    /// The object whose body it is. If the body breaks off, the object is removed from the store.
    object: Weak<Object>,
    /// How long it will be, if that is known.
    pub(in crate::cache::memory) announced_bytes: Option<u64>,
}

impl Body {
    /// An empty body that will be filled, and for which `charge` bytes were taken.
    pub(in crate::cache::memory) fn begin(
        memory: Arc<Memory>,
        announced_bytes: Option<u64>,
        charge: u64,
        storage: OnceLock<Storage>,
        heap: Vec<u8>,
    ) -> Self {
        memory.fill_begins();
        Self {
            memory,
            progress: AtomicU64::new(0),
            charge: Charge::new(charge),
            storage,
            kept: Mutex::default(),
            moved: OnceLock::new(),
            under_way: Mutex::new(Some(Box::new(UnderWay {
                heap,
                announced_bytes,
                ..UnderWay::default()
            }))),
        }
    }

    /// A whole body of this length, for which `charge` bytes were taken.
    pub(in crate::cache::memory) fn loaded(
        memory: Arc<Memory>,
        bytes: u64,
        charge: u64,
        storage: Storage,
    ) -> Self {
        let progress = BodyProgress {
            bytes,
            state: BodyState::Whole,
        };
        Self {
            memory,
            progress: progress.word().into(),
            charge: Charge::new(charge),
            storage: OnceLock::from(storage),
            kept: Mutex::default(),
            moved: OnceLock::new(),
            under_way: None.into(),
        }
    }

    /// The first bytes of a body that ended early.
    pub(in crate::cache::memory) fn beginning_of(of: &Arc<Self>, bytes: u64) -> Self {
        let memory = Arc::clone(&of.memory);
        Self::loaded(memory, bytes, 0, Storage::Beginning(Arc::clone(of)))
    }

    /// What there is now. Does not wait.
    #[must_use]
    pub fn progress(&self) -> BodyProgress {
        BodyProgress::of_word(self.progress.load(Ordering::Acquire))
    }

    /// Whether all bytes are there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.progress().state == BodyState::Whole
    }

    /// How long it is, or will be; `None` if that is not known yet, or the body is broken.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        let progress = self.progress();
        match progress.state {
            BodyState::Whole => Some(progress.bytes),
            BodyState::Broken => None,
            BodyState::Filling => match &*self.under_way() {
                Some(under_way) => under_way.announced_bytes,
                // It has just ended.
                None => self.is_whole().then(|| self.progress().bytes),
            },
        }
    }

    /// Whether anything holds it besides its writer, its object, and so many others that do not read; a body that is made of pieces has no
    /// writer.
    #[must_use]
    pub fn is_read(self: &Arc<Self>, others: usize) -> bool {
        let holders = if self.pieces().is_empty() { 2 } else { 1 };
        Arc::strong_count(self) > holders + others
    }

    /// How many hold it, about; its writer and its object are among them.
    #[must_use]
    pub fn readers(self: &Arc<Self>) -> usize {
        Arc::strong_count(self)
    }

    /// A reader, which can wait for more.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> BodyReader {
        BodyReader::of(Arc::clone(self))
    }

    /// Copies bytes from offset `from` to `buffer`; returns how many, 0 if there are none yet.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn read_at(&self, buffer: &mut [u8], from: u64) -> io::Result<usize> {
        let there = self.progress().bytes.saturating_sub(from);
        let bytes = usize::try_from(there).map_or(buffer.len(), |there| there.min(buffer.len()));
        let buffer = &mut buffer[..bytes];
        if bytes == 0 {
            return Ok(0);
        }
        if let Some(storage) = self.storage_or(|under_way| under_way.copy(from, buffer)) {
            storage.read_at(buffer, from)?;
        }
        Ok(bytes)
    }

    /// The entry of its file on the disk, which may have been removed since.
    pub(in crate::cache::memory) fn kept(&self) -> Option<Arc<Entry>> {
        self.lock_kept().clone()
    }

    fn lock_kept(&self) -> MutexGuard<'_, Option<Arc<Entry>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the entry of its file; `false` if another thread has noted one since `before` was read.
    pub(in crate::cache::memory) fn set_kept(
        &self,
        before: Option<&Arc<Entry>>,
        entry: &Arc<Entry>,
    ) -> bool {
        let mut kept = self.lock_kept();
        let is_same = kept.as_ref().map(Arc::as_ptr) == before.map(Arc::as_ptr);
        if is_same {
            *kept = Some(Arc::clone(entry));
        }
        is_same
    }

    /// Whether its file on the disk has this entry.
    pub(in crate::cache::memory) fn is_kept_as(&self, entry: &Arc<Entry>) -> bool {
        let kept = self.lock_kept();
        kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, entry))
    }

    /// Its bytes, if they are whole and few enough to be inside an object.
    pub(in crate::cache::memory) fn short(&self) -> Option<&[u8]> {
        match self.storage.get()? {
            Storage::Heap(bytes) if bytes.len() <= INSIDE_BYTES_MAX && self.is_whole() => {
                Some(bytes)
            }
            Storage::Inside(object) => Some(object.inside()),
            _ => None,
        }
    }

    /// Notes that `to` replaces `from`, and has a copy of the bytes inside.
    pub(in crate::cache::memory) fn note_move(&self, from: &Arc<Object>, to: &Arc<Object>) {
        let _ = self.moved.set([from, to].map(Arc::downgrade));
    }

    /// The object that replaces `from` since the bytes were moved.
    pub(in crate::cache::memory) fn moved(&self, from: &Arc<Object>) -> Option<Arc<Object>> {
        let [before, after] = self.moved.get()?;
        (before.as_ptr() == Arc::as_ptr(from)).then(|| after.upgrade())?
    }

    /// Whether its bytes are only in a file of the disk's.
    #[must_use]
    pub fn is_file(&self) -> bool {
        matches!(self.storage.get(), Some(Storage::File(_)))
    }

    /// Whether its bytes are still there: `false` if another program has removed or changed its file. Does not wait.
    pub(in crate::cache::memory) fn stands(&self, now: UnixTime) -> bool {
        match self.storage.get() {
            Some(Storage::File(file)) => file.stands(now),
            _ => true,
        }
    }

    /// Has these bytes read into the page cache if sending them could wait for the disk; `None`: it cannot. The receiver gets `true`
    /// when they can be sent.
    #[must_use]
    pub fn fetch(&self, from: u64, bytes: u64) -> Option<oneshot::Receiver<bool>> {
        match self.storage.get() {
            Some(Storage::File(file)) if !file.is_resident(from, bytes) => {
                Some(file.fetch(from, bytes))
            }
            Some(Storage::Beginning(of)) => of.fetch(from, bytes),
            _ => None,
        }
    }

    /// Marks it as broken, since its bytes could not be read. It is not sent again.
    pub fn spoil(&self) {
        let progress = BodyProgress {
            bytes: self.progress().bytes,
            state: BodyState::Broken,
        };
        self.progress.store(progress.word(), Ordering::Release);
    }

    /// Tells readers what there is. If the body has ended by that, returns the object that has it.
    pub(in crate::cache::memory) fn publish(
        &self,
        bytes: u64,
        state: BodyState,
    ) -> Option<Arc<Object>> {
        let progress = BodyProgress { bytes, state };
        let mut under_way = self.under_way();
        if under_way.is_none() {
            // It has ended already.
            return None;
        }
        if state != BodyState::Filling && self.storage.get().is_none() {
            let (heap, chunks) = (under_way.as_mut())
                .map(|under_way| (take(&mut under_way.heap), take(&mut under_way.chunks)))
                .unwrap_or_default();
            let _ = self.storage.set(if chunks.is_empty() {
                Storage::Heap(heap.into_boxed_slice())
            } else {
                Storage::Chunks(chunks.into_boxed_slice())
            });
        }
        self.progress.store(progress.word(), Ordering::Release);
        let waiting = under_way.as_mut().map(|under_way| under_way.waiting.take());
        let ended = match state {
            BodyState::Filling => None,
            _ => under_way.take(),
        };
        drop(under_way);
        for (_, waker) in waiting.into_iter().flatten() {
            waker.wake();
        }
        ended.and_then(|under_way| under_way.object.upgrade())
    }

    /// The object that has it, while it is being filled.
    pub(in crate::cache::memory) fn object(&self) -> Option<Arc<Object>> {
        self.under_way().as_ref()?.object.upgrade()
    }

    /// Where the bytes are. While it is being filled, `with` is called under the lock instead.
    fn storage_or(&self, with: impl FnOnce(&UnderWay)) -> Option<&Storage> {
        if let Some(storage) = self.storage.get() {
            return Some(storage);
        }
        let under_way = self.under_way();
        // The bytes are only moved under the lock.
        if let Some(storage) = self.storage.get() {
            return Some(storage);
        }
        if let Some(under_way) = under_way.as_deref() {
            with(under_way);
        }
        None
    }

    pub(in crate::cache::memory) fn under_way(&self) -> MutexGuard<'_, Option<Box<UnderWay>>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of memory that it is charged with.
    pub(in crate::cache::memory) fn charged_bytes(&self) -> u64 {
        let of_pieces = self.pieces().iter().map(|piece| piece.body.charged_bytes());
        self.owner().charge.bytes() + of_pieces.sum::<u64>()
    }

    pub(in crate::cache::memory) fn ledger(&self) -> &Ledger {
        &self.memory.ledger
    }

    pub(in crate::cache::memory) fn is_of(&self, memory: &Arc<Memory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }

    /// Marks it as the body of a stored object; `false`: another object has it.
    pub(in crate::cache::memory) fn mark_stored(&self) -> bool {
        self.owner().charge.mark_stored()
    }

    pub(in crate::cache::memory) fn unmark_stored(&self) {
        self.owner().charge.unmark_stored();
    }

    /// Notes the object to remove from the store if the body breaks off; `false`: it has broken off already.
    pub(in crate::cache::memory) fn belongs_to(&self, object: &Arc<Object>) -> bool {
        match self.under_way().as_mut() {
            Some(under_way) => {
                under_way.object = Arc::downgrade(object);
                true
            }
            None => self.progress().state != BodyState::Broken,
        }
    }

    /// Bytes that must be taken before it can be stored again.
    pub(in crate::cache::memory) fn loose_bytes(&self) -> u64 {
        let charge = &self.owner().charge;
        if charge.is_loose() { charge.bytes() } else { 0 }
    }

    /// Counts it as stored again; `taken` bytes were taken for that.
    pub(in crate::cache::memory) fn tighten(&self, taken: u64) {
        self.owner().charge.tighten(self.ledger(), taken);
    }

    /// Counts it, with its pieces, as held by readers only.
    pub(in crate::cache::memory) fn loosen(&self) {
        self.loosen_itself();
        for piece in self.pieces() {
            piece.body.loosen();
        }
    }

    /// The same without its pieces.
    pub(in crate::cache::memory) fn loosen_itself(&self) {
        self.owner().charge.loosen(self.ledger());
    }

    #[cfg(test)]
    pub(in crate::cache::memory) fn readers_waiting(&self) -> usize {
        self.under_way()
            .as_ref()
            .map_or(0, |under_way| under_way.waiting.len())
    }

    /// The body that is charged with the bytes.
    fn owner(&self) -> &Body {
        match self.storage.get() {
            Some(Storage::Beginning(of)) => of,
            _ => self,
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.charge.settle(&self.memory.ledger);
    }
}

impl UnderWay {
    /// Fills `buffer` from `from`; there must be so many bytes.
    fn copy(&self, from: u64, buffer: &mut [u8]) {
        if self.chunks.is_empty() {
            copy(&self.heap, from, buffer);
        } else {
            copy_chunks(&self.chunks, from, buffer);
        }
    }
}

/// Fills `buffer` from `from` of `bytes`; there must be so many bytes.
fn copy(bytes: &[u8], from: u64, buffer: &mut [u8]) {
    if let Some(source) = usize::try_from(from)
        .ok()
        .and_then(|from| bytes.get(from..)?.get(..buffer.len()))
    {
        buffer.copy_from_slice(source);
    } else {
        debug_assert!(false, "counted bytes exist");
    }
}
