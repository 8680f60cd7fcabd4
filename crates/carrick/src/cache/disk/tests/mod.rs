//! Tests of the disk, on real files. The pool has no threads here: its jobs run when a test says so.
mod corruption;
mod crash;
mod model;
mod open_files;
mod promises;
mod streams;
mod threads;

use super::{Disk, PurgeTicket};
use crate::cache::ledger::Limits;
use crate::cache::memory::tests::{content as slow_content, meta, nothing, read};
use crate::cache::memory::{Found, Object, Store};
use crate::cache::purge::{Pattern, Purge};
use crate::config::plan::DiskPlan;
use carrick_logic::cache::{UnixTime, Variant};
use rustix::io::Errno;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex};
use tempfile::TempDir;

/// Makes calls fail: after some calls the process acts as if killed, or some calls fail.
#[derive(Debug)]
pub(super) struct Fuse {
    /// How many more calls have an effect. Negative: all.
    left: AtomicI64,
    /// One call of so many fails; 0: none.
    one_of: AtomicU64,
    random: AtomicU64,
    /// This call always fails, with this error.
    failing: Mutex<(&'static str, Errno)>,
}

impl Default for Fuse {
    fn default() -> Self {
        Self {
            left: AtomicI64::new(-1),
            one_of: AtomicU64::new(0),
            random: AtomicU64::new(1),
            failing: Mutex::new(("", Errno::IO)),
        }
    }
}

impl Fuse {
    pub(super) fn burn(&self, call: &str) -> Result<(), Errno> {
        let (failing, error) = *self.failing.lock().unwrap();
        if call == failing {
            return Err(error);
        }
        match self.left.load(Relaxed) {
            0 => return Err(Errno::IO),
            left if left > 0 => self.left.store(left - 1, Relaxed),
            _ => {}
        }
        let one_of = self.one_of.load(Relaxed);
        if one_of > 0 && self.next().is_multiple_of(one_of) {
            return Err(
                [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::ROFS][(self.next() % 4) as usize]
            );
        }
        Ok(())
    }

    /// Makes a call fail from now on.
    fn fail(&self, call: &'static str, error: Errno) {
        *self.failing.lock().unwrap() = (call, error);
    }

    /// The last effective call may write a part.
    pub(super) fn part_of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        if self.left.load(Relaxed) == 1 {
            &bytes[..self.next() as usize % bytes.len() + usize::from(bytes.len() == 1)]
        } else {
            bytes
        }
    }

    fn next(&self) -> u64 {
        let next = self
            .random
            .load(Relaxed)
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        self.random.store(next, Relaxed);
        next >> 33
    }

    fn is_burnt(&self) -> bool {
        self.left.load(Relaxed) == 0
    }
}

/// Random numbers from a seed.
struct Random(carrick_test::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Self(carrick_test::Random::new(seed))
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.0.next() >> 8) % end
    }
}

/// Content as in the store's tests, but from one long piece, since these tests need much of it.
fn content(seed: u64, from: u64, bytes: usize) -> Vec<u8> {
    static ALL: LazyLock<Vec<u8>> = LazyLock::new(|| slow_content(1, 0, 4 << 20));
    let from = (seed * 13 % 100_000 + from) as usize;
    ALL[from..from + bytes].to_vec()
}

fn folder() -> TempDir {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        TempDir::new_in(shared)
    } else {
        TempDir::new()
    }
    .unwrap()
}

fn plan(folder: &TempDir) -> DiskPlan {
    DiskPlan {
        path: folder.path().join("cache"),
        bytes: 64 << 20,
        objects: 1000,
        object_bytes_max: 8 << 20,
    }
}

/// A store with a disk.
struct Bed {
    store: Arc<Store>,
    disk: Arc<Disk>,
}

/// Opens a folder that may have been open just now. A program that another test starts holds the lock, too, between fork(2) and execve(2).
fn open_again(plan: &DiskPlan) -> Disk {
    loop {
        match Disk::open(plan) {
            Err(why) if why.to_string().contains("another carrick") => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

impl Bed {
    /// Opens the folder, and indexes it.
    fn open(plan: &DiskPlan) -> Self {
        let bed = Self::begin(plan);
        bed.disk.index_all();
        bed.disk.pool.work();
        bed
    }

    /// Opens the folder without indexing it.
    fn begin(plan: &DiskPlan) -> Self {
        let disk = Arc::new(open_again(plan));
        let limits = Limits {
            bytes: 8 << 20,
            objects: 100,
            object_bytes_max: 72_000,
        };
        let store = Arc::new(Store::with_disk(limits, Some(Arc::clone(&disk))));
        Self { store, disk }
    }

    /// Ends as a process that is killed, or has nothing more to do.
    fn end(self) {
        self.disk.unremoved.remove(&self.disk.folder);
        self.disk.pool.work();
        drop(self.store);
        self.disk.pool.work();
    }

    /// Stores a version of an object; its fields say which.
    fn put(&self, name: &str, version: u64, bytes: usize) -> Option<Arc<Object>> {
        let mut writer = self.store.fill(Some(bytes as u64)).ok()?;
        let key = self.store.key(name.as_bytes());
        let fields = fields(version, 0);
        let object = self
            .store
            .put(
                key,
                &Variant::default(),
                fresh(version),
                fields.as_bytes(),
                writer.body(),
            )
            .ok()?;
        for piece in content(version, 0, bytes).chunks(100_000) {
            writer.append(piece).ok()?;
            self.disk.pool.work();
        }
        writer.finish().then_some(object)
    }

    /// Finds an object in memory.
    fn find(&self, name: &str) -> Option<Arc<Object>> {
        match self.store.find(self.store.key(name.as_bytes()), nothing()) {
            Found::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Finds an object in memory or on the disk.
    fn get(&self, name: &str) -> Option<Arc<Object>> {
        if let Some(object) = self.find(name) {
            return Some(object);
        }
        self.bring(name);
        self.find(name)
    }

    fn bring(&self, name: &str) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut bringing = pin!(self.store.bring(self.store.key(name.as_bytes()), nothing()));
            let work = async {
                self.disk.pool.work();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                found = &mut bringing => found,
                () = work => unreachable!("the work has no end"),
            }
        })
    }

    /// Has an object written, by finding it once more.
    fn keep(&self, name: &str) {
        assert!(self.find(name).is_some());
        self.disk.pool.work();
    }

    /// Takes an object out of memory alone.
    fn forget(&self, name: &str) {
        for object in self.store.variants(self.store.key(name.as_bytes())) {
            self.store.forget(&object);
        }
    }

    /// Purges, and waits until that is on the medium; returns how many.
    fn purge(&self, which: &Pattern, how: Purge) -> u64 {
        let (ticket, mut over) = PurgeTicket::new(&self.disk);
        let count = self.store.purge(which, how, Some(&ticket));
        drop(ticket);
        self.disk.pool.work();
        assert_eq!(over.try_recv(), Ok(()), "the purge is over");
        count
    }

    /// The files of all objects.
    fn files(&self) -> Vec<std::path::PathBuf> {
        files(self.disk.path())
    }
}

fn files(path: &Path) -> Vec<std::path::PathBuf> {
    let folders = super::name::Name::folders().map(|number| path.join(format!("{number:02x}")));
    let mut files: Vec<_> = folders
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// Decisions for a response that is fresh for a long time.
fn fresh(version: u64) -> carrick_logic::cache::Meta {
    carrick_logic::cache::Meta {
        lifetime_s: 1 << 30,
        date: UnixTime(super::now().0 - 1000 + version % 1000),
        ..meta(super::now().0)
    }
}

fn fields(version: u64, revision: u64) -> String {
    format!("Version: {version}\r\nRevision: {revision}\r\nSurrogate-Key: all v{version}\r\n")
}

/// The version and the revision in an object's fields.
fn says(object: &Object) -> (u64, u64) {
    let number = |name: &[u8]| {
        std::str::from_utf8(object.fields().first(name).unwrap())
            .unwrap()
            .parse()
            .unwrap()
    };
    (number(b"version"), number(b"revision"))
}

/// Checks that an object is whole, and has the bytes of its version.
fn assert_right(object: &Arc<Object>) {
    let (version, revision) = says(object);
    assert_eq!(object.head(), fields(version, revision).as_bytes());
    assert!(object.body().is_whole());
    let bytes = read(object);
    assert!(
        bytes == content(version, 0, bytes.len()),
        "version {version} has its bytes"
    );
}
