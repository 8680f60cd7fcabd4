//! Token buckets: when bytes may go so that all users of a rate together keep to it.
//!
//! A rate is one number, the time until which everything taken is paid for (a virtual schedule, as in ATM's
//! GCRA): so it needs no timer to fill it, and its users need no lock. BPF programs do the same (`pace_take`
//! of bpf/pacing/pacing.h).

use super::block::Block;
use super::skeleton::types::pace_bucket;
use crate::sys::clock::now_ns;
use std::mem::offset_of;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A bucket and those above it: as in bpf/pacing/pacing.h (`PACE_LEVELS`).
const LEVELS: usize = 6;

/// Degrees of urgency above the least, and what each leaves of a ceiling to those below it: as in bpf/pacing/pacing.h.
pub(super) const URGENCIES: usize = 3;
const LEAVE_ONE_IN: u64 = 64;

const SECOND_NS: u128 = 1_000_000_000;

/// How long bytes take at a rate, in ns.
fn cost_ns(bytes: u64, rate: u64) -> u64 {
    let cost = u128::from(bytes) * SECOND_NS / u128::from(rate.max(1));
    u64::try_from(cost).unwrap_or(u64::MAX / 4)
}

/// Bytes that are taken.
pub(super) struct Reservation {
    /// When they may go, on the clock of the caller's `now_ns`.
    pub(super) go_at_ns: u64,
    /// The levels whose own rates they are charged to: a bit each, the bucket's is the lowest.
    pub(super) paid_rates: u8,
}

/// Takes `bytes` from a bucket and all above it, now or in advance. Bytes taken in advance go in order, the more
/// urgent before all others.
pub(super) fn reserve(block: &Block, bucket: u32, bytes: u64, now_ns: u64) -> Reservation {
    let (mut go_at_ns, mut paid_rates) = (0, 0);
    // From the top: a class's own rate does not wait for those above.
    for (level, bucket, urgency) in way_up(block, bucket).into_iter().rev().flatten() {
        let of = |field| block.bucket(bucket, field);
        let burst_ns = of(offset_of!(pace_bucket, burst_ns)).load(Relaxed);
        let rate = of(offset_of!(pace_bucket, rate)).load(Relaxed);
        if rate > 0 {
            let due = of(offset_of!(pace_bucket, rate_due_ns));
            let own = due.load(Acquire).max(now_ns);
            let own_go_at_ns = own.saturating_sub(burst_ns);
            // Borrowing is not paid back forever; but what goes before those above let it is not borrowed.
            if own_go_at_ns < go_at_ns || own <= now_ns + 2 * burst_ns {
                pay(due, cost_ns(bytes, rate), now_ns);
                paid_rates |= level;
            }
            go_at_ns = go_at_ns.min(own_go_at_ns);
        }
        let ceiling = of(offset_of!(pace_bucket, ceiling)).load(Relaxed);
        if ceiling > 0 {
            let due = of(offset_of!(pace_bucket, ceiling_due_ns));
            let mut before = pay(due, cost_ns(bytes, ceiling), now_ns);
            // Urgent bytes wait only for bytes at least as urgent.
            for (due, rate) in urgent_dues(block, bucket, urgency, ceiling) {
                before = pay(due, cost_ns(bytes, rate), now_ns);
            }
            go_at_ns = go_at_ns.max(before.saturating_sub(burst_ns));
        }
        of(offset_of!(pace_bucket, taken)).fetch_add(bytes, Relaxed);
    }
    Reservation {
        go_at_ns,
        paid_rates,
    }
}

/// Gives back what was reserved and not used.
pub(super) fn give_back(block: &Block, bucket: u32, bytes: u64, paid_rates: u8) {
    for (level, bucket, urgency) in way_up(block, bucket).into_iter().flatten() {
        let of = |field| block.bucket(bucket, field);
        let give_back = |due: &AtomicU64, rate| {
            if rate > 0 {
                let cost = cost_ns(bytes, rate);
                // Cannot fail: the value only ever shrinks here.
                let _ = due.fetch_update(AcqRel, Acquire, |due| Some(due.saturating_sub(cost)));
            }
        };
        if paid_rates & level != 0 {
            let rate = of(offset_of!(pace_bucket, rate)).load(Relaxed);
            give_back(of(offset_of!(pace_bucket, rate_due_ns)), rate);
        }
        let ceiling = of(offset_of!(pace_bucket, ceiling)).load(Relaxed);
        give_back(of(offset_of!(pace_bucket, ceiling_due_ns)), ceiling);
        for (due, rate) in urgent_dues(block, bucket, urgency, ceiling) {
            give_back(due, rate);
        }
        of(offset_of!(pace_bucket, taken)).fetch_sub(bytes, Relaxed);
    }
}

/// When the debts at each urgency that these bytes count for are paid off, and the part of the ceiling that is open to them; the last
/// is their own.
fn urgent_dues(
    block: &Block,
    bucket: u32,
    urgency: usize,
    ceiling: u64,
) -> impl Iterator<Item = (&AtomicU64, u64)> {
    let first = offset_of!(pace_bucket, urgent_due_ns);
    (0..urgency.min(URGENCIES)).map(move |below| {
        let due = block.bucket(bucket, first + below * size_of::<u64>());
        (due, ceiling - ceiling / LEAVE_ONE_IN * (below as u64 + 1))
    })
}

/// Replaces a bucket's ceiling, in bytes per second.
pub(super) fn change_ceiling(block: &Block, bucket: u32, ceiling: Option<u64>) {
    let at = block.bucket(bucket, offset_of!(pace_bucket, ceiling));
    let (new, now) = (ceiling.unwrap_or(0), now_ns());
    let old = at.swap(new, AcqRel);
    rescale(
        block.bucket(bucket, offset_of!(pace_bucket, ceiling_due_ns)),
        [old, new],
        now,
    );
    for (due, _) in urgent_dues(block, bucket, URGENCIES, 0) {
        rescale(due, [old, new], now);
    }
}

/// Replaces a bucket's own rate, in bytes per second.
pub(super) fn change_rate(block: &Block, bucket: u32, rate: Option<u64>) {
    let at = block.bucket(bucket, offset_of!(pace_bucket, rate));
    let new = rate.unwrap_or(0);
    let due = block.bucket(bucket, offset_of!(pace_bucket, rate_due_ns));
    rescale(due, [at.swap(new, AcqRel), new], now_ns());
}

/// What is owed stays the same in bytes when the rate changes, so that what is given back later is as much as was taken.
fn rescale(due: &AtomicU64, [old, new]: [u64; 2], now_ns: u64) {
    if old == new {
        return;
    }
    // Fails if nothing is owed.
    let _ = due.fetch_update(AcqRel, Acquire, |due| {
        let owed_ns = u128::from(due.checked_sub(now_ns)?) * u128::from(old);
        let owed_ns = owed_ns.checked_div(u128::from(new)).unwrap_or(0);
        Some(now_ns + u64::try_from(owed_ns).unwrap_or(u64::MAX).min(u64::MAX / 4))
    });
}

/// Whether something is owed at its ceiling.
pub(super) fn owes(block: &Block, bucket: u32, now_ns: u64) -> bool {
    let due = block.bucket(bucket, offset_of!(pace_bucket, ceiling_due_ns));
    due.load(Acquire) > now_ns
}

/// A bucket and those above it, each with its level's bit and the urgency of the bytes that reach it.
fn way_up(block: &Block, bucket: u32) -> [Option<(u8, u32, usize)>; LEVELS] {
    let mut levels = [None; LEVELS];
    let mut at = Some((1, bucket, 0));
    for place in &mut levels {
        *place = at;
        at = at.and_then(|(level, bucket, _)| {
            let urgency = block.bucket(bucket, offset_of!(pace_bucket, urgency));
            let urgency = usize::try_from(urgency.load(Relaxed)).unwrap_or(0);
            Some((level << 1, parent(block, bucket)?, urgency))
        });
    }
    levels
}

/// The lowest rate that applies to a bucket, in bytes per second; `None` if there is none.
pub(super) fn lowest_rate(block: &Block, bucket: u32) -> Option<u64> {
    let mut lowest = None;
    let mut at = Some(bucket);
    for _ in 0..LEVELS {
        let Some(bucket) = at else { break };
        let ceiling = block
            .bucket(bucket, offset_of!(pace_bucket, ceiling))
            .load(Relaxed);
        if ceiling > 0 {
            lowest = Some(lowest.map_or(ceiling, |lowest: u64| lowest.min(ceiling)));
        }
        at = parent(block, bucket);
    }
    lowest
}

fn parent(block: &Block, bucket: u32) -> Option<u32> {
    let parent = block.bucket(bucket, offset_of!(pace_bucket, parent));
    u32::try_from(parent.load(Relaxed)).ok()?.checked_sub(1)
}

/// Adds to a debt; returns when it was due before, at least now.
fn pay(due: &AtomicU64, cost_ns: u64, now_ns: u64) -> u64 {
    due.fetch_max(now_ns, AcqRel);
    due.fetch_add(cost_ns, AcqRel).max(now_ns)
}
