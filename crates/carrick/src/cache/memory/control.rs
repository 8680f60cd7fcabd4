//! Looking through the store and taking things out of it, by hand.
use super::object::Object;
use super::{NotTaken, Store};
use crate::cache::disk::{Entry, Ticket};
use crate::cache::index::{Item, Items};
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
        ticket: Option<&Arc<Ticket>>,
    ) -> u64 {
        let mut only_there = 0;
        if let Some(disk) = &self.disk {
            disk.purge(which, how, ticket, |entry| {
                only_there += u64::from(!self.has(entry));
            });
        }
        let here = self.purge_memory(which, how);
        // And once more: what was in memory may have been offered to the disk in between, and loaded from there again.
        while let Some(disk) = &self.disk {
            let mut is_met = false;
            disk.purge(which, how, ticket, |_| is_met = true);
            if !is_met {
                break;
            }
            self.purge_memory(which, how);
            // Those on the disk are still there, and outdated.
            if how == Purge::Outdate {
                break;
            }
        }
        here + only_there
    }

    /// The same for those in memory.
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

    /// Whether what is on the disk is in memory, too.
    pub(super) fn has(&self, entry: &Arc<Entry>) -> bool {
        let objects = self.index.lock(entry.key().hash()).find(entry.key());
        objects.iter().flatten().any(|object| {
            let kept = object.body().kept();
            kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, entry))
        })
    }

    /// Removes or outdates one; `false` if it is not there any more.
    pub fn purge_one(&self, object: &Arc<Object>, how: Purge) -> bool {
        if how == Purge::Remove {
            return self.remove(object);
        }
        // If it was freshened in between, the new one is not what was meant. If there is no room for the new one while
        // there is the old one, it must not stay fresh.
        match self.replace(object, object.meta().outdated(), object.head()) {
            Ok(_) => true,
            Err(NotTaken::Gone) => false,
            Err(_) => self.remove(object),
        }
    }

    /// All objects, in no order. No lock is held between two; what comes and goes meanwhile may be seen or not.
    pub fn objects(&self) -> Objects<'_> {
        Objects(self.index.items())
    }
}

/// See [`Store::objects`].
#[derive(Debug)]
pub struct Objects<'s>(Items<'s, Object>);

impl Iterator for Objects<'_> {
    type Item = Arc<Object>;

    fn next(&mut self) -> Option<Arc<Object>> {
        self.0.next()
    }
}
