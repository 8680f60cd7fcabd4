//! Rates: how much is taken over a time, and by which bucket, in virtual time.

use super::super::block::Block;
use super::super::bucket::{self, change_ceiling, lowest_rate, owes};
use super::super::skeleton::types::pace_bucket;
use crate::sys::clock::now_ns;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;

const SECOND: u64 = 1_000_000_000;
const BURST_NS: u64 = 20_000_000;
const MB: u64 = 1_000_000;

/// A bucket: its number, its own rate, its ceiling, its parent.
type Kind = (u32, u64, u64, Option<u32>);

fn block(kinds: &[Kind]) -> Block {
    let block = Block::new().unwrap();
    for &(number, rate, ceiling, parent) in kinds {
        let of = |field| block.bucket(number, field);
        of(offset_of!(pace_bucket, rate)).store(rate, Relaxed);
        of(offset_of!(pace_bucket, ceiling)).store(ceiling, Relaxed);
        of(offset_of!(pace_bucket, burst_ns)).store(BURST_NS, Relaxed);
        let parent = parent.map_or(0, |parent| u64::from(parent) + 1);
        of(offset_of!(pace_bucket, parent)).store(parent, Relaxed);
    }
    block
}

/// Sets a bucket's urgency within its parent.
fn make_urgent(block: &Block, bucket: u32, urgency: u64) {
    let of = block.bucket(bucket, offset_of!(pace_bucket, urgency));
    of.store(urgency, Relaxed);
}

/// When these bytes may go.
fn reserve(block: &Block, bucket: u32, bytes: u64, now: u64) -> u64 {
    bucket::reserve(block, bucket, bytes, now).go_at_ns
}

/// Gives back what was taken of buckets without rates of their own.
fn give_back(block: &Block, bucket: u32, bytes: u64) {
    bucket::give_back(block, bucket, bytes, 0);
}

/// Bytes that senders with unlimited data send within this many seconds: each has a bucket, a burst size, and a period.
fn run(block: &Block, seconds: u64, senders: &[(u32, u64, std::ops::Range<u64>)]) -> Vec<u64> {
    let mut sent = vec![0; senders.len()];
    let mut events: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (who, (_, _, when)) in senders.iter().enumerate() {
        events.push(Reverse((when.start * SECOND + SECOND, who)));
    }
    // The clock starts at one second, so that no time is before its start.
    while let Some(Reverse((now, who))) = events.pop() {
        let (bucket, bytes, when) = &senders[who];
        if now >= (when.end.min(seconds) + 1) * SECOND {
            continue;
        }
        let go_at = reserve(block, *bucket, *bytes, now).max(now);
        sent[who] += bytes;
        // A microsecond of work, so that an unbounded sender ends, too.
        events.push(Reverse((go_at + 1000 + bytes / 4, who)));
    }
    sent
}

/// Within this many percent.
fn is_near(bytes: u64, expected: u64, percent: u64) -> bool {
    bytes.abs_diff(expected) <= expected * percent / 100
}

#[test]
fn a_shared_ceiling_is_kept() {
    for senders in [1, 2, 7, 100] {
        let block = block(&[(3, 0, 10 * MB, None)]);
        let who: Vec<_> = (0..senders).map(|_| (3, 65_536, 0..10)).collect();
        let sent = run(&block, 10, &who);
        let total: u64 = sent.iter().sum();
        // Plus data reserved at the end and not yet sent, and the first burst.
        assert!(
            is_near(total, 100 * MB, 1 + 7 * senders / 100),
            "{senders}: {total}"
        );
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least <= 65_536, "{senders}: {least} to {most}");
    }
}

#[test]
fn what_one_class_leaves_others_take() {
    let kinds = [
        (0, 0, 10 * MB, None),
        (1, 6 * MB, 0, Some(0)),
        (2, 2 * MB, 0, Some(0)),
    ];
    // First both buckets are busy, then one.
    let sent = run(&block(&kinds), 10, &[(1, 16_384, 0..10), (2, 16_384, 0..5)]);
    let total: u64 = sent.iter().sum();
    assert!(is_near(total, 100 * MB, 3), "{sent:?}");
    // The second one had its own share for at least half of the time; the first one the rest.
    assert!(sent[1] >= 9 * MB, "{sent:?}");
    assert!(sent[0] >= 80 * MB - 20 * MB, "{sent:?}");
    let alone = run(&block(&kinds), 10, &[(2, 16_384, 0..10)]);
    assert!(is_near(alone[0], 100 * MB, 3), "{alone:?}");
}

#[test]
fn a_class_has_its_own_however_many_others_want() {
    let kinds = [
        (0, 0, 10 * MB, None),
        (1, 6 * MB, 0, Some(0)),
        (2, 0, 0, Some(0)),
    ];
    let mut senders = vec![(1, 16_384, 0..10)];
    senders.extend((0..50).map(|_| (2, 16_384, 0..10)));
    let sent = run(&block(&kinds), 10, &senders);
    assert!(sent[0] >= 55 * MB, "{}", sent[0]);
    assert!(sent[1..].iter().sum::<u64>() >= 30 * MB);
}

#[test]
fn a_class_with_a_rate_keeps_to_the_ceiling_above_it() {
    let kinds = [
        (0, 0, 2 * MB, None),
        (1, MB, 0, Some(0)),
        (2, 0, 0, Some(0)),
        // Another one below the first.
        (3, MB, 0, Some(1)),
    ];
    let many = |bucket| vec![(bucket, 40_000, 0..10); 64];
    for senders in [many(1), many(3), [many(1), many(3)].concat()] {
        let total: u64 = run(&block(&kinds), 10, &senders).iter().sum();
        // Plus what each has reserved at the end.
        assert!(total < 20 * MB + senders.len() as u64 * 40_000 + MB);
    }
    // Others get what its rate leaves.
    let sent = run(&block(&kinds), 10, &[many(1), many(2)].concat());
    assert!(sent[64..].iter().sum::<u64>() >= 9 * MB, "{sent:?}");
}

#[test]
fn what_a_rate_did_not_pay_it_does_not_get_back() {
    let block = block(&[(0, 0, 10 * MB, None), (1, MB, 0, Some(0))]);
    let due = block.bucket(1, offset_of!(pace_bucket, rate_due_ns));
    // It owes much already, and the class above lets it go sooner.
    for (owed, line_owes, is_paid) in [(5, 0, false), (5, 100 * MB, true), (0, 0, true)] {
        let owed = (1 + owed) * SECOND;
        due.store(owed, Relaxed);
        bucket::reserve(&block, 0, line_owes, SECOND);
        let taken = bucket::reserve(&block, 1, 40_000, SECOND);
        let paid = due.load(Relaxed) - owed;
        assert_eq!(paid, u64::from(is_paid) * 40_000_000, "{owed} {line_owes}");
        bucket::give_back(&block, 1, 40_000, taken.paid_rates);
        assert_eq!(due.load(Relaxed), owed);
        bucket::give_back(&block, 0, line_owes, 0);
    }
}

#[test]
fn the_urgent_go_first_and_leave_a_little() {
    let kinds = [
        (0, 0, 10 * MB, None),
        (1, 0, 0, Some(0)),
        (2, 0, 0, Some(0)),
        (3, 0, 0, Some(0)),
        // A splice of the first one, with its own bucket.
        (4, 0, 100 * MB, Some(1)),
    ];
    let block = block(&kinds);
    make_urgent(&block, 1, 2);
    make_urgent(&block, 2, 1);
    // Ten of the least urgent, all the time; the next ones for six seconds, the first for three.
    let mut senders = vec![(4, 16_384, 2..5), (2, 16_384, 2..8)];
    senders.extend((0..10).map(|_| (3, 16_384, 0..10)));
    let sent = run(&block, 10, &senders);
    let (first, second) = (sent[0], sent[1]);
    let last: u64 = sent[2..].iter().sum();
    // 63 of 64 parts of 30 MB.
    assert!(is_near(first, 29_500_000, 3), "{sent:?}");
    // Of 60 MB, what the first ones leave, plus a burst.
    assert!(is_near(second, 30 * MB, 6), "{sent:?}");
    // Four seconds alone; and a little while the others take everything.
    assert!(last > 36 * MB && last < 46 * MB, "{sent:?}");
    assert!(is_near(first + second + last, 100 * MB, 6), "{sent:?}");
}

#[test]
fn each_urgency_leaves_a_little_to_those_below() {
    let kinds = [
        (0, 0, 10 * MB, None),
        (1, 0, 0, Some(0)),
        (2, 0, 0, Some(0)),
        (3, 0, 0, Some(0)),
    ];
    let block = block(&kinds);
    make_urgent(&block, 1, 2);
    make_urgent(&block, 2, 1);
    let sent = run(
        &block,
        60,
        &[(1, 65_536, 0..60), (2, 4096, 0..60), (3, 4096, 0..60)],
    );
    // A 64th of 600 MB each.
    assert!(sent[1] > 7 * MB && sent[2] > 7 * MB, "{sent:?}");
    assert!(sent[0] > 570 * MB, "{sent:?}");
    assert!(sent.iter().sum::<u64>() < 612 * MB, "{sent:?}");
}

#[test]
fn what_is_owed_stays_the_same_in_bytes_when_a_ceiling_changes() {
    let block = block(&[(0, 0, MB, None)]);
    let now = now_ns();
    // As forty splices do that wait for a small rate.
    change_ceiling(&block, 0, Some(1000));
    for _ in 0..40 {
        reserve(&block, 0, 4096, now);
    }
    assert!(reserve(&block, 0, 1, now) > now + 163 * SECOND);
    change_ceiling(&block, 0, Some(2 * MB));
    // 160 KB; a second for the time that the test takes.
    let later = now_ns();
    assert!(reserve(&block, 0, 1, later) < later + SECOND);
    // And back, with what they give back at the new rate.
    change_ceiling(&block, 0, Some(1000));
    for _ in 0..40 {
        give_back(&block, 0, 4096);
    }
    let later = now_ns();
    assert!(reserve(&block, 0, 1, later) <= later);
    // Without a ceiling nothing is owed.
    reserve(&block, 0, MB, later);
    assert!(owes(&block, 0, now_ns()));
    change_ceiling(&block, 0, None);
    assert!(!owes(&block, 0, now_ns()));
}

#[test]
fn what_the_urgent_give_back_can_be_had_again() {
    let block = block(&[(0, 0, MB, None), (1, 0, 0, Some(0)), (2, 0, 0, Some(0))]);
    make_urgent(&block, 1, 3);
    let now = SECOND;
    reserve(&block, 1, 20_000, now);
    let before = (
        reserve(&block, 1, 50_000, now),
        reserve(&block, 2, 10_000, now),
    );
    give_back(&block, 2, 10_000);
    give_back(&block, 1, 50_000);
    let after = (
        reserve(&block, 1, 50_000, now),
        reserve(&block, 2, 10_000, now),
    );
    assert!(before.0.abs_diff(after.0) <= 10, "{before:?} {after:?}");
    assert!(before.1.abs_diff(after.1) <= 10, "{before:?} {after:?}");
}

#[test]
fn a_ceiling_of_its_own_holds_below_a_wider_one() {
    let kinds = [
        (0, 0, 100 * MB, None),
        (1, 0, 5 * MB, Some(0)),
        (2, 0, MB, Some(1)),
    ];
    let sent = run(&block(&kinds), 10, &[(2, 4096, 0..10), (1, 16_384, 0..10)]);
    assert!(is_near(sent[0], 10 * MB, 4), "{sent:?}");
    assert!(is_near(sent[0] + sent[1], 50 * MB, 4), "{sent:?}");
    assert_eq!(lowest_rate(&block(&kinds), 2), Some(MB));
    assert_eq!(lowest_rate(&block(&[(5, 0, 0, None)]), 5), None);
}

#[test]
fn a_time_of_rest_is_worth_one_burst() {
    let block = block(&[(0, 0, 10 * MB, None)]);
    let now = 5 * SECOND;
    let mut at_once = 0;
    while reserve(&block, 0, 1000, now) <= now {
        at_once += 1000;
    }
    // 20 ms of 10 MB/s, and the last one.
    assert!(is_near(at_once, 200_000, 2), "{at_once}");
    let later = now + 3600 * SECOND;
    assert!(reserve(&block, 0, 1000, later) <= later);
}

#[test]
fn what_is_given_back_can_be_had_again() {
    let block = block(&[(0, 0, MB, None), (1, 0, MB, Some(0))]);
    let now = SECOND;
    reserve(&block, 1, 20_000, now);
    let before = reserve(&block, 1, 50_000, now);
    give_back(&block, 1, 50_000);
    assert_eq!(reserve(&block, 1, 50_000, now), before);
}

#[test]
fn the_highest_rates_do_not_overflow() {
    let block = block(&[(0, super::super::RATE_MAX, super::super::RATE_MAX, None)]);
    let mut now = SECOND;
    for _ in 0..1000 {
        now = reserve(&block, 0, u64::from(u32::MAX), now).max(now);
    }
    // 4 TB at 100 GB/s.
    assert!((40..=45).contains(&(now / SECOND)), "{now}");
}
