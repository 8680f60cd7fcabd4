//! The cache's second level: objects in files, which outlast the process.
//!
//! [`Store`](crate::cache::memory::Store) is the only one who uses it: what is asked for again is offered, what is not in memory is
//! looked for here and loaded, what is replaced, removed, freshened or purged there is so here.
//! `docs/internals/cache-disk.md` says how it works.
//!
//! No worker waits for the medium: tables are looked at under locks that are held for nanoseconds, everything else is done by
//! the pool's threads.
mod capacity;
mod change;
mod entry;
mod file;
mod folder;
mod format;
mod health;
mod indexing;
mod load;
mod name;
mod pool;
mod purge;
mod resident;
mod room;
mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod ticket;
mod write;

pub use entry::Entry;
pub use file::File;
pub(super) use load::{Loaded, LoadedBody};
use purge::Left;
pub use room::misfit;
pub use stats::Stats;
pub(super) use stream::Stream;
pub(super) use ticket::Ticket;

use super::flights::Flights;
use super::index::{Index, Item};
use super::key::Key;
use super::ledger::{Ledger, Limits};
use super::memory::{Body, Object};
use crate::config::plan::DiskPlan;
use carrick_logic::cache::{Fields, UnixTime, Variant};
use entry::Stage;
use folder::Folder;
use health::Health;
use indexing::Indexing;
use pool::Pool;
use room::Room;
use rustix::process::{Resource, getrlimit};
use stats::Counters;
use std::collections::VecDeque;
use std::hash::RandomState;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the end waits for what is still to be written.
const END_WAIT: Duration = Duration::from_secs(5);

/// Files that are open for objects in memory at most; also a quarter of the descriptors that the process may have. With what the
/// kernel keeps of it, each takes some 2 KB.
const OPEN_MAX: u64 = 16 << 10;

/// Files that a disk has open at most, with the present limit of the process.
#[must_use]
pub fn open_files_max() -> u64 {
    OPEN_MAX.min(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4)
}

/// The store.
#[derive(Debug)]
pub struct Disk {
    folder: Arc<Folder>,
    pool: Pool,
    index: Index<Entry>,
    ledger: Ledger,
    limits: Limits,
    seed: RandomState,
    next_serial: AtomicU64,
    health: Arc<Health>,
    left: Arc<Left>,
    counters: Counters,
    /// What is being loaded.
    loads: Arc<Flights>,
    /// What has to be heeded until all files are in the index.
    indexing: Mutex<Option<Indexing>>,
    is_indexed: AtomicBool,
    /// Objects in memory whose bodies are open files, the one that was opened first at the front.
    open: Mutex<VecDeque<Weak<Object>>>,
    open_max: u64,
    /// What was evicted while its file was open: memory is to let go of it, too.
    left_open: Mutex<Vec<Arc<Entry>>>,
    has_left_open: AtomicBool,
    /// Long bodies on their way.
    streams: AtomicU64,
    /// What the file system had when it was looked at last.
    room: Mutex<Room>,
}

impl Disk {
    /// Takes the folder. Nothing is read but its list of purges: that is done when it is [`start`](Self::start)ed.
    ///
    /// # Errors
    /// In words, with what to do.
    pub fn open(plan: &DiskPlan) -> Result<Self, String> {
        let folder = Folder::open(&plan.path)?;
        let limits = Limits {
            bytes: plan.bytes,
            objects: plan.objects,
            object_bytes_max: plan.object_bytes_max,
        };
        let purges = folder.purges().map_err(|trouble| trouble.to_string())?;
        let room = folder.room().map_err(|trouble| trouble.to_string())?;
        Ok(Self {
            pool: Pool::new(),
            index: Index::new(plan.objects),
            ledger: Ledger::new(limits),
            limits,
            seed: RandomState::new(),
            next_serial: AtomicU64::new(folder.first_serial()),
            health: Arc::new(Health::new(folder.path())),
            left: Arc::default(),
            counters: Counters::default(),
            loads: Arc::default(),
            indexing: Mutex::new(Some(Indexing::begin(&purges, folder.first_serial()))),
            is_indexed: AtomicBool::new(false),
            open: Mutex::default(),
            open_max: open_files_max(),
            left_open: Mutex::default(),
            has_left_open: AtomicBool::new(false),
            streams: AtomicU64::new(0),
            room: Mutex::new(room),
            folder: Arc::new(folder),
        })
    }

    /// Starts the threads, and reads what is there in the background.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        self.pool.start()?;
        let disk = Arc::clone(self);
        std::thread::Builder::new()
            .name("disk-index".to_owned())
            .spawn(move || disk.index_all())?;
        Ok(())
    }

    /// Waits, for a few seconds at most, until what was begun is written and removed.
    pub fn end(&self) {
        let (folder, left) = (Arc::clone(&self.folder), Arc::clone(&self.left));
        self.pool.chore(move || left.remove(&folder));
        if !self.pool.finish(END_WAIT) {
            tracing::warn!(
                "the cache's disk {} is slow: pending writes and removals were dropped",
                self.folder.path().display()
            );
        }
    }

    /// Most of everything.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The seed of keys, which the store in memory has, too.
    pub(super) fn seed(&self) -> &RandomState {
        &self.seed
    }

    /// The object for a request with these fields, if there is one.
    pub(super) fn find(&self, key: Key<'_>, request: Fields<'_>) -> Option<Arc<Entry>> {
        let variants = self.index.lock(key.hash()).find(key);
        variants
            .into_iter()
            .flatten()
            .filter(|entry| entry.stage() == Stage::There && entry.variant().matches(request))
            .max_by_key(|entry| (entry.date, entry.name.serial))
    }

    /// All entries, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Arc<Entry>> {
        self.index
            .items()
            .filter(|entry| entry.stage() == Stage::There)
    }

    /// A new response for this key and variant comes: what is here is not the newest any more.
    pub(super) fn supersede(&self, key: Key<'_>, variant: &Variant) {
        if !self.is_indexed.load(Ordering::Acquire)
            && let Some(indexing) = self.indexing().as_mut()
        {
            indexing.touch(key.hash());
        }
        self.remove_variant(key, variant, |_| false);
    }

    /// The same after it has come, but for what it has there itself.
    pub(super) fn supersede_but(&self, key: Key<'_>, variant: &Variant, body: &Body) {
        self.remove_variant(key, variant, |entry| {
            let kept = body.kept();
            kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, entry))
        });
    }

    fn remove_variant(&self, key: Key<'_>, variant: &Variant, stays: impl Fn(&Arc<Entry>) -> bool) {
        let variants = self.index.lock(key.hash()).find(key);
        for entry in variants.iter().flatten() {
            if entry.variant() == variant && !stays(entry) {
                self.remove(entry);
            }
        }
    }

    /// Takes an entry out, and its file away; `false` if it was not there any more.
    pub(super) fn remove(&self, entry: &Arc<Entry>) -> bool {
        let removed = self.index.lock(entry.key().hash()).remove(entry);
        let is_removed = removed.is_some();
        if let Some(entry) = removed {
            self.let_go(&entry, None);
        }
        is_removed
    }

    /// Notes an object whose body is an open file. Returns one that is to be closed for it, if there are too many.
    pub(super) fn note_open(&self, object: &Arc<Object>) -> Option<Arc<Object>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back(Arc::downgrade(object));
        while open.len() as u64 > self.open_max.max(1) {
            // Those that are closed already make room by themselves.
            if let Some(object) = open.pop_front().and_then(|object| object.upgrade()) {
                return Some(object);
            }
        }
        None
    }

    fn next_serial(&self) -> u64 {
        self.next_serial.fetch_add(1, Ordering::Relaxed)
    }

    fn indexing(&self) -> MutexGuard<'_, Option<Indexing>> {
        self.indexing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The present time; what the pool's threads have instead of a worker's clock.
fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}
