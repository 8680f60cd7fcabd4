//! Classes: which are refused, which bucket a splice gets, and what happens to removed classes.

use super::super::block::BUCKETS;
use super::super::bucket::{owes, reserve};
use super::super::skeleton::types::pace_class;
use super::super::table::DIRECTIONS;
use super::super::{
    ClassReport, ClassSettings, HOLD_MAX, INTERVAL, NetworkRate, PaceError, Pacing, Policy,
};
use crate::sys::clock::now_ns;
use std::mem::offset_of;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn class(name: &str) -> ClassSettings {
    ClassSettings::new(name)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let deadline = |target| ClassSettings {
        policy: Policy::Deadline { target },
        ..class("a")
    };
    let child = |name: &str, parent: &str| ClassSettings {
        parent: Some(parent.to_owned()),
        ..class(name)
    };
    let wrong: Vec<(Vec<ClassSettings>, &str)> = vec![
        (vec![class("")], "needs a name"),
        (vec![class("a"), class("a")], "two of this name"),
        (
            vec![ClassSettings {
                ceiling: Some(999),
                ..class("a")
            }],
            "1000 to",
        ),
        (
            vec![ClassSettings {
                splice: Some(0),
                ..class("a")
            }],
            "1000 to",
        ),
        (
            vec![ClassSettings {
                ceiling: Some(u64::MAX),
                ..class("a")
            }],
            "it can be",
        ),
        (
            vec![ClassSettings {
                rate: Some(5000),
                ..class("a")
            }],
            "without a parent",
        ),
        (
            vec![
                class("p"),
                ClassSettings {
                    rate: Some(5000),
                    ceiling: Some(4000),
                    ..child("a", "p")
                },
            ],
            "is more than ceiling",
        ),
        (
            vec![
                ClassSettings {
                    ceiling: Some(8000),
                    ..class("p")
                },
                ClassSettings {
                    rate: Some(5000),
                    ..child("a", "p")
                },
                ClassSettings {
                    rate: Some(5000),
                    ..child("b", "p")
                },
            ],
            "together, more than its own",
        ),
        (vec![child("a", "b")], "is no class"),
        (vec![child("a", "b"), child("b", "a")], "in a circle"),
        (vec![child("a", "a")], "in a circle"),
        (
            vec![
                child("a", "b"),
                child("b", "c"),
                child("c", "d"),
                class("d"),
            ],
            "above each other",
        ),
        (
            vec![ClassSettings {
                hold_max: Duration::ZERO,
                ..class("a")
            }],
            "hold_max",
        ),
        (
            vec![ClassSettings {
                hold_max: HOLD_MAX * 2,
                ..class("a")
            }],
            "hold_max",
        ),
        (vec![deadline(Duration::ZERO)], "target"),
        (vec![deadline(Duration::from_secs(60))], "target"),
        (
            vec![ClassSettings {
                network: Some(NetworkRate {
                    ceiling: 5000,
                    prefix_v4: 33,
                    prefix_v6: 64,
                }),
                ..class("a")
            }],
            "at most 32 bits",
        ),
        (
            (0..65).map(|number| class(&number.to_string())).collect(),
            "there can be 64",
        ),
    ];
    let pacing = Pacing::new().unwrap();
    let before = [ClassSettings {
        ceiling: Some(4000),
        ..class("before")
    }];
    pacing.configure(&before, INTERVAL).unwrap();
    for (classes, why) in wrong {
        let error = pacing.configure(&classes, INTERVAL).unwrap_err();
        assert!(
            error.to_string().contains(why),
            "{error} instead of {why:?}"
        );
        assert_eq!(pacing.settings().0, before);
    }
    for interval in [Duration::ZERO, Duration::from_secs(3600)] {
        assert!(pacing.configure(&before, interval).is_err());
    }
}

#[test]
fn networks_share_and_splices_do_not() {
    let pacing = Pacing::new().unwrap();
    let settings = ClassSettings {
        network: Some(NetworkRate {
            ceiling: 50_000,
            prefix_v4: 24,
            prefix_v6: 64,
        }),
        ..class("a")
    };
    pacing
        .configure(std::slice::from_ref(&settings), INTERVAL)
        .unwrap();
    let of = |text| pacing.pace("a", address(text), 0).unwrap();
    let (one, same, other) = (of("192.0.2.1"), of("192.0.2.200"), of("192.0.3.1"));
    let mapped = of("::ffff:192.0.2.9");
    let (six, near) = (of("2001:db8::1"), of("2001:db8::2"));
    assert_eq!(one.both(), same.both());
    assert_eq!(one.both(), mapped.both());
    assert_eq!(six.both(), near.both());
    assert_ne!(one.both(), other.both());
    assert_ne!(one.both(), six.both());
    assert_ne!(one.to_server(), one.to_client());
    assert_eq!(pacing.classes()[0].networks, 3);
    assert_eq!(pacing.classes()[0].splices, 6);
    drop((one, same, mapped));
    assert_eq!(pacing.classes()[0].networks, 2);
    drop((other, six, near));
    assert_eq!(
        (pacing.classes()[0].networks, pacing.classes()[0].splices),
        (0, 0)
    );
    // Each splice by itself.
    let settings = ClassSettings {
        splice: Some(50_000),
        network: None,
        ..settings
    };
    pacing.configure(&[settings], INTERVAL).unwrap();
    let (one, same) = (of("192.0.2.1"), of("192.0.2.1"));
    assert_ne!(one.both(), same.both());
    assert!(pacing.pace("b", address("192.0.2.1"), 0).is_none());
}

#[test]
fn a_class_that_is_gone_stays_until_its_last_splice() {
    let pacing = Pacing::new().unwrap();
    pacing
        .configure(&[class("a"), class("b")], INTERVAL)
        .unwrap();
    let paced = pacing.pace("a", address("192.0.2.1"), 0).unwrap();
    for round in 0..200 {
        // Others come and go meanwhile; no other class gets the slot of the first one.
        let name = format!("c{round}");
        pacing.configure(&[class(&name)], INTERVAL).unwrap();
        let other = pacing.pace(&name, address("192.0.2.1"), 0).unwrap();
        assert_ne!(other.to_client().class(), paced.to_client().class());
        assert!(pacing.pace("a", address("192.0.2.1"), 0).is_none());
    }
    drop(paced);
    let names = |pacing: &Pacing| {
        let classes = pacing.settings().0;
        classes
            .into_iter()
            .map(|class| class.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&pacing), ["c199"]);
}

#[test]
fn a_class_in_a_place_that_was_another_s_begins_at_zero() {
    let pacing = Pacing::new().unwrap();
    pacing.configure(&[class("old")], INTERVAL).unwrap();
    let number = pacing
        .pace("old", address("192.0.2.1"), 0)
        .unwrap()
        .to_client()
        .class();
    let block = &pacing.0.block;
    let by_kernel = [
        offset_of!(pace_class, granted),
        offset_of!(pace_class, held),
    ];
    for field in by_kernel {
        block.class(number, field).store(3, Relaxed);
    }
    let counts = pacing.counts(number);
    for count in [
        &counts.bytes,
        &counts.yields,
        &counts.rate_waits,
        &counts.waited_ns,
        &counts.overdue,
        &counts.credit,
        &counts.unbounded,
    ] {
        count.store(7, Relaxed);
    }
    // A class that stays keeps its counts.
    pacing.configure(&[class("old")], INTERVAL).unwrap();
    let report = pacing.classes().remove(0);
    assert_eq!((report.bytes, report.kernel_holds), (10, 3), "{report:?}");
    assert_eq!((report.overdue, report.unbounded), (7, 7), "{report:?}");
    pacing.configure(&[class("new")], INTERVAL).unwrap();
    let paced = pacing.pace("new", address("192.0.2.1"), 0).unwrap();
    assert_eq!(paced.to_client().class(), number, "another place");
    let nothing = ClassReport {
        settings: class("new"),
        splices: 1,
        networks: 0,
        bytes: 0,
        kernel_bytes: 0,
        yields: 0,
        rate_waits: 0,
        kernel_holds: 0,
        waited: Duration::ZERO,
        overdue: 0,
        credit: 0,
        unbounded: 0,
    };
    assert_eq!(pacing.classes(), [nothing]);
}

/// Adds one more class, as a reload does.
fn add_class(pacing: &Pacing) -> Result<(), PaceError> {
    let (mut classes, interval) = pacing.settings();
    classes.push(class("added"));
    pacing.configure(&classes, interval)
}

#[test]
fn more_splices_than_buckets_share() {
    let pacing = Pacing::new().unwrap();
    let settings = ClassSettings {
        splice: Some(50_000),
        ..class("a")
    };
    pacing.configure(&[settings], INTERVAL).unwrap();
    let all: Vec<_> = (0..9000)
        .map(|_| pacing.pace("a", address("192.0.2.1"), 0).unwrap())
        .collect();
    assert_eq!(pacing.classes()[0].splices, 9000);
    // Splices without a bucket are counted: one pair each, in addition to the class's pair.
    let pairs = (BUCKETS / DIRECTIONS) as u64 - 1;
    assert_eq!(pacing.classes()[0].unbounded, 9000 - pairs);
    let error = add_class(&pacing).unwrap_err();
    assert!(error.to_string().contains("use all rates"), "{error}");
    drop(all);
    assert_eq!(pacing.classes()[0].unbounded, 9000 - pairs);
    let (one, other) = (
        pacing.pace("a", address("192.0.2.1"), 0).unwrap(),
        pacing.pace("a", address("192.0.2.1"), 0).unwrap(),
    );
    assert_ne!(one.both(), other.both());
    assert_eq!(pacing.classes()[0].unbounded, 9000 - pairs);
}

/// A class with this ceiling for each IPv4 address.
fn by_address(ceiling: u64) -> Pacing {
    let pacing = Pacing::new().unwrap();
    let settings = ClassSettings {
        network: Some(NetworkRate {
            ceiling,
            prefix_v4: 32,
            prefix_v6: 64,
        }),
        ..class("a")
    };
    pacing.configure(&[settings], INTERVAL).unwrap();
    pacing
}

#[test]
fn a_network_without_a_bucket_is_counted_with_each_of_its_splices() {
    let pacing = by_address(50_000);
    let of = |number: u32| pacing.pace("a", IpAddr::V4(number.into()), 0).unwrap();
    let pairs = (BUCKETS / DIRECTIONS) as u32 - 1;
    let all: Vec<_> = (0..pairs).map(of).collect();
    assert_eq!(pacing.classes()[0].unbounded, 0);
    let beyond = [of(pairs), of(pairs)];
    assert_eq!(pacing.classes()[0].unbounded, 2);
    // Another splice of a network with buckets needs no more.
    let joined = of(0);
    assert_eq!(joined.both(), all[0].both());
    assert_eq!(beyond[0].both(), beyond[1].both());
    assert_eq!(pacing.classes()[0].unbounded, 2);
}

#[test]
fn networks_of_clients_that_left_make_room_for_a_class() {
    let pacing = by_address(50_000);
    for number in 0..(BUCKETS / DIRECTIONS) as u32 - 1 {
        drop(pacing.pace("a", IpAddr::V4(number.into()), 0));
    }
    add_class(&pacing).unwrap();
}

#[test]
fn what_a_network_owes_outlives_its_splices() {
    let pacing = by_address(1000);
    let of = |number: u32| pacing.pace("a", IpAddr::V4(number.into()), 0).unwrap();
    let first = of(7);
    let bucket = first.to_client().bucket().unwrap();
    reserve(&pacing.0.block, bucket, 1_000_000, now_ns());
    drop(first);
    assert_eq!(pacing.classes()[0].networks, 0);
    let again = of(7);
    assert_eq!(again.to_client().bucket(), Some(bucket));
    assert!(owes(&pacing.0.block, bucket, now_ns()));
    drop(again);
    // Those that owe nothing make room for others.
    let pairs = (BUCKETS / DIRECTIONS) as u32;
    for number in 0..2 * pairs {
        drop(of(1000 + number));
    }
    assert_eq!(pacing.classes()[0].unbounded, 0);
    assert_eq!(of(7).to_client().bucket(), Some(bucket));
}
