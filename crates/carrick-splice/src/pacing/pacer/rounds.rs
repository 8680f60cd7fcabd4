//! The rounds of a worker that does not block: when it polled for events, which tokio reports only of an idle
//! one, and which splices go at the end of a round.

use super::{Control, Inner, Pacer, Slot};
use crate::pacing::block::CLASSES;
use crate::pacing::policy::BURSTS_MAX;
use crate::pacing::skeleton::types::{pace_credit, pace_worker, pace_yield};
use crate::sys::clock::now_ns;
use std::mem::offset_of;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A hit that has waited for longer may have come in a round that was not noted.
const LATE_NS: u64 = 250_000;

/// A worker that did less than this of its own in a round is about to block, and lets splices go then.
const OWN_WORK_NS: u64 = 10_000;

/// What a splice is expected to move with one leave, and what a request to be relayed is as much work as.
const BURST_BYTES: u64 = 64 << 10;

impl Pacer {
    /// Ends the rounds of a busy worker while splices wait for credit, or hits have a deadline. Never ends.
    ///
    /// A yielding task is woken by the next poll for events, behind everything woken before. So at its turn
    /// everything that was ready at that poll has had its own, hits included: what goes now delays only
    /// what has arrived since.
    pub(super) async fn run_rounds(&self) {
        let inner = &*self.0;
        loop {
            inner.rounds_matter.notified().await;
            inner.runs_rounds.set(true);
            loop {
                let now = now_ns();
                let round_ns = now.saturating_sub(inner.looked_ns.get());
                let own_ns = round_ns.saturating_sub(inner.forwarded_in_round_ns());
                // It would not block as long as this runs.
                if own_ns < OWN_WORK_NS {
                    break;
                }
                inner.note_round(now);
                if !inner.grant_credited() && !inner.has_deadline.get() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            inner.runs_rounds.set(false);
        }
    }
}

impl Inner {
    /// Has a worker that may not block end its rounds.
    pub(super) fn rounds_matter(&self) {
        if self.is_controlled.get() && !self.runs_rounds.get() {
            self.rounds_matter.notify_one();
        }
    }

    /// A hit has waited for so long since the round that was noted last.
    pub(super) fn hit_after(&self, delay_ns: u64) {
        if delay_ns > LATE_NS {
            self.rounds_matter();
        }
    }

    /// Begins a round of a worker that has not blocked.
    fn note_round(&self, now: u64) {
        self.beat(now);
        // What is read in this round arrived in the one before, at the earliest.
        self.round_ns.set(self.looked_ns.replace(now));
        self.begin_round();
    }

    /// Begins a round: the budget that deadlines leave to splices. The rest of the last one is not kept, but
    /// what was taken beyond it is paid back.
    pub(super) fn begin_round(&self) {
        if !self.is_controlled.get() {
            return;
        }
        self.forwarded_before_ns.set(self.forwarded_ns());
        for (class, control) in (0..).zip(self.controls.borrow().iter()) {
            if let Control::Deadline(deadline) = control {
                let credit = |field| self.pacing.0.block.credit(self.worker, class, field);
                let taken = credit(offset_of!(pace_credit, taken)).load(Acquire);
                let given = credit(offset_of!(pace_credit, given));
                let next = given.load(Relaxed).min(taken) + deadline.budget();
                given.store(next, Release);
            }
        }
    }

    fn forwarded_ns(&self) -> u64 {
        self.word(offset_of!(pace_worker, forwarding_ns))
            .load(Relaxed)
    }

    /// How long it has forwarded since it last polled for events.
    fn forwarded_in_round_ns(&self) -> u64 {
        self.forwarded_ns()
            .wrapping_sub(self.forwarded_before_ns.get())
    }

    /// Lets splices go for whose classes there is credit, in their order; whether there was one.
    fn grant_credited(&self) -> bool {
        let by_credit = u64::from(pace_yield::PACE_CREDIT.0);
        let mut planned_bytes = [0; CLASSES];
        let mut count = 0;
        while count < BURSTS_MAX {
            let fits = |slot: &Rc<Slot>| {
                let planned_bytes = planned_bytes[usize::from(slot.class) % CLASSES];
                self.condition(slot.class) == by_credit && self.credit(slot.class) > planned_bytes
            };
            let first = self.queue.borrow_mut().pop_first(fits);
            let Some(slot) = first else { break };
            planned_bytes[usize::from(slot.class) % CLASSES] += BURST_BYTES;
            slot.is_charged.set(true);
            slot.grant();
            count += 1;
        }
        if count > 0 {
            self.begin_patience(now_ns());
        }
        count > 0
    }
}
