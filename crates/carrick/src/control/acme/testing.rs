//! Shared by the tests of this module.
use super::storage::Storage;
use super::{Orders, Work};
use crate::config::plan::{AcmePlan, ChallengeKind};
use crate::config::tls::{Authorities, ServerTlsSettings};
use crate::control::testing as control;
use crate::resolver::resolver;
use rcgen::{Certificate, CertificateParams, Issuer, KeyPair};
use std::path::Path;
use std::sync::Arc;
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

/// A certificate for `a.example` that names its issuer's key, valid from 1975 to 4096; and its key.
pub fn issued() -> (Certificate, KeyPair) {
    let issuer = Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, &issuer).unwrap(), key)
}

/// Orders for one name, of which nothing is kept.
pub fn orders(folder: &Path) -> Orders {
    let acme = Arc::new(plan(folder));
    let state = control::state(control::plan(None, Vec::new()));
    let work = Work {
        storage: Storage::of(&acme),
        plan: acme,
        resolver: resolver(Arc::clone(&state.metrics)).0,
        mark: None,
        replaced: tokio::sync::watch::channel(()).1,
    };
    Orders::new(work, state, Arc::default())
}
