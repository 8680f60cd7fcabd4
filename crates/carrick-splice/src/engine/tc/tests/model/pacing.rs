//! Paced splices: the control block as workers would maintain it, in virtual time.

use super::endpoint::{MILLISECOND, SECOND};
use super::programs::Programs;
use super::random::Random;
use crate::engine::tc::skeleton::types::{
    pace_block, pace_bucket, pace_class, pace_credit, pace_worker,
};
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::SeqCst;

/// As in `granting.rs`.
pub const TICK: u64 = 2 * MILLISECOND;

/// Longer than any worker lives.
const FOR_EVER: u64 = 1 << 62;

/// As in `table.rs`.
const BURST_NS: u64 = 20_000_000;

/// `enum pace_yield`.
const IMMEDIATE: u64 = 0;
const CONSERVATIVE: u64 = 1;
const CREDIT: u64 = 2;

/// The rate of each way, what the worker does, and when the process dies.
pub struct Pace {
    random: Random,
    rates: [u64; 2],
    condition: u64,
    hold_max_ns: u64,
    pub dies_at: u64,
    /// From then on, nothing changes.
    calm_at: u64,
    is_runnable: bool,
}

impl Pace {
    pub fn new(seed: u64) -> Pace {
        let mut random = Random::new(seed ^ 0x9ACE);
        let rates = [0, 1].map(|_| 50_000 + random.magnitude(5_000_000));
        let condition = random.one_of(&[IMMEDIATE, CONSERVATIVE, CREDIT]);
        Pace {
            rates,
            condition,
            hold_max_ns: random.below(100) * 1_000_000,
            dies_at: if random.happens(200) {
                random.below(5 * SECOND)
            } else {
                u64::MAX
            },
            calm_at: random.below(20 * SECOND),
            is_runnable: false,
            random,
        }
    }

    /// One rate in both directions, and an idle worker.
    pub fn steady(rate: u64, hold_max_ns: u64) -> Pace {
        Pace {
            rates: [rate; 2],
            condition: IMMEDIATE,
            hold_max_ns,
            dies_at: u64::MAX,
            calm_at: 0,
            is_runnable: false,
            random: Random::new(0),
        }
    }

    /// Writes the initial state. Returns the handle of each way.
    pub fn begin(&self, programs: &Programs) -> [u64; 2] {
        let word = |at: usize| programs.pace.word(at);
        let class = offset_of!(pace_block, classes);
        let credit = offset_of!(pace_block, credits);
        let worker = offset_of!(pace_block, workers);
        word(worker + offset_of!(pace_worker, beat_ns)).store(FOR_EVER, SeqCst);
        word(worker + offset_of!(pace_worker, runnable_since_ns)).store(0, SeqCst);
        word(class + offset_of!(pace_class, condition)).store(self.condition, SeqCst);
        word(class + offset_of!(pace_class, hold_max_ns)).store(self.hold_max_ns, SeqCst);
        for field in [
            offset_of!(pace_credit, given),
            offset_of!(pace_credit, taken),
        ] {
            word(credit + field).store(0, SeqCst);
        }
        for (number, rate) in self.rates.into_iter().enumerate() {
            let bucket = offset_of!(pace_block, buckets) + number * size_of::<pace_bucket>();
            for (field, value) in [
                (offset_of!(pace_bucket, rate), 0),
                (offset_of!(pace_bucket, ceiling), rate),
                (offset_of!(pace_bucket, burst_ns), BURST_NS),
                (offset_of!(pace_bucket, ceiling_due_ns), 0),
                (offset_of!(pace_bucket, parent), 0),
            ] {
                word(bucket + field).store(value, SeqCst);
            }
        }
        [1, 2].map(|bucket| bucket << 32 | 1 << 8)
    }

    /// The next event: the worker becomes busy or idle; a rate changes; the process dies. Returns when to call again.
    pub fn change(&mut self, now: u64, programs: &Programs) -> Option<u64> {
        let word = |at: usize| programs.pace.word(at);
        let worker = offset_of!(pace_block, workers);
        if now >= self.dies_at {
            word(worker + offset_of!(pace_worker, beat_ns)).store(now * 1000, SeqCst);
            return None;
        }
        self.is_runnable = !self.is_runnable && now < self.calm_at;
        let since = u64::from(self.is_runnable) * (now * 1000).max(1);
        word(worker + offset_of!(pace_worker, runnable_since_ns)).store(since, SeqCst);
        let credit = offset_of!(pace_block, credits) + offset_of!(pace_credit, given);
        word(credit).fetch_add(self.random.magnitude(100_000), SeqCst);
        if self.random.happens(100) {
            let number = self.random.below(2) as usize;
            let bucket = offset_of!(pace_block, buckets) + number * size_of::<pace_bucket>();
            let rate = 50_000 + self.random.magnitude(5_000_000);
            word(bucket + offset_of!(pace_bucket, ceiling)).store(rate, SeqCst);
        }
        let is_over = now >= self.calm_at && self.dies_at == u64::MAX;
        let next = now + 1 + self.random.magnitude(300 * MILLISECOND);
        (!is_over).then_some(next.min(self.dies_at.max(now + 1)))
    }
}
