//! A process that is killed at any call: the next one finds only whole objects, and what was purged stays purged.
use super::{Bed, Pattern, Purge, Random, assert_right, fields, files, folder, fresh, plan, says};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

/// How many names are used.
const NAMES: u64 = 6;

/// What is known of a name. Versions, revisions and purges are numbered by one clock.
#[derive(Default, Clone)]
struct Known {
    clock: u64,
    /// When the last purge of it was confirmed.
    purged_at: u64,
    /// When the last outdating of it was confirmed.
    outdated_at: u64,
    bytes: HashMap<u64, usize>,
}

impl Known {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

#[test]
fn whatever_is_found_after_a_crash_is_right() {
    let mut found = 0;
    let mut crashes = 0;
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let folder = folder();
        let plan = plan(&folder);
        let mut known = vec![Known::default(); NAMES as usize];
        // Several processes, each of which is killed at a random call.
        for life in 0..3 {
            let bed = Bed::begin(&plan);
            bed.disk.folder.fuse.random.store(seed * 7 + life, Relaxed);
            bed.disk
                .folder
                .fuse
                .left
                .store(random.below(160) as i64 + 1, Relaxed);
            let indexed_at = random.below(20);
            for step in 0..60 {
                if step == indexed_at {
                    bed.disk.index_all();
                }
                play(&bed, &mut random, &mut known);
                if random.below(3) == 0 {
                    bed.disk.pool.work();
                }
                if bed.disk.folder.fuse.is_burnt() {
                    crashes += 1;
                    break;
                }
            }
            // Further calls do not reach the medium.
            bed.disk.folder.fuse.left.store(0, Relaxed);
            bed.end();
        }
        let bed = Bed::open(&plan);
        for (name, known) in known.iter().enumerate() {
            let Some(object) = bed.get(&name.to_string()) else {
                continue;
            };
            found += 1;
            assert_right(&object);
            let (version, revision) = says(&object);
            assert_eq!(
                object.body().progress().bytes,
                known.bytes[&version] as u64,
                "seed {seed}"
            );
            assert!(version > known.purged_at, "seed {seed}: {name} was purged");
            if version.max(revision) <= known.outdated_at {
                let lifetime_s = object.meta().lifetime_s;
                assert_eq!(lifetime_s, 0, "seed {seed}: {name} was out of date");
            }
        }
        assert!(
            std::fs::read_dir(plan.path.join("unfinished"))
                .unwrap()
                .next()
                .is_none()
        );
        let stats = bed.disk.stats();
        assert_eq!(stats.objects, files(&plan.path).len() as u64);
    }
    assert!(
        crashes > 500 && found > 200,
        "{crashes} crashes, {found} found"
    );
}

fn play(bed: &Bed, random: &mut Random, known: &mut [Known]) {
    let number = random.below(NAMES) as usize;
    let name = number.to_string();
    let one = &mut known[number];
    match random.below(12) {
        0..3 => {
            let version = one.tick();
            let bytes = [0, 10, 3000, 66_000, 75_000][random.below(5) as usize];
            one.bytes.insert(version, bytes);
            // It may not be stored.
            let _ = bed.put(&name, version, bytes);
        }
        3..8 => {
            // It may still be coming, or have broken off.
            let object = bed.get(&name);
            if let Some(object) = object.filter(|object| object.body().is_whole()) {
                assert_right(&object);
            }
        }
        8 => {
            if let Some(object) = bed.find(&name) {
                let (version, _) = says(&object);
                let text = fields(version, one.tick());
                let _ = bed.store.replace(&object, fresh(version), text.as_bytes());
            }
        }
        9 => bed.forget(&name),
        number => {
            let how = if number == 10 {
                Purge::Remove
            } else {
                Purge::Outdate
            };
            bed.purge(&Pattern::Key(name.as_bytes().into()), how);
            // It is confirmed only if the process was not killed.
            if !bed.disk.folder.fuse.is_burnt() {
                let at = one.tick();
                match how {
                    Purge::Remove => one.purged_at = at,
                    Purge::Outdate => one.outdated_at = at,
                }
            }
        }
    }
}
