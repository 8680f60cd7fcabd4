//! Several threads besides the pool's: each name is changed by one of them, and read by all.
use super::{Bed, Pattern, Purge, Random, content, fields, folder, fresh, plan, says};
use crate::cache::memory::tests::nothing;
use crate::cache::memory::{BodyState, Found, Object};
use crate::config::plan::DiskPlan;
use carrick_logic::cache::{UnixTime, Variant};
use std::sync::Arc;
use std::time::Duration;

const THREADS: u64 = 4;
const NAMES: u64 = 12;

#[test]
fn who_changes_something_never_finds_what_was_before() {
    let mut all_found = 0;
    for seed in 0..6 {
        let folder = folder();
        let plan = DiskPlan {
            bytes: 4 << 20,
            objects: 30,
            object_bytes_max: 1 << 20,
            ..plan(&folder)
        };
        let bed = Bed::begin(&plan);
        bed.disk.start().unwrap();
        let found: u64 = std::thread::scope(|scope| {
            let bed = &bed;
            let threads: Vec<_> = (0..THREADS)
                .map(|number| scope.spawn(move || play(bed, number, seed)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        all_found += found;
        assert!(bed.disk.pool.finish(Duration::from_secs(60)));
        bed.store.purge(&Pattern::All, Purge::Remove, None);
        assert!(bed.disk.pool.finish(Duration::from_secs(60)));
        let (store, disk) = (bed.store.stats(), bed.disk.stats());
        assert_eq!(
            (store.objects, store.bytes, store.fills),
            (0, 0, 0),
            "seed {seed}"
        );
        assert_eq!((disk.objects, disk.bytes), (0, 0), "seed {seed}");
        assert_eq!(bed.files().len(), 0, "seed {seed}");
        assert_eq!(
            (disk.damaged, disk.read_errors, disk.write_errors),
            (0, 0, 0)
        );
    }
    assert!(all_found > 1000, "{all_found}");
}

/// How many objects were found.
fn play(bed: &Bed, number: u64, seed: u64) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut random = Random::new(seed * THREADS + number);
    let mut last: Vec<Option<(u64, u64)>> = vec![None; NAMES as usize];
    let (mut version, mut found) = (0, 0);
    for _ in 0..1500 {
        let name = random.below(NAMES);
        let text = name.to_string();
        let key = bed.store.key(text.as_bytes());
        let text_key: Box<[u8]> = text.as_bytes().into();
        let is_own = name % THREADS == number;
        let one = &mut last[name as usize];
        match random.below(10) {
            0..2 if is_own => {
                version += 1;
                let bytes = [10, 3000, 20_000, 70_000, 200_000][random.below(5) as usize];
                let Ok(mut writer) = bed.store.fill(Some(bytes as u64)) else {
                    continue;
                };
                let fields = fields(version, 0);
                let put = (bed.store).put(
                    key,
                    &Variant::default(),
                    fresh(version),
                    fields.as_bytes(),
                    writer.body(),
                );
                if put.is_err() {
                    continue;
                }
                *one = Some((version, 0));
                for piece in content(version, 0, bytes).chunks(50_000) {
                    if writer.append(piece).is_err() {
                        break;
                    }
                }
                writer.finish();
            }
            2 if is_own => {
                bed.store
                    .purge(&Pattern::Key(text.as_bytes().into()), Purge::Remove, None);
                *one = None;
            }
            3 if is_own => {
                if let Found::Object(object) = bed.store.find(key, nothing()) {
                    let (version, revision) = says(&object);
                    let text = fields(version, revision + 1);
                    if bed
                        .store
                        .replace(&object, fresh(version), text.as_bytes())
                        .is_ok()
                    {
                        *one = Some((version, revision + 1));
                    } else {
                        // It is not in memory any more, and the disk may or may not have the new head.
                        bed.store
                            .purge(&Pattern::Key(text_key.clone()), Purge::Remove, None);
                        *one = None;
                    }
                }
            }
            4 => bed.forget(&text),
            _ => {
                if !matches!(bed.store.find(key, nothing()), Found::Object(_)) {
                    runtime.block_on(bed.store.bring(key, nothing()));
                }
                if let Found::Object(object) = bed.store.find(key, nothing()) {
                    // A random time, at which the check may be due.
                    let _ = bed.store.stands(&object, UnixTime(random.below(1 << 40)));
                    if is_own {
                        assert_eq!(Some(says(&object)), *one, "seed {seed}, {text}");
                    }
                    found += u64::from(is_right(&object));
                }
            }
        }
    }
    found
}

/// Checks the bytes that are there; returns whether the body is whole.
fn is_right(object: &Arc<Object>) -> bool {
    let (version, _) = says(object);
    let progress = object.body().progress();
    let mut bytes = vec![0; progress.bytes as usize];
    object.body().read_at(&mut bytes, 0).unwrap();
    assert!(bytes == content(version, 0, bytes.len()));
    progress.state == BodyState::Whole
}
