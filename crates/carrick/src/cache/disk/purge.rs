//! Purging: at once in the index, soon after on the medium.
use super::Disk;
use super::entry::Entry;
use super::folder::Folder;
use super::health::Operation;
use super::name::Name;
use super::purge_ticket::PurgeTicket;
use crate::cache::index::Item;
use crate::cache::key::Key;
use crate::cache::purge::{Pattern, Purge};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files that could not be removed. The next start would find them, though they were purged or replaced.
#[derive(Debug, Default)]
pub(super) struct Unremoved(Mutex<Vec<Name>>);

impl Unremoved {
    fn add(&self, name: Name) {
        self.names().push(name);
    }

    /// Tries again to remove them, until one fails.
    pub(super) fn remove(&self, folder: &Folder) {
        while let Some(name) = { self.names().pop() } {
            if folder.remove(&name).is_err() {
                return self.add(name);
            }
        }
    }

    fn names(&self) -> MutexGuard<'_, Vec<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// Removes or outdates objects; `count` is called for each. Files that are indexed later are treated in the same way if
    /// [`note_purge`](Self::note_purge) was called before.
    pub(in crate::cache) fn purge(
        self: &Arc<Self>,
        which: &Pattern,
        how: Purge,
        ticket: Option<&Arc<PurgeTicket>>,
        mut count: impl FnMut(&Arc<Entry>),
    ) {
        let mut purge = |entry: &Arc<Entry>| match how {
            Purge::Remove => {
                let removed = self.index.lock(entry.key().hash()).remove(entry);
                if let Some(entry) = removed {
                    count(&entry);
                    self.let_go(&entry, ticket);
                }
            }
            Purge::Outdate => {
                if entry.is_kept() {
                    count(entry);
                    self.outdate(entry, ticket);
                }
            }
        };
        if let Pattern::Key(bytes) = which {
            let key = Key::of(&self.seed, bytes);
            let variants = self.index.lock(key.hash()).find(key);
            return variants.iter().flatten().for_each(purge);
        }
        for entry in self.index.items() {
            if entry.matches(which) {
                purge(&entry);
            }
        }
    }

    /// While files are indexed, has those that are not indexed yet purged when they are found: even by the next process, unless they are
    /// removed by key and nobody waits for the medium.
    pub(in crate::cache) fn note_purge(
        self: &Arc<Self>,
        which: &Pattern,
        how: Purge,
        ticket: Option<&Arc<PurgeTicket>>,
    ) {
        if self.is_indexed.load(Ordering::Acquire) {
            return;
        }
        let mut indexing = self.indexing();
        let Some(indexing_now) = indexing.as_mut() else {
            return;
        };
        if let (Pattern::Key(bytes), Purge::Remove, None) = (which, how, ticket) {
            return indexing_now.touch(Key::of(&self.seed, bytes).hash());
        }
        let line = indexing_now.ban(which.clone(), how, self.next_serial());
        drop(indexing);
        let (disk, ticket) = (Arc::clone(self), ticket.cloned());
        self.pool.chore(move || {
            // If all files were indexed meanwhile, the line does no harm.
            if let Err(error) = disk.folder.note_purge(&line) {
                disk.health.note(Operation::Writing, &error);
            }
            drop(ticket);
        });
    }

    /// Has a thread of the pool remove a file.
    pub(super) fn remove_file(&self, name: Name, ticket: Option<&Arc<PurgeTicket>>) {
        let (folder, health) = (Arc::clone(&self.folder), Arc::clone(&self.health));
        let (unremoved, ticket) = (Arc::clone(&self.unremoved), ticket.cloned());
        self.pool.chore(move || {
            match folder.remove(&name) {
                // Removals that failed before may succeed now.
                Ok(()) => unremoved.remove(&folder),
                Err(error) => {
                    health.note(Operation::Removing, &error);
                    unremoved.add(name);
                }
            }
            if let Some(ticket) = ticket {
                ticket.note_folder(name.folder());
            }
        });
    }
}
