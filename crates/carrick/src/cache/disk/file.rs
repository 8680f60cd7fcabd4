//! A body's file, from which `sendfile(2)` sends.
use super::entry::{Entry, Stage};
use super::format::body_start;
use super::health::Operation;
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

/// Files of bodies up to this length are closed by the thread that drops them, if they were not removed: that does not wait.
const CLOSED_AT_ONCE_BYTES_MAX: u64 = 1 << 20;

/// How often an open file is checked for changes by others, in seconds.
const LOOK_AFTER_S: u64 = 10;

/// The file. It can be read as long as this exists, even when it was removed from its folder.
#[derive(Debug)]
pub struct File {
    disk: Arc<Disk>,
    /// Set before the first byte is published.
    file: OnceLock<OwnedFd>,
    /// Its entry; unset while the body is coming.
    entry: OnceLock<Arc<Entry>>,
    /// Where the body begins.
    start: u64,
    /// When it was checked last, in seconds.
    looked_s: AtomicU64,
}

impl File {
    /// The open file of an entry.
    pub(super) fn of(disk: &Arc<Disk>, entry: &Arc<Entry>, file: OwnedFd) -> Self {
        let mut new = Self::begin(disk, body_start(entry.name.class));
        *new.looked_s.get_mut() = now().0;
        new.set(file);
        new.belongs_to(entry);
        new
    }

    /// A file that will be created, whose body begins at `start`.
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

    /// Notes its entry, as the body has come.
    pub(super) fn belongs_to(&self, entry: &Arc<Entry>) {
        if self.entry.set(Arc::clone(entry)).is_ok() {
            entry.open_files.fetch_add(1, Relaxed);
        }
    }

    /// Whether it is still what was loaded: another program has not removed or changed it. Checks once in 10 s at most.
    pub(in crate::cache) fn stands(&self, now: UnixTime) -> bool {
        let (Some(file), Some(entry)) = (self.file.get(), self.entry.get()) else {
            return true;
        };
        let is_new = now.0.saturating_sub(self.looked_s.load(Relaxed)) < LOOK_AFTER_S;
        if is_new || !self.disk.folder.answers_at_once() || entry.stage() != Stage::There {
            return true;
        }
        self.looked_s.store(now.0, Relaxed);
        let Ok(status) = self.disk.folder.status_of(file, &entry.name) else {
            return false;
        };
        let is_same = || status.stamp == entry.stamp.load(Relaxed);
        // While a new head is written, the stamp is not known yet.
        let is_known = || is_same() || entry.changes().is_begun() || is_same();
        status.has_name && status.bytes == self.start + entry.body_bytes && is_known()
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

    /// Has these bytes read into the page cache. The receiver gets `true` when they are there.
    pub(in crate::cache) fn fetch(
        self: &Arc<Self>,
        from: u64,
        bytes: u64,
    ) -> oneshot::Receiver<bool> {
        let (done, fetched) = oneshot::channel();
        let file = Arc::clone(self);
        // However busy the pool is: what has been begun is sent to its end, and each client waits for one.
        self.disk.pool.read(move || {
            let _ = done.send(file.read_through(from, bytes));
        });
        fetched
    }

    /// Called by a thread of the pool.
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
                Err(error) => {
                    self.disk.health.note(Operation::Reading, &error);
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
            // Closing a removed file frees its blocks, which takes time.
            self.disk.pool.chore(move || drop(file));
        }
    }
}
