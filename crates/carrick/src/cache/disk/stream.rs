//! A body on its way to the disk at once, since it is too long for memory.
//!
//! Who fills hands over copies of what came; threads of the pool write them, in order, and make known what is written: readers get it
//! from the file, which has it in the page cache. What waits is bounded: who fills waits for [`Stream::poll_room`].
use super::Disk;
use super::entry::{Described, Entry, Stage};
use super::file::File;
use super::folder::Trouble;
use super::format::{Head, Sum, body_start, file_bytes, place_bytes};
use super::name::Name;
use super::write::{PIECE_BYTES, is_of_use};
use crate::cache::index::Item;
use crate::cache::memory::{Body, State, Store};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// Places of 16 KB for heads, which are not known yet when the body begins. What is not written of them takes no room.
const CLASS: u8 = 5;

/// Bytes of one body that wait at most before who fills has to wait.
const WINDOW_BYTES: u64 = 1 << 20;

/// Bytes of one body whose sender does not wait: with more, it is not kept.
const PATIENCE_BYTES: u64 = 2 << 20;

/// Bodies on their way at one time.
const STREAMS_MAX: u64 = 64;

/// Pieces that are written before others get their turn.
const TURN: usize = 16;

/// Room is taken in steps of this where the length is not known.
const STEP_BYTES: u64 = 4 << 20;

/// Who fills.
#[derive(Debug)]
pub(in crate::cache) struct Stream {
    shared: Arc<Shared>,
    announced_bytes: Option<u64>,
    taken_bytes: u64,
    passed_bytes: u64,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<Disk>,
    store: Arc<Store>,
    body: Weak<Body>,
    file: Arc<File>,
    serial: u64,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    bytes: u64,
    /// Whether a thread works on it, or will.
    is_begun: bool,
    has_failed: bool,
    waker: Option<Waker>,
    writing: Writing,
}

#[derive(Debug)]
enum Piece {
    /// Room for so many bytes.
    Reserve(u64),
    Bytes(Vec<u8>),
    /// What is in memory already.
    Memory(Arc<Body>),
    /// The end. `taken_bytes` are charged for it.
    End {
        body: Arc<Body>,
        is_whole: bool,
        taken_bytes: u64,
    },
}

/// What the pool's thread knows.
#[derive(Debug, Default)]
struct Writing {
    file: Option<OwnedFd>,
    written_bytes: u64,
    sum: Sum,
}

impl Stream {
    /// Begins a body; `make` makes it of the file that it will have. `None`: the disk does not take it.
    pub(in crate::cache) fn begin(
        disk: &Arc<Disk>,
        store: &Arc<Store>,
        announced_bytes: Option<u64>,
        make: impl FnOnce(Arc<File>) -> Arc<Body>,
    ) -> Option<(Self, Arc<Body>)> {
        let first_bytes = announced_bytes.unwrap_or(STEP_BYTES);
        if !disk.could_take(first_bytes) {
            return None;
        }
        let is_free = |now: u64| (now < STREAMS_MAX).then_some(now + 1);
        if disk.streams.try_update(Relaxed, Relaxed, is_free).is_err() {
            disk.counters.refused.fetch_add(1, Relaxed);
            return None;
        }
        let taken_bytes = file_bytes(CLASS, first_bytes);
        if !disk.take(taken_bytes) {
            disk.streams.fetch_sub(1, Relaxed);
            return None;
        }
        let serial = disk.next_serial();
        let file = Arc::new(File::begin(disk, body_start(CLASS)));
        let body = make(Arc::clone(&file));
        let shared = Arc::new(Shared {
            disk: Arc::clone(disk),
            store: Arc::clone(store),
            body: Arc::downgrade(&body),
            file,
            serial,
            queue: Mutex::default(),
        });
        let stream = Self {
            shared,
            announced_bytes,
            taken_bytes,
            passed_bytes: 0,
        };
        stream
            .shared
            .push(Piece::Reserve(announced_bytes.unwrap_or(0)), 0);
        Some((stream, body))
    }

    /// Hands bytes over.
    ///
    /// # Errors
    /// The disk takes no more of it.
    pub(in crate::cache) fn append(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.make_room(bytes.len() as u64)?;
        self.shared
            .push(Piece::Bytes(bytes.to_vec()), bytes.len() as u64);
        Ok(())
    }

    /// Hands over what was kept in memory so far.
    ///
    /// # Errors
    /// The disk does not take it.
    pub(in crate::cache) fn append_body(&mut self, body: Arc<Body>) -> Result<(), ()> {
        self.make_room(body.have().bytes)?;
        self.shared.push(Piece::Memory(body), 0);
        Ok(())
    }

    /// Ready when more should be handed over.
    pub(in crate::cache) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.shared.queue();
        if queue.bytes < WINDOW_BYTES || queue.has_failed {
            return Poll::Ready(());
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// That was all, and all of it, or not. The body's end is made known when it is on the disk.
    pub(in crate::cache) fn end(self, body: Arc<Body>, is_whole: bool) {
        let taken_bytes = self.taken_bytes;
        self.shared.push(
            Piece::End {
                body,
                is_whole,
                taken_bytes,
            },
            0,
        );
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), ()> {
        let queue = self.shared.queue();
        if queue.has_failed || queue.bytes > PATIENCE_BYTES {
            return Err(());
        }
        drop(queue);
        self.passed_bytes += bytes;
        if self.announced_bytes.is_some() {
            return Ok(());
        }
        let disk = &self.shared.disk;
        let wanted = file_bytes(CLASS, self.passed_bytes);
        if wanted > self.taken_bytes {
            let more = (wanted - self.taken_bytes).max(STEP_BYTES);
            if self.passed_bytes > disk.ledger.object_bytes_max() || !disk.take_bytes(more) {
                return Err(());
            }
            self.taken_bytes += more;
        }
        Ok(())
    }
}

impl Shared {
    fn push(self: &Arc<Self>, piece: Piece, bytes: u64) {
        let mut queue = self.queue();
        queue.pieces.push_back(piece);
        queue.bytes += bytes;
        if !std::mem::replace(&mut queue.is_begun, true) {
            drop(queue);
            self.take_turn();
        }
    }

    /// Its bytes are bounded by windows of their own.
    fn take_turn(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        // It is refused when everything ends, and then nobody reads.
        let _ = self.disk.pool.write(0, move || shared.run());
    }

    /// By a thread of the pool.
    fn run(self: Arc<Self>) {
        let mut writing = std::mem::take(&mut self.queue().writing);
        for _ in 0..TURN {
            let (piece, has_failed) = {
                let mut queue = self.queue();
                let Some(piece) = queue.pieces.pop_front() else {
                    queue.writing = writing;
                    queue.is_begun = false;
                    return;
                };
                (piece, queue.has_failed)
            };
            let bytes = match &piece {
                Piece::Bytes(bytes) => bytes.len() as u64,
                _ => 0,
            };
            let waker = match piece {
                Piece::End {
                    body,
                    is_whole,
                    taken_bytes,
                } => {
                    self.end(writing, &body, is_whole && !has_failed, taken_bytes);
                    return;
                }
                _ if has_failed => self.wrote(bytes, true),
                piece => match self.write(&mut writing, piece) {
                    Ok(()) => {
                        if let Some(body) = self.body.upgrade() {
                            body.publish(writing.written_bytes, State::Filling);
                        }
                        self.wrote(bytes, false)
                    }
                    Err(trouble) => {
                        self.disk.note_unwritten(&trouble);
                        self.wrote(bytes, true)
                    }
                },
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        self.queue().writing = writing;
        self.take_turn();
    }

    /// Notes what was written; who is to be woken.
    fn wrote(&self, bytes: u64, has_failed: bool) -> Option<Waker> {
        let mut queue = self.queue();
        queue.bytes -= bytes;
        queue.has_failed |= has_failed;
        if has_failed || queue.bytes < WINDOW_BYTES {
            queue.waker.take()
        } else {
            None
        }
    }

    fn write(&self, writing: &mut Writing, piece: Piece) -> Result<(), Trouble> {
        let folder = &self.disk.folder;
        let start = body_start(CLASS);
        match piece {
            Piece::Reserve(bytes) => {
                let file = folder.create(self.serial)?;
                if bytes > 0 {
                    folder.reserve(&file, self.serial, start, bytes)?;
                }
                let shared = file.try_clone().map_err(|error| Trouble {
                    call: "dup",
                    on: "a file".to_owned(),
                    error: Errno::from_io_error(&error).unwrap_or(Errno::MFILE),
                })?;
                self.file.set(shared);
                writing.file = Some(file);
                Ok(())
            }
            Piece::Bytes(bytes) => self.write_bytes(writing, &bytes),
            Piece::Memory(body) => {
                let mut piece = vec![0; PIECE_BYTES];
                let end = body.have().bytes;
                let mut at = 0;
                while at < end {
                    let read = body.read_at(&mut piece, at).unwrap_or(0);
                    if read == 0 {
                        return Err(gone());
                    }
                    self.write_bytes(writing, piece.get(..read).unwrap_or_default())?;
                    at += read as u64;
                }
                Ok(())
            }
            Piece::End { .. } => Ok(()),
        }
    }

    fn write_bytes(&self, writing: &mut Writing, bytes: &[u8]) -> Result<(), Trouble> {
        let file = writing.file.as_ref().ok_or_else(gone)?;
        let at = body_start(CLASS) + writing.written_bytes;
        self.disk.folder.write_at(file, &self.serial, bytes, at)?;
        writing.sum.add(bytes);
        writing.written_bytes += bytes.len() as u64;
        Ok(())
    }

    /// The body has come, or will not: it gets its head and its name, and then its end is made known.
    fn end(&self, writing: Writing, body: &Arc<Body>, is_whole: bool, taken_bytes: u64) {
        let kept = is_whole
            .then(|| self.keep(&writing, body, taken_bytes))
            .flatten();
        let is_kept = kept.is_some();
        self.disk.streams.fetch_sub(1, Relaxed);
        if !is_kept {
            self.disk.folder.discard(self.serial);
            self.disk.give_back(taken_bytes);
        }
        // Who reads has the file, with or without a name. But it is not counted any more, and should not stay.
        let state = if is_whole {
            State::Whole
        } else {
            State::Broken
        };
        self.store
            .end_stream(body, writing.written_bytes, state, is_kept);
    }

    fn keep(&self, writing: &Writing, body: &Arc<Body>, taken_bytes: u64) -> Option<Arc<Entry>> {
        let disk = &self.disk;
        let (object, file) = (body.object()?, writing.file.as_ref()?);
        let (key, variant, fields) = (object.key(), object.variant(), object.head());
        let head_bytes = Head::bytes_of(key.bytes(), variant, fields) as u64;
        if head_bytes > place_bytes(CLASS) || !is_of_use(&object) {
            return None;
        }
        let described = Described {
            key,
            variant,
            fields,
            date: object.meta().date,
            body_bytes: writing.written_bytes,
        };
        let name = Name::new(key.bytes(), self.serial, CLASS);
        let entry = Arc::new(Entry::new(&described, name, Stage::Writing));
        // From here on it is found by who removes it.
        let charged = entry.charged_bytes();
        disk.ledger.give_back(taken_bytes.saturating_sub(charged));
        disk.put(&entry);
        body.set_kept(&None, &entry);
        self.file.belongs_to(&entry);
        match body.object() {
            // A head that came meanwhile.
            Some(latest) if !Arc::ptr_eq(&latest, &object) => {
                entry.changes().note(Some(&latest), false, None);
            }
            _ => {}
        }
        if !self.store.is_current(&object) {
            disk.remove(&entry);
        }
        match disk.publish(file, &entry, &object, writing.sum.value()) {
            Ok(()) => {
                disk.arrived(&entry);
                Some(entry)
            }
            Err(trouble) => {
                disk.remove(&entry);
                disk.note_unwritten(&trouble);
                disk.folder.discard(self.serial);
                Some(entry)
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone() -> Trouble {
    Trouble {
        call: "read",
        on: "memory".to_owned(),
        error: Errno::IO,
    }
}
