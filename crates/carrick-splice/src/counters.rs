//! What a splicer did, in numbers that one thread writes and others read.

use crate::Reason;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One number that one thread writes and others read.
///
/// It is changed by a relaxed load and a relaxed store, not by a locked instruction: that is exact as long as a single
/// thread writes it, which is what a [`Splicer`](crate::Splicer) sees to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Relaxed);
    }

    /// Takes `n` away, for numbers that go up and down. Only the owning thread may call it.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.store(self.get().saturating_sub(n), Relaxed);
    }

    /// Makes it another number, for what is measured now and then. Only the owning thread may call it.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The number as it stands.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What a [`Splicer`](crate::Splicer) did since it was made. One per worker thread, in an `Arc`, so that a control
/// thread can read it at any time.
#[derive(Debug, Default)]
pub struct Counters {
    /// One-way transfers begun.
    pub transfers: Counter,
    /// Two-way exchanges begun.
    pub exchanges: Counter,
    /// Directions that moved at least one burst with the copy engine.
    pub copy_splices: Counter,
    /// Directions that moved at least one burst with the pipe engine.
    pub pipe_splices: Counter,
    /// Directions that moved at least one byte with the socket engine.
    pub socket_splices: Counter,
    /// Directions that moved at least one byte with the packet engine.
    pub packet_splices: Counter,
    /// Times at which the connections of an exchange were given to the socket engine.
    pub socket_stays: Counter,
    /// Times at which the packets of an exchange were given to the kernel.
    pub packet_stays: Counter,
    /// Bytes written by the copy engine.
    pub copy_bytes: Counter,
    /// Bytes written by the pipe engine.
    pub pipe_bytes: Counter,
    /// Bytes handed on by the socket engine, as far as they were counted: a splice counts when the process looks at it and
    /// at its end.
    pub socket_bytes: Counter,
    /// Bytes that were acknowledged while the packet engine forwarded them, as far as they were counted.
    pub packet_bytes: Counter,
    /// Bytes that the socket engine left to the process because the receiver had no room for them.
    pub socket_passed_bytes: Counter,
    /// Splices in the kernel that could not be taken back in time, so that their connections were broken.
    pub socket_broken: Counter,
    /// Bytes given to local copies.
    pub local_copy_bytes: Counter,
    /// Transfers and exchanges that were taken back while bytes were in flight.
    pub unsplices: Counter,
    /// Bytes that were handed back by those.
    pub unspliced_bytes: Counter,
    /// Runs that ended because no byte moved for too long.
    pub idle_ends: Counter,
    /// Runs that ended because too few bytes moved.
    pub slow_ends: Counter,
    /// Splices that were stalled when that was looked at last.
    pub stalled_splices: Counter,
    /// What they held of the kernel's memory.
    pub stalled_bytes: Counter,
    /// Runs that ended because stalled ones held too much.
    pub stalled_ends: Counter,
    /// Runs that ended with a failing sender.
    pub faults_from: Counter,
    /// Runs that ended with a failing receiver.
    pub faults_to: Counter,
    /// Pipes that are open now, pooled ones included.
    pub pipes_open: Counter,
    /// Pipes that are open now and unused.
    pub pipes_pooled: Counter,
    /// Times at which no pipe was to be had: `pipes_max` reached, or the kernel refused (descriptors, pipe memory).
    pub pipes_refused: Counter,
    /// Pipes closed because bytes were left in them or the pool was full.
    pub pipes_closed: Counter,
    /// Pipes that the kernel left at a smaller size than asked for.
    pub pipes_small: Counter,
    /// Copy buffers that hold bytes in flight now.
    pub buffers_in_use: Counter,
    /// Copy buffers that are unused now.
    pub buffers_pooled: Counter,
    reasons: [Counter; Reason::ALL.len()],
}

impl Counters {
    /// How often this reason decided on an engine.
    #[must_use]
    pub fn reason(&self, reason: Reason) -> &Counter {
        &self.reasons[reason as usize]
    }
}
