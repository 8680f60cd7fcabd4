//! A body's file, from which `sendfile(2)` sends.
use super::entry::{Entry, Stage};
use super::format::body_start;
use super::health::Doing;
use super::resident::is_resident;
use super::write::PIECE_BYTES;
use super::{Disk, now};
use carrick_logic::cache::UnixTime;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;

/// Files of bodies up to so many bytes are closed by whoever has them last, if they are still in their folder: that waits for nothing.
const CLOSED_AT_ONCE_BYTES_MAX: u64 = 1 << 20;

/// So long nobody looks whether an open file is still what it was.
const LOOK_AFTER_S: u64 = 10;

/// The file. It is read as long as somebody has it, also when it was removed from its folder.
#[derive(Debug)]
pub struct File {
    disk: Arc<Disk>,
    /// Set before the first byte is made known.
    file: OnceLock<OwnedFd>,
    /// Whose it is; of a body that is still coming, it is not known yet.
    entry: OnceLock<Arc<Entry>>,
    /// Where the body begins.
    start: u64,
    /// When it was looked at last, in seconds.
    looked_s: AtomicU64,
}

impl File {
    /// An entry's, open.
    pub(super) fn of(disk: &Arc<Disk>, entry: &Arc<Entry>, file: OwnedFd) -> Self {
        let mut new = Self::begin(disk, body_start(entry.name.class));
        *new.looked_s.get_mut() = now().0;
        new.set(file);
        new.belongs_to(entry);
        new
    }

    /// One that is not there yet, whose body begins at `start`.
    pub(super) fn begin(disk: &Arc<Disk>, start: u64) -> Self {
        Self {
            disk: Arc::clone(disk),
            file: OnceLock::new(),
            entry: OnceLock::new(),
            start,
            looked_s: AtomicU64::new(0),
        }
    }

    pub(super) fn set(&self, file: OwnedFd) {
        let _ = self.file.set(file);
    }

    /// It has come, and is this entry's.
    pub(super) fn belongs_to(&self, entry: &Arc<Entry>) {
        if self.entry.set(Arc::clone(entry)).is_ok() {
            entry.open_files.fetch_add(1, Relaxed);
        }
    }

    /// Whether it is still what was loaded: not removed from its folder by somebody else, nor changed. Looks once in 10 s at most.
    pub(in crate::cache) fn stands(&self, now: UnixTime) -> bool {
        let (Some(file), Some(entry)) = (self.file.get(), self.entry.get()) else {
            return true;
        };
        let is_new = now.0.saturating_sub(self.looked_s.load(Relaxed)) < LOOK_AFTER_S;
        if is_new || !self.disk.folder.answers_at_once() || entry.stage() != Stage::There {
            return true;
        }
        self.looked_s.store(now.0, Relaxed);
        let Ok(look) = self.disk.folder.look_at(file, &entry.name) else {
            return false;
        };
        let is_same = || look.stamp == entry.stamp.load(Relaxed);
        // While another head is written, nobody knows yet when that was.
        let is_known = || is_same() || entry.changes().is_begun() || is_same();
        look.has_name && look.bytes == self.start + entry.body_bytes && is_known()
    }

    /// Where the body begins.
    pub(in crate::cache) fn start(&self) -> u64 {
        self.start
    }

    /// The descriptor.
    pub(in crate::cache) fn file(&self) -> io::Result<&OwnedFd> {
        self.file
            .get()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether these bytes of the body can be sent at once, without waiting for the medium.
    pub(in crate::cache) fn is_resident(&self, from: u64, bytes: u64) -> bool {
        self.file
            .get()
            .and_then(|file| is_resident(file, self.start + from, bytes))
            .unwrap_or(false)
    }

    /// Has these bytes read into the page cache. The answer says whether they are there; none: there is too much to do.
    pub(in crate::cache) fn fetch(
        self: &Arc<Self>,
        from: u64,
        bytes: u64,
    ) -> oneshot::Receiver<bool> {
        let (done, fetched) = oneshot::channel();
        let file = Arc::clone(self);
        // Dropped, the sender says that nothing comes of it.
        let _ = self.disk.pool.read(move || {
            let _ = done.send(file.read_through(from, bytes));
        });
        fetched
    }

    /// By a thread of the pool.
    fn read_through(&self, from: u64, bytes: u64) -> bool {
        let Some(file) = self.file.get() else {
            return false;
        };
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut left) = (self.start + from, bytes);
        while left > 0 {
            let count = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let buffer = piece.get_mut(..count).unwrap_or_default();
            match self.disk.folder.read_at(file, self, buffer, at) {
                Ok(read) if read == count => {}
                Ok(_) => {
                    self.disk.health.note_damage(self, "was cut short");
                    return false;
                }
                Err(trouble) => {
                    self.disk.health.note(Doing::Reading, &trouble);
                    return false;
                }
            }
            at += count as u64;
            left -= count as u64;
        }
        true
    }
}

impl fmt::Display for File {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry.get() {
            Some(entry) => entry.name.fmt(out),
            None => out.write_str("an unfinished file"),
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let entry = self.entry.get();
        if let Some(entry) = entry {
            entry.open_files.fetch_sub(1, Relaxed);
        }
        let is_quick = entry
            .is_some_and(|entry| entry.is_kept() && entry.body_bytes <= CLOSED_AT_ONCE_BYTES_MAX);
        if let Some(file) = self.file.take().filter(|_| !is_quick) {
            // It frees the blocks of one that was removed, which takes its time.
            self.disk.pool.chore(move || drop(file));
        }
    }
}
