//! Bodies that go to the disk at once.
use super::{Bed, Pattern, Purge, assert_right, content, fields, folder, fresh, plan};
use crate::cache::disk::fits_file;
use crate::cache::memory::{BodyState, NotTaken};
use carrick_logic::cache::Variant;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

const BYTES: usize = 3_000_000;

#[test]
fn a_long_body_is_read_while_it_is_written_and_is_there_after_a_restart() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    let mut writer = bed.store.fill(Some(BYTES as u64)).unwrap();
    let key = bed.store.key(b"a");
    let object = (bed.store)
        .put(
            key,
            &Variant::default(),
            fresh(1),
            fields(1, 0).as_bytes(),
            writer.body(),
        )
        .unwrap();
    assert_eq!(object.body().total_bytes(), Some(BYTES as u64));
    let all = content(1, 0, BYTES);
    writer.append(&all[..1_000_000]).unwrap();
    assert_eq!(
        object.body().progress().bytes,
        0,
        "nothing is told before it is written"
    );
    bed.disk.pool.work();
    assert_eq!(object.body().progress().bytes, 1_000_000);
    let mut bytes = vec![0; 1000];
    object.body().read_at(&mut bytes, 999_000).unwrap();
    assert!(bytes == all[999_000..1_000_000]);
    let memory = bed.store.stats().bytes;
    assert!(memory < 10_000, "{memory}");
    writer.append(&all[1_000_000..]).unwrap();
    assert!(writer.finish());
    assert_eq!(object.body().progress().state, BodyState::Filling);
    bed.disk.pool.work();
    assert_right(&object);
    assert_eq!(bed.store.stats().fills, 0);
    drop(object);
    bed.end();
    let bed = Bed::open(&plan);
    let object = bed.get("a").unwrap();
    assert_right(&object);
    assert_eq!(object.body().progress().bytes, BYTES as u64);
}

#[test]
fn who_fills_waits_for_the_disk() {
    let folder = folder();
    let bed = Bed::open(&plan(&folder));
    let mut writer = bed.store.fill(Some(BYTES as u64)).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(writer.poll_room(&mut cx).is_ready());
    writer.append(&vec![0; 1 << 20]).unwrap();
    assert_eq!(writer.poll_room(&mut cx), Poll::Pending);
    bed.disk.pool.work();
    assert!(writer.poll_room(&mut cx).is_ready());
    // A writer that does not wait is refused.
    while writer.append(&vec![0; 100_000]).is_ok() {}
    assert_eq!(writer.body().progress().state, BodyState::Broken);
    drop(writer);
    bed.disk.pool.work();
    let stats = bed.disk.stats();
    assert_eq!(
        (stats.bytes, stats.objects, bed.store.stats().fills),
        (0, 0, 0)
    );
}

#[test]
fn a_body_of_unknown_length_moves_from_memory() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    let mut writer = bed.store.fill(None).unwrap();
    for piece in content(1, 0, BYTES).chunks(50_000) {
        writer.append(piece).unwrap();
        bed.disk.pool.work();
    }
    writer.announce_end();
    let key = bed.store.key(b"a");
    let object = (bed.store)
        .put(
            key,
            &Variant::default(),
            fresh(1),
            fields(1, 0).as_bytes(),
            writer.body(),
        )
        .unwrap();
    assert_eq!(object.body().total_bytes(), Some(BYTES as u64));
    assert!(writer.finish());
    bed.disk.pool.work();
    assert_right(&object);
    drop(object);
    bed.end();
    assert_right(&Bed::open(&plan).get("a").unwrap());
}

#[test]
fn what_breaks_off_or_is_purged_leaves_nothing() {
    let folder = folder();
    let bed = Bed::open(&plan(&folder));
    for case in 0..4 {
        let mut writer = bed.store.fill(Some(BYTES as u64)).unwrap();
        let key = bed.store.key(b"a");
        let object = (bed.store)
            .put(
                key,
                &Variant::default(),
                fresh(1),
                fields(1, 0).as_bytes(),
                writer.body(),
            )
            .unwrap();
        writer.append(&content(1, 0, 1000)).unwrap();
        bed.disk.pool.work();
        match case {
            0 => drop(writer),
            1 => assert!(!writer.finish()),
            2 => {
                bed.disk.folder.fuse.one_of.store(1, Relaxed);
                let _ = writer.append(&content(1, 1000, BYTES - 1000));
                bed.disk.pool.work();
                writer.finish();
                bed.disk.pool.work();
                bed.disk.folder.fuse.one_of.store(0, Relaxed);
            }
            _ => {
                // It was purged while it came: its reader gets all of it, and it is not found any more.
                writer.append(&content(1, 1000, BYTES - 1000)).unwrap();
                assert!(writer.finish());
                bed.purge(&Pattern::All, Purge::Remove);
                bed.disk.pool.work();
                assert_right(&object);
            }
        }
        bed.disk.pool.work();
        assert_eq!(object.body().is_whole(), case == 3);
        drop(object);
        bed.disk.pool.work();
        assert!(bed.get("a").is_none(), "case {case}");
        let stats = bed.disk.stats();
        assert_eq!((stats.bytes, stats.objects), (0, 0), "case {case}");
        assert_eq!(bed.files().len(), 0);
        assert_eq!(bed.store.stats().fills, 0);
        bed.disk.health.note_written();
    }
}

#[test]
fn what_is_too_large_for_memory_and_fits_no_file_takes_nothing_of_the_disk() {
    let folder = folder();
    let bed = Bed::open(&plan(&folder));
    let fits = |key: usize, head: usize| {
        let (key, head) = (vec![b'k'; key], vec![b'h'; head]);
        fits_file(bed.store.key(&key), &Variant::default(), &head)
    };
    assert!(fits(2048, 1000));
    assert!(!fits(2049, 1000), "its key is too long");
    assert!(!fits(2048, 16 << 10), "its head is too long");
    let refused = bed.store.fill_for(Some(BYTES as u64), false);
    assert_eq!(refused.unwrap_err(), NotTaken::TooLarge);
    let mut writer = bed.store.fill_for(None, false).unwrap();
    while writer.written_bytes() < 72_000 {
        writer.append(&[0; 1000]).unwrap();
    }
    assert!(writer.append(&[0]).is_err(), "memory takes no more");
    drop(writer);
    bed.disk.pool.work();
    let stats = bed.disk.stats();
    assert_eq!((stats.bytes, stats.objects, stats.refused), (0, 0, 0));
    assert_eq!(bed.store.stats().fills, 0);
}

#[test]
fn what_is_too_large_for_both_is_refused() {
    let folder = folder();
    let bed = Bed::open(&plan(&folder));
    assert_eq!(
        bed.store.fill(Some(9 << 20)).unwrap_err(),
        NotTaken::TooLarge
    );
    assert_eq!(bed.disk.stats().bytes, 0);
}
