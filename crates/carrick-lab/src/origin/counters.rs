//! What an origin did: counted by each thread, summed up at the end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::faults::FaultKind;

/// The counters of one thread. Only that thread writes them.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections: Counter,
    /// Accepting failed, for want of descriptors or because the client was gone.
    pub accept_failures: Counter,
    /// Requests answered, wholly or with the fault that was asked for.
    pub requests: Counter,
    /// Bytes of bodies sent, without framing.
    pub body_bytes: Counter,
    /// Bytes of requests' bodies received, without framing.
    pub received_bytes: Counter,
    /// Requests that broke the rules of HTTP.
    pub malformed: Counter,
    /// Connections that the client left in the middle of a request or an answer.
    pub aborted: Counter,
    /// Full handshakes, done to the end.
    pub handshakes_full: Counter,
    /// Abbreviated handshakes, done to the end.
    pub handshakes_abbreviated: Counter,
    /// Faults made, by [`FaultKind::index`].
    pub faults: [Counter; FaultKind::ALL.len()],
}

/// A number that grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// How much it is.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What an origin did in all. `carrick-lab origin` prints it at its end, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How long it listened.
    pub seconds: f64,
    /// Connections accepted.
    pub connections: u64,
    /// Accepting failed, for want of descriptors or because the client was gone.
    pub accept_failures: u64,
    /// Requests answered, wholly or with the fault that was asked for.
    pub requests: u64,
    /// Bytes of bodies sent, without framing.
    pub body_bytes: u64,
    /// Bytes of requests' bodies received, without framing.
    pub received_bytes: u64,
    /// Requests that broke the rules of HTTP.
    pub malformed: u64,
    /// Connections that the client left in the middle of a request or an answer.
    pub aborted: u64,
    /// Full handshakes, done to the end.
    pub handshakes_full: u64,
    /// Abbreviated handshakes, done to the end.
    pub handshakes_abbreviated: u64,
    /// Faults made, by name.
    pub faults: BTreeMap<String, u64>,
}

impl Summary {
    /// Adds what one thread did.
    pub fn add(&mut self, counters: &Counters) {
        for (sum, counter) in [
            (&mut self.connections, &counters.connections),
            (&mut self.accept_failures, &counters.accept_failures),
            (&mut self.requests, &counters.requests),
            (&mut self.body_bytes, &counters.body_bytes),
            (&mut self.received_bytes, &counters.received_bytes),
            (&mut self.malformed, &counters.malformed),
            (&mut self.aborted, &counters.aborted),
            (&mut self.handshakes_full, &counters.handshakes_full),
            (
                &mut self.handshakes_abbreviated,
                &counters.handshakes_abbreviated,
            ),
        ] {
            *sum += counter.get();
        }
        for (kind, counter) in FaultKind::ALL.iter().zip(&counters.faults) {
            if counter.get() > 0 {
                *self.faults.entry(kind.name().to_owned()).or_default() += counter.get();
            }
        }
    }
}
