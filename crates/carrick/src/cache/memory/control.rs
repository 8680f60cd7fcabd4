//! Listing and purging.
use super::object::Object;
use super::{NotTaken, Store};
use crate::cache::disk::PurgeTicket;
use crate::cache::purge::{Pattern, Purge};
use std::sync::Arc;

impl Store {
    /// Removes or outdates objects; returns how many. With a disk, `ticket` is held until the purge is on the medium.
    ///
    /// Except for [`Pattern::Key`], it looks through all objects, a few under one lock: no worker waits for it, but it may take
    /// long. It can miss objects that are stored meanwhile.
    pub(in crate::cache) fn purge(
        &self,
        which: &Pattern,
        how: Purge,
        ticket: Option<&Arc<PurgeTicket>>,
    ) -> u64 {
        let mut only_there = 0;
        if let Some(disk) = &self.disk {
            disk.note_purge(which, how, ticket);
            disk.purge(which, how, ticket, |entry| {
                only_there += u64::from(!self.has(entry));
            });
        }
        let here = self.purge_memory(which, how);
        // Once more: meanwhile, an object in memory may have been written to the disk, and loaded again. Not until
        // nothing is found: in a busy cache, there is always something that was stored later.
        if let Some(disk) = &self.disk {
            disk.purge(which, how, ticket, |_| {});
            self.purge_memory(which, how);
        }
        here + only_there
    }

    /// Removes or outdates objects in memory.
    fn purge_memory(&self, which: &Pattern, how: Purge) -> u64 {
        let purge = |object: Arc<Object>| u64::from(self.purge_one(&object, how));
        match which {
            Pattern::Key(bytes) => self.variants(self.key(bytes)).into_iter().map(purge).sum(),
            _ => self
                .objects()
                .filter(|object| object.matches(which))
                .map(purge)
                .sum(),
        }
    }

    /// Removes or outdates one object; `false` if it is not stored any more.
    pub fn purge_one(&self, object: &Arc<Object>, how: Purge) -> bool {
        if how == Purge::Remove {
            return self.remove(object);
        }
        // An object that was freshened meanwhile is not meant. One that must not stay fresh is removed if there is no room for both.
        match self.replace(object, object.meta().outdated(), object.head()) {
            Ok(_) => true,
            Err(NotTaken::Gone) => false,
            Err(_) => self.remove(object),
        }
    }

    /// All objects, in no order. No lock is held between two: objects that are stored or removed meanwhile may be left out.
    pub fn objects(&self) -> impl Iterator<Item = Arc<Object>> {
        self.index.items()
    }
}
