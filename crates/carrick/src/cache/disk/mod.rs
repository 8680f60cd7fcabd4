//! Objects in files, which outlast the process.
//!
//! [`Store`](crate::cache::memory::Store) uses it: it writes objects here that are requested again, loads those that are not in memory,
//! and replaces, freshens and purges here what it does in memory. `docs/internals/cache-disk.md` says how it works.
//!
//! Workers do not wait for the medium: they hold locks for nanoseconds, and the pool's threads make the system calls.
mod capacity;
mod change;
mod entry;
mod file;
mod file_writer;
mod folder;
mod format;
mod health;
mod indexing;
mod load;
mod name;
mod pool;
mod purge;
mod purge_ticket;
mod resident;
mod room;
mod stats;
#[cfg(test)]
mod tests;
mod write;

pub use entry::Entry;
pub(super) use entry::{NewHead, Response};
pub use file::File;
pub use file_writer::fits_file;
pub(super) use file_writer::{FileWriter, NotWritten};
pub(super) use load::{Loaded, LoadedBody};
use purge::Unremoved;
pub(super) use purge_ticket::PurgeTicket;
pub use room::misfit;
pub use stats::DiskStats;

use super::flights::Flights;
use super::index::{Index, Item};
use super::key::Key;
use super::ledger::{Ledger, Limits};
use crate::config::plan::DiskPlan;
use carrick_logic::cache::{Fields, UnixTime, Variant, VariantMatcher};
use entry::Stage;
use folder::Folder;
use health::Health;
use indexing::Indexing;
use pool::ThreadPool;
use room::Room;
use rustix::process::{Resource, getrlimit};
use stats::DiskCounters;
use std::hash::RandomState;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the process waits at its end for pending writes.
const END_WAIT: Duration = Duration::from_secs(5);

/// Files that are open for objects in memory, at most; a quarter of the process's descriptors is another limit. Each takes some 2 KB,
/// with what the kernel needs for it.
const OPEN_MAX: u64 = 16 << 10;

/// Files that are open at most, by the present limit of the process.
#[must_use]
pub fn open_files_max() -> u64 {
    OPEN_MAX.min(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4)
}

/// The store.
#[derive(Debug)]
pub struct Disk {
    folder: Arc<Folder>,
    pool: ThreadPool,
    index: Index<Entry>,
    ledger: Ledger,
    limits: Limits,
    seed: RandomState,
    next_serial: AtomicU64,
    health: Arc<Health>,
    unremoved: Arc<Unremoved>,
    counters: DiskCounters,
    /// Loads that are under way.
    loads: Arc<Flights>,
    /// What happens to files that are not in the index yet; `None` once all are.
    indexing: Mutex<Option<Indexing>>,
    is_indexed: AtomicBool,
    /// Entries that were evicted while their files were open.
    left_open: Mutex<Vec<Arc<Entry>>>,
    has_left_open: AtomicBool,
    /// How many [`FileWriter`]s there are.
    writers: AtomicU64,
    /// What the file system had at the last look.
    room: Mutex<Room>,
}

/// The lock of a folder, held until [`Disk::open`] needs it.
#[derive(Debug)]
pub struct FolderLock {
    _mark: Option<OwnedFd>,
}

impl Disk {
    /// Keeps other carricks from a folder, if it exists.
    ///
    /// # Errors
    /// As text: another carrick has it.
    pub fn lock_folder(plan: &DiskPlan) -> Result<FolderLock, String> {
        let mark = Folder::lock(&plan.path)?;
        Ok(FolderLock { _mark: mark })
    }

    /// Takes the folder, and reads its list of purges. [`start`](Self::start) reads the files.
    ///
    /// # Errors
    /// Why not, and what to do, as text.
    pub fn open(plan: &DiskPlan) -> Result<Self, String> {
        let folder = Folder::open(&plan.path)?;
        let limits = Limits {
            bytes: plan.bytes,
            objects: plan.objects,
            object_bytes_max: plan.object_bytes_max,
        };
        let purges = folder.purges().map_err(|error| error.to_string())?;
        let room = folder.room().map_err(|error| error.to_string())?;
        Ok(Self {
            pool: ThreadPool::new(),
            index: Index::new(plan.objects),
            ledger: Ledger::new(limits),
            limits,
            seed: RandomState::new(),
            next_serial: AtomicU64::new(folder.first_serial()),
            health: Arc::new(Health::new(folder.path())),
            unremoved: Arc::default(),
            counters: DiskCounters::default(),
            loads: Arc::default(),
            indexing: Mutex::new(Some(Indexing::begin(&purges, folder.first_serial()))),
            is_indexed: AtomicBool::new(false),
            left_open: Mutex::default(),
            has_left_open: AtomicBool::new(false),
            writers: AtomicU64::new(0),
            room: Mutex::new(room),
            folder: Arc::new(folder),
        })
    }

    /// Starts the threads, and indexes the files in the background.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        self.pool.start()?;
        let disk = Arc::clone(self);
        std::thread::Builder::new()
            .name("disk-index".to_owned())
            .spawn(move || disk.index_all())?;
        Ok(())
    }

    /// Waits for pending writes and removals, for a few seconds at most.
    pub fn end(&self) {
        let (folder, unremoved) = (Arc::clone(&self.folder), Arc::clone(&self.unremoved));
        self.pool.chore(move || unremoved.remove(&folder));
        if !self.pool.finish(END_WAIT) {
            tracing::warn!(
                "the cache's disk {} is slow: pending writes and removals were dropped",
                self.folder.path().display()
            );
        }
    }

    /// The configured limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The seed of keys. The store in memory has the same.
    pub(super) fn seed(&self) -> &RandomState {
        &self.seed
    }

    /// The entry for a request with these fields, if there is one.
    pub(super) fn find(&self, key: Key<'_>, request: Fields<'_>) -> Option<Arc<Entry>> {
        let variants = self.index.lock(key.hash()).find(key);
        let mut matcher = VariantMatcher::new(request);
        variants
            .into_iter()
            .flatten()
            .filter(|entry| entry.stage() == Stage::There && matcher.matches(entry.variant()))
            .max_by_key(|entry| (entry.date(), entry.name.serial))
    }

    /// All entries, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Arc<Entry>> {
        self.index
            .items()
            .filter(|entry| entry.stage() == Stage::There)
    }

    /// Removes what there is for this key and variant, as memory has a newer response.
    pub(super) fn supersede(&self, key: Key<'_>, variant: &Variant) {
        if !self.is_indexed.load(Ordering::Acquire)
            && let Some(indexing) = self.indexing().as_mut()
        {
            indexing.touch(key.hash());
        }
        self.remove_variant(key, variant, |_| false);
    }

    /// Removes what there is under this key and for this variant, except what `stays`.
    pub(super) fn remove_variant(
        &self,
        key: Key<'_>,
        variant: &Variant,
        stays: impl Fn(&Arc<Entry>) -> bool,
    ) {
        let variants = self.index.lock(key.hash()).find(key);
        for entry in variants.iter().flatten() {
            if entry.variant() == variant && !stays(entry) {
                self.remove(entry);
            }
        }
    }

    /// Removes an entry and its file; `false` if it was removed before.
    pub(super) fn remove(&self, entry: &Arc<Entry>) -> bool {
        let removed = self.index.lock(entry.key().hash()).remove(entry);
        let is_removed = removed.is_some();
        if let Some(entry) = removed {
            self.let_go(&entry, None);
        }
        is_removed
    }

    fn next_serial(&self) -> u64 {
        self.next_serial.fetch_add(1, Ordering::Relaxed)
    }

    fn indexing(&self) -> MutexGuard<'_, Option<Indexing>> {
        self.indexing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The present time. The pool's threads have no worker's clock.
fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}
