//! Closed loop: each client makes its next request when the last one is answered, after a pause.

use crate::load::tally::{Ending, Tally};
use crate::load::work::{Request, Work};

use super::{CONNECT_PAUSE_NS, Driver, Order, Orders, is_unreachable};

pub(super) struct Closed {
    work: Work,
    clients: usize,
    think_ns: u64,
}

impl Closed {
    pub(super) fn new(work: Work, clients: usize, think_ns: u64) -> Self {
        Self {
            work,
            clients,
            think_ns,
        }
    }

    fn begin(&mut self, slot: usize, now_ns: u64, orders: &mut Orders) {
        let mut request = self.work.draw();
        request.begun_ns = now_ns;
        orders.push_back(Order::Begin(slot, request));
    }
}

impl Driver for Closed {
    fn slots(&self) -> usize {
        self.clients
    }

    fn start(&mut self, now_ns: u64, orders: &mut Orders) {
        for slot in 0..self.clients {
            self.begin(slot, now_ns, orders);
        }
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
        let pause_ns = if is_unreachable(&ending.result) {
            self.think_ns.max(CONNECT_PAUSE_NS)
        } else {
            self.think_ns
        };
        if pause_ns == 0 {
            self.begin(slot, ending.ended_ns, orders);
        } else {
            orders.push_back(Order::Wake(ending.ended_ns + pause_ns, slot as u64));
        }
    }

    fn woken(&mut self, token: u64, now_ns: u64, orders: &mut Orders) {
        if let Ok(slot) = usize::try_from(token) {
            self.begin(slot, now_ns, orders);
        }
    }
}
