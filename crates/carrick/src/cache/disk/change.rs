//! Other heads for bodies that are on the disk: a 304, the answer to HEAD, a purge that leaves things to be validated.
use super::Disk;
use super::entry::{Change, Entry, Stage};
use super::folder::Trouble;
use super::format::{Head, body_start, place_bytes};
use super::health::Doing;
use super::ticket::Ticket;
use crate::cache::memory::Object;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Disk {
    /// The object has another head now.
    pub(in crate::cache) fn freshen(self: &Arc<Self>, entry: &Arc<Entry>, object: &Arc<Object>) {
        entry.changes().note(Some(object), false, None);
        self.begin_change(entry);
    }

    /// The object is out of date. `ticket` is held until that is on the medium.
    pub(super) fn outdate(self: &Arc<Self>, entry: &Arc<Entry>, ticket: Option<&Arc<Ticket>>) {
        entry.changes().note(None, true, ticket);
        self.begin_change(entry);
    }

    /// The same, written by this thread, which may wait for the medium.
    pub(super) fn outdate_here(&self, entry: &Arc<Entry>) {
        entry.changes().note(None, true, None);
        if entry.changes().begin() {
            self.change(entry);
        }
    }

    /// Has what is pending written, if somebody does not already. What is being written itself comes later.
    pub(super) fn begin_change(self: &Arc<Self>, entry: &Arc<Entry>) {
        match entry.stage() {
            Stage::There if entry.changes().begin() => {}
            Stage::Gone => {
                let pending = entry.changes().clear();
                return drop(pending);
            }
            _ => return,
        }
        let (disk, entry) = (Arc::clone(self), Arc::clone(entry));
        self.pool.chore(move || disk.change(&entry));
    }

    fn change(&self, entry: &Arc<Entry>) {
        // No lock is held while it is written.
        let next_of = |entry: &Entry| entry.changes().next();
        while let Some(change) = next_of(entry) {
            if entry.is_kept()
                && let Err(trouble) = self.write_change(entry, &change)
            {
                // The old head must not be found any more. If it was removed meanwhile, nothing is wrong.
                let was_there = self.remove(entry);
                if let Some(trouble) = trouble.filter(|_| was_there) {
                    self.health.note(Doing::Writing, &trouble);
                }
            }
            entry.changes().done(&change);
        }
    }

    /// # Errors
    /// With what the medium had against it; `None` if there is no room for the head, or the old one is damaged.
    fn write_change(&self, entry: &Entry, change: &Change) -> Result<(), Option<Trouble>> {
        let (name, class) = (&entry.name, entry.name.class);
        let file = self.folder.open_file(name).map_err(Some)?;
        let mut head = self.read_head(&file, entry)?.ok_or(None)?;
        change.apply(&mut head);
        head.revision += 1;
        let bytes = head.encode();
        if bytes.len() as u64 > place_bytes(class) {
            return Err(None);
        }
        let at = Head::place(head.revision, class);
        self.folder
            .write_at(&file, name, &bytes, at)
            .map_err(Some)?;
        if change.must_last() {
            // Somebody was told, or will be, that it is not sent any more as it is.
            self.folder.sync_file(&file, name).map_err(Some)?;
        }
        let look = self.folder.look_at(&file, name).map_err(Some)?;
        entry.stamp.store(look.stamp, Relaxed);
        Ok(())
    }

    /// The newest head in a file that is for this entry; `None` if there is none.
    pub(super) fn read_head(
        &self,
        file: &std::os::fd::OwnedFd,
        entry: &Entry,
    ) -> Result<Option<Head>, Trouble> {
        let class = entry.name.class;
        let mut bytes = vec![0; usize::try_from(body_start(class)).unwrap_or(0)];
        let read = self.folder.read_at(file, &entry.name, &mut bytes, 0)?;
        let head = Head::newest(bytes.get(..read).unwrap_or_default(), class);
        Ok(head.filter(|head| entry.is_of(head)))
    }
}
