//! TLS of listeners, and to servers: certificates and how handshakes are done, read from files and replaced when these
//! change.
mod challenges;
mod choice;
mod clients;
mod directory;
mod identity;
mod pem;
mod servers;
mod verifier;

pub use challenges::{Answer, ChallengeFiles};
pub use clients::{ClientCertificates, authorities, subject};
pub use directory::client_config;
pub use identity::Identity;
pub use pem::read as read_file;
pub use servers::{Authorities, ServerTls, ServerTlsSettings};

use super::problem::{Problem, Severity};
use super::word::words;
use arc_swap::ArcSwap;
use choice::Choice;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What is spoken inside TLS (RFC 7301), the best first.
const ALPN: [&[u8]; 2] = [HTTP2_ALPN, b"http/1.1"];

/// HTTP/2 among them.
pub const HTTP2_ALPN: &[u8] = b"h2";

/// What an authority speaks to see who a server is (RFC 8737 section 3).
pub const ACME_ALPN: &[u8] = b"acme-tls/1";

/// A certificate with its key, as the configuration names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and its chain.
    pub certificate: PathBuf,
    /// The key; may be the same file.
    pub key: PathBuf,
    /// The OCSP response that is stapled.
    pub ocsp: Option<PathBuf>,
    /// The name for which carrick orders it by ACME: it may not be there yet.
    pub acme: Option<String>,
}

/// The oldest version of TLS that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Minimum {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

words!(Minimum { "1.2" => Tls12, "1.3" => Tls13 });

impl Minimum {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static ALL: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            Self::Tls12 => &ALL,
            Self::Tls13 => &ALL[..1],
        }
    }
}

/// What the configuration says of a listener's TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// At least one. The first is for clients that name no server, or one without a certificate.
    pub certificates: Vec<CertificateFiles>,
    /// The oldest version.
    pub minimum: Minimum,
    /// Who must, or may, present a certificate; `None`: nobody is asked.
    pub clients: Option<ClientCertificates>,
    /// The folder of certificates by ACME, and of answers to challenges.
    pub acme: Option<PathBuf>,
    /// Whether clients may speak HTTP/2.
    pub http2: bool,
}

/// A listener's TLS, or that to servers.
#[derive(Debug)]
pub struct Tls<S: FromFiles = TlsSettings> {
    /// What it was made from.
    pub settings: S,
    in_force: ArcSwap<S::Made>,
    seen: Mutex<Seen>,
}

/// Settings that name files.
pub trait FromFiles {
    /// What is made of them.
    type Made;

    /// All files that are named.
    fn files(&self) -> impl Iterator<Item = &Path>;

    /// Reads the files. Also returns warnings.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    fn read(&self) -> Result<(Self::Made, Faults), Faults>;
}

/// What the files were like.
#[derive(Debug, Default)]
struct Seen {
    /// When they were read.
    read: Vec<Stamp>,
    /// When they were last looked at.
    last: Vec<Stamp>,
}

/// Device, inode, size and time of a file; `None`: it is not there.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Errors, each with the index of the certificate that it concerns; `None`: the certificate authorities.
pub type Faults = Vec<(Option<usize>, Problem)>;

impl<S: FromFiles> Tls<S> {
    /// Reads all files. Also returns warnings.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    pub fn load(settings: S) -> Result<(Self, Faults), Faults> {
        let read = stamps(&settings);
        let (config, warnings) = settings.read()?;
        let last = read.clone();
        let tls = Self {
            settings,
            in_force: ArcSwap::new(Arc::new(config)),
            seen: Mutex::new(Seen { read, last }),
        };
        Ok((tls, warnings))
    }

    /// What new handshakes use.
    #[must_use]
    pub fn in_force(&self) -> Arc<S::Made> {
        self.in_force.load_full()
    }

    /// Reads the files again if they have changed, though not since the call before: a certificate and its key take a
    /// moment to be replaced. `None`: nothing is to be done. Else warnings, or, if everything remains as it was, errors.
    pub fn follow_files(&self) -> Option<Result<Faults, Faults>> {
        let now = stamps(&self.settings);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let has_settled = std::mem::replace(&mut seen.last, now.clone()) == now;
        if !has_settled || seen.read == now {
            return None;
        }
        seen.read = now;
        Some(self.read_again())
    }

    /// Reads the files again, of which carrick itself has replaced one at once.
    ///
    /// # Errors
    /// See [`Self::follow_files`].
    pub fn follow_now(&self) -> Result<Faults, Faults> {
        let now = stamps(&self.settings);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Seen {
            read: now.clone(),
            last: now,
        };
        self.read_again()
    }

    fn read_again(&self) -> Result<Faults, Faults> {
        self.settings.read().map(|(config, warnings)| {
            self.in_force.store(Arc::new(config));
            warnings
        })
    }
}

impl FromFiles for TlsSettings {
    type Made = ServerConfig;

    fn files(&self) -> impl Iterator<Item = &Path> {
        let certificates = self.certificates.iter().flat_map(|files| {
            let always = [&files.certificate, &files.key];
            always.into_iter().chain(&files.ocsp)
        });
        let clients = self.clients.iter().map(|clients| &clients.ca);
        certificates.chain(clients).map(PathBuf::as_path)
    }

    fn read(&self) -> Result<(ServerConfig, Faults), Faults> {
        read(self)
    }
}

impl TlsSettings {
    /// Names for which carrick orders certificates.
    pub fn acme_names(&self) -> impl Iterator<Item = &str> {
        let names = self.certificates.iter().map(|files| files.acme.as_deref());
        names.flatten()
    }

    fn challenges(&self) -> Option<ChallengeFiles> {
        self.acme.as_deref().map(ChallengeFiles::new)
    }
}

fn stamps(settings: &impl FromFiles) -> Vec<Stamp> {
    let stamp = |file: &Path| {
        let found = file.metadata().ok()?;
        let changed = (found.mtime(), found.mtime_nsec());
        Some((found.dev(), found.ino(), found.size(), changed.0, changed.1))
    };
    settings.files().map(stamp).collect()
}

fn read(settings: &TlsSettings) -> Result<(ServerConfig, Faults), Faults> {
    let provider = Arc::new(ring::default_provider());
    let (mut identities, mut warnings, mut errors) = (Vec::new(), Faults::new(), Faults::new());
    let mut awaited = Vec::new();
    for (index, files) in settings.certificates.iter().enumerate() {
        let of = |problem| (Some(index), problem);
        match identity::load(files, &provider) {
            Ok(mut identity) => {
                warnings.extend(identity.warnings.drain(..).map(of));
                identities.push(identity);
            }
            // One that is not there, or not whole, is ordered.
            Err(found) => match &files.acme {
                Some(name) => awaited.push(name.clone()),
                None => errors.extend(found.into_iter().map(of)),
            },
        }
    }
    let verifier = match settings.clients.as_ref().map(|one| one.verifier(&provider)) {
        None => None,
        Some(Ok(verifier)) => Some(verifier),
        Some(Err(problem)) => {
            errors.push((None, *problem));
            None
        }
    };
    if !errors.is_empty() {
        return Err(errors);
    }
    let config: Result<ServerConfig, rustls::Error> = (|| {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(settings.minimum.versions())?;
        let tickets = tickets(verifier.is_some())?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(Choice::new(
            identities,
            awaited,
            settings.challenges(),
        )));
        config.alpn_protocols = (ALPN.iter().skip(usize::from(!settings.http2)))
            .map(|name| name.to_vec())
            .collect();
        if settings.acme.is_some() {
            config.alpn_protocols.push(ACME_ALPN.to_vec());
        }
        // What the kernel may encrypt.
        config.enable_secret_extraction = true;
        config.ticketer = tickets;
        // Tickets do for all workers what a store would have to be locked for.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    })();
    match config {
        Ok(config) => Ok((config, warnings)),
        Err(error) => Err(vec![(None, impossible(&error))]),
    }
}

/// The keys of session tickets, which change every six hours; the one before remains valid. All listeners, workers and
/// reloads share them, but a session in which a client was verified is only resumed under the same authorities.
fn tickets(verifies_clients: bool) -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
    static SHARED: OnceLock<Arc<dyn ProducesTickets>> = OnceLock::new();
    if verifies_clients {
        return ring::Ticketer::new();
    }
    if let Some(shared) = SHARED.get() {
        return Ok(Arc::clone(shared));
    }
    let made = ring::Ticketer::new()?;
    Ok(Arc::clone(SHARED.get_or_init(|| made)))
}

/// The kernel gives no random numbers, or the like.
fn impossible(error: &rustls::Error) -> Problem {
    Problem::new(Severity::Error, format!("TLS cannot be set up: {error}"))
}

/// The library's functions.
type Provider = Arc<CryptoProvider>;

/// Reads a certificate and its key, which carrick keeps in one file.
///
/// # Errors
/// Everything that is wrong.
pub fn load_stored(file: &Path) -> Result<Identity, Vec<Problem>> {
    let files = CertificateFiles {
        certificate: file.to_owned(),
        key: file.to_owned(),
        ocsp: None,
        acme: None,
    };
    identity::load(&files, &Arc::new(ring::default_provider()))
}
