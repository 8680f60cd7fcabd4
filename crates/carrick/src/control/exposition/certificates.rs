//! Metrics of certificates by ACME.
use super::writer::Writer;
use crate::telemetry::declarations as declared;
use std::fmt;
use std::time::SystemTime;

impl Writer<'_, '_> {
    pub(super) fn certificates(&mut self) -> fmt::Result {
        let state = self.state;
        let certificates = state.certificates();
        let expiries = certificates.iter().filter_map(|(name, status)| {
            let since = status.not_after?.duration_since(SystemTime::UNIX_EPOCH);
            Some((
                [("name", name.as_str())],
                since.unwrap_or_default().as_secs(),
            ))
        });
        self.gauges(&declared::CERTIFICATE_EXPIRY, expiries)?;
        let failures = certificates.iter().map(|(name, status)| {
            let labels = [("name", name.as_str())];
            (labels, u64::from(status.failures))
        });
        self.gauges(&declared::CERTIFICATE_FAILURES, failures)?;
        let (issued, failed) = (&state.metrics.acme_issued, &state.metrics.acme_failed);
        let orders = [("issued", issued), ("failed", failed)];
        let orders = orders.map(|(result, count)| ([("result", result)], count.get()));
        self.counters(&declared::ACME_ORDERS, orders)
    }
}
