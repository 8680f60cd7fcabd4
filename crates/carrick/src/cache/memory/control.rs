//! Looking through the store and taking things out of it, by hand.
use super::index::{Item, Items};
use super::object::Object;
use super::{NotTaken, Store};
use crate::cache::disk::{Entry, Pattern, Ticket};
use std::sync::Arc;

/// Which objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// All variants under this key.
    Key(&'a [u8]),
    /// All whose keys begin so.
    Prefix(&'a [u8]),
    /// All with this tag (`Surrogate-Key`, `Cache-Tag`).
    Tag(&'a [u8]),
    /// All.
    All,
}

impl Which<'_> {
    fn pattern(self) -> Pattern {
        match self {
            Self::Key(key) => Pattern::Key(key.into()),
            Self::Prefix(prefix) => Pattern::KeyPrefix(prefix.into()),
            Self::Tag(tag) => Pattern::Tag(tag.into()),
            Self::All => Pattern::All,
        }
    }
}

/// What is done with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// They are taken out.
    Remove,
    /// They stay, but are out of date: the next request has them validated.
    Outdate,
}

impl Store {
    /// Removes or outdates objects; returns how many.
    ///
    /// But for [`Which::Key`], it looks at all objects, a few under one lock: no worker waits for it, but it takes as long
    /// as it takes. Objects that come in meanwhile may be missed.
    pub fn purge(&self, which: Which<'_>, how: Purge) -> u64 {
        self.purge_with(&which.pattern(), how, None)
    }

    /// The same; `ticket` is held until all of it is done on the disk, too.
    pub(in crate::cache) fn purge_with(
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
                .filter(|object| which.has(object.key().bytes(), |tag| object.has_tag(tag)))
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
