//! Taking things out by hand, or having them validated: now in the index, and on the medium soon after.
use super::Disk;
use super::entry::Entry;
use super::folder::Folder;
use super::health::Doing;
use super::name::Name;
use super::ticket::Ticket;
use crate::cache::index::Item;
use crate::cache::key::Key;
use crate::cache::purge::{Pattern, Purge};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files that could not be removed. The next start would find them, and what is in them has been purged or replaced.
#[derive(Debug, Default)]
pub(super) struct Left(Mutex<Vec<Name>>);

impl Left {
    fn add(&self, name: Name) {
        self.names().push(name);
    }

    /// Tries again, up to the first that cannot be removed still.
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
    /// Removes or outdates; `count` is called for each object. What is found on the disk only later is treated likewise.
    pub(in crate::cache) fn purge(
        self: &Arc<Self>,
        which: &Pattern,
        how: Purge,
        ticket: Option<&Arc<Ticket>>,
        mut count: impl FnMut(&Arc<Entry>),
    ) {
        self.note_purge(which, how, ticket);
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

    /// As long as there may be files that are not in the index, they are purged when they are found, also by another process.
    fn note_purge(self: &Arc<Self>, which: &Pattern, how: Purge, ticket: Option<&Arc<Ticket>>) {
        if self.is_indexed.load(Ordering::Acquire) {
            return;
        }
        let Some(line) = self
            .indexing()
            .as_mut()
            .map(|indexing| indexing.ban(which.clone(), how, self.next_serial()))
        else {
            return;
        };
        let (disk, ticket) = (Arc::clone(self), ticket.cloned());
        self.pool.chore(move || {
            // If the index was finished meanwhile, the list says what has been done, which does no harm.
            if let Err(trouble) = disk.folder.note_purge(&line) {
                disk.health.note(Doing::Writing, &trouble);
            }
            drop(ticket);
        });
    }

    /// Has a file removed, by a thread of the pool.
    pub(super) fn remove_file(&self, name: Name, ticket: Option<&Arc<Ticket>>) {
        let (folder, health) = (Arc::clone(&self.folder), Arc::clone(&self.health));
        let (left, ticket) = (Arc::clone(&self.left), ticket.cloned());
        self.pool.chore(move || {
            match folder.remove(&name) {
                // What failed before may be possible again.
                Ok(()) => left.remove(&folder),
                Err(trouble) => {
                    health.note(Doing::Removing, &trouble);
                    left.add(name);
                }
            }
            if let Some(ticket) = ticket {
                ticket.note_folder(name.folder());
            }
        });
    }
}
