//! The rounds of a worker that does not block: when it polled for events, which tokio reports only of an idle
//! one.

use super::{Control, Inner, Pacer};
use crate::sys::clock::now_ns;
use std::mem::offset_of;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::pacing::skeleton::types::pace_credit;

/// Shorter rounds are not recorded: each record costs a poll for events.
pub(super) const LONG_ROUND_NS: u64 = 250_000;

impl Pacer {
    /// Records the rounds of a busy worker, once a hit was late. Never ends.
    ///
    /// A yielding task is woken by the next poll for events, behind everything woken before. So between one
    /// turn and the next but one, everything that was ready at the first has had a turn.
    pub(super) async fn note_rounds(&self) {
        let inner = &*self.0;
        loop {
            inner.late.notified().await;
            inner.notes_rounds.set(true);
            loop {
                let begun_ns = now_ns();
                tokio::task::yield_now().await;
                let now = now_ns();
                // It would not block as long as this runs.
                if now.saturating_sub(begun_ns) < LONG_ROUND_NS {
                    break;
                }
                inner.note_round(now);
            }
            inner.notes_rounds.set(false);
        }
    }
}

impl Inner {
    /// A hit that waited for so long may have come in a later round than the one that was noted last.
    pub(super) fn hit_after(&self, delay_ns: u64) {
        if delay_ns > LONG_ROUND_NS && !self.notes_rounds.get() {
            self.late.notify_one();
        }
    }

    /// Begins a round of a worker that has not blocked.
    fn note_round(&self, now: u64) {
        self.beat(now);
        // What is read in this round arrived in the one before, at the earliest.
        self.round_ns.set(self.looked_ns.replace(now));
        self.give_for_round();
    }

    /// The budget that deadlines leave to splices per round. The rest of the last one is not kept.
    pub(super) fn give_for_round(&self) {
        if !self.is_controlled.get() {
            return;
        }
        for (class, control) in (0..).zip(self.controls.borrow().iter()) {
            if let Control::Deadline(deadline) = control {
                let credit = |field| self.pacing.0.block.credit(self.worker, class, field);
                let taken = credit(offset_of!(pace_credit, taken)).load(Acquire);
                credit(offset_of!(pace_credit, given)).store(taken + deadline.budget(), Release);
            }
        }
    }
}
