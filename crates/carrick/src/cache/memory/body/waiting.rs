//! Readers that wait for more of a body: their wakers.
use slab::Slab;
use std::mem;
use std::task::Waker;

/// The wakers of those who wait, until the next byte; and how often all have been woken, so that a reader knows whether
/// its place is still its own.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    wakers: Slab<Waker>,
    rounds: u64,
}

/// A reader's place among those who wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    place: usize,
    round: u64,
}

impl Waiting {
    /// Has `waker` woken; `before` is what the same reader was given last.
    pub(super) fn register(&mut self, before: Option<Ticket>, waker: &Waker) -> Ticket {
        if let Some(ticket) = before.filter(|ticket| ticket.round == self.rounds)
            && let Some(held) = self.wakers.get_mut(ticket.place)
        {
            held.clone_from(waker);
            return ticket;
        }
        Ticket {
            place: self.wakers.insert(waker.clone()),
            round: self.rounds,
        }
    }

    /// Has the reader not woken any more.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Waker> {
        if ticket.round != self.rounds {
            return None;
        }
        self.wakers.try_remove(ticket.place)
    }

    /// Takes all of them, to be woken when no lock is held.
    pub(super) fn take(&mut self) -> Slab<Waker> {
        if self.wakers.is_empty() {
            return Slab::new();
        }
        self.rounds += 1;
        mem::take(&mut self.wakers)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.wakers.len()
    }
}
