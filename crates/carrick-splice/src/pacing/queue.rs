//! The splices that wait for the worker, and their order: by class priority, inside a class by start-time
//! fair queueing.

use std::collections::BTreeMap;

/// A byte of a splice with weight 1, in virtual time.
const SCALE: u64 = 1 << 10;

/// A position in the queue: the lowest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    priority: u8,
    start: u64,
    arrival: u64,
}

/// The service a splice has received, in virtual time: kept from one turn to the next.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VirtualTime(u64);

impl VirtualTime {
    /// Adds bytes from `place` on. With twice the weight they count half.
    pub(super) fn add(&mut self, place: Place, bytes: u64, weight: u32) {
        let cost = bytes.saturating_mul(SCALE) / u64::from(weight.max(1));
        self.0 = place.start.saturating_add(cost);
    }
}

/// The waiting splices.
pub(super) struct Queue<T> {
    places: BTreeMap<Place, T>,
    arrivals: BTreeMap<u64, Place>,
    /// The virtual time: the start of the last one let go.
    now: u64,
    next_arrival: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue {
            places: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            now: 0,
            next_arrival: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Adds a splice that has received this much.
    pub(super) fn push(&mut self, priority: u8, virtual_time: VirtualTime, who: T) -> Place {
        let arrival = self.next_arrival;
        self.next_arrival += 1;
        let place = Place {
            priority,
            start: virtual_time.0.max(self.now),
            arrival,
        };
        self.places.insert(place, who);
        self.arrivals.insert(arrival, place);
        place
    }

    /// Behind all that have received less than this.
    pub(super) fn behind(&self, bytes: u64) -> VirtualTime {
        VirtualTime(self.now.saturating_add(bytes.saturating_mul(SCALE)))
    }

    /// The first in order.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (&place, _) = self.places.first_key_value()?;
        self.now = self.now.max(place.start);
        self.remove(place)
    }

    /// The first in order of those that fit.
    pub(super) fn pop_first(&mut self, mut fits: impl FnMut(&T) -> bool) -> Option<T> {
        let (&place, _) = self.places.iter().find(|(_, who)| fits(who))?;
        self.now = self.now.max(place.start);
        self.remove(place)
    }

    /// The one that has waited longest, if it came before this arrival.
    pub(super) fn pop_oldest(&mut self, before: u64) -> Option<T> {
        let (&arrival, &place) = self.arrivals.first_key_value()?;
        if arrival < before {
            self.remove(place)
        } else {
            None
        }
    }

    /// The one that has waited longest.
    pub(super) fn oldest(&self) -> Option<&T> {
        let (_, place) = self.arrivals.first_key_value()?;
        self.places.get(place)
    }

    /// Removes one.
    pub(super) fn remove(&mut self, place: Place) -> Option<T> {
        self.arrivals.remove(&place.arrival);
        self.places.remove(&place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of the next arrival: earlier ones have lower numbers.
    pub(super) fn next_arrival(&self) -> u64 {
        self.next_arrival
    }
}
