//! A body that goes to the disk while it comes, since it is too long for memory.
//!
//! The writer queues copies of what came. Threads of the pool write them in order, and then tell readers, who read from the file: its
//! pages are in the page cache. The queue is bounded: the writer waits for [`Stream::poll_room`].
use crate::cache::disk::{Disk, File, FileWriter, NotWritten};
use crate::cache::memory::Store;
use crate::cache::memory::object::{Body, BodyState};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// Queued bytes of one body from which on the writer has to wait.
const WINDOW_BYTES: u64 = 1 << 20;

/// Queued bytes of one body whose sender does not wait. With more, it is not stored.
const QUEUED_BYTES_MAX: u64 = 2 << 20;

/// Pieces that are written before other jobs have their turn.
const TURN: usize = 16;

/// The writer's end.
#[derive(Debug)]
pub(super) struct Stream {
    shared: Arc<Shared>,
    announced_bytes: Option<u64>,
    /// Capacity that was taken on the disk.
    taken_bytes: u64,
    queued_bytes: u64,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<Disk>,
    store: Arc<Store>,
    body: Weak<Body>,
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// Bytes of the pieces.
    bytes: u64,
    /// Whether a thread writes, or will.
    is_begun: bool,
    has_failed: bool,
    waker: Option<Waker>,
    /// Absent while a thread uses it, and after the end.
    writer: Option<FileWriter>,
}

#[derive(Debug)]
enum Piece {
    /// The file is to be created, with room for so many bytes.
    Create(Option<u64>),
    Bytes(Vec<u8>),
    /// What is in memory already.
    Memory(Arc<Body>),
    End {
        body: Arc<Body>,
        is_whole: bool,
        taken_bytes: u64,
    },
}

impl Stream {
    /// Begins a body, which `make` makes of its file. `None`: the disk does not take it.
    pub(super) fn begin(
        store: &Arc<Store>,
        announced_bytes: Option<u64>,
        make: impl FnOnce(Arc<File>) -> Arc<Body>,
    ) -> Option<(Self, Arc<Body>)> {
        let disk = store.disk()?;
        let (writer, taken_bytes) = disk.begin_file(announced_bytes)?;
        let body = make(Arc::clone(writer.file()));
        let shared = Arc::new(Shared {
            disk: Arc::clone(disk),
            store: Arc::clone(store),
            body: Arc::downgrade(&body),
            queue: Mutex::new(Queue {
                pieces: VecDeque::new(),
                bytes: 0,
                is_begun: false,
                has_failed: false,
                waker: None,
                writer: Some(writer),
            }),
        });
        shared.push(Piece::Create(announced_bytes), 0);
        let stream = Self {
            shared,
            announced_bytes,
            taken_bytes,
            queued_bytes: 0,
        };
        Some((stream, body))
    }

    /// Queues bytes.
    ///
    /// # Errors
    /// The disk takes no more of the body.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), NotWritten> {
        self.make_room(bytes.len() as u64)?;
        self.shared
            .push(Piece::Bytes(bytes.to_vec()), bytes.len() as u64);
        Ok(())
    }

    /// Queues what was kept in memory so far.
    ///
    /// # Errors
    /// The disk does not take it.
    pub(super) fn append_body(&mut self, body: Arc<Body>) -> Result<(), NotWritten> {
        self.make_room(body.progress().bytes)?;
        self.shared.push(Piece::Memory(body), 0);
        Ok(())
    }

    /// Ready when more should be appended.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.shared.queue();
        if queue.bytes < WINDOW_BYTES || queue.has_failed {
            return Poll::Ready(());
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ends the body, whole or not. Readers are told when it is on the disk.
    pub(super) fn end(self, body: Arc<Body>, is_whole: bool) {
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

    fn make_room(&mut self, bytes: u64) -> Result<(), NotWritten> {
        let queue = self.shared.queue();
        if queue.has_failed || queue.bytes > QUEUED_BYTES_MAX {
            return Err(NotWritten);
        }
        drop(queue);
        self.queued_bytes += bytes;
        if self.announced_bytes.is_none() {
            let disk = &self.shared.disk;
            let grown = disk.grow_file(self.taken_bytes, self.queued_bytes);
            self.taken_bytes = grown.ok_or(NotWritten)?;
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

    /// Queues the writing. It counts as no bytes there, as they are bounded here.
    fn take_turn(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        // It is refused when the process ends: then the body has no readers.
        let _ = self.disk.write_later(0, move || shared.run());
    }

    /// Writes some pieces. Called by a thread of the pool.
    fn run(self: Arc<Self>) {
        let Some(mut writer) = self.queue().writer.take() else {
            return;
        };
        for _ in 0..TURN {
            let (piece, has_failed) = {
                let mut queue = self.queue();
                let Some(piece) = queue.pieces.pop_front() else {
                    queue.writer = Some(writer);
                    queue.is_begun = false;
                    return;
                };
                (piece, queue.has_failed)
            };
            let (bytes, written) = match piece {
                Piece::End {
                    body,
                    is_whole,
                    taken_bytes,
                } => return self.end(writer, &body, is_whole && !has_failed, taken_bytes),
                Piece::Bytes(bytes) if has_failed => (bytes.len(), Err(NotWritten)),
                _ if has_failed => (0, Err(NotWritten)),
                Piece::Create(bytes) => (0, writer.create(bytes)),
                Piece::Bytes(bytes) => (bytes.len(), writer.append(&bytes)),
                Piece::Memory(body) => {
                    let read = |buffer: &mut [u8], at| body.read_at(buffer, at);
                    (0, writer.append_from(body.progress().bytes, read))
                }
            };
            if written.is_ok()
                && let Some(body) = self.body.upgrade()
            {
                body.publish(writer.written_bytes(), BodyState::Filling);
            }
            if let Some(waker) = self.wrote(bytes as u64, written.is_err()) {
                waker.wake();
            }
        }
        self.queue().writer = Some(writer);
        self.take_turn();
    }

    /// Counts written bytes; returns the writer's waker if it can go on.
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

    /// The body has ended: a whole one gets its head and its name before readers are told.
    fn end(&self, writer: FileWriter, body: &Arc<Body>, is_whole: bool, taken_bytes: u64) {
        let is_stored = is_whole && self.store_file(&writer, body, taken_bytes);
        let bytes = writer.written_bytes();
        writer.end((!is_stored).then_some(taken_bytes));
        // Readers keep the file open, with or without a name. Without one, it is not counted, and should not stay.
        let state = if is_whole {
            BodyState::Whole
        } else {
            BodyState::Broken
        };
        self.store.end_stream(body, bytes, state, is_stored);
    }

    /// Whether the file has an entry, or had one until now.
    fn store_file(&self, writer: &FileWriter, body: &Arc<Body>, taken_bytes: u64) -> bool {
        let Some(object) = body.object() else {
            return false;
        };
        let response = object.for_disk(writer.written_bytes());
        let Some(entry) = writer.enter(&response, taken_bytes) else {
            return false;
        };
        body.set_kept(None, &entry);
        match body.object() {
            // The head was replaced meanwhile.
            Some(latest) if !Arc::ptr_eq(&latest, &object) => {
                self.disk.freshen(&entry, latest.new_head());
            }
            _ => {}
        }
        if !self.store.is_current(&object) {
            self.disk.remove(&entry);
        }
        writer.publish(&entry, &response);
        true
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
