//! Many threads at once, which fill, read and evict.
use super::super::{BodyState, FillError};
use super::*;
use carrick_test::Random;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

/// Waits for the whole of a body as a task would, and checks each byte. `None` if it broke off.
fn follow(body: &Arc<super::super::Body>, seed: u64) -> Option<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut reader = body.reader();
        let mut from = 0;
        let mut buffer = vec![0; 10_000];
        loop {
            let progress = poll_fn(|cx| reader.poll_more(cx, from)).await;
            while from < progress.bytes {
                let count = body.read_at(&mut buffer, from).unwrap();
                assert!(count > 0);
                assert!(buffer[..count] == content(seed, from, count));
                from += count as u64;
            }
            match progress.state {
                BodyState::Filling => {}
                BodyState::Whole => return Some(from),
                BodyState::Broken => return None,
            }
        }
    })
}

#[test]
fn readers_in_other_threads_follow_a_body() {
    let limits = Limits {
        bytes: 64 << 20,
        objects: 1000,
        object_bytes_max: 8 << 20,
    };
    {
        let store = store(limits);
        for (seed, bytes, announced) in [
            (1, 10_000, true),
            (2, 10_000, false),
            (3, 500_000, true),
            (4, 700_000, false),
        ] {
            let mut writer = store.fill(announced.then_some(bytes)).unwrap();
            let body = Arc::clone(writer.body());
            thread::scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|| assert_eq!(follow(&body, seed), Some(bytes)));
                }
                let mut random = Random::new(seed);
                let mut from = 0;
                while from < bytes {
                    let count = (1 + random.next() % (bytes / 100)).min(bytes - from);
                    writer.append(&content(seed, from, count as usize)).unwrap();
                    from += count;
                    if random.next().is_multiple_of(4) {
                        thread::yield_now();
                    }
                }
                assert!(writer.finish());
            });
        }
        assert_nothing_leaks(&store);
    }
}

#[test]
fn readers_learn_that_a_body_broke_off() {
    let store = store(SMALL);
    let mut writer = store.fill(Some(10_000)).unwrap();
    let body = Arc::clone(writer.body());
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| follow(&body, 1))).collect();
        writer.append(&content(1, 0, 9_999)).unwrap();
        drop(writer);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), None);
        }
    });
}

#[test]
fn a_reader_that_is_gone_is_woken_no_more() {
    let store = store(SMALL);
    let mut writer = store.fill(None).unwrap();
    let body = Arc::clone(writer.body());
    let mut cx = Context::from_waker(Waker::noop());
    let mut readers: Vec<_> = (0..10).map(|_| body.reader()).collect();
    for _ in 0..3 {
        for reader in &mut readers {
            assert!(reader.poll_more(&mut cx, 0).is_pending());
        }
    }
    assert_eq!(body.readers_waiting(), 10, "one place for each");
    readers.truncate(4);
    assert_eq!(body.readers_waiting(), 4);
    writer.append(b"x").unwrap();
    assert_eq!(body.readers_waiting(), 0);
    assert!(
        matches!(readers[0].poll_more(&mut cx, 0), Poll::Ready(progress) if progress.bytes == 1)
    );
    assert!(readers[1].poll_more(&mut cx, 1).is_pending());
    // A registration of the round before removes no other reader's waker.
    drop(readers.pop());
    assert_eq!(body.readers_waiting(), 1);
    drop(readers);
    assert_eq!(body.readers_waiting(), 0);
}

/// Threads put, find, read along, freshen, purge and break off, in a store that is too small for all of it.
#[test]
fn under_load_nobody_reads_what_is_not_right() {
    let store = store(Limits {
        bytes: 4 << 20,
        objects: 200,
        object_bytes_max: 1 << 20,
    });
    let found = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (store, found) = (&store, &found);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..1500 {
                    let seed = random.next() % 300;
                    let name = seed.to_string();
                    match random.next() % 40 {
                        0 => {
                            store.purge(&Pattern::key(name.as_bytes()), Purge::Remove, None);
                        }
                        1 => {
                            store.purge(&Pattern::All, Purge::Outdate, None);
                        }
                        2..20 => fill_one(store, &mut random, seed),
                        _ => {
                            if let Some(object) = get(store, &name) {
                                found.fetch_add(1, Ordering::Relaxed);
                                let whole = follow(&object.body(), seed);
                                assert!(whole.is_none_or(|bytes| bytes == bytes_of(seed)));
                            }
                        }
                    }
                    assert!(store.stats().bytes <= 4 << 20);
                }
            });
        }
    });
    assert!(found.load(Ordering::Relaxed) > 100, "{found:?}");
    store.purge(&Pattern::All, Purge::Remove, None);
    assert_nothing_leaks(&store);
}

fn bytes_of(seed: u64) -> u64 {
    Random::new(seed).next() % 150_000
}

fn fill_one(store: &Arc<Store>, random: &mut Random, seed: u64) {
    let bytes = bytes_of(seed);
    let known = random.next().is_multiple_of(2).then_some(bytes);
    let Ok(mut writer) = store.fill(known) else {
        return;
    };
    let object = put_body(store, &seed.to_string(), writer.body());
    let breaks_off = random.next().is_multiple_of(5);
    let mut from = 0;
    while from < bytes {
        let count = (1 + random.next() % 30_000).min(bytes - from);
        match writer.append(&content(seed, from, count as usize)) {
            Ok(()) => {}
            Err(FillError::NotTaken(NotTaken::Full)) => return,
            Err(error) => panic!("{error}"),
        }
        from += count;
        if breaks_off && random.next().is_multiple_of(3) {
            return;
        }
    }
    assert!(writer.finish());
    if let Ok(object) = object {
        let freshened = store.replace(&object, meta(2000), b"A: freshened\r\n");
        assert!(!matches!(
            freshened,
            Err(NotTaken::Body | NotTaken::TooLarge)
        ));
    }
}
