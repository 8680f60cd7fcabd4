//! Listing and purging.
use super::*;

fn tagged(store: &Arc<Store>, name: &str, head: &str) {
    let body = filled(store, 1, 100).unwrap();
    let key = store.key(name.as_bytes());
    store
        .put(key, &Variant::default(), meta(1000), head.as_bytes(), &body)
        .unwrap();
}

fn names(store: &Store) -> Vec<String> {
    let mut names: Vec<_> = store
        .objects()
        .map(|object| String::from_utf8(object.key().bytes().to_vec()).unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn by_key_by_prefix_and_by_tag() {
    let store = store(SMALL);
    tagged(&store, "x http://a/1", "Surrogate-Key: red green\r\n");
    tagged(&store, "x http://a/2", "Cache-Tag: green\r\n");
    tagged(&store, "x http://a/3", "X: green\r\n");
    tagged(&store, "x http://b/1", "Cache-Tag: greenish\r\n");
    tagged(&store, "x http://b/2", "");
    assert_eq!(store.purge(&Pattern::tag("gre"), Purge::Remove, None), 0);
    assert_eq!(store.purge(&Pattern::tag("green"), Purge::Remove, None), 2);
    assert_eq!(
        names(&store),
        ["x http://a/3", "x http://b/1", "x http://b/2"]
    );
    assert_eq!(store.purge(&Pattern::key(b"b"), Purge::Remove, None), 0);
    assert_eq!(
        store.purge(&Pattern::key(b"x http://b/1"), Purge::Remove, None),
        1
    );
    assert_eq!(
        store.purge(
            &Pattern::UrlPrefix((*b"http://a/").into()),
            Purge::Remove,
            None
        ),
        1
    );
    assert_eq!(names(&store), ["x http://b/2"]);
    assert_eq!(store.purge(&Pattern::All, Purge::Remove, None), 1);
    assert_eq!(store.stats().removed, 5);
    assert_nothing_leaks(&store);
}

#[test]
fn what_is_outdated_stays_to_be_validated() {
    let store = store(SMALL);
    tagged(&store, "a", "Cache-Tag: one\r\n");
    tagged(&store, "b", "Cache-Tag: two\r\n");
    let now = UnixTime(1050);
    let is_fresh = |name| get(&store, name).unwrap().meta().is_fresh(now);
    assert!(is_fresh("a") && is_fresh("b"));
    assert_eq!(store.purge(&Pattern::tag("one"), Purge::Outdate, None), 1);
    assert!(!is_fresh("a") && is_fresh("b"));
    assert_eq!(read(&get(&store, "a").unwrap()), content(1, 0, 100));
    assert!(get(&store, "a").unwrap().has_tag(b"one"));
}

#[test]
fn a_full_store_can_be_outdated() {
    let limits = Limits {
        bytes: 3 * 450,
        ..SMALL
    };
    let store = store(limits);
    tagged(&store, "a", "");
    tagged(&store, "b", "");
    tagged(&store, "c", "");
    store.purge(&Pattern::All, Purge::Outdate, None);
    assert!(
        store
            .objects()
            .all(|object| !object.meta().is_fresh(UnixTime(1000)))
    );
}

#[test]
fn the_list_has_everything_once() {
    let store = store(Limits {
        bytes: 100 << 20,
        objects: 100_000,
        object_bytes_max: 1000,
    });
    for number in 0..5000 {
        put(&store, &format!("{number:04}"), number, 1).unwrap();
    }
    for number in 0..500 {
        let removed = store.purge(
            &Pattern::key(format!("{:04}", number * 10).as_bytes()),
            Purge::Remove,
            None,
        );
        assert_eq!(removed, 1);
    }
    let expected: Vec<_> = (0..5000)
        .filter(|number| number % 10 != 0)
        .map(|number| format!("{number:04}"))
        .collect();
    assert_eq!(names(&store), expected);
}
