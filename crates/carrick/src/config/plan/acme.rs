//! Certificates that an authority issues to carrick (ACME).
pub use crate::config::file::ChallengeKind;

use crate::config::tls::ServerTlsSettings;
use std::fmt;
use std::path::{Path, PathBuf};

/// `[acme]`, and for which names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmePlan {
    /// Where the authority can write to.
    pub email: Option<String>,
    /// The URL of its directory.
    pub directory: String,
    /// The folder of what it has issued; each authority has its own.
    pub folder: PathBuf,
    /// How the directory itself is verified.
    pub tls: ServerTlsSettings,
    /// The challenges to use in turn; at least one.
    pub challenges: Vec<ChallengeKind>,
    /// The account with the authority that carrick's is bound to.
    pub external_account: Option<ExternalAccount>,
    /// Each gets a certificate.
    pub names: Vec<String>,
}

/// `external_account`
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The key's identifier.
    pub id: String,
    /// The file with the key.
    pub file: PathBuf,
    /// The key.
    pub key: Vec<u8>,
}

impl fmt::Debug for ExternalAccount {
    /// Without the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ExternalAccount")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The file with a name's certificate and key.
#[must_use]
pub fn certificate_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.pem"))
}
