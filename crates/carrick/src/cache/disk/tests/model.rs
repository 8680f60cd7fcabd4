//! Random operations, faults of the medium and restarts, checked against a model that knows what was put last.
use super::{Bed, Pattern, Purge, Random, assert_right, fields, folder, fresh, plan, says};
use crate::config::plan::DiskPlan;
use std::sync::atomic::Ordering::Relaxed;

const NAMES: u64 = 30;

#[test]
fn nothing_but_the_newest_is_ever_found() {
    let (mut found, mut from_disk, mut errors) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let folder = folder();
        let plan = DiskPlan {
            bytes: 16 << 20,
            objects: 20,
            ..plan(&folder)
        };
        let mut last: Vec<Option<(u64, u64)>> = vec![None; NAMES as usize];
        let mut bed = Bed::open(&plan);
        let mut version = 0;
        for _ in 0..600 {
            let number = random.below(NAMES) as usize;
            let name = number.to_string();
            let one = &mut last[number];
            match random.below(100) {
                0..20 => {
                    version += 1;
                    let bytes = [0, 10, 3000, 70_000, 75_000, 120_000][random.below(6) as usize];
                    // It was refused, or broke off: then the old object is there, or none.
                    if bed.put(&name, version, bytes).is_some() {
                        *one = Some((version, 0));
                    } else {
                        let there = bed.get(&name).map(|object| says(&object));
                        assert!(there.is_none() || there == *one, "seed {seed}");
                        *one = there;
                    }
                }
                20..75 => {
                    let loads = bed.disk.stats().loads;
                    if let Some(object) = bed.get(&name) {
                        if object.body().is_whole() {
                            assert_right(&object);
                        }
                        assert_eq!(Some(says(&object)), *one, "seed {seed}");
                        found += 1;
                        from_disk += bed.disk.stats().loads - loads;
                    }
                }
                75..83 => {
                    if let Some(object) = bed.find(&name) {
                        let (version, revision) = says(&object);
                        let text = fields(version, revision + 1);
                        if bed
                            .store
                            .replace(&object, fresh(version), text.as_bytes())
                            .is_ok()
                        {
                            *one = Some((version, revision + 1));
                        }
                    }
                }
                83..90 => bed.forget(&name),
                90..94 => {
                    bed.purge(&Pattern::Key(name.as_bytes().into()), Purge::Remove);
                    *one = None;
                }
                94 => {
                    bed.purge(&Pattern::tag("all"), Purge::Remove);
                    last.fill(None);
                }
                95..97 => bed.disk.folder.fuse.one_of.store(random.below(20), Relaxed),
                97 => {
                    // Pending jobs run without faults, so that the end is orderly.
                    errors += bed.disk.stats().write_errors;
                    bed.disk.folder.fuse.one_of.store(0, Relaxed);
                    bed.end();
                    bed = Bed::open(&plan);
                }
                _ => bed.disk.pool.work(),
            }
        }
        let stats = bed.disk.stats();
        assert!(stats.bytes <= plan.bytes && stats.objects <= plan.objects);
    }
    assert!(
        found > 2500 && from_disk > 100 && errors > 50,
        "{found} found, {from_disk} of them on the disk, {errors} errors"
    );
}
