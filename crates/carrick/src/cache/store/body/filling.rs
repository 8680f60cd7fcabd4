//! Filling a body.
use super::super::arena::in_pages;
use super::super::object::Object;
use super::super::{NotTaken, Store};
use super::place::{Extents, Place, arena};
use super::{Body, HEAP_BYTES_MAX, Have, State};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The first piece of heap of a body whose length is not known, in bytes.
const HEAP_BYTES_MIN: u64 = 1024;

/// Why no more is taken. The body is broken then.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// More bytes than were announced.
    #[error("the body has more bytes than were announced")]
    TooLong,
    /// The body is longer than those that are stored, or there is no room.
    #[error("the store takes no more of it: {0}")]
    NotTaken(#[from] NotTaken),
    /// The kernel had no memory for it.
    #[error("cannot keep it: {0}")]
    Kernel(#[from] io::Error),
}

/// Who fills a body. Dropped before [`finish`](Self::finish), it leaves the body *broken*, and the object that has it is
/// taken out of the store.
#[derive(Debug)]
pub struct Filling {
    store: Arc<Store>,
    body: Arc<Body>,
    announced_bytes: Option<u64>,
    written_bytes: u64,
    ended: bool,
}

impl Filling {
    /// Takes the memory for a body of known length, and for the beginning of another.
    pub(in super::super) fn begin(
        store: Arc<Store>,
        announced_bytes: Option<u64>,
    ) -> Result<Self, NotTaken> {
        let memory = Arc::clone(store.memory());
        if announced_bytes.is_some_and(|bytes| bytes > memory.ledger.object_bytes_max()) {
            return Err(NotTaken::TooLarge);
        }
        let place = OnceLock::new();
        let mut heap = Vec::new();
        let mut charge = 0;
        match (announced_bytes, memory.arena()) {
            (None, _) => {}
            (Some(bytes), Some(arena)) if bytes > HEAP_BYTES_MAX => {
                charge = in_pages(bytes);
                store.take(charge)?;
                let _ = place.set(Place::Range(arena.range(charge)));
            }
            (Some(bytes), _) => {
                charge = bytes;
                store.take(charge)?;
                if heap
                    .try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX))
                    .is_err()
                {
                    memory.ledger.give_back(charge);
                    return Err(NotTaken::Full);
                }
            }
        }
        Ok(Self {
            body: Arc::new(Body::begin(memory, announced_bytes, charge, place, heap)),
            store,
            announced_bytes,
            written_bytes: 0,
            ended: false,
        })
    }

    /// The body, to be put into the store, or read, at any time.
    #[must_use]
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// Bytes that were appended.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Appends bytes, and wakes who waits for them.
    ///
    /// # Errors
    /// The body is broken then, and all further bytes are refused.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FillError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let result = self.keep(bytes);
        match result {
            Ok(()) => {
                self.written_bytes += bytes.len() as u64;
                self.publish(State::Filling);
            }
            Err(_) => self.end(State::Broken),
        }
        result
    }

    /// Ends the body; `false`, and it is broken, if another length was announced.
    pub fn finish(mut self) -> bool {
        let is_whole = !self.ended
            && self
                .announced_bytes
                .is_none_or(|announced| announced == self.written_bytes);
        self.end(if is_whole {
            State::Whole
        } else {
            State::Broken
        });
        is_whole
    }

    /// Ends the body where it is. It is broken for those who know it as a whole one. What came is given as a body of its
    /// own, which is whole as the part that it is: for an object with the `Meta` that
    /// [`truncated`](carrick_logic::cache::truncated) makes.
    #[must_use]
    pub fn cut(mut self) -> Arc<Body> {
        self.end(State::Broken);
        if let Some(Place::Range(_)) = self.body.place.get() {
            // Pages that were not written take no memory.
            let kept = in_pages(self.written_bytes);
            let rest = self.body.charge.bytes().saturating_sub(kept);
            self.body.charge.shrink(self.body.ledger(), rest);
        }
        Arc::new(Body::beginning_of(&self.body))
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), FillError> {
        let end = self.written_bytes.saturating_add(bytes.len() as u64);
        if self
            .announced_bytes
            .is_some_and(|announced| end > announced)
            || self.ended
        {
            return Err(FillError::TooLong);
        }
        if end > self.store.memory().ledger.object_bytes_max() {
            return Err(NotTaken::TooLarge.into());
        }
        match self.body.place.get() {
            Some(Place::Range(start)) => {
                let at = start + self.written_bytes;
                arena(self.store.memory())?.write_at(bytes, at)?;
            }
            Some(_) => self.keep_in_extents(bytes)?,
            None if self.announced_bytes.is_none()
                && end > HEAP_BYTES_MAX
                && self.store.memory().arena().is_some() =>
            {
                self.leave_heap()?;
                self.keep_in_extents(bytes)?;
            }
            None => self.keep_on_heap(bytes, end)?,
        }
        Ok(())
    }

    fn keep_on_heap(&mut self, bytes: &[u8], end: u64) -> Result<(), FillError> {
        let charged = self.body.charge.bytes();
        if end > charged {
            let more = end.max(charged * 2).max(HEAP_BYTES_MIN) - charged;
            self.take(more)?;
        }
        let capacity = usize::try_from(self.body.charge.bytes()).unwrap_or(usize::MAX);
        let mut under_way = self.body.under_way();
        let Some(under_way) = under_way.as_mut() else {
            return Err(FillError::TooLong);
        };
        let heap = &mut under_way.heap;
        heap.try_reserve_exact(capacity.saturating_sub(heap.len()))
            .map_err(|_| NotTaken::Full)?;
        heap.extend_from_slice(bytes);
        Ok(())
    }

    /// Moves what there is to the arena, as it becomes more than is kept on the heap.
    fn leave_heap(&mut self) -> Result<(), FillError> {
        let on_heap = self.body.charge.bytes();
        let extents = Extents::default();
        let bytes = extents.next_bytes();
        self.take(bytes)?;
        let arena = arena(self.store.memory())?;
        let start = arena.range(bytes);
        // Only who fills changes what is on the heap: a copy is right, and no lock is held during the call.
        let copy = self
            .body
            .under_way()
            .as_ref()
            .map(|under_way| under_way.heap.clone());
        if let Err(error) = arena.write_at(&copy.unwrap_or_default(), start) {
            arena.punch(start, bytes);
            return Err(error.into());
        }
        extents.push(start);
        let mut under_way = self.body.under_way();
        let _ = self.body.place.set(Place::Extents(Box::new(extents)));
        if let Some(under_way) = under_way.as_mut() {
            under_way.heap = Vec::new();
        }
        drop(under_way);
        self.body.charge.shrink(self.body.ledger(), on_heap);
        Ok(())
    }

    fn keep_in_extents(&mut self, mut bytes: &[u8]) -> Result<(), FillError> {
        let body = Arc::clone(&self.body);
        let Some(Place::Extents(extents)) = body.place.get() else {
            return Err(FillError::TooLong);
        };
        let mut at = self.written_bytes;
        while !bytes.is_empty() {
            let arena = arena(&body.memory)?;
            let Some(run) = extents.run(at) else {
                let next_bytes = extents.next_bytes();
                self.take(next_bytes)?;
                extents.push(arena.range(next_bytes));
                continue;
            };
            let count = usize::try_from(run.bytes).map_or(bytes.len(), |run| run.min(bytes.len()));
            arena.write_at(&bytes[..count], run.start)?;
            bytes = &bytes[count..];
            at += count as u64;
        }
        Ok(())
    }

    /// Takes more memory for the body.
    fn take(&self, bytes: u64) -> Result<(), NotTaken> {
        self.store.take(bytes)?;
        self.body.charge.grow(self.body.ledger(), bytes);
        Ok(())
    }

    /// Tells readers what there is. Returns the object that has the body, if that has ended.
    fn publish(&self, state: State) -> Option<Arc<Object>> {
        let have = Have {
            bytes: self.written_bytes,
            state,
        };
        let mut under_way = self.body.under_way();
        if state != State::Filling && self.body.place.get().is_none() {
            let heap = under_way
                .as_mut()
                .map(|under_way| std::mem::take(&mut under_way.heap))
                .unwrap_or_default();
            let _ = self.body.place.set(Place::Heap(heap.into_boxed_slice()));
        }
        self.body.have.store(have.word(), Ordering::Release);
        let waiting = under_way.as_mut().map(|under_way| under_way.waiting.take());
        let ended = match state {
            State::Filling => None,
            _ => under_way.take(),
        };
        drop(under_way);
        for (_, waker) in waiting.into_iter().flatten() {
            waker.wake();
        }
        ended.and_then(|under_way| under_way.object.upgrade())
    }

    fn end(&mut self, state: State) {
        if self.ended {
            return;
        }
        self.ended = true;
        let object = self.publish(state);
        self.give_rest_back();
        self.store.memory().fill_ends(state == State::Whole);
        if let Some(object) = object {
            if state == State::Whole {
                self.store.weigh_again(&object);
            } else {
                self.store.remove(&object);
            }
        }
    }

    /// What was taken for bytes that did not come.
    fn give_rest_back(&self) {
        let kept = match self.body.place.get() {
            Some(Place::Heap(bytes)) => bytes.len() as u64,
            // Pages that were not written take no memory.
            Some(Place::Extents(_)) => in_pages(self.written_bytes),
            // Its charge is what says how much of the arena is its own.
            _ => return,
        };
        let rest = self.body.charge.bytes().saturating_sub(kept);
        self.body.charge.shrink(self.body.ledger(), rest);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.end(State::Broken);
    }
}

impl Body {
    /// What came of a body that ended early.
    fn beginning_of(of: &Arc<Body>) -> Self {
        let place = OnceLock::new();
        let _ = place.set(Place::Beginning(Arc::clone(of)));
        let have = Have {
            bytes: of.have().bytes,
            state: State::Whole,
        };
        Self {
            memory: Arc::clone(&of.memory),
            have: have.word().into(),
            charge: super::Charge::default(),
            place,
            under_way: None.into(),
        }
    }
}
