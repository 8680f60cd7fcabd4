//! Writing objects behind: what is asked for a second time while it is in memory.
//!
//! Most of what is asked for once is never asked for again: written at once, it would wear the medium and drive out what is of
//! use (Maggs and Sitaraman, "Algorithmic Nuggets in Content Delivery", CCR 2015, section 4).
use super::entry::{Described, Entry, Stage};
use super::folder::Trouble;
use super::format::{Head, Sum, body_start, class_for};
use super::health::Doing;
use super::name::Name;
use super::{Disk, now};
use crate::cache::index::Item;
use crate::cache::memory::Object;
use carrick_logic::cache::{Meta, UnixTime};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// So much of a body is read at once.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// So much of a file is written at once, and from a multiple of it on: the kernel then gives it large pages (folios), with which
/// `sendfile(2)` has less to do.
const WRITE_BYTES: u64 = 1 << 20;

impl Disk {
    /// An object in memory was asked for again: it is written, unless it is there, or has no use, or there is too much to do.
    ///
    /// `is_current`: whether it is still in memory, as it is.
    pub(in crate::cache) fn offer(
        self: &Arc<Self>,
        object: &Arc<Object>,
        is_current: impl FnOnce() -> bool,
    ) {
        let body = object.body();
        let before = body.kept();
        if let Some(entry) = &*before
            && entry.is_kept()
        {
            return entry.note_hit();
        }
        let have = body.have();
        if !body.is_whole() || body.is_file() || !is_of_use(object) || !self.could_take(have.bytes)
        {
            return;
        }
        let (key, variant, fields) = (object.key(), object.variant(), object.head());
        let Some(class) = class_for(Head::bytes_of(key.bytes(), variant, fields)) else {
            return;
        };
        let described = Described {
            key,
            variant,
            fields,
            date: object.meta().date,
            body_bytes: have.bytes,
        };
        let name = Name::new(key.bytes(), self.next_serial(), class);
        let entry = Arc::new(Entry::new(&described, name, Stage::Writing));
        if !self.enter(&entry) {
            return;
        }
        // Somebody else was first; or it was purged before anybody could know that it comes here.
        if !body.set_kept(&before, &entry) || !is_current() {
            self.remove(&entry);
            return;
        }
        let (disk, object, job_entry) = (Arc::clone(self), Arc::clone(object), Arc::clone(&entry));
        let written = self
            .pool
            .write(have.bytes, move || disk.write(&job_entry, &object));
        if written.is_err() {
            self.counters.refused.fetch_add(1, Relaxed);
            self.remove(&entry);
        }
    }

    /// Puts an entry into the index, in the place of what is there for the same variant; `false` if there is no room.
    pub(super) fn enter(&self, entry: &Arc<Entry>) -> bool {
        if !self.take(entry.charged_bytes()) {
            return false;
        }
        self.put(entry);
        true
    }

    /// The same for one for which everything was taken.
    pub(super) fn put(&self, entry: &Arc<Entry>) {
        let left = self.index.lock(entry.key().hash()).put(Arc::clone(entry));
        for left in left.into_iter().flatten() {
            self.let_go(&left, None);
        }
    }

    /// By a thread of the pool.
    fn write(self: &Arc<Self>, entry: &Arc<Entry>, object: &Object) {
        if !entry.is_kept() {
            return;
        }
        let serial = entry.name.serial;
        let written = self.folder.create(serial).and_then(|file| {
            let sum = self.copy_body(&file, entry, object)?;
            self.publish(&file, entry, object, sum)
        });
        match written {
            Ok(()) => self.arrived(entry),
            Err(trouble) => {
                self.folder.discard(serial);
                self.remove(entry);
                self.note_unwritten(&trouble);
            }
        }
    }

    /// Something could not be written.
    pub(super) fn note_unwritten(&self, trouble: &Trouble) {
        self.health.note(Doing::Writing, trouble);
        if matches!(trouble.error, Errno::NOSPC | Errno::DQUOT) {
            self.look_for_room();
        }
    }

    /// Writes the body; its checksum.
    fn copy_body(&self, file: &OwnedFd, entry: &Entry, object: &Object) -> Result<u64, Trouble> {
        let body = object.body();
        let start = body_start(entry.name.class);
        let mut sum = Sum::default();
        let mut at = 0;
        let piece_bytes = usize::try_from(entry.body_bytes.min(WRITE_BYTES)).unwrap_or(0);
        let mut piece = vec![0; piece_bytes];
        while at < entry.body_bytes {
            let to_multiple = WRITE_BYTES - (start + at) % WRITE_BYTES;
            let room =
                usize::try_from(to_multiple).map_or(piece_bytes, |bytes| bytes.min(piece_bytes));
            let read = body
                .read_at(piece.get_mut(..room).unwrap_or_default(), at)
                .unwrap_or(0);
            let bytes = piece.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                // Memory that cannot be read is no fault of the medium, but there is nothing to be written.
                return Err(Trouble {
                    call: "read",
                    on: "memory".to_owned(),
                    error: Errno::IO,
                });
            }
            sum.add(bytes);
            self.folder.write_at(file, &entry.name, bytes, start + at)?;
            at += read as u64;
        }
        Ok(sum.value())
    }

    /// Writes the head, and gives the file its name.
    pub(super) fn publish(
        &self,
        file: &OwnedFd,
        entry: &Entry,
        object: &Object,
        body_sum: u64,
    ) -> Result<(), Trouble> {
        let head = Head {
            revision: 0,
            body_bytes: entry.body_bytes,
            body_sum,
            origin: object.origin(),
            meta: object.meta().clone(),
            key: object.key().bytes().into(),
            variant: object.variant().clone(),
            fields: object.head().into(),
        };
        if entry.body_bytes == 0 {
            self.folder
                .set_length(file, &entry.name, body_start(entry.name.class))?;
        }
        self.folder.write_at(file, &entry.name, &head.encode(), 0)?;
        let look = self.folder.look_at(file, &entry.name)?;
        entry.stamp.store(look.stamp, Relaxed);
        self.folder.publish(&entry.name)?;
        Ok(())
    }

    /// A file has its name.
    pub(super) fn arrived(self: &Arc<Self>, entry: &Arc<Entry>) {
        self.counters.writes.fetch_add(1, Relaxed);
        self.counters
            .written_bytes
            .fetch_add(entry.charged_bytes(), Relaxed);
        self.health.note_written();
        if entry.arrive() {
            // What has changed while it was written.
            self.begin_change(entry);
        } else {
            self.remove_file(entry.name, None);
        }
        self.look_for_room();
    }
}

/// Whether it can be sent at a later time. Parts (206) are for memory.
pub(super) fn is_of_use(object: &Object) -> bool {
    object.meta().part().is_none() && may_be_of_use(object.meta(), now())
}

/// Whether it is fresh, or can be validated, or be sent stale.
pub(super) fn may_be_of_use(meta: &Meta, now: UnixTime) -> bool {
    let stale_s = meta.stale_while_revalidate_s.max(meta.stale_if_error_s);
    meta.can_be_validated() || meta.ttl_s(now) + i64::from(stale_s) > 0
}
