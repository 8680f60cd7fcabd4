//! The wakers of readers that wait for more of a body.
use slab::Slab;
use std::mem;
use std::task::Waker;

/// The wakers that wait for the next byte, and how often all were woken: by that, a reader knows whether its waker is still here.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    wakers: Slab<Waker>,
    rounds: u64,
}

/// Where a reader's waker is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registration {
    index: usize,
    round: u64,
}

impl Waiting {
    /// Registers a waker; `before` is the registration that the same reader had before.
    pub(super) fn register(&mut self, before: Option<Registration>, waker: &Waker) -> Registration {
        if let Some(registration) = before.filter(|registration| registration.round == self.rounds)
            && let Some(held) = self.wakers.get_mut(registration.index)
        {
            held.clone_from(waker);
            return registration;
        }
        Registration {
            index: self.wakers.insert(waker.clone()),
            round: self.rounds,
        }
    }

    /// Removes a reader's waker.
    pub(super) fn remove(&mut self, registration: Registration) -> Option<Waker> {
        if registration.round != self.rounds {
            return None;
        }
        self.wakers.try_remove(registration.index)
    }

    /// Takes all wakers; the caller wakes them when it holds no lock.
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
