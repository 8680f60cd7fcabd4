//! Certificates as a part of `/status`.
use crate::control::ControlState;
use humantime::format_rfc3339_seconds;
use serde::Serialize;
use std::path::PathBuf;
use std::time::SystemTime;

/// A certificate by ACME, or in a file.
#[derive(Debug, Default, Serialize)]
pub(super) struct Certificate {
    name: String,
    file: Option<PathBuf>,
    not_after: Option<String>,
    next_order: Option<String>,
    failures: u32,
    error: Option<String>,
}

pub(super) fn of(state: &ControlState) -> Vec<Certificate> {
    let text = |time: SystemTime| format_rfc3339_seconds(time).to_string();
    let certificates = state.certificates().into_iter();
    let by_acme = certificates.map(|(name, status)| Certificate {
        name,
        file: None,
        not_after: status.not_after.map(text),
        // Without a certificate or a failure it is due since ever.
        next_order: status
            .next
            .filter(|next| *next > SystemTime::UNIX_EPOCH)
            .map(text),
        failures: status.failures,
        error: status.error,
    });
    let in_files = state.file_certificates().into_values();
    let in_files = in_files.map(|one| Certificate {
        name: one.name,
        file: Some(one.file),
        not_after: Some(text(one.not_after)),
        ..Certificate::default()
    });
    by_acme.chain(in_files).collect()
}
