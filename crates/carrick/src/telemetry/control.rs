//! What the control thread counts.
use super::metrics::{Counter, Liveness};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// How a look-up ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LookupResult {
    Found,
    NoSuchName,
    NoAddress,
    ServerFailure,
    Timeout,
}

impl LookupResult {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::Found,
        Self::NoSuchName,
        Self::NoAddress,
        Self::ServerFailure,
        Self::Timeout,
    ];

    /// The label in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::NoSuchName => "no_such_name",
            Self::NoAddress => "no_address",
            Self::ServerFailure => "server_failure",
            Self::Timeout => "timeout",
        }
    }
}

/// What the control thread counts; unless said otherwise it is the only writer.
#[derive(Debug, Default)]
pub struct ControlMetrics {
    /// Names answered from its cache.
    pub dns_hits: Counter,
    /// Names that were being looked up already.
    pub dns_joined: Counter,
    /// Names that left its cache because it was full.
    pub dns_evicted: Counter,
    /// Names in its cache now.
    pub dns_names: AtomicU64,
    /// Look-ups under way now.
    pub dns_under_way: AtomicU64,
    /// Names that were not looked up because too many were asked for; workers count here, too.
    pub dns_refused: AtomicU64,
    /// Health checks that found a server good.
    pub health_checks_good: Counter,
    /// Health checks that did not.
    pub health_checks_failed: Counter,
    /// Health checks that could not be made for want of something on this machine.
    pub health_checks_unmade: Counter,
    /// Times at which admin had no room for one more connection.
    pub admin_connections_full: Counter,
    /// Whether the control thread goes on.
    pub liveness: Arc<Liveness>,
    dns_lookups: [Counter; LookupResult::ALL.len()],
}

impl ControlMetrics {
    /// Look-ups that ended in this way.
    #[must_use]
    pub fn dns_lookups(&self, result: LookupResult) -> &Counter {
        // As long as the enum: the index exists.
        &self.dns_lookups[result as usize]
    }
}
