//! Certificates by ACME as a part of `/status`.
use crate::control::ControlState;
use humantime::format_rfc3339_seconds;
use serde::Serialize;
use std::time::SystemTime;

/// A name's certificate.
#[derive(Debug, Serialize)]
pub(super) struct Certificate {
    name: String,
    not_after: Option<String>,
    next_order: Option<String>,
    failures: u32,
    error: Option<String>,
}

pub(super) fn of(state: &ControlState) -> Vec<Certificate> {
    let text = |time: SystemTime| format_rfc3339_seconds(time).to_string();
    let certificates = state.certificates().into_iter();
    let shown = certificates.map(|(name, status)| Certificate {
        name,
        not_after: status.not_after.map(text),
        // Without a certificate or a failure it is due since ever.
        next_order: status
            .next
            .filter(|next| *next > SystemTime::UNIX_EPOCH)
            .map(text),
        failures: status.failures,
        error: status.error,
    });
    shown.collect()
}
