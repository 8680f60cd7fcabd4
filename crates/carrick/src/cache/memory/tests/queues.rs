//! A shard's queues: which objects enter which.
use super::{Limits, Store, get, put, store};
use std::sync::Arc;

/// Room for ten objects of 100 bytes in one shard.
fn ten() -> Arc<Store> {
    store(Limits {
        bytes: 1 << 20,
        objects: 10,
        object_bytes_max: 1000,
    })
}

fn put_all(store: &Arc<Store>, names: impl Iterator<Item = u64>) {
    for name in names {
        put(store, &name.to_string(), name, 100).unwrap();
    }
}

#[test]
fn what_is_asked_for_again_stays_and_what_is_not_goes() {
    let store = ten();
    put_all(&store, 0..10);
    for name in [3, 7] {
        for _ in 0..2 {
            assert!(get(&store, &name.to_string()).is_some());
        }
    }
    put_all(&store, 100..200);
    let stays = |name: u64| store.variants(store.key(name.to_string().as_bytes())).len() == 1;
    assert!(stays(3) && stays(7));
    assert!((0..10).filter(|name| stays(*name)).count() == 2);
    let stats = store.stats();
    assert_eq!((stats.evicted_small, stats.evicted_main), (100, 0));
}

#[test]
fn who_comes_back_soon_enters_the_main_queue() {
    let store = ten();
    put_all(&store, 0..11);
    let gone: Vec<u64> = (0..11)
        .filter(|name| {
            store
                .variants(store.key(name.to_string().as_bytes()))
                .is_empty()
        })
        .collect();
    assert_eq!(gone, [0]);
    put_all(&store, gone.into_iter());
    put_all(&store, 100..150);
    assert_eq!(store.variants(store.key(b"0")).len(), 1);
}
