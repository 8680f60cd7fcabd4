//! What is to be done when, in virtual time: the earliest first, and in the order of coming for equal times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things with a time, in nanoseconds.
#[derive(Debug)]
pub struct Schedule<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at_ns: u64,
    number: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            pushed: 0,
        }
    }
}

impl<T> Schedule<T> {
    /// Keeps something until its time.
    pub fn push(&mut self, at_ns: u64, what: T) {
        self.pushed += 1;
        self.heap.push(Reverse(Entry {
            at_ns,
            number: self.pushed,
            what,
        }));
    }

    /// When the next thing is due.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.0.at_ns)
    }

    /// Takes the next thing that is due.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<T> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|entry| entry.0.what)
    }

    /// How many things wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests;
