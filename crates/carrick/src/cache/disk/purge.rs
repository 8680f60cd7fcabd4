//! Taking things out by hand, or having them validated: now in the index, and on the medium soon after.
use super::Disk;
use super::entry::Entry;
use super::folder::Folder;
use super::health::Doing;
use super::name::Name;
use crate::cache::memory::{Item, Purge};
use crate::cache::purge::url_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Which objects, so that it can be written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Those under this key.
    Key(Box<[u8]>),
    /// Those whose keys begin so.
    KeyPrefix(Box<[u8]>),
    /// Those for this URL.
    Url(Box<[u8]>),
    /// Those whose URLs begin so.
    UrlPrefix(Box<[u8]>),
    /// Those with this tag.
    Tag(Box<[u8]>),
    /// All.
    All,
}

impl Pattern {
    /// Whether an object with this key and these tags is one of them.
    #[must_use]
    pub fn has(&self, key: &[u8], has_tag: impl FnOnce(&[u8]) -> bool) -> bool {
        match self {
            Self::Key(bytes) => **bytes == *key,
            Self::KeyPrefix(prefix) => key.starts_with(prefix),
            Self::Url(url) => url_of(key) == Some(url),
            Self::UrlPrefix(prefix) => url_of(key).is_some_and(|url| url.starts_with(prefix)),
            Self::Tag(tag) => has_tag(tag),
            Self::All => true,
        }
    }

    /// Its letter in the list of purges, and what it is about.
    pub(super) fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Key(text) => (b'k', text),
            Self::KeyPrefix(text) => (b'K', text),
            Self::Url(text) => (b'u', text),
            Self::UrlPrefix(text) => (b'U', text),
            Self::Tag(text) => (b't', text),
            Self::All => (b'a', b""),
        }
    }

    pub(super) fn of_parts(letter: u8, text: &[u8]) -> Option<Self> {
        Some(match letter {
            b'k' => Self::Key(text.into()),
            b'K' => Self::KeyPrefix(text.into()),
            b'u' => Self::Url(text.into()),
            b'U' => Self::UrlPrefix(text.into()),
            b't' => Self::Tag(text.into()),
            b'a' => Self::All,
            _ => return None,
        })
    }
}

/// Held by everything that a purge has to do on the medium. When the last one has let go of it, who waits is told.
#[derive(Debug)]
pub(in crate::cache) struct Ticket {
    done: Mutex<Option<oneshot::Sender<()>>>,
    /// Folders from which something was removed, a bit for each.
    folders: [AtomicU64; 4],
    disk: Arc<Disk>,
}

impl Ticket {
    fn note_folder(&self, number: u8) {
        if let Some(word) = self.folders.get(usize::from(number / 64)) {
            word.fetch_or(1 << (number % 64), Ordering::Relaxed);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let done = self
            .done
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let disk = Arc::clone(&self.disk);
        let folders: [u64; 4] = std::array::from_fn(|word| {
            self.folders
                .get(word)
                .map_or(0, |word| word.load(Ordering::Relaxed))
        });
        // Not here: this may be a worker, if there was nothing to do.
        self.disk.pool.chore(move || {
            for number in Name::folders() {
                let word = folders.get(usize::from(number / 64)).copied().unwrap_or(0);
                if word >> (number % 64) & 1 == 1
                    && let Err(trouble) = disk.folder.sync(number)
                {
                    disk.health.note(Doing::Removing, &trouble);
                }
            }
            if let Some(done) = done {
                // Nobody may wait any more.
                let _ = done.send(());
            }
        });
    }
}

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
    /// A ticket, and the end of what it is given for.
    pub(in crate::cache) fn ticket(self: &Arc<Self>) -> (Arc<Ticket>, oneshot::Receiver<()>) {
        let (done, over) = oneshot::channel();
        let ticket = Ticket {
            done: Mutex::new(Some(done)),
            folders: Default::default(),
            disk: Arc::clone(self),
        };
        (Arc::new(ticket), over)
    }

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
            let key = crate::cache::memory::Key::of(&self.seed, bytes);
            let variants = self.index.lock(key.hash()).find(key);
            return variants.iter().flatten().for_each(purge);
        }
        for entry in self.index.items() {
            if which.has(entry.key().bytes(), |tag| entry.has_tag(tag)) {
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
