//! Files that another program has changed, or that the medium has lost: an object is right, or not there.
use super::{Bed, Random, assert_right, files, folder, plan};

#[test]
fn a_changed_byte_anywhere_is_found() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let folder = folder();
        let plan = plan(&folder);
        let bed = Bed::open(&plan);
        let sizes = [0, 1, 100, 5000, 70_000];
        for (version, bytes) in sizes.into_iter().enumerate() {
            bed.put(&version.to_string(), version as u64, bytes)
                .unwrap();
            bed.keep(&version.to_string());
        }
        let is_running = seed % 4 == 0;
        let bed = if is_running {
            for version in 0..sizes.len() {
                bed.forget(&version.to_string());
            }
            Some(bed)
        } else {
            bed.end();
            None
        };
        for file in files(&plan.path) {
            let mut bytes = std::fs::read(&file).unwrap();
            match random.below(5) {
                0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
                1 => bytes.push(0),
                2 => bytes.fill(0),
                _ => {
                    for _ in 0..=random.below(3) {
                        let place = random.below(bytes.len() as u64) as usize;
                        bytes[place] ^= 1 << random.below(8);
                    }
                }
            }
            std::fs::write(&file, bytes).unwrap();
        }
        let bed = bed.unwrap_or_else(|| Bed::open(&plan));
        for (version, bytes) in sizes.into_iter().enumerate() {
            if let Some(object) = bed.get(&version.to_string()) {
                assert_right(&object);
                assert_eq!(object.body().progress().bytes, bytes as u64, "seed {seed}");
            }
        }
        let stats = bed.disk.stats();
        assert!(stats.swept + stats.damaged > 0, "seed {seed}");
    }
}

#[test]
fn a_file_that_is_removed_is_a_miss() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    bed.put("a", 1, 100).unwrap();
    bed.keep("a");
    bed.forget("a");
    std::fs::remove_file(&files(&plan.path)[0]).unwrap();
    assert!(bed.get("a").is_none());
    let stats = bed.disk.stats();
    assert_eq!((stats.objects, stats.bytes), (0, 0));
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_told() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    bed.put("a", 1, 300_000).unwrap();
    bed.keep("a");
    bed.forget("a");
    let object = bed.get("a").unwrap();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&files(&plan.path)[0])
        .unwrap();
    file.set_len(100_000).unwrap();
    let mut fetched = object
        .body()
        .fetch(200_000, 1000)
        .expect("it is not in the page cache");
    bed.disk.pool.work();
    assert_eq!(fetched.try_recv(), Ok(false));
    object.body().spoil();
    assert!(bed.find("a").is_none());
}
