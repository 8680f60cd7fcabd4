//! Open loop: requests are due at a fixed rate. What is due while all slots are busy waits, and its waiting is part of its
//! latency: a server that stalls cannot keep the load from noticing ("coordinated omission", Tene 2013).

use crate::load::tally::{Ending, Tally};
use crate::load::work::{Request, Work};

use super::{CONNECT_PAUSE_NS, Driver, Order, Orders, is_unreachable};

/// The token for the next due request; others give a slot back.
const NEXT_IS_DUE: u64 = u64::MAX;

pub(super) struct Open {
    work: Work,
    slots: usize,
    /// The one given back last is used first: its connection is the likeliest to be open still.
    free: Vec<usize>,
    period_ns: f64,
    /// Of a period, by which this thread's requests come later than those of the first.
    phase: f64,
    started_ns: u64,
    begun: u64,
    is_armed: bool,
}

impl Open {
    pub(super) fn new(work: Work, period_ns: f64, phase: f64, slots: usize) -> Self {
        Self {
            work,
            slots,
            free: (0..slots).rev().collect(),
            period_ns,
            phase,
            started_ns: 0,
            begun: 0,
            is_armed: false,
        }
    }

    /// When a request should be made, counted from 0. From its number, so that no error adds up.
    fn due_ns(&self, number: u64) -> u64 {
        self.started_ns + ((number as f64 + self.phase) * self.period_ns) as u64
    }

    /// How many are due before `time_ns`.
    fn due_before(&self, time_ns: u64) -> u64 {
        let periods = time_ns.saturating_sub(self.started_ns) as f64 / self.period_ns - self.phase;
        periods.ceil() as u64
    }

    /// Begins all that is due and for which there is a slot.
    fn go_on(&mut self, now_ns: u64, orders: &mut Orders) {
        loop {
            let due_ns = self.due_ns(self.begun);
            if due_ns > now_ns {
                if !self.is_armed {
                    self.is_armed = true;
                    orders.push_back(Order::Wake(due_ns, NEXT_IS_DUE));
                }
                return;
            }
            let Some(slot) = self.free.pop() else {
                return;
            };
            self.begun += 1;
            let mut request = self.work.draw();
            request.begun_ns = due_ns;
            orders.push_back(Order::Begin(slot, request));
        }
    }
}

impl Driver for Open {
    fn slots(&self) -> usize {
        self.slots
    }

    fn start(&mut self, now_ns: u64, orders: &mut Orders) {
        self.started_ns = now_ns;
        self.go_on(now_ns, orders);
    }

    fn ended(
        &mut self,
        slot: usize,
        request: &Request,
        ending: Ending,
        tally: &mut Tally,
        orders: &mut Orders,
    ) {
        tally.ended(request, &ending);
        if is_unreachable(&ending.result) {
            orders.push_back(Order::Wake(ending.ended_ns + CONNECT_PAUSE_NS, slot as u64));
        } else {
            self.free.push(slot);
            self.go_on(ending.ended_ns, orders);
        }
    }

    fn woken(&mut self, token: u64, now_ns: u64, orders: &mut Orders) {
        if token == NEXT_IS_DUE {
            self.is_armed = false;
        } else if let Ok(slot) = usize::try_from(token) {
            self.free.push(slot);
        }
        self.go_on(now_ns, orders);
    }

    fn late(&self, from_ns: u64, to_ns: u64) -> u64 {
        let from = self.due_before(from_ns).max(self.begun);
        self.due_before(to_ns).saturating_sub(from)
    }
}
