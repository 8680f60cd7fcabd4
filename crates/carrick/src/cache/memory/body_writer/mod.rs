//! Filling a body: in memory, or on the disk if it is too long for that.
mod receiving;
mod stream;

use super::chunk::{self, CHUNK_BYTES, ChunkWriter};
use super::object::{Body, BodyState, HEAP_BYTES_MAX, Storage};
use super::{NotTaken, Store};
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use stream::Stream;

/// The first allocation for a body of unknown length, in bytes.
const HEAP_BYTES_MIN: u64 = 1024;

/// Why a body takes no more bytes. It is broken then.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// There are more bytes than were announced.
    #[error("the body is longer than announced")]
    TooLong,
    /// The body is too long to be stored, or there is no room.
    #[error("the cache cannot store more of it: {0}")]
    NotTaken(#[from] NotTaken),
    /// The connection that it comes from broke off.
    #[error("receiving it failed: {0}")]
    Connection(#[source] io::Error),
}

/// Fills a body. If it is dropped before [`finish`](Self::finish), the body is *broken*, and its object is removed from the store.
#[derive(Debug)]
pub struct BodyWriter {
    store: Arc<Store>,
    body: Arc<Body>,
    announced_bytes: Option<u64>,
    /// Whether the disk may keep it.
    fits_file: bool,
    /// What was taken for the announced bytes at the beginning.
    reserved_bytes: u64,
    written_bytes: u64,
    ended: bool,
    /// The chunk for the next bytes. Short bodies have none, nor have those of unknown length while they are short.
    writer: Option<ChunkWriter>,
    /// The way to the disk, if it is too long for memory.
    stream: Option<Stream>,
}

/// What a body of this length takes.
fn charge_of(bytes: u64) -> u64 {
    if bytes <= HEAP_BYTES_MAX {
        return bytes;
    }
    bytes + bytes.div_ceil(CHUNK_BYTES as u64) * chunk::OVERHEAD_BYTES
}

impl BodyWriter {
    /// Takes the memory for a body of known length, and nothing yet for another.
    pub(super) fn begin(
        store: Arc<Store>,
        announced_bytes: Option<u64>,
        fits_file: bool,
    ) -> Result<Self, NotTaken> {
        let memory = Arc::clone(store.memory());
        if announced_bytes.is_some_and(|bytes| bytes > memory.ledger.object_bytes_max()) {
            let begun = fits_file.then(|| stream_for(&store, announced_bytes));
            let (stream, body) = begun.flatten().ok_or(NotTaken::TooLarge)?;
            return Ok(Self {
                store,
                body,
                announced_bytes,
                fits_file,
                reserved_bytes: 0,
                written_bytes: 0,
                ended: false,
                writer: None,
                stream: Some(stream),
            });
        }
        let charge = announced_bytes.map_or(0, charge_of);
        if !memory.try_announce(charge) {
            return Err(NotTaken::Full);
        }
        if let Err(why) = store.take_for_body(charge) {
            memory.forget_announced(charge);
            return Err(why);
        }
        let mut heap = Vec::new();
        let at_once = announced_bytes.filter(|bytes| *bytes <= HEAP_BYTES_MAX);
        if let Some(bytes) = at_once
            && heap
                .try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX))
                .is_err()
        {
            memory.ledger.give_back(charge);
            return Err(NotTaken::Full);
        }
        Ok(Self {
            body: Arc::new(Body::begin(
                memory,
                announced_bytes,
                charge,
                OnceLock::new(),
                heap,
            )),
            store,
            announced_bytes,
            fits_file,
            reserved_bytes: charge,
            written_bytes: 0,
            ended: false,
            writer: None,
            stream: None,
        })
    }

    /// The body. It can be stored and read at any time.
    #[must_use]
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// How many bytes were appended.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Appends bytes, and wakes readers that wait for them.
    ///
    /// # Errors
    /// The body is broken then, and takes no more bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FillError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let result = self.keep(bytes);
        match result {
            Ok(()) => {
                self.written_bytes += bytes.len() as u64;
                // Bytes for the disk are published when they are written.
                if self.stream.is_none() {
                    self.body.publish(self.written_bytes, BodyState::Filling);
                }
            }
            Err(_) => self.end(BodyState::Broken),
        }
        result
    }

    /// Ready when more should be appended: not before the disk has written most of what it was given.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.stream {
            Some(stream) => stream.poll_room(cx),
            None => Poll::Ready(()),
        }
    }

    /// Notes that all bytes were appended: the length is known from now on, though the body is not finished.
    pub fn announce_end(&mut self) {
        if let Some(under_way) = self.body.under_way().as_mut() {
            under_way.announced_bytes = Some(self.written_bytes);
        }
        self.announced_bytes = Some(self.written_bytes);
    }

    /// Ends the body. If another length was announced, it is broken, and the result is `false`.
    pub fn finish(mut self) -> bool {
        let is_whole = !self.ended
            && self
                .announced_bytes
                .is_none_or(|announced| announced == self.written_bytes);
        self.end(if is_whole {
            BodyState::Whole
        } else {
            BodyState::Broken
        });
        is_whole
    }

    /// Ends the body where it is: as a whole one, it is broken. Returns what came as a body of its own, which is a whole part: for an
    /// object with the `Meta` that [`truncated`](carrick_logic::cache::truncated) makes.
    #[must_use]
    pub fn cut(mut self) -> Arc<Body> {
        // The disk does not keep parts.
        let bytes = match self.stream {
            Some(_) => 0,
            None => self.written_bytes,
        };
        self.end(BodyState::Broken);
        Arc::new(Body::beginning_of(&self.body, bytes))
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
        if self.stream.is_none() && end > self.store.memory().ledger.object_bytes_max() {
            self.leave_memory()?;
        }
        if let Some(stream) = &mut self.stream {
            return stream.append(bytes).map_err(|_| NotTaken::Full.into());
        }
        if self.is_in_chunks() {
            self.keep_in_chunks(bytes)
        } else if end > HEAP_BYTES_MAX {
            self.leave_heap()?;
            self.keep_in_chunks(bytes)
        } else {
            self.keep_on_heap(bytes, end)
        }
    }

    /// Whether the next bytes go to a chunk. Bodies that are short, or may be, are in one allocation.
    fn is_in_chunks(&self) -> bool {
        let is_long = |announced| announced > HEAP_BYTES_MAX;
        self.writer.is_some() || self.announced_bytes.is_some_and(is_long)
    }

    /// Moves the body to the disk, as it becomes too long for memory. It must not have an object yet.
    fn leave_memory(&mut self) -> Result<(), FillError> {
        if !self.fits_file || self.announced_bytes.is_some() || self.body.object().is_some() {
            return Err(NotTaken::TooLarge.into());
        }
        let (mut stream, body) = stream_for(&self.store, None).ok_or(NotTaken::TooLarge)?;
        let begun = std::mem::replace(&mut self.body, body);
        begun.publish(self.written_bytes, BodyState::Broken);
        self.store.memory().fill_ends(true);
        let appended = stream.append_body(begun);
        self.stream = Some(stream);
        appended.map_err(|_| NotTaken::Full.into())
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

    /// Moves the bytes to a chunk, as they become too many for one allocation.
    fn leave_heap(&mut self) -> Result<(), FillError> {
        let on_heap = self.body.charge.bytes();
        let mut writer = self.next_chunk(CHUNK_BYTES)?;
        if let Some(under_way) = self.body.under_way().as_mut() {
            writer.append(&under_way.heap);
            under_way.heap = Vec::new();
            under_way.chunks.push(writer.chunk().clone());
        }
        self.writer = Some(writer);
        self.body.charge.shrink(self.body.ledger(), on_heap);
        Ok(())
    }

    fn keep_in_chunks(&mut self, mut bytes: &[u8]) -> Result<(), FillError> {
        let mut kept_bytes = self.written_bytes;
        while !bytes.is_empty() {
            let count = self.writer(kept_bytes)?.append(bytes);
            bytes = &bytes[count..];
            kept_bytes += count as u64;
        }
        Ok(())
    }

    /// The chunk for the bytes after the first `kept_bytes`.
    fn writer(&mut self, kept_bytes: u64) -> Result<&mut ChunkWriter, FillError> {
        if !self.has_room() {
            let left = self.announced_bytes.map(|bytes| bytes - kept_bytes);
            let left = left.and_then(|left| usize::try_from(left).ok());
            let writer = self.next_chunk(left.map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES)))?;
            if let Some(under_way) = self.body.under_way().as_mut() {
                under_way.chunks.push(writer.chunk().clone());
            }
            self.writer = Some(writer);
        }
        self.writer.as_mut().ok_or(FillError::TooLong)
    }

    fn has_room(&self) -> bool {
        (self.writer.as_ref()).is_some_and(|writer| writer.left_bytes() > 0)
    }

    /// For a body of known length, memory is taken already.
    fn next_chunk(&self, bytes: usize) -> Result<ChunkWriter, NotTaken> {
        if self.announced_bytes.is_none() {
            self.take(bytes as u64 + chunk::OVERHEAD_BYTES)?;
        }
        ChunkWriter::begin(bytes).ok_or(NotTaken::Full)
    }

    /// Takes more memory for the body.
    fn take(&self, bytes: u64) -> Result<(), NotTaken> {
        self.store.take_for_body(bytes)?;
        self.body.charge.grow(self.body.ledger(), bytes);
        Ok(())
    }

    fn end(&mut self, state: BodyState) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.store.memory().forget_announced(self.reserved_bytes);
        if let Some(stream) = self.stream.take() {
            // A broken body is published at once, a whole one when it is written.
            if state != BodyState::Whole
                && let Some(object) = self.body.publish(self.body.progress().bytes, state)
            {
                self.store.remove(&object);
            }
            return stream.end(Arc::clone(&self.body), state == BodyState::Whole);
        }
        self.trim();
        let object = self.body.publish(self.written_bytes, state);
        self.give_rest_back();
        self.store.memory().fill_ends(state == BodyState::Whole);
        if let Some(object) = object {
            if state == BodyState::Whole {
                self.store.is_whole_now(&object);
            } else {
                self.store.remove(&object);
            }
        }
    }

    /// Shortens the last chunk to what is in it.
    fn trim(&mut self) {
        let Some(writer) = self.writer.take_if(|writer| writer.left_bytes() > 0) else {
            return;
        };
        let bytes = writer.chunk().bytes();
        let Some(mut trimmed) = ChunkWriter::begin(bytes.len()) else {
            return;
        };
        trimmed.append(bytes);
        if let Some(under_way) = self.body.under_way().as_mut() {
            under_way.chunks.pop();
            under_way.chunks.push(trimmed.chunk().clone());
        }
    }

    /// Gives back what was taken for bytes that did not come.
    fn give_rest_back(&self) {
        let kept = match self.body.storage.get() {
            Some(Storage::Heap(bytes)) => bytes.len() as u64,
            Some(Storage::Chunks(chunks)) => (chunks.iter())
                .map(|chunk| chunk.room_bytes() as u64 + chunk::OVERHEAD_BYTES)
                .sum(),
            _ => return,
        };
        let rest = self.body.charge.bytes().saturating_sub(kept);
        self.body.charge.shrink(self.body.ledger(), rest);
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        self.end(BodyState::Broken);
    }
}

/// A body that goes to the disk at once; `None`: the disk does not take it.
fn stream_for(store: &Arc<Store>, announced_bytes: Option<u64>) -> Option<(Stream, Arc<Body>)> {
    Stream::begin(store, announced_bytes, |file| {
        let storage = OnceLock::from(Storage::File(file));
        let memory = Arc::clone(store.memory());
        Arc::new(Body::begin(memory, announced_bytes, 0, storage, Vec::new()))
    })
}
