//! Batches, as WebWatch made them (Cohen 1999, section 5): so many requests at once, then all responses or the time-out,
//! then the next batch.

use crate::load::tally::{Ending, Tally};
use crate::load::work::{Request, Work};

use super::{CONNECT_PAUSE_NS, Driver, Order, Orders, is_unreachable};

pub(super) struct Batches {
    work: Work,
    clients: Vec<Client>,
    batch: usize,
    timeout_ns: u64,
}

#[derive(Clone, Default)]
struct Client {
    /// Which slots of the client's are at work.
    at_work: Vec<bool>,
    left: usize,
    deadline_ns: u64,
    is_armed: bool,
    /// Begins again when woken.
    rests: bool,
    is_unreachable: bool,
}

impl Batches {
    pub(super) fn new(work: Work, clients: usize, batch: usize, timeout_ns: u64) -> Self {
        let client = Client {
            at_work: vec![false; batch],
            ..Client::default()
        };
        Self {
            work,
            clients: vec![client; clients],
            batch,
            timeout_ns,
        }
    }

    fn begin(&mut self, number: usize, now_ns: u64, orders: &mut Orders) {
        let client = &mut self.clients[number];
        client.rests = false;
        client.is_unreachable = false;
        client.left = self.batch;
        client.at_work.fill(true);
        client.deadline_ns = now_ns + self.timeout_ns;
        if !client.is_armed {
            client.is_armed = true;
            orders.push_back(Order::Wake(client.deadline_ns, (number as u64) << 1));
        }
        for place in 0..self.batch {
            let mut request = self.work.draw();
            request.begun_ns = now_ns;
            orders.push_back(Order::Begin(number * self.batch + place, request));
        }
    }
}

impl Driver for Batches {
    fn slots(&self) -> usize {
        self.clients.len() * self.batch
    }

    fn start(&mut self, now_ns: u64, orders: &mut Orders) {
        for client in 0..self.clients.len() {
            self.begin(client, now_ns, orders);
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
        let number = slot / self.batch;
        let client = &mut self.clients[number];
        client.at_work[slot % self.batch] = false;
        client.left -= 1;
        client.is_unreachable |= is_unreachable(&ending.result);
        if client.left > 0 {
            return;
        }
        if client.is_unreachable {
            client.rests = true;
            orders.push_back(Order::Wake(
                ending.ended_ns + CONNECT_PAUSE_NS,
                (number as u64) << 1 | 1,
            ));
        } else {
            self.begin(number, ending.ended_ns, orders);
        }
    }

    fn woken(&mut self, token: u64, now_ns: u64, orders: &mut Orders) {
        let Ok(number) = usize::try_from(token >> 1) else {
            return;
        };
        if token & 1 == 1 {
            if self.clients[number].rests {
                self.begin(number, now_ns, orders);
            }
            return;
        }
        let timeout_ns = self.timeout_ns;
        let client = &mut self.clients[number];
        client.is_armed = false;
        if client.left == 0 {
            return;
        }
        if client.deadline_ns > now_ns {
            // That was an earlier batch's time-out.
            client.is_armed = true;
            orders.push_back(Order::Wake(client.deadline_ns, token));
            return;
        }
        for (place, at_work) in client.at_work.iter().enumerate() {
            if *at_work {
                orders.push_back(Order::Expire(number * self.batch + place, timeout_ns));
            }
        }
    }
}
