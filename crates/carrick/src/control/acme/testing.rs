//! Shared by the tests of this module.
use super::storage::Storage;
use crate::config::plan::{AcmePlan, ChallengeKind};
use crate::config::tls::{Authorities, ServerTlsSettings};
use std::path::Path;
use tempfile::TempDir;

/// One name.
pub fn plan(folder: &Path) -> AcmePlan {
    AcmePlan {
        email: None,
        directory: "https://127.0.0.1:1/dir".to_owned(),
        folder: folder.to_owned(),
        tls: ServerTlsSettings::new(Authorities::Anybody),
        challenges: vec![ChallengeKind::Http01],
        external_account: None,
        names: vec!["a.example".to_owned()],
    }
}

/// An empty storage, as long as the folder is kept.
pub fn storage() -> (TempDir, Storage) {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::of(&plan(folder.path()));
    (folder, storage)
}
