//! What is stored is found, and nothing else.
use super::super::{BodyState, Found, NotTaken};
use super::*;
use crate::cache::index::VARIANTS_MAX;

#[test]
fn what_was_put_is_found_wherever_it_is() {
    let limits = Limits {
        bytes: 64 << 20,
        ..SMALL
    };
    let limits = Limits {
        object_bytes_max: 8 << 20,
        ..limits
    };
    {
        let store = store(limits);
        for (number, bytes) in [0, 1, 16_384, 65_535, 65_536, 65_537, 5_000_000]
            .into_iter()
            .enumerate()
        {
            put(&store, &format!("known{number}"), number as u64, bytes).unwrap();
            let (mut writer, _) = begun(&store, &format!("open{number}"), None);
            for piece in content(number as u64, 0, bytes).chunks(10_007) {
                writer.append(piece).unwrap();
            }
            assert!(writer.finish());
            for way in ["known", "open"] {
                let object = get(&store, &format!("{way}{number}")).unwrap();
                assert!(object.body().is_whole());
                assert_eq!(object.head(), b"A: b\r\n");
                assert_eq!(object.hits(), 1);
                assert!(read(&object) == content(number as u64, 0, bytes));
                let mut window = [0; 100];
                let from = (bytes / 2) as u64;
                let count = object.body().read_at(&mut window, from).unwrap();
                assert!(window[..count] == content(number as u64, from, count));
                assert_eq!(count, 100.min(bytes - bytes / 2));
            }
        }
        assert!(get(&store, "unknown").is_none());
        assert_eq!(store.stats().objects, 14);
        assert_eq!(store.purge(&Pattern::All, Purge::Remove, None), 14);
        assert_nothing_leaks(&store);
    }
}

#[test]
fn variants_of_a_key_are_told_apart() {
    let store = store(SMALL);
    let key = store.key(b"page");
    let asks = |language: &str| format!("Accept-Language: {language}\r\n").into_bytes();
    let response = Fields::of_text(b"Vary: Accept-Language\r\n");
    for number in 0..VARIANTS_MAX + 3 {
        let request = asks(&format!("l{number}"));
        let variant = Variant::of(response, Fields::of_text(&request)).unwrap();
        let body = filled(&store, number as u64, 10).unwrap();
        store.put(key, &variant, meta(1000), b"", &body).unwrap();
    }
    for number in 0..VARIANTS_MAX + 3 {
        let request = asks(&format!("l{number}"));
        match store.find(key, Fields::of_text(&request)) {
            Found::Object(object) if number >= 3 => {
                assert_eq!(read(&object), content(number as u64, 0, 10));
            }
            Found::OtherVariant if number < 3 => {}
            other => panic!("{number}: {other:?}"),
        }
    }
    assert_eq!(store.variants(key).len(), VARIANTS_MAX);
    assert_eq!(store.stats().pushed_out, 3);
    // The same variant replaces the old one.
    let request = asks("l7");
    let variant = Variant::of(response, Fields::of_text(&request)).unwrap();
    let body = filled(&store, 99, 10).unwrap();
    store.put(key, &variant, meta(900), b"", &body).unwrap();
    assert_eq!(store.variants(key).len(), VARIANTS_MAX);
    match store.find(key, Fields::of_text(&request)) {
        Found::Object(object) => assert_eq!(read(&object), content(99, 0, 10)),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.purge(&Pattern::key(b"page"), Purge::Remove, None), 64);
    assert!(matches!(store.find(key, nothing()), Found::Nothing));
    drop(body);
    assert_nothing_leaks(&store);
}

#[test]
fn of_several_that_match_the_most_recent_is_chosen() {
    let store = store(SMALL);
    let key = store.key(b"page");
    let request = Fields::of_text(b"A: 1\r\nB: 2\r\n");
    // Within a second, the one that came last.
    for (seed, (vary, date)) in [("A", 1000), ("B", 3000), ("C", 3000), ("A, B", 2000)]
        .into_iter()
        .enumerate()
    {
        let text = format!("Vary: {vary}\r\n");
        let variant = Variant::of(Fields::of_text(text.as_bytes()), request).unwrap();
        let body = filled(&store, seed as u64, 10).unwrap();
        store.put(key, &variant, meta(date), b"", &body).unwrap();
    }
    match store.find(key, request) {
        Found::Object(object) => assert_eq!(read(&object), content(2, 0, 10)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_freshened_object_has_the_body_of_the_old_one() {
    let store = store(SMALL);
    let old = put(&store, "page", 1, 20_000).unwrap();
    let bytes = store.stats().bytes;
    let new = store
        .replace(&old, meta(2000), b"C: d\r\nE: f\r\n")
        .unwrap();
    assert!(Arc::ptr_eq(&old.body(), &new.body()));
    let found = get(&store, "page").unwrap();
    assert!(Arc::ptr_eq(&found, &new));
    assert_eq!(found.meta().date, UnixTime(2000));
    assert_eq!(store.stats().bytes, bytes + 6);
    assert_eq!(
        store.replace(&old, meta(3000), b"").err(),
        Some(NotTaken::Gone)
    );
    assert!(store.stats().bytes_held_by_readers > 0);
    drop((old, new));
    assert_eq!(store.stats().bytes_held_by_readers, 0);
    assert!(store.remove(&found));
    assert!(!store.remove(&found));
    assert_eq!(store.stats().bytes, 0);
    assert!(read(&found) == content(1, 0, 20_000), "readers keep it");
    drop(found);
    assert_nothing_leaks(&store);
}

#[test]
fn what_breaks_off_is_taken_out() {
    let store = store(SMALL);
    for announced in [Some(40_000), Some(100), None] {
        let (mut writer, object) = begun(&store, "page", announced);
        writer.append(&content(1, 0, 50)).unwrap();
        assert_eq!(
            get(&store, "page").unwrap().body().progress().state,
            BodyState::Filling
        );
        drop(writer);
        assert!(get(&store, "page").is_none());
        assert_eq!(object.body().progress().state, BodyState::Broken);
        assert_eq!(read(&object), content(1, 0, 50));
        let body = object.body();
        assert_eq!(put_body(&store, "page", &body).err(), Some(NotTaken::Body));
    }
    // The length was not announced.
    let (mut writer, object) = begun(&store, "page", Some(10));
    writer.append(&[1; 9]).unwrap();
    assert!(!writer.finish());
    assert_eq!(object.body().progress().state, BodyState::Broken);
    let (mut writer, _) = begun(&store, "page", Some(10));
    writer.append(&[1; 11]).unwrap_err();
    assert!(get(&store, "page").is_none());
    writer.append(&[1]).unwrap_err();
    assert!(!writer.finish());
    assert_eq!(store.stats().broken, 5);
    drop(object);
    assert_nothing_leaks(&store);
}

#[test]
fn a_freshened_object_is_taken_out_too_if_its_body_breaks_off() {
    let store = store(SMALL);
    let (mut writer, object) = begun(&store, "page", None);
    writer.append(b"some").unwrap();
    store.replace(&object, meta(2000), b"").unwrap();
    drop(writer);
    assert!(get(&store, "page").is_none());
    assert_eq!(store.stats().objects, 0);
}

#[test]
fn the_beginning_of_a_body_can_be_stored_as_a_part() {
    for bytes in [1000, 100_000] {
        let store = store(SMALL);
        let (mut writer, _) = begun(&store, "page", Some(125_000));
        writer.append(&content(5, 0, bytes)).unwrap();
        let part = writer.cut();
        assert!(get(&store, "page").is_none());
        let object = put_body(&store, "page", &part).unwrap();
        assert_eq!(put_body(&store, "other", &part).err(), Some(NotTaken::Body));
        drop((part, object));
        let object = get(&store, "page").unwrap();
        assert!(object.body().is_whole());
        assert!(read(&object) == content(5, 0, bytes));
        let charged = store.stats().bytes as usize;
        assert!(
            (bytes..bytes + 5000).contains(&charged),
            "only what came: {charged}"
        );
        store.remove(&object);
        drop(object);
        assert_nothing_leaks(&store);
    }
}
