//! New heads for bodies on the disk: after a 304, a response to HEAD, or a purge that outdates.
use super::Disk;
use super::entry::{Change, Entry, NewHead, Stage};
use super::folder::CallError;
use super::format::{Head, body_start, slot_bytes};
use super::health::Operation;
use super::purge_ticket::PurgeTicket;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Disk {
    /// Replaces the head of an object.
    pub(in crate::cache) fn freshen(self: &Arc<Self>, entry: &Arc<Entry>, head: NewHead) {
        entry.freshen(head);
        self.begin_change(entry);
    }

    /// Outdates an object. `ticket` is held until that is on the medium.
    pub(super) fn outdate(self: &Arc<Self>, entry: &Arc<Entry>, ticket: Option<&Arc<PurgeTicket>>) {
        entry.changes().note(None, true, ticket);
        self.begin_change(entry);
    }

    /// The same, but this thread writes it, and may wait for the medium.
    pub(super) fn outdate_here(&self, entry: &Arc<Entry>) {
        entry.changes().note(None, true, None);
        if entry.changes().begin() {
            self.change(entry);
        }
    }

    /// Has the pending change written, unless a thread already writes. For a new file, that happens when it is written.
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
        // No lock is held while a change is written.
        let next_of = |entry: &Entry| entry.changes().next();
        while let Some(change) = next_of(entry) {
            if entry.is_kept()
                && let Err(error) = self.write_change(entry, &change)
            {
                // The old head must not be found any more. If the entry was removed meanwhile, that is no failure.
                let was_there = self.remove(entry);
                if let Some(error) = error.filter(|_| was_there) {
                    self.health.note(Operation::Writing, &error);
                }
            }
            entry.changes().done(&change);
        }
    }

    /// # Errors
    /// A call failed; `None`: the head is too long for its place, or the old one is damaged.
    fn write_change(&self, entry: &Entry, change: &Change) -> Result<(), Option<CallError>> {
        let (name, class) = (&entry.name, entry.name.class);
        let file = self.folder.open_file(name).map_err(Some)?;
        let mut head = self.read_head(&file, entry)?.ok_or(None)?;
        change.apply(&mut head);
        head.revision += 1;
        let bytes = head.encode();
        if bytes.len() as u64 > slot_bytes(class) {
            return Err(None);
        }
        let at = Head::offset(head.revision, class);
        self.folder
            .write_at(&file, name, &bytes, at)
            .map_err(Some)?;
        if change.must_last() {
            // The purger is told that the old head is not sent any more.
            self.folder.sync_file(&file, name).map_err(Some)?;
        }
        let status = self.folder.status_of(&file, name).map_err(Some)?;
        entry.stamp.store(status.stamp, Relaxed);
        Ok(())
    }

    /// The newest head in the file of this entry; `None`: there is none.
    pub(super) fn read_head(
        &self,
        file: &std::os::fd::OwnedFd,
        entry: &Entry,
    ) -> Result<Option<Head>, CallError> {
        let class = entry.name.class;
        let mut bytes = vec![0; usize::try_from(body_start(class)).unwrap_or(0)];
        let read = self.folder.read_at(file, &entry.name, &mut bytes, 0)?;
        let head = Head::newest(bytes.get(..read).unwrap_or_default(), class);
        Ok(head.filter(|head| entry.is_of(head)))
    }
}
