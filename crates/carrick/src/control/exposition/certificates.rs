//! Metrics of certificates.
use super::writer::Writer;
use crate::telemetry::declarations as declared;
use std::fmt;
use std::time::SystemTime;

impl Writer<'_, '_> {
    pub(super) fn certificates(&mut self) -> fmt::Result {
        let state = self.state;
        let certificates = state.certificates();
        let in_files = state.file_certificates();
        let files: Vec<_> = (in_files.keys().map(|file| file.to_string_lossy())).collect();
        let by_acme = certificates
            .iter()
            .filter_map(|(name, status)| Some((name.as_str(), "", status.not_after?)));
        let in_files = in_files.values().zip(&files);
        let in_files = in_files.map(|(one, file)| (one.name.as_str(), &**file, one.not_after));
        let expiries = by_acme.chain(in_files).map(|(name, file, not_after)| {
            let since = not_after.duration_since(SystemTime::UNIX_EPOCH);
            (
                [("name", name), ("file", file)],
                since.unwrap_or_default().as_secs(),
            )
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
