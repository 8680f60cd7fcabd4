//! Which server of an upstream answers: balancing, and marking servers down and up again.
use std::time::Instant;

/// How a server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the configuration's")]
pub enum Method {
    RoundRobin,
    LeastConnections,
    TwoChoices,
    Hash,
}

/// What the balancer is told about a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerView {
    /// At least 1.
    pub weight: u32,
    /// Requests or tunnels under way.
    pub active: u32,
    /// Whether it may be chosen: up, and not tried already.
    pub eligible: bool,
}

/// The balancer's own state; one per worker and upstream.
#[derive(Debug, Clone)]
pub struct Balancer {}

impl Balancer {
    /// A balancer; `seed` makes two workers begin differently.
    #[must_use]
    pub fn new(method: Method, seed: u64) -> Self {
        let _ = (method, seed);
        todo!()
    }

    /// Chooses among `servers`; `key` is what `hash` hashes (consistent: a server's leaving moves only its own keys). `None` if none is eligible.
    pub fn pick(&mut self, servers: &[ServerView], key: Option<&[u8]>) -> Option<usize> {
        let _ = (servers, key);
        todo!()
    }
}

/// Passive marking: a server that fails several times in a row is left alone for a while (state machine, given `now`).
#[derive(Debug, Clone)]
pub struct PassiveHealth {}

impl PassiveHealth {
    /// Up. After `failures_max` failures in a row the server is down for 1 s, doubled with each further failure, up to 60 s.
    #[must_use]
    pub fn new(failures_max: u32) -> Self {
        let _ = failures_max;
        todo!()
    }

    /// Whether the server may be tried. After the pause one trial is let through at a time.
    #[must_use]
    pub fn is_up(&self, now: Instant) -> bool {
        let _ = now;
        todo!()
    }

    /// A connection failed, or died before a response.
    pub fn failed(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }

    /// A response came.
    pub fn succeeded(&mut self) {
        todo!()
    }
}
