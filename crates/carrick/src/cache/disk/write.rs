//! Writing objects from memory, in the background. A full disk gets those that were requested twice.
//!
//! Most objects are requested only once: writing them would wear the medium and evict better ones (Maggs and Sitaraman,
//! "Algorithmic Nuggets in Content Delivery", CCR 2015, section 4).
use super::entry::{Entry, Response, Stage};
use super::folder::CallError;
use super::format::{Sum, body_start, class_for};
use super::health::Operation;
use super::name::Name;
use super::{Disk, now};
use crate::cache::index::Item;
use crate::cache::key::Key;
use carrick_logic::cache::{Meta, UnixTime, Variant};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a body that are read at once.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// Bytes that are written at once, at a multiple of it: the kernel then uses large pages (folios), which make `sendfile(2)` cheaper.
const WRITE_BYTES: u64 = 1 << 20;

/// Most bytes of a key and a variant, which are kept in memory for each file and count against no limit.
const KEY_BYTES_MAX: usize = 2048;

impl Disk {
    /// Puts a new entry for a response into the index, in place of the same variant. `None`: the response is not worth storing, or
    /// cannot be stored now.
    pub(in crate::cache) fn enter(self: &Arc<Self>, response: &Response<'_>) -> Option<Arc<Entry>> {
        if !response.is_worth_storing() || !self.could_take(response.body_bytes) {
            return None;
        }
        let class = class_for(response.head_bytes())?;
        let name = Name::new(response.key.bytes(), self.next_serial(), class);
        let entry = Arc::new(Entry::new(response, name, Stage::Writing));
        self.take(entry.charged_bytes()).then(|| {
            self.put(&entry);
            entry
        })
    }

    /// Queues a job that writes so many bytes; `false`: too much is queued already.
    pub(in crate::cache) fn write_later(
        &self,
        bytes: u64,
        job: impl FnOnce() + Send + 'static,
    ) -> bool {
        self.pool.write(bytes, job).is_ok()
    }

    /// Removes an entry whose file is not written, as too much is queued.
    pub(in crate::cache) fn refuse(&self, entry: &Arc<Entry>) {
        self.counters.refused.fetch_add(1, Relaxed);
        self.remove(entry);
    }

    /// Puts an entry into the index, for which capacity was taken, in place of the same variant.
    pub(super) fn put(&self, entry: &Arc<Entry>) {
        let left = self.index.lock(entry.key().hash()).put(Arc::clone(entry));
        for left in left.into_iter().flatten() {
            self.let_go(&left, None);
        }
    }

    /// Writes the file of an entry; `read` reads the body from an offset. Called by a thread of the pool.
    pub(in crate::cache) fn write(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        response: &Response<'_>,
        read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) {
        if !entry.is_kept() {
            return;
        }
        let serial = entry.name.serial;
        let written = self.folder.create(serial).and_then(|file| {
            let sum = self.copy_body(&file, entry, read)?;
            self.publish(&file, entry, response, sum)
        });
        match written {
            Ok(()) => self.arrived(entry),
            Err(error) => {
                self.folder.discard(serial);
                self.remove(entry);
                self.note_unwritten(&error);
            }
        }
    }

    /// Notes that something could not be written.
    pub(super) fn note_unwritten(&self, error: &CallError) {
        self.health.note(Operation::Writing, error);
        if matches!(error.errno, Errno::NOSPC | Errno::DQUOT) {
            self.look_for_room();
        }
    }

    /// Writes the body; returns its checksum.
    fn copy_body(
        &self,
        file: &OwnedFd,
        entry: &Entry,
        mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> Result<u64, CallError> {
        let start = body_start(entry.name.class);
        let mut sum = Sum::default();
        let mut at = 0;
        let piece_bytes = usize::try_from(entry.body_bytes.min(WRITE_BYTES)).unwrap_or(0);
        let mut piece = vec![0; piece_bytes];
        while at < entry.body_bytes {
            let to_multiple = WRITE_BYTES - (start + at) % WRITE_BYTES;
            let room =
                usize::try_from(to_multiple).map_or(piece_bytes, |bytes| bytes.min(piece_bytes));
            let count = read(piece.get_mut(..room).unwrap_or_default(), at).unwrap_or(0);
            let bytes = piece.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                return Err(unreadable());
            }
            sum.add(bytes);
            self.folder.write_at(file, &entry.name, bytes, start + at)?;
            at += count as u64;
        }
        Ok(sum.value())
    }

    /// Writes the head, and gives the file its name.
    pub(super) fn publish(
        &self,
        file: &OwnedFd,
        entry: &Entry,
        response: &Response<'_>,
        body_sum: u64,
    ) -> Result<(), CallError> {
        if entry.body_bytes == 0 {
            self.folder
                .set_length(file, &entry.name, body_start(entry.name.class))?;
        }
        self.folder
            .write_at(file, &entry.name, &response.head(body_sum).encode(), 0)?;
        let status = self.folder.status_of(file, &entry.name)?;
        entry.stamp.store(status.stamp, Relaxed);
        self.folder.publish(&entry.name)?;
        Ok(())
    }

    /// Notes that a file has its name.
    pub(super) fn arrived(self: &Arc<Self>, entry: &Arc<Entry>) {
        self.counters.writes.fetch_add(1, Relaxed);
        self.counters
            .written_bytes
            .fetch_add(entry.charged_bytes(), Relaxed);
        self.health.note_written();
        if entry.arrive() {
            // The head may have changed meanwhile.
            self.begin_change(entry);
        } else {
            self.remove_file(entry.name, None);
        }
        self.look_for_room();
    }
}

/// The body in memory cannot be read: no fault of the medium, but there is nothing to write.
pub(super) fn unreadable() -> CallError {
    CallError {
        call: "read",
        on: "memory".to_owned(),
        errno: Errno::IO,
    }
}

impl Response<'_> {
    /// Whether it can be sent later. Parts (206) are only kept in memory, and so is what would fill that with its key.
    pub(super) fn is_worth_storing(&self) -> bool {
        self.meta.part().is_none()
            && is_short(self.key, self.variant)
            && may_be_of_use(&self.meta, now())
    }
}

/// Whether a key and a variant may be kept in memory for a file.
pub(super) fn is_short(key: Key<'_>, variant: &Variant) -> bool {
    let (names, values) = variant.parts();
    key.bytes().len() + names.len() + values.len() <= KEY_BYTES_MAX
}

/// Whether a response is fresh, or can be validated or sent stale.
fn may_be_of_use(meta: &Meta, now: UnixTime) -> bool {
    let stale_s = meta.stale_while_revalidate_s.max(meta.stale_if_error_s);
    meta.can_be_validated() || meta.ttl_s(now) + i64::from(stale_s) > 0
}
