//! What the disk store promises, one by one.
use super::{
    Bed, Disk, Pattern, Purge, assert_right, fields, files, folder, fresh, open_again, plan, says,
};
use crate::config::plan::DiskPlan;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn what_is_asked_for_again_is_there_after_a_restart() {
    let folder = folder();
    // With the third, the disk is not roomy any more.
    const OBJECTS: [(&str, u64, usize); 4] = [
        ("short", 1, 10),
        ("empty", 2, 0),
        ("long", 3, 120_000),
        ("middle", 5, 16_385),
    ];
    let plan = DiskPlan {
        objects: 4,
        ..plan(&folder)
    };
    let bed = Bed::open(&plan);
    let mut dates = Vec::new();
    for (name, version, bytes) in OBJECTS {
        dates.push(bed.put(name, version, bytes).unwrap().meta().date);
        bed.keep(name);
    }
    bed.put("once", 4, 10).unwrap();
    bed.disk.pool.work();
    let stats = bed.disk.stats();
    assert_eq!(
        (stats.objects, stats.writes),
        (4, 4),
        "what was asked for once is not written to a disk that is nearly full"
    );
    assert_eq!(bed.files().len(), 4);
    bed.end();

    let bed = Bed::open(&plan);
    assert_eq!(bed.disk.stats().objects, 4);
    for ((name, version, bytes), date) in OBJECTS.into_iter().zip(dates) {
        assert!(bed.find(name).is_none());
        let object = bed.get(name).unwrap();
        assert_right(&object);
        assert_eq!(
            (says(&object), object.body().progress().bytes),
            ((version, 0), bytes as u64)
        );
        assert_eq!(object.body().is_file(), bytes > 16_384);
        assert_eq!(object.meta().date, date);
    }
    assert!(bed.get("once").is_none());
    assert_eq!(bed.disk.stats().loads, 4);
}

#[test]
fn what_is_replaced_is_not_found_again() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    bed.put("a", 1, 100).unwrap();
    bed.keep("a");
    bed.put("a", 2, 100).unwrap();
    bed.disk.pool.work();
    assert_eq!(bed.files().len(), 1, "the old one is gone");
    bed.forget("a");
    assert_eq!(says(&bed.get("a").unwrap()), (2, 0));
    bed.end();
    assert_eq!(says(&Bed::open(&plan).get("a").unwrap()), (2, 0));
}

#[test]
fn what_comes_is_there_after_a_restart_while_there_is_room() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    for version in 1..=5 {
        bed.put(&version.to_string(), version, 100).unwrap();
    }
    bed.disk.pool.work();
    assert_eq!(bed.files().len(), 5);
    bed.end();
    let bed = Bed::open(&plan);
    for version in 1..=5 {
        let object = bed.get(&version.to_string()).unwrap();
        assert_right(&object);
        assert_eq!(says(&object), (version, 0));
    }
}

#[test]
fn a_freshened_head_reaches_the_disk() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    bed.put("a", 1, 70_000).unwrap();
    bed.keep("a");
    for revision in 1..=5 {
        let object = bed.find("a").unwrap();
        bed.store
            .replace(&object, fresh(1), fields(1, revision).as_bytes())
            .unwrap();
        if revision % 2 == 0 {
            bed.disk.pool.work();
        }
        if revision == 3 {
            // A change counts before it is written.
            bed.forget("a");
            assert_eq!(says(&bed.get("a").unwrap()), (1, 3));
        }
    }
    bed.end();
    let bed = Bed::open(&plan);
    let object = bed.get("a").unwrap();
    assert_eq!(says(&object), (1, 5));
    assert_right(&object);
    // A head that does not fit into its slot only costs the file.
    let longer = fields(1, 6) + &"x: y\r\n".repeat(1000);
    bed.store
        .replace(&object, fresh(1), longer.as_bytes())
        .unwrap();
    bed.disk.pool.work();
    assert_eq!(bed.files().len(), 0);
    assert_eq!(bed.find("a").unwrap().head(), longer.as_bytes());
}

#[test]
fn purges_reach_what_is_only_on_the_disk() {
    let key = |text: &str| Pattern::Key(text.as_bytes().into());
    let url = "listener=x http://h:80/a";
    for (which, expected) in [
        (key(url), 1),
        (Pattern::Url((*b"http://h:80/b").into()), 1),
        (Pattern::UrlPrefix((*b"http://h:80/").into()), 2),
        (Pattern::Tag((*b"v2").into()), 1),
        (Pattern::All, 2),
        (key("other"), 0),
    ] {
        for how in [Purge::Remove, Purge::Outdate] {
            let folder = folder();
            let plan = plan(&folder);
            let bed = Bed::open(&plan);
            for (name, version) in [(url, 1), ("listener=x http://h:80/b", 2)] {
                bed.put(name, version, 100).unwrap();
                bed.keep(name);
            }
            // One object is in memory, too.
            bed.forget(url);
            assert_eq!(bed.purge(&which, how), expected, "{which:?}");
            let files = bed.files().len() as u64;
            assert_eq!(
                files,
                if how == Purge::Remove {
                    2 - expected
                } else {
                    2
                }
            );
            bed.end();
            let bed = Bed::open(&plan);
            let are_fresh = [url, "listener=x http://h:80/b"]
                .into_iter()
                .filter_map(|name| bed.get(name))
                .filter(|object| object.meta().lifetime_s > 0);
            assert_eq!(are_fresh.count() as u64, 2 - expected, "{which:?} {how:?}");
        }
    }
}

/// Keeps the objects `a` and `b`.
fn keep_two(plan: &DiskPlan) {
    let bed = Bed::open(plan);
    for name in ["a", "b"] {
        bed.put(name, 1, 100).unwrap();
        bed.keep(name);
    }
    bed.end();
}

#[test]
fn a_purge_counts_for_what_is_not_in_the_index_yet() {
    for (how, dies) in [
        (Purge::Remove, false),
        (Purge::Remove, true),
        (Purge::Outdate, false),
        (Purge::Outdate, true),
    ] {
        let folder = folder();
        let plan = plan(&folder);
        keep_two(&plan);
        let bed = Bed::begin(&plan);
        assert!(bed.get("a").is_none(), "it is not in the index yet");
        assert_eq!(bed.purge(&Pattern::key(b"a"), how), 0);
        let bed = if dies {
            bed.end();
            Bed::open(&plan)
        } else {
            bed.disk.index_all();
            bed.disk.pool.work();
            bed
        };
        match how {
            Purge::Remove => assert!(bed.get("a").is_none()),
            Purge::Outdate => assert_eq!(bed.get("a").unwrap().meta().lifetime_s, 0),
        }
        assert_right(&bed.get("b").unwrap());
        assert!(!plan.path.join("purges").exists(), "the list is done");
    }
}

#[test]
fn invalidations_while_the_index_is_made_spare_all_else() {
    let folder = folder();
    let plan = plan(&folder);
    keep_two(&plan);
    let bed = Bed::begin(&plan);
    // More than purges that are remembered.
    for number in 0..10_001 {
        let name = format!("other {number}");
        let key = Pattern::key(name.as_bytes());
        bed.store.purge(&key, Purge::Remove, None);
    }
    bed.store.purge(&Pattern::key(b"a"), Purge::Remove, None);
    bed.disk.pool.work();
    assert!(!plan.path.join("purges").exists(), "nothing is forced");
    bed.disk.index_all();
    bed.disk.pool.work();
    assert!(bed.get("a").is_none());
    assert_right(&bed.get("b").unwrap());
}

#[test]
fn tags_and_date_are_those_of_the_newest_head() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    let object = bed.put("a", 1, 100).unwrap();
    bed.keep("a");
    bed.store
        .replace(&object, fresh(2), fields(2, 1).as_bytes())
        .unwrap();
    bed.disk.pool.work();
    bed.forget("a");
    let entries: Vec<_> = bed.disk.entries().collect();
    assert_eq!(entries[0].date(), fresh(2).date);
    assert_eq!(bed.purge(&Pattern::tag("v1"), Purge::Remove), 0);
    assert_eq!(bed.purge(&Pattern::tag("v2"), Purge::Remove), 1);
    assert!(bed.get("a").is_none());
}

#[test]
fn a_purge_is_noted_once() {
    let folder = folder();
    let plan = plan(&folder);
    Bed::open(&plan).end();
    let bed = Bed::begin(&plan);
    bed.purge(&Pattern::tag("t"), Purge::Remove);
    let noted = std::fs::read_to_string(plan.path.join("purges")).unwrap();
    assert_eq!(noted.trim().lines().count(), 1, "{noted}");
}

#[test]
fn what_comes_anew_while_the_index_is_made_counts() {
    let folder = folder();
    let plan = plan(&folder);
    let bed = Bed::open(&plan);
    bed.put("a", 1, 100).unwrap();
    bed.keep("a");
    bed.end();
    let bed = Bed::begin(&plan);
    bed.put("a", 2, 100).unwrap();
    bed.forget("a");
    bed.disk.index_all();
    assert!(bed.get("a").is_none(), "something newer was there");
    assert_eq!(bed.files().len(), 0);
}

#[test]
fn a_folder_has_one_user() {
    let folder = folder();
    let plan = plan(&folder);
    let first = Disk::open(&plan).unwrap();
    let why = Disk::open(&plan).unwrap_err();
    assert!(why.contains("another carrick uses"), "{why}");
    drop(first);
    open_again(&plan);
    let file = DiskPlan {
        path: plan.path.join("carrick-cache"),
        ..plan.clone()
    };
    let why = Disk::open(&file).unwrap_err();
    assert!(why.contains("is not a directory"), "{why}");
    let nowhere = DiskPlan {
        path: plan.path.join("a/b"),
        ..plan
    };
    let why = Disk::open(&nowhere).unwrap_err();
    assert!(why.contains("does not exist"), "{why}");
}

#[test]
fn foreign_files_stay_and_unfinished_ones_go() {
    let folder = folder();
    let plan = plan(&folder);
    Bed::open(&plan).end();
    let foreign = [
        "mine.txt",
        "00/notes",
        "00/00000000000000000000000000000000-1-0",
        "unfinished/x",
    ];
    for name in foreign {
        std::fs::write(plan.path.join(name), "x").unwrap();
    }
    let of_ours = [
        "unfinished/0000000000000001",
        "00/00000000000000000000000000000000-0000000000000001-0",
    ];
    for name in of_ours {
        std::fs::write(plan.path.join(name), "x").unwrap();
    }
    let bed = Bed::open(&plan);
    let is_there = |name: &&str| plan.path.join(name).exists();
    assert!(foreign.iter().all(is_there));
    assert!(!of_ours.iter().any(is_there));
    let stats = bed.disk.stats();
    assert_eq!((stats.found, stats.swept, stats.foreign), (1, 1, 3));
}

#[test]
fn the_limits_are_kept() {
    let folder = folder();
    let plan = DiskPlan {
        bytes: 2 << 20,
        objects: 40,
        object_bytes_max: 200 << 10,
        ..plan(&folder)
    };
    let bed = Bed::open(&plan);
    for version in 0..100 {
        let name = version.to_string();
        bed.put(&name, version, 60_000).unwrap();
        bed.keep(&name);
        let on_disk: u64 = bed
            .files()
            .iter()
            .map(|file| file.metadata().unwrap().len())
            .sum();
        let stats = bed.disk.stats();
        assert!(on_disk <= stats.bytes && stats.bytes <= plan.bytes && stats.objects <= 40);
        assert_eq!(stats.objects, bed.files().len() as u64);
    }
    assert!(bed.disk.stats().evicted_small > 0);
    bed.end();
    // A smaller limit is kept after the next start.
    let plan = DiskPlan {
        objects: 10,
        ..plan
    };
    let bed = Bed::open(&plan);
    assert_eq!((bed.disk.stats().objects, bed.files().len()), (10, 10));
    bed.purge(&Pattern::All, Purge::Remove);
    let stats = bed.disk.stats();
    assert_eq!(
        (stats.objects, stats.bytes, files(&plan.path).len()),
        (0, 0, 0)
    );
}

#[test]
fn a_full_disk_costs_nothing_but_itself() {
    let folder = folder();
    let bed = Bed::open(&plan(&folder));
    bed.disk.folder.fuse.one_of.store(1, Relaxed);
    bed.put("a", 1, 1000).unwrap();
    bed.keep("a");
    assert_right(&bed.find("a").unwrap());
    let stats = bed.disk.stats();
    assert!(stats.write_errors > 0 && stats.objects == 0 && stats.bytes == 0);
    assert!(bed.disk.fault().is_some());
    bed.disk.folder.fuse.one_of.store(0, Relaxed);
    bed.keep("a");
    assert_eq!(bed.disk.stats().writes, 0, "writing rests for a while");
    assert_eq!(bed.files().len(), 0);
}
