//! Responses that are stored in parts: every byte is right, and nothing leaks.
use super::{Limits, Store, assert_nothing_leaks, content, get, meta, read, store as new_store};
use crate::cache::memory::{Body, BodyState, NotTaken, Object, PIECES_MAX, Part};
use crate::cache::purge::{Pattern, Purge};
use carrick_logic::cache::Variant;
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const SEED: u64 = 5;
const NAME: &str = "a";

/// Room for a representation of a megabyte.
const LIMITS: Limits = Limits {
    bytes: 8 << 20,
    objects: 10,
    object_bytes_max: 1 << 20,
};

/// A body of these bytes of the representation.
fn piece(store: &Arc<Store>, range: &Range<u64>) -> Arc<Body> {
    let bytes = range.end - range.start;
    let mut writer = store.fill(Some(bytes)).unwrap();
    let length = usize::try_from(bytes).unwrap();
    writer.append(&content(SEED, range.start, length)).unwrap();
    let body = Arc::clone(writer.body());
    assert!(writer.finish());
    body
}

fn assemble(
    store: &Store,
    held: Option<&Arc<Object>>,
    start: u64,
    total_bytes: Option<u64>,
    body: &Arc<Body>,
) -> Result<Arc<Object>, NotTaken> {
    let part = Part {
        key: store.key(NAME.as_bytes()),
        variant: &Variant::default(),
        meta: meta(1000),
        head: b"ETag: \"a\"\r\n",
        origin: None,
        start,
        total_bytes,
        body,
    };
    store.assemble(held, &part)
}

/// Adds a range to what is stored.
fn add(store: &Arc<Store>, range: Range<u64>, total_bytes: u64) -> Result<Arc<Object>, NotTaken> {
    let body = piece(store, &range);
    let held = get(store, NAME);
    let assembled = assemble(store, held.as_ref(), range.start, Some(total_bytes), &body)?;
    store.put_parts(held.as_ref(), &assembled)?;
    Ok(assembled)
}

/// Checks all bytes that are there, also across the ends of pieces.
fn check(object: &Arc<Object>, total_bytes: u64) {
    for held in object.extents().held() {
        let length = usize::try_from(held.end - held.start).unwrap();
        let mut bytes = vec![0; length];
        assert_eq!(
            object.body().read_at(&mut bytes, held.start).unwrap(),
            length
        );
        assert_eq!(bytes, content(SEED, held.start, length));
    }
    assert_eq!(object.total_bytes(), Some(total_bytes));
}

#[test]
fn parts_become_a_whole() {
    let store = new_store(LIMITS);
    let total = 300_000;
    for range in [200_000..300_000, 0..50_000] {
        let object = add(&store, range, total).unwrap();
        assert_eq!(object.meta().status, 206);
        check(&object, total);
    }
    let part = get(&store, NAME).unwrap().part().unwrap();
    assert_eq!((part.start, part.end), (0, total));
    let whole = add(&store, 40_000..220_000, total).unwrap();
    assert_eq!((whole.meta().status, whole.part()), (200, None));
    assert_eq!(whole.body().total_bytes(), Some(total));
    assert_eq!(read(&whole), content(SEED, 0, total as usize));
    assert_eq!(store.stats().objects, 1);
    drop(whole);
    assert_eq!(store.purge(&Pattern::All, Purge::Remove, None), 1);
    assert_nothing_leaks(&store);
}

#[test]
fn what_contradicts_is_not_taken() {
    let store = new_store(LIMITS);
    add(&store, 10..20, 100).unwrap();
    let held = get(&store, NAME);
    let body = piece(&store, &(90..110));
    let error = assemble(&store, held.as_ref(), 90, Some(100), &body).unwrap_err();
    assert_eq!(error, NotTaken::Body, "beyond the end");
    let inside = piece(&store, &(12..15));
    let error = assemble(&store, held.as_ref(), 12, Some(100), &inside).unwrap_err();
    assert_eq!(error, NotTaken::Body, "nothing new");
    // Of two threads that add to the same object, one has to try again.
    let bodies = [30..40, 50..60].map(|range| (range.start, piece(&store, &range)));
    let [first, second] = bodies
        .map(|(start, body)| assemble(&store, held.as_ref(), start, Some(100), &body).unwrap());
    store.put_parts(held.as_ref(), &first).unwrap();
    let late = store.put_parts(held.as_ref(), &second);
    assert_eq!(late, Err(NotTaken::Gone));
    drop((held, first, second, body, inside));
    check(&get(&store, NAME).unwrap(), 100);
    store.purge(&Pattern::All, Purge::Remove, None);
    assert_nothing_leaks(&store);
}

#[test]
fn pieces_are_bounded() {
    let store = new_store(LIMITS);
    let total = 10 * PIECES_MAX as u64;
    for number in 0..PIECES_MAX as u64 {
        add(&store, 10 * number..10 * number + 10, total + 10).unwrap();
    }
    let more = add(&store, total..total + 10, total + 10);
    assert_eq!(more.unwrap_err(), NotTaken::TooLarge);
    check(&get(&store, NAME).unwrap(), total + 10);
    // Ranges that do not touch are limited in number first.
    store.purge(&Pattern::All, Purge::Remove, None);
    let mut taken = 0;
    while add(&store, 20 * taken..20 * taken + 10, 20_000).is_ok() {
        taken += 1;
    }
    assert_eq!(taken as usize, carrick_logic::cache::EXTENTS_MAX);
    store.purge(&Pattern::All, Purge::Remove, None);
    assert_nothing_leaks(&store);
}

#[test]
fn a_part_under_way_is_read_along() {
    let store = new_store(LIMITS);
    add(&store, 0..100_000, 300_000).unwrap();
    let held = get(&store, NAME).unwrap();
    let mut writer = store.fill(Some(200_000)).unwrap();
    let object = assemble(&store, Some(&held), 100_000, Some(300_000), writer.body()).unwrap();
    let mut reader = object.body().reader();
    let mut cx = Context::from_waker(Waker::noop());
    let mut poll = |at| reader.poll_more(&mut cx, at);
    assert!(matches!(poll(5), Poll::Ready(progress) if progress.bytes == 100_000));
    assert!(poll(100_000).is_pending());
    writer.append(&content(SEED, 100_000, 150_000)).unwrap();
    assert!(matches!(poll(100_000), Poll::Ready(progress) if progress.bytes == 250_000));
    let error = store.put_parts(Some(&held), &object).unwrap_err();
    assert_eq!(error, NotTaken::Body, "it is not whole");
    // It breaks off: what came can be kept.
    let came = writer.cut();
    assert!(matches!(poll(250_000), Poll::Ready(progress) if progress.state == BodyState::Broken));
    drop((reader, object));
    let object = assemble(&store, Some(&held), 100_000, Some(300_000), &came).unwrap();
    store.put_parts(Some(&held), &object).unwrap();
    check(&object, 300_000);
    assert!(object.extents().has(&(0..250_000)) && !object.extents().has(&(0..250_001)));
    drop((held, object, came));
    store.purge(&Pattern::All, Purge::Remove, None);
    assert_nothing_leaks(&store);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_ranges_in_any_order(
        ranges in prop::collection::vec((0..200_000_u64, 1..120_000_u64), 1..20), bytes in 300_000..2_000_000_u64, freshened in any::<u16>(),
    ) {
        let total = 250_000;
        let store = new_store(Limits { bytes, objects: 5, object_bytes_max: 1 << 20 });
        for (number, (start, length)) in ranges.into_iter().enumerate() {
            let range = start..(start + length).min(total);
            if range.end - range.start > bytes / 8 {
                continue;
            }
            let before = get(&store, NAME).map(|object| object.extents());
            match add(&store, range.clone(), total) {
                Ok(object) => {
                    prop_assert!(object.extents().has(&range));
                    if let Some(before) = before {
                        for held in before.held() {
                            prop_assert!(object.extents().has(held));
                        }
                    }
                }
                Err(NotTaken::Body) => prop_assert!(before.is_some_and(|before| before.has(&range))),
                Err(_) => {}
            }
            if let Some(object) = get(&store, NAME) {
                check(&object, total);
                if freshened >> (number % 16) & 1 == 1 {
                    let _ = store.replace(&object, object.meta().clone(), b"ETag: \"a\"\r\nA: b\r\n");
                }
            }
            prop_assert!(store.stats().bytes <= bytes);
        }
        store.purge(&Pattern::All, Purge::Remove, None);
        assert_nothing_leaks(&store);
    }
}
