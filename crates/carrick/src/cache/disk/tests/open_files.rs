//! Files that stay open while their objects are in memory: their limit, changes by other programs, and loading without the pool.
use super::{
    Bed, Disk, Pattern, Purge, assert_right, content, fields, files, folder, fresh, plan, says,
};
use crate::cache::ledger::Limits;
use crate::cache::memory::tests::nothing;
use crate::cache::memory::{Object, Store};
use crate::config::plan::DiskPlan;
use carrick_logic::cache::UnixTime;
use rustix::io::Errno;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const BYTES: usize = 100_000;

/// A store with an object whose file is open.
fn opened(plan: &DiskPlan) -> (Bed, Arc<Object>) {
    let bed = Bed::open(plan);
    bed.put("a", 1, BYTES).unwrap();
    bed.keep("a");
    bed.forget("a");
    let object = bed.get("a").unwrap();
    assert!(object.body().is_file());
    (bed, object)
}

/// When the next check is due.
fn later(step: u64) -> UnixTime {
    UnixTime(super::super::now().0 + 100 * step)
}

/// How many files of this folder the process has open: all, and those that were removed.
fn open_files(path: &Path) -> (usize, usize) {
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let names: Vec<_> = links
        .filter_map(|link| std::fs::read_link(link.ok()?.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .filter(|target| target.starts_with(&*path.to_string_lossy()) && target.contains('-'))
        .filter(|target| !target.contains("carrick-cache"))
        .collect();
    let gone = names.iter().filter(|name| name.ends_with("(deleted)"));
    (names.len(), gone.count())
}

#[test]
fn open_files_are_bounded() {
    let folder = folder();
    let plan = plan(&folder);
    let disk = Arc::new(Disk::open(&plan).unwrap());
    let limits = Limits {
        bytes: 16 << 20,
        objects: 100,
        object_bytes_max: 512 << 10,
    };
    let mut store = Store::with_disk(limits, Some(Arc::clone(&disk)));
    store.limit_open_files(3);
    let store = Arc::new(store);
    let bed = Bed { store, disk };
    bed.disk.index_all();
    for version in 0..6 {
        bed.put(&version.to_string(), version, 100_000).unwrap();
        bed.keep(&version.to_string());
        bed.forget(&version.to_string());
    }
    for version in 0..6 {
        let object = bed.get(&version.to_string()).unwrap();
        assert_right(&object);
        // A 304, after which another object has the file.
        let (meta, head) = (object.meta(), object.head());
        bed.store.replace(&object, meta, head).unwrap();
    }
    let in_memory: Vec<_> = bed
        .store
        .objects()
        .filter(|object| object.body().is_file())
        .collect();
    assert_eq!(in_memory.len(), 3);
    assert_eq!(bed.files().len(), 6);
}

#[test]
fn what_was_removed_by_somebody_is_a_miss_though_it_is_open() {
    let folder = folder();
    let plan = plan(&folder);
    let (bed, object) = opened(&plan);
    assert!(bed.store.stands(&object, later(1)));
    std::fs::remove_file(&files(&plan.path)[0]).unwrap();
    assert!(bed.store.stands(&object, later(1)), "it was just looked at");
    assert!(!bed.store.stands(&object, later(2)));
    assert!(bed.get("a").is_none());
    // Its readers can go on.
    assert_right(&object);
    drop(object);
    bed.disk.pool.work();
    let stats = bed.disk.stats();
    assert_eq!((stats.objects, stats.bytes), (0, 0));
    assert_eq!(open_files(&plan.path), (0, 0));
}

#[test]
fn what_was_changed_by_somebody_is_read_through_again() {
    let folder = folder();
    let plan = plan(&folder);
    let (bed, object) = opened(&plan);
    let path = &files(&plan.path)[0];
    let touched = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    touched
        .set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1))
        .unwrap();
    assert!(!bed.store.stands(&object, later(1)));
    let again = bed.get("a").unwrap();
    assert_right(&again);
    assert!(bed.store.stands(&again, later(2)));
    for (step, damage) in [(3, BYTES as u64 / 2), (4, 0)] {
        bed.put("a", step, BYTES).unwrap();
        bed.keep("a");
        bed.forget("a");
        let object = bed.get("a").unwrap();
        let path = &files(&plan.path)[0];
        let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        if damage > 0 {
            file.seek(std::io::SeekFrom::End(-(damage as i64))).unwrap();
            file.write_all(&content(99, 0, 100)).unwrap();
        } else {
            file.set_len(BYTES as u64 / 2).unwrap();
        }
        assert!(!bed.store.stands(&object, later(step)));
        assert!(bed.get("a").is_none(), "{damage}");
        assert_eq!(bed.files().len(), 0);
    }
    assert_eq!(bed.disk.stats().damaged, 2);
}

#[test]
fn what_took_the_place_of_a_file_is_not_sent() {
    let folder = folder();
    let plan = plan(&folder);
    let (bed, object) = opened(&plan);
    let path = &files(&plan.path)[0];
    let bytes = std::fs::read(path).unwrap();
    let mut other = bytes.clone();
    let end = other.len();
    other[end - 1000..].fill(0);
    let aside = plan.path.join("aside");
    // All have the same time, as changes within one step of the file system's clock have.
    let moment = path.metadata().unwrap().modified().unwrap();
    for (step, bytes, expected) in [(1, &bytes, true), (2, &other, false)] {
        std::fs::write(&aside, bytes).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&aside);
        file.unwrap().set_modified(moment).unwrap();
        std::fs::rename(&aside, path).unwrap();
        let object = bed.find("a").unwrap();
        assert!(!bed.store.stands(&object, later(step)));
        assert_eq!(bed.get("a").is_some(), expected);
    }
    assert_right(&object);
}

#[test]
fn carricks_own_changes_are_no_damage() {
    let folder = folder();
    let plan = plan(&folder);
    let (bed, object) = opened(&plan);
    for revision in 1..5 {
        let object = bed.find("a").unwrap();
        bed.store
            .replace(&object, fresh(1), fields(1, revision).as_bytes())
            .unwrap();
        assert!(bed.store.stands(&object, later(10 * revision)));
        bed.disk.pool.work();
        let object = bed.find("a").unwrap();
        assert!(bed.store.stands(&object, later(10 * revision + 1)));
        assert_eq!(says(&object), (1, revision));
    }
    assert_right(&object);
    assert_eq!(bed.disk.stats().loads, 1);
}

#[test]
fn a_purge_closes_what_is_open() {
    for how in [Purge::Remove, Purge::Outdate] {
        let folder = folder();
        let plan = plan(&folder);
        let (bed, object) = opened(&plan);
        assert_eq!(open_files(&plan.path), (1, 0));
        assert_eq!(bed.purge(&Pattern::key(b"a"), how), 1);
        assert!(bed.store.stands(&object, later(1)));
        assert_right(&object);
        drop(object);
        bed.disk.pool.work();
        let found = bed.get("a");
        assert_eq!(found.is_some(), how == Purge::Outdate);
        assert_eq!(open_files(&plan.path), (found.iter().count(), 0));
    }
}

#[test]
fn what_is_evicted_from_the_disk_does_not_stay_open() {
    let folder = folder();
    let plan = DiskPlan {
        bytes: 2 << 20,
        ..plan(&folder)
    };
    let bed = Bed::open(&plan);
    for version in 0..60 {
        let name = version.to_string();
        bed.put(&name, version, BYTES).unwrap();
        bed.keep(&name);
        bed.forget(&name);
        assert_right(&bed.get(&name).unwrap());
        bed.disk.pool.work();
        let (open, gone) = open_files(&plan.path);
        assert_eq!(gone, 0, "{version}");
        assert!(open <= bed.files().len());
    }
    let stats = bed.disk.stats();
    assert!(stats.evicted_small + stats.evicted_main > 20);
    // Its reader keeps it.
    let held = bed.store.objects().find(|object| object.body().is_file());
    let held = held.unwrap();
    for version in 60..120 {
        bed.put(&version.to_string(), version, BYTES).unwrap();
        bed.disk.pool.work();
    }
    assert_right(&held);
    drop(held);
    bed.disk.pool.work();
    assert_eq!(open_files(&plan.path).1, 0);
}

/// Loads an object without the pool; `false`: the pool is needed.
fn bring_at_once(bed: &Bed, name: &str) -> bool {
    let mut bringing = pin!(bed.store.bring(bed.store.key(name.as_bytes()), nothing()));
    let mut cx = Context::from_waker(Waker::noop());
    match bringing.as_mut().poll(&mut cx) {
        Poll::Ready(is_there) => is_there,
        Poll::Pending => false,
    }
}

/// openat2(2) refuses now and then what it could do at once, as where a file system is mounted at that moment.
fn expect_at_once(bed: &Bed, name: &str) {
    let is_at_once = (0..100).any(|_| {
        bring_at_once(bed, name) || {
            bed.disk.pool.work();
            bed.forget(name);
            false
        }
    });
    assert!(is_at_once, "{name}");
}

#[test]
fn what_is_in_the_page_cache_and_known_to_be_right_needs_no_thread() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    assert!(
        bed.disk.folder.answers_at_once(),
        "tmpfs does, and others that are not of a network"
    );
    for (name, version, bytes) in [("short", 1, 5000), ("long", 2, 60_000)] {
        bed.put(name, version, bytes).unwrap();
        bed.keep(name);
        bed.forget(name);
        // It was written by this process.
        expect_at_once(&bed, name);
        assert_right(&bed.find(name).unwrap());
    }
    assert_eq!(bed.disk.stats().loads_at_once, 2);
    bed.end();

    let bed = Bed::open(&plan);
    // It is read through each time.
    expect_at_once(&bed, "short");
    assert!(
        !bring_at_once(&bed, "long"),
        "nobody has read it through yet"
    );
    bed.disk.pool.work();
    assert_right(&bed.get("long").unwrap());
    bed.forget("long");
    expect_at_once(&bed, "long");
    bed.forget("long");
    // It was changed since then: the body is checked again.
    let long = bed
        .files()
        .into_iter()
        .max_by_key(|path| path.metadata().unwrap().len());
    let long = std::fs::OpenOptions::new().write(true).open(long.unwrap());
    let epoch = std::time::UNIX_EPOCH;
    long.unwrap().set_modified(epoch).unwrap();
    assert!(!bring_at_once(&bed, "long"));
    assert_eq!(bed.disk.stats().loads_at_once, 3);
}

#[test]
fn damage_is_told_though_it_is_found_at_once() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    bed.put("a", 1, 5000).unwrap();
    bed.keep("a");
    bed.forget("a");
    let path = &files(&plan.path)[0];
    let mut bytes = std::fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(path, bytes).unwrap();
    assert!(bed.get("a").is_none());
    let stats = bed.disk.stats();
    assert_eq!(
        (stats.damaged, stats.objects, stats.loads_at_once),
        (1, 0, 0)
    );
}

#[test]
fn a_call_that_fails_at_once_is_left_to_the_pool() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    bed.put("a", 1, 5000).unwrap();
    bed.keep("a");
    for call in ["openat2", "preadv2"] {
        bed.forget("a");
        let at_once = bed.disk.stats().loads_at_once;
        bed.disk.folder.fuse.fail(call, Errno::AGAIN);
        assert_right(&bed.get("a").unwrap());
        assert_eq!(bed.disk.stats().loads_at_once, at_once, "{call}");
        bed.disk.folder.fuse.fail("", Errno::AGAIN);
    }
    bed.forget("a");
    expect_at_once(&bed, "a");
}
