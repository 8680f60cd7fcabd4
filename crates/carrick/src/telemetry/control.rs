//! Counters of the control thread.
use super::metrics::{Counter, Liveness};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

carrick_logic::named! {
    /// The result of a look-up.
    #[expect(missing_docs, reason = "the names say it")]
    pub enum LookupResult with label {
        Found = "found",
        NoSuchName = "no_such_name",
        NoAddress = "no_address",
        ServerFailure = "server_failure",
        Timeout = "timeout",
    }
}

/// Counters of the control thread, which is the only writer unless noted.
#[derive(Debug, Default)]
pub struct ControlMetrics {
    /// Names answered from its cache.
    pub dns_hits: Counter,
    /// Questions that joined a look-up in progress.
    pub dns_joined: Counter,
    /// Names evicted from its full cache.
    pub dns_evicted: Counter,
    /// Names now in its cache.
    pub dns_names: AtomicU64,
    /// Look-ups in progress.
    pub dns_under_way: AtomicU64,
    /// Questions refused because there were too many; workers count here, too.
    pub dns_refused: AtomicU64,
    /// Health checks that succeeded.
    pub health_checks_good: Counter,
    /// Health checks that failed.
    pub health_checks_failed: Counter,
    /// Health checks that this machine lacked the resources for.
    pub health_checks_unmade: Counter,
    /// Times that admin was at its limit of connections.
    pub admin_connections_full: Counter,
    /// Certificates by ACME that were issued.
    pub acme_issued: Counter,
    /// Attempts to get one that failed.
    pub acme_failed: Counter,
    /// Whether the control thread makes progress.
    pub liveness: Arc<Liveness>,
    dns_lookups: [Counter; LookupResult::ALL.len()],
}

impl ControlMetrics {
    /// Look-ups with this result.
    #[must_use]
    pub fn dns_lookups(&self, result: LookupResult) -> &Counter {
        // As long as the enum: the index exists.
        &self.dns_lookups[result as usize]
    }
}
