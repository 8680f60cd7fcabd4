//! Limits hold, and what is freed is given back.
use super::super::object::APART_BYTES;
use super::super::{NotTaken, OVERHEAD_BYTES};
use super::*;

#[test]
fn bytes_and_objects_are_never_above_their_limits() {
    {
        let store = store(SMALL);
        for number in 0..3000_u64 {
            let bytes = (number * 7919 % 40_000) as usize;
            put(&store, &number.to_string(), number, bytes).unwrap();
            let stats = store.stats();
            assert!(stats.bytes <= SMALL.bytes && stats.objects <= SMALL.objects);
        }
        let stats = store.stats();
        assert!(stats.bytes > SMALL.bytes / 2, "{stats:?}");
        assert_eq!(
            stats.puts,
            stats.objects + stats.evicted_small + stats.evicted_main
        );
        store.purge(&Pattern::All, Purge::Remove, None);
        assert_nothing_leaks(&store);
        for number in 0..3000 {
            put(&store, &number.to_string(), number, 10).unwrap();
        }
        assert_eq!(store.stats().objects, SMALL.objects);
    }
}

#[test]
fn what_is_too_large_is_not_taken() {
    let limits = Limits {
        object_bytes_max: 50_000,
        ..SMALL
    };
    let store = store(limits);
    assert_eq!(store.fill(Some(50_001)).err(), Some(NotTaken::TooLarge));
    put(&store, "kept", 1, 50_000).unwrap();
    let (mut writer, _) = begun(&store, "open", None);
    writer.append(&[0; 50_000]).unwrap();
    writer.append(&[0; 1]).unwrap_err();
    assert!(get(&store, "open").is_none());
    assert!(get(&store, "kept").is_some());
    // At most an eighth of all bytes.
    let eighth = super::store(SMALL);
    put(&eighth, "page", 1, 1 << 17).unwrap();
    assert_eq!(
        eighth.fill(Some((1 << 17) + 1)).err(),
        Some(NotTaken::TooLarge)
    );
    // Heads count, too.
    let body = filled(&eighth, 1, 1).unwrap();
    let head = vec![b'x'; 1 << 20];
    let put = eighth.put(eighth.key(b"k"), &Variant::default(), meta(1), &head, &body);
    assert_eq!(put.err(), Some(NotTaken::TooLarge));
    // That changes nothing for the body.
    put_body(&eighth, "k", &body).unwrap();
}

#[test]
fn bodies_that_are_filled_are_not_evicted() {
    let store = store(SMALL);
    let mut under_way: Vec<_> = (0..7)
        .map(|number| {
            let (mut writer, object) = begun(&store, &format!("open{number}"), None);
            writer.append(&content(0, 0, 120_000)).unwrap();
            (writer, object)
        })
        .collect();
    for number in 0..100 {
        put(&store, &number.to_string(), number, 30_000).unwrap();
    }
    assert!((0..7).all(|number| get(&store, &format!("open{number}")).is_some()));
    store.purge(&Pattern::All, Purge::Outdate, None);
    under_way.push(begun(&store, "open7", Some(100_000)));
    assert_eq!(store.fill(Some(1 << 17)).err(), Some(NotTaken::Full));
    // A whole body can be evicted.
    let (writer, object) = under_way.remove(0);
    assert!(writer.finish());
    drop(object);
    store.fill(Some(1 << 16)).unwrap();
    drop(under_way);
    store.purge(&Pattern::All, Purge::Remove, None);
    assert_nothing_leaks(&store);
}

#[test]
fn lengths_that_are_announced_take_at_most_half_before_the_bytes_come() {
    let store = store(SMALL);
    put(&store, "kept", 1, 100_000).unwrap();
    let mut under_way: Vec<_> = (0..3)
        .map(|number| begun(&store, &format!("open{number}"), Some(1 << 17)))
        .collect();
    assert_eq!(store.fill(Some(1 << 17)).err(), Some(NotTaken::Full));
    assert!(get(&store, "kept").is_some());
    // There is room for others, and short ones are always taken.
    drop(store.fill(Some(1000)).unwrap());
    put(&store, "shorter", 2, 100_000).unwrap();
    let (mut writer, _) = begun(&store, "unknown", None);
    writer.append(&content(3, 0, 120_000)).unwrap();
    assert!(writer.finish());
    // One that has ended is counted no more, however it did.
    let (mut writer, _) = under_way.remove(0);
    writer.append(&content(4, 0, 1 << 17)).unwrap();
    assert!(writer.finish());
    drop(store.fill(Some(1 << 17)).unwrap());
    drop(store.fill(Some(1 << 17)).unwrap().cut());
    under_way.push(begun(&store, "next", Some(1 << 17)));
    assert_eq!(store.fill(Some(1 << 17)).err(), Some(NotTaken::Full));
    drop(under_way);
    store.purge(&Pattern::All, Purge::Remove, None);
    assert_nothing_leaks(&store);
}

#[test]
fn what_readers_hold_is_counted_apart() {
    let store = store(SMALL);
    let held = put(&store, "held", 1, 100_000).unwrap();
    for number in 0..200 {
        put(&store, &number.to_string(), number, 70_000).unwrap();
    }
    assert!(get(&store, "held").is_none());
    let stats = store.stats();
    assert_eq!(stats.bytes_held_by_readers, held.stored_bytes());
    assert!(read(&held) == content(1, 0, 100_000));
    drop(held);
    assert_eq!(store.stats().bytes_held_by_readers, 0);
}

#[test]
fn while_readers_hold_too_much_no_body_is_taken() {
    let store = store(SMALL);
    let mut open = begun(&store, "open", None);
    let mut readers = Vec::new();
    let refused =
        (0..64).find_map(
            |number| match put(&store, &number.to_string(), number, 100_000) {
                Ok(object) => {
                    readers.push(object);
                    None
                }
                Err(why) => Some(why),
            },
        );
    assert_eq!(refused, Some(NotTaken::Full));
    let stats = store.stats();
    assert!(stats.bytes_held_by_readers > SMALL.bytes);
    assert!(stats.bytes + stats.bytes_held_by_readers < 3 * SMALL.bytes);
    // However long they are, or may become.
    assert_eq!(store.fill(None).err(), Some(NotTaken::Full));
    open.0.append(&[0; 10]).unwrap_err();
    // What is stored is found.
    assert!(get(&store, &(readers.len() - 1).to_string()).is_some());
    readers.drain(..readers.len() / 2);
    put(&store, "again", 1, 100_000).unwrap();
}

#[test]
fn a_body_that_is_filled_when_it_was_purged_goes_on_for_its_readers() {
    let store = store(SMALL);
    let (mut writer, object) = begun(&store, "page", None);
    writer.append(&content(1, 0, 30_000)).unwrap();
    store.purge(&Pattern::All, Purge::Remove, None);
    assert_eq!(store.stats().bytes, 0);
    writer.append(&content(1, 30_000, 60_000)).unwrap();
    assert!(writer.finish());
    assert!(read(&object) == content(1, 0, 90_000));
    let held = store.stats().bytes_held_by_readers;
    assert!((90_000..100_000).contains(&held), "{held}");
    // It can be stored once more.
    let again = put_body(&store, "page", &object.body()).unwrap();
    drop((object, again));
    let stats = store.stats();
    assert_eq!(stats.bytes_held_by_readers, 0);
    assert!((90_000..100_000).contains(&stats.bytes), "{stats:?}");
    store.purge(&Pattern::All, Purge::Remove, None);
    assert_nothing_leaks(&store);
}

#[test]
fn memory_that_was_taken_for_what_did_not_come_is_given_back() {
    let store = store(Limits {
        bytes: 100 << 20,
        ..SMALL
    });
    let (mut writer, object) = begun(&store, "page", None);
    writer.append(&content(1, 0, 200_000)).unwrap();
    let before = store.stats().bytes;
    assert!(writer.finish());
    // Four chunks.
    assert_eq!(object.body().charged_bytes(), 200_000 + 4 * 96);
    assert!(store.stats().bytes < before);
    let (mut writer, object) = begun(&store, "short", None);
    writer.append(&content(1, 0, 1500)).unwrap();
    assert!(writer.finish());
    assert_eq!(object.body().charged_bytes(), 1500);
}

/// An object is charged with all that it takes. The counts of an `Arc` are 16 bytes; the table has a byte and a node number for each
/// slot, of which at least seven of sixteen are used. The allocator adds 8 bytes to each allocation, and rounds up to 16.
#[test]
fn what_an_object_is_charged_with_is_what_it_takes() {
    let shared = |bytes: usize| (16 + bytes + 8).next_multiple_of(16);
    // In the mean.
    let plain = 8 + 8;
    let slot = (1 + size_of::<u32>()) * 16 / 7;
    let ghosts = 4 * 2 + 1;
    let node = crate::cache::index::NODE_BYTES;
    let inside = shared(size_of::<Object>()) + plain + node + slot + ghosts;
    assert!(inside as u64 <= OVERHEAD_BYTES, "{inside}");
    let apart = shared(size_of::<super::super::Body>()) + plain;
    assert!(apart as u64 <= APART_BYTES, "{apart}");
}

#[test]
fn a_short_body_moves_into_its_object() {
    let store = store(SMALL);
    let (mut writer, begun) = begun(&store, "page", None);
    writer.append(&content(1, 0, 1000)).unwrap();
    let reader = begun.body();
    assert!(get(&store, "page").is_some());
    assert!(writer.finish());
    let found = get(&store, "page").unwrap();
    let (key, head) = (found.key().bytes().len(), found.head().len());
    let all = OVERHEAD_BYTES + (key + head + 1000) as u64;
    assert_eq!((store.stats().objects, store.stats().bytes), (1, all));
    assert_eq!((found.stored_bytes(), found.hits()), (all, 2));
    for object in [&begun, &found] {
        assert!(read(object) == content(1, 0, 1000));
    }
    // Who reads along holds the bytes twice.
    assert!(store.stats().bytes_held_by_readers >= 1000);
    drop(reader);
    // What was found before is the same object to the store.
    let fresh = store.replace(&begun, meta(2000), b"C: d\r\n").unwrap();
    assert!(read(&fresh) == content(1, 0, 1000));
    assert_eq!(fresh.meta(), get(&store, "page").unwrap().meta());
    assert!(!store.remove(&begun), "it was freshened");
    assert!(store.remove(&fresh));
    assert!(get(&store, "page").is_none());
    drop((begun, found, fresh));
    assert_nothing_leaks(&store);
}

#[test]
fn a_purge_meets_an_object_whose_body_has_moved() {
    for how in [Purge::Remove, Purge::Outdate] {
        let store = store(SMALL);
        let (writer, begun) = begun(&store, "page", Some(0));
        assert!(writer.finish());
        assert!(get(&store, "page").is_some());
        assert!(store.purge_one(&begun, how));
        let left = get(&store, "page").map(|object| object.meta().lifetime_s);
        assert_eq!(left, (how == Purge::Outdate).then_some(0));
    }
}
