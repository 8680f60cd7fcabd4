//! Counters of a splicer, written by one thread and read by others.

use crate::Reason;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter that one thread writes and others read.
///
/// Changed by a relaxed load and store rather than a locked instruction: exact as long as a single thread
/// writes it, which [`Splicer`](crate::Splicer) ensures.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Relaxed);
    }

    /// Subtracts `n`, for gauges. Only the owning thread may call it.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.store(self.get().saturating_sub(n), Relaxed);
    }

    /// Sets it, for periodic measurements. Only the owning thread may call it.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The present value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of a [`Splicer`](crate::Splicer) since it was made. One per worker thread, in an `Arc`, so that a
/// control thread can read it at any time.
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
    /// Bytes forwarded by the socket engine and counted: a splice counts when the process checks it, and at
    /// its end.
    pub socket_bytes: Counter,
    /// Bytes acknowledged while the packet engine forwarded them, as far as counted.
    pub packet_bytes: Counter,
    /// Bytes that the socket engine left to the process because the receiver had no room for them.
    pub socket_passed_bytes: Counter,
    /// Kernel splices that could not be taken back in time, so that their connections were reset.
    pub socket_broken: Counter,
    /// Bytes given to local copies.
    pub local_copy_bytes: Counter,
    /// Transfers and exchanges taken back with bytes in flight.
    pub unsplices: Counter,
    /// Runs that ended because no byte moved for too long.
    pub idle_ends: Counter,
    /// Runs that ended because too few bytes moved.
    pub slow_ends: Counter,
    /// Stalled splices at the last check.
    pub stalled_splices: Counter,
    /// Kernel memory that they held, in bytes.
    pub stalled_bytes: Counter,
    /// Runs that ended with a failing receiver.
    pub faults_to: Counter,
    /// Open pipes, pooled ones included.
    pub pipes_open: Counter,
    /// Open unused pipes.
    pub pipes_pooled: Counter,
    /// Times without an available pipe: `pipes_max` reached, or the kernel refused (descriptors, pipe
    /// memory).
    pub pipes_refused: Counter,
    /// Pipes closed because bytes were left in them or the pool was full.
    pub pipes_closed: Counter,
    /// Pipes smaller than requested.
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
