//! Who makes a request when: one module per arrival of the plan. Drivers know slots (each a connection at a time) and are
//! given the time; they never see a socket or a clock, so that they can be tested in virtual time.

mod batches;
mod closed;
mod open;
mod pages;
mod prime;

use std::collections::VecDeque;

use crate::load::fault::{Fault, Kind};
use crate::load::plan::{Arrival, LoadPlan};
use crate::load::tally::{Ending, Tally};
use crate::load::work::{Request, Work};

pub use prime::Prime;

/// Pause after a connection that could not be opened, so that a dead server is not asked in a tight loop.
pub const CONNECT_PAUSE_NS: u64 = 20_000_000;

/// What a driver wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Make this request on this slot, where none is under way.
    Begin(usize, Request),
    /// What is under way on this slot has run out of its time (in nanoseconds): [`Driver::ended`] will be told so.
    Expire(usize, u64),
    /// Close this slot's connection, and forget what is under way on it.
    Close(usize),
    /// Call [`Driver::woken`] with this token at that time.
    Wake(u64, u64),
}

/// Orders, to be carried out from the front.
pub type Orders = VecDeque<Order>;

/// A kind of arrival. Times are nanoseconds of the run.
pub trait Driver: Send {
    /// Connections at a time: slots are numbered from 0 to below this.
    fn slots(&self) -> usize;

    /// The run begins.
    fn start(&mut self, now_ns: u64, orders: &mut Orders);

    /// The request on this slot ended, at `ending.ended_ns`.
    fn ended(
        &mut self,
        slot: usize,
        request: &Request,
        ending: Ending,
        tally: &mut Tally,
        orders: &mut Orders,
    );

    /// The time of a [`Order::Wake`] has come.
    fn woken(&mut self, token: u64, now_ns: u64, orders: &mut Orders);

    /// Nothing is left to do (a load has no end of its own).
    fn is_done(&self) -> bool {
        false
    }

    /// Requests due from `from_ns` to `to_ns` that were not made by then.
    fn late(&self, _from_ns: u64, _to_ns: u64) -> u64 {
        0
    }
}

/// The driver of a plan that was checked; `thread` of `threads` (which matters to the rhythm of an open loop).
#[must_use]
pub fn driver(plan: &LoadPlan, thread: usize, threads: usize) -> Box<dyn Driver> {
    let work = Work::new(plan, thread as u64);
    match plan.arrival {
        Arrival::Closed { clients, think_ms } => {
            Box::new(closed::Closed::new(work, clients, nanoseconds(think_ms)))
        }
        Arrival::Open { rate, clients_max } => {
            let period_ns = 1e9 / rate;
            let phase = thread as f64 / threads as f64;
            Box::new(open::Open::new(work, period_ns, phase, clients_max))
        }
        Arrival::Batches {
            clients,
            batch,
            timeout_ms,
        } => Box::new(batches::Batches::new(
            work,
            clients,
            batch,
            nanoseconds(timeout_ms),
        )),
        Arrival::Pages {
            clients,
            embedded,
            parallel,
            ..
        } => Box::new(pages::Pages::new(work, clients, embedded, parallel)),
    }
}

/// Milliseconds as nanoseconds.
fn nanoseconds(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

/// Whether no connection could be opened.
fn is_unreachable(result: &Result<crate::load::tally::Finish, Fault>) -> bool {
    matches!(result, Err(fault) if fault.kind() == Kind::Connect)
}

#[cfg(test)]
mod tests;
