//! Asks for a list of objects once, before the load: so that a cache has them.

use std::collections::VecDeque;

use crate::load::fault::Fault;
use crate::load::tally::{Ending, Tally};
use crate::load::work::Request;

use super::{CONNECT_PAUSE_NS, Driver, Order, Orders};

/// Objects asked for at a time.
const SLOTS_MAX: usize = 16;
/// Times that an object is asked for until it is given up: networks of experiments lose packets.
const TRIES: u32 = 3;

/// A list that is worked off.
pub struct Prime {
    waiting: VecDeque<(Request, u32)>,
    tries: Vec<u32>,
    slots: usize,
    left: usize,
    failure: Option<(Request, Fault)>,
}

impl Prime {
    /// For these objects.
    #[must_use]
    pub fn new(requests: Vec<Request>) -> Self {
        let slots = requests.len().min(SLOTS_MAX);
        Self {
            left: requests.len(),
            waiting: requests.into_iter().map(|request| (request, 1)).collect(),
            tries: vec![0; slots],
            slots,
            failure: None,
        }
    }

    /// The object that could not be had, and why.
    #[must_use]
    pub fn failure(&self) -> Option<&(Request, Fault)> {
        self.failure.as_ref()
    }

    fn begin(&mut self, slot: usize, now_ns: u64, orders: &mut Orders) {
        if let Some((mut request, tries)) = self.waiting.pop_front() {
            request.begun_ns = now_ns;
            self.tries[slot] = tries;
            orders.push_back(Order::Begin(slot, request));
        }
    }
}

impl Driver for Prime {
    fn slots(&self) -> usize {
        self.slots
    }

    fn start(&mut self, now_ns: u64, orders: &mut Orders) {
        for slot in 0..self.slots {
            self.begin(slot, now_ns, orders);
        }
    }

    fn ended(
        &mut self,
        slot: usize,
        request: &Request,
        ending: Ending,
        _tally: &mut Tally,
        orders: &mut Orders,
    ) {
        match ending.result {
            Ok(_) => {
                self.left -= 1;
                self.begin(slot, ending.ended_ns, orders);
            }
            Err(fault) if self.tries[slot] >= TRIES => self.failure = Some((*request, fault)),
            Err(_) => {
                self.waiting.push_back((*request, self.tries[slot] + 1));
                let at_ns = ending.ended_ns + CONNECT_PAUSE_NS;
                orders.push_back(Order::Wake(at_ns, slot as u64));
            }
        }
    }

    fn woken(&mut self, token: u64, now_ns: u64, orders: &mut Orders) {
        if let Ok(slot) = usize::try_from(token) {
            self.begin(slot, now_ns, orders);
        }
    }

    fn is_done(&self) -> bool {
        self.left == 0 || self.failure.is_some()
    }
}
