//! The controllers of the policies, with a simulated worker.

use super::super::policy::{
    BURSTS_MAX, DeadlineControl, Interval, Latencies, Patience, Proportion,
};
use super::super::queue::{Queue, VirtualTime};
use std::time::Duration;

/// A worker whose rounds take longer the more they forward: a hit waits for that of its round, and for its own work.
struct Worker {
    ns_per_byte: f64,
    hit: Duration,
    /// Bytes offered for forwarding in a round.
    offered: u64,
}

impl Worker {
    fn p99(&self, budget: u64) -> Duration {
        let bytes = budget.min(self.offered) as f64;
        self.hit + Duration::from_nanos((bytes * self.ns_per_byte) as u64)
    }
}

#[test]
fn a_deadline_is_held_and_the_rest_is_given_away() {
    // From a fast worker to a slow one; from a microsecond of work to a millisecond.
    for ns_per_byte in [0.1, 0.5, 4.0] {
        for hit_us in [10, 100, 1000] {
            let target = Duration::from_millis(2);
            let worker = Worker {
                ns_per_byte,
                hit: Duration::from_micros(hit_us),
                offered: u64::MAX,
            };
            let mut control = DeadlineControl::new(target);
            let (mut worst, mut best, mut sum) = (Duration::ZERO, u64::MAX, 0);
            for step in 0..3000 {
                let p99 = worker.p99(control.budget());
                control.step(Some(p99));
                if step >= 2000 {
                    worst = worst.max(p99);
                    best = best.min(control.budget());
                    sum += control.budget();
                }
            }
            assert!(worst <= target, "{ns_per_byte} {hit_us}: {worst:?}");
            // The optimum: the budget with which 99 of 100 just meet the target, if it can be met at all.
            let room = (target - worker.hit).as_nanos() as f64 / ns_per_byte;
            let possible = room.min(16_777_216.0);
            let mean = sum as f64 / 1000.0;
            let share = if hit_us == 1000 { 0.4 } else { 0.6 };
            assert!(
                mean >= share * possible,
                "{ns_per_byte} {hit_us}: {mean} of {possible}"
            );
            assert!(
                best as f64 >= 0.3 * possible,
                "it oscillates: {best} of {possible}"
            );
        }
    }
}

#[test]
fn a_deadline_follows_a_load_that_changes() {
    let target = Duration::from_millis(2);
    let mut control = DeadlineControl::new(target);
    let mut worker = Worker {
        ns_per_byte: 0.5,
        hit: Duration::from_micros(50),
        offered: u64::MAX,
    };
    for _ in 0..1000 {
        control.step(Some(worker.p99(control.budget())));
    }
    // Four times as slow, all at once: within a second (ten steps) it holds again.
    worker.ns_per_byte = 2.0;
    let late = (0..10).filter(|_| {
        let p99 = worker.p99(control.budget());
        control.step(Some(p99));
        p99 > target
    });
    assert!(late.count() <= 3);
    assert!(worker.p99(control.budget()) <= target);
}

#[test]
fn nothing_is_held_back_for_hits_that_do_not_come() {
    let mut control = DeadlineControl::new(Duration::from_millis(2));
    for _ in 0..2000 {
        control.step(None);
    }
    assert_eq!(control.budget(), 16 << 20);
}

#[test]
fn what_cannot_be_held_leaves_the_least_to_splices() {
    let mut control = DeadlineControl::new(Duration::from_millis(1));
    for _ in 0..100 {
        control.step(Some(Duration::from_millis(50)));
    }
    assert_eq!(control.budget(), 16 << 10);
}

#[test]
fn bytes_are_in_proportion_to_requests() {
    let mut proportion = Proportion::new();
    assert_eq!(proportion.credit(1000), 1000);
    for (local, spliced, credit) in [(100, 100, 1000), (300, 100, 333), (50, 200, 4000)] {
        proportion.end_interval(&Interval {
            local_requests: local,
            local_bytes: 12_345,
            spliced_requests: spliced,
        });
        assert_eq!(proportion.credit(1000), credit);
    }
    // A handful of requests is not enough.
    proportion.end_interval(&Interval {
        local_requests: 1,
        ..Interval::default()
    });
    assert_eq!(proportion.credit(1000), 4000);
    // However rare one kind is, it is not blocked.
    proportion.end_interval(&Interval {
        local_requests: 1_000_000,
        ..Interval::default()
    });
    assert_eq!(proportion.credit(64_000), 1000);
    proportion.end_interval(&Interval {
        spliced_requests: 1_000_000,
        ..Interval::default()
    });
    assert_eq!(proportion.credit(1000), 64_000);
}

#[test]
fn one_in_a_hundred_is_found() {
    let mut latencies = Latencies::new();
    assert_eq!(latencies.take_p99(), None);
    for micros in 1..=1000 {
        latencies.add(Duration::from_micros(micros));
    }
    let p99 = latencies.take_p99().unwrap();
    assert!((990..=1250).contains(&p99.as_micros()), "{p99:?}");
    assert_eq!(latencies.take_p99(), None);
    for _ in 0..198 {
        latencies.add(Duration::from_micros(100));
    }
    latencies.add(Duration::from_secs(1000));
    latencies.add(Duration::from_secs(1000));
    assert!(latencies.take_p99().unwrap() < Duration::from_micros(130));
}

#[test]
fn a_worker_that_never_blocks_lets_some_bursts_go_and_its_own_requests_wait_for_no_more() {
    // An overloaded slow worker: 300 splices wait at any time, and between two requests of its own it checks whether it
    // is late. Times in microseconds.
    const AFTER: Duration = Duration::from_millis(20);
    const HIT: u64 = 400;
    const BURST: u64 = 400;
    let mut queue = Queue::default();
    for splice in 0..300 {
        queue.push(0, VirtualTime::default(), splice);
    }
    let mut patience = Patience::default();
    let (mut now_us, mut hits, mut longest_wait_us) = (0, 0, 0);
    let mut turns = [0; 300];
    patience.begin(0);
    while now_us < 10_000_000 {
        hits += 1;
        now_us += HIT;
        if patience.lasts(now_us * 1000) <= AFTER {
            continue;
        }
        let before = now_us;
        for _ in 0..BURSTS_MAX {
            let splice: usize = queue.pop_oldest(u64::MAX).unwrap();
            turns[splice] += 1;
            now_us += BURST;
            queue.push(0, VirtualTime::default(), splice);
        }
        patience.begin(now_us * 1000);
        longest_wait_us = longest_wait_us.max(now_us - before);
    }
    assert_eq!(longest_wait_us, BURSTS_MAX as u64 * BURST);
    // Three quarters of the time are its own, and every waiter is served.
    assert!(hits * HIT > 7_500_000, "{hits}");
    let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
    assert!(*least >= 15 && most - least <= 1, "{least} {most}");
}
