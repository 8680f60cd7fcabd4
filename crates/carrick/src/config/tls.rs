//! TLS of listeners, and to servers: certificates and how handshakes are done, read from files and replaced when these
//! change.
mod challenges;
mod choice;
mod clients;
mod identity;
mod new_file;
mod ocsp;
mod pem;
mod revocation;
mod servers;
mod sessions;
mod verifier;

pub use challenges::{Answer, ChallengeFiles};
pub use clients::{ClientCertificates, authorities, subject};
pub use identity::{Identity, VERSION_1, is_of_version_1};
pub use new_file::NewFile;
pub use pem::read as read_file;
pub use servers::{Authorities, Protocols, ServerTls, ServerTlsSettings};

use super::problem::{Problem, Severity};
use super::word::words;
use arc_swap::ArcSwap;
use choice::Choice;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// What is spoken inside TLS (RFC 7301), the best first.
const ALPN: [&[u8]; 2] = [HTTP2_ALPN, HTTP1_ALPN];

/// HTTP/2 among them.
pub const HTTP2_ALPN: &[u8] = b"h2";

/// HTTP/1.1.
pub const HTTP1_ALPN: &[u8] = b"http/1.1";

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

/// How a listener does handshakes.
#[derive(Debug)]
pub struct Handshakes {
    /// For the library.
    pub config: Arc<ServerConfig>,
    /// The certificates that it shows, but those by ACME.
    pub certificates: Vec<FileCertificate>,
    /// What verifies certificates of clients.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// Another one for each reading of files.
    pub serial: u64,
}

impl Handshakes {
    /// Whether a certificate of a client, with those that it sent, would be accepted now.
    #[must_use]
    pub fn accepts(&self, chain: &[CertificateDer<'_>]) -> bool {
        let (Some(clients), Some((own, others))) = (&self.clients, chain.split_first()) else {
            return false;
        };
        let verified = clients.verify_client_cert(own, others, UnixTime::now());
        verified.is_ok()
    }
}

/// A certificate in a file that carrick does not write.
#[derive(Debug, Clone)]
pub struct FileCertificate {
    /// The file.
    pub file: PathBuf,
    /// The first of its DNS names; empty: it has none.
    pub name: String,
    /// When its validity ends.
    pub not_after: SystemTime,
}

/// Settings that name files.
pub trait FromFiles {
    /// What is made of them.
    type Made;

    /// All files that are named.
    fn files(&self) -> impl Iterator<Item = &Path>;

    /// Reads the files. Also returns warnings, and errors of certificates by ACME for which those read before are taken.
    ///
    /// # Errors
    /// Everything else that is wrong with the files.
    fn read(&self) -> Result<(Self::Made, Faults), Faults>;
}

/// What the files were like.
#[derive(Debug, Default)]
struct Seen {
    /// When they were read, and could be used.
    read: Vec<Stamp>,
    /// When they could not be used, which is said once.
    unusable: Option<Vec<Stamp>>,
    /// When they were last looked at.
    last: Vec<Stamp>,
    /// How often in a row one of them had changed since.
    changing: u8,
}

/// So many looks that each find a change are waited for an end of the changes.
const CHANGING_MAX: u8 = 5;

/// Device, inode, size and time of a file; `None`: it is not there.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Errors, each with the files that it concerns.
pub type Faults = Vec<(Part, Problem)>;

/// Why files cannot be used.
type Fault = (Part, Box<Problem>);

/// Files that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The certificate with this index, and its key.
    Certificate(usize),
    /// The certificate authorities.
    Authorities,
    /// Their revocation lists.
    RevocationLists,
}

impl<S: FromFiles> Tls<S> {
    /// Reads all files. Also returns warnings.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    pub fn load(settings: S) -> Result<(Self, Faults), Faults> {
        let last = stamps(&settings);
        let (config, mut warnings) = settings.read()?;
        let (read, unusable) = match has_errors(&warnings) {
            false => (last.clone(), None),
            true => (Vec::new(), Some(last.clone())),
        };
        for (_, problem) in &mut warnings {
            problem.severity = problem.severity.min(Severity::Warning);
        }
        let tls = Self {
            settings,
            in_force: ArcSwap::new(Arc::new(config)),
            seen: Mutex::new(Seen {
                read,
                unusable,
                last,
                changing: 0,
            }),
        };
        Ok((tls, warnings))
    }

    /// What new handshakes use.
    #[must_use]
    pub fn in_force(&self) -> Arc<S::Made> {
        self.in_force.load_full()
    }

    /// Reads the files again if they have changed, though not since the call before: a certificate and its key take a
    /// moment to be replaced. One that changes at every call does not keep the others waiting for ever. `None`: there is nothing to
    /// do or to say. Else warnings, or, if everything remains as it was, errors.
    pub fn follow_files(&self) -> Option<Result<Faults, Faults>> {
        let now = stamps(&self.settings);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changing = std::mem::replace(&mut seen.last, now.clone()) != now;
        seen.changing = match is_changing {
            true => seen.changing.saturating_add(1),
            false => 0,
        };
        if is_changing && seen.changing < CHANGING_MAX || seen.read == now {
            return None;
        }
        seen.changing = 0;
        self.read_again(&mut seen, now)
    }

    /// Reads the files again, of which carrick itself has replaced one at once; see [`Self::follow_files`].
    pub fn follow_now(&self) -> Option<Result<Faults, Faults>> {
        let now = stamps(&self.settings);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.last.clone_from(&now);
        self.read_again(&mut seen, now)
    }

    /// What cannot be used is tried again at the next look (there may be no file descriptors, say), but is reported once.
    fn read_again(&self, seen: &mut Seen, now: Vec<Stamp>) -> Option<Result<Faults, Faults>> {
        let read = self.settings.read();
        if matches!(&read, Ok((_, found)) if !has_errors(found)) {
            (seen.read, seen.unusable) = (now, None);
        } else if seen.unusable.replace(now) == seen.unusable {
            return None;
        }
        Some(read.map(|(config, found)| {
            self.in_force.store(Arc::new(config));
            found
        }))
    }
}

/// Whether something could not be used, so that what was there before is.
#[must_use]
pub fn has_errors(found: &[(Part, Problem)]) -> bool {
    (found.iter()).any(|(_, problem)| problem.severity == Severity::Error)
}

impl FromFiles for TlsSettings {
    type Made = Handshakes;

    fn files(&self) -> impl Iterator<Item = &Path> {
        let certificates = self.certificates.iter().flat_map(|files| {
            let always = [&files.certificate, &files.key];
            always.into_iter().chain(&files.ocsp)
        });
        let clients = self.clients.iter().flat_map(ClientCertificates::files);
        certificates.chain(clients).map(PathBuf::as_path)
    }

    fn read(&self) -> Result<(Handshakes, Faults), Faults> {
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

fn read(settings: &TlsSettings) -> Result<(Handshakes, Faults), Faults> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (mut identities, mut warnings, mut errors) = (Vec::new(), Faults::new(), Faults::new());
    let (mut awaited, mut certificates) = (Vec::new(), Vec::new());
    for (index, files) in settings.certificates.iter().enumerate() {
        let of = |problem| (Part::Certificate(index), problem);
        match identity::load(files, &provider) {
            Ok(mut identity) => {
                warnings.extend(identity.warnings.drain(..).map(of));
                if files.acme.is_some() {
                    let mut last = BY_ACME.lock().unwrap_or_else(PoisonError::into_inner);
                    last.insert(files.certificate.clone(), identity.clone());
                } else {
                    certificates.push(FileCertificate {
                        file: files.certificate.clone(),
                        name: identity.names.first().cloned().unwrap_or_default(),
                        not_after: identity.validity[1],
                    });
                }
                identities.push(identity);
            }
            Err(found) => match &files.acme {
                Some(name) => {
                    let last = last_by_acme(&files.certificate);
                    warnings.extend(of_acme(found, files, last.is_some()).map(of));
                    match last {
                        Some(last) => identities.push(last),
                        None => awaited.push(name.clone()),
                    }
                }
                None => errors.extend(found.into_iter().map(of)),
            },
        }
    }
    let verifier = match settings.clients.as_ref().map(|one| one.verifier(&provider)) {
        None => None,
        Some(Ok((verifier, found))) => {
            warnings.extend(found);
            Some(verifier)
        }
        Some(Err((part, problem))) => {
            errors.push((part, *problem));
            None
        }
    };
    if !errors.is_empty() {
        return Err(errors);
    }
    let clients = verifier.as_ref().map(|one| Arc::clone(&one.verifier));
    let config: Result<ServerConfig, rustls::Error> = (|| {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(settings.minimum.versions())?;
        let tickets = match &verifier {
            Some(clients) => sessions::with_clients(clients.until),
            None => {
                let files = settings.certificates.iter();
                sessions::with_anybody(files.map(|files| files.certificate.clone()).collect())
            }
        }?;
        let builder = match verifier {
            Some(clients) => builder.with_client_cert_verifier(clients.verifier),
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
        Ok(config) => {
            let handshakes = Handshakes {
                config: Arc::new(config),
                certificates,
                clients,
                serial: READ.fetch_add(1, Relaxed),
            };
            Ok((handshakes, warnings))
        }
        Err(error) => Err(vec![(Part::Authorities, impossible(&error))]),
    }
}

/// How often files of listeners were read.
static READ: AtomicU64 = AtomicU64::new(0);

/// Certificates by ACME that were last read, each by its file. They remain in use whatever becomes of the file, also after a
/// reload, until carrick has ordered others.
static BY_ACME: Mutex<BTreeMap<PathBuf, Identity>> = Mutex::new(BTreeMap::new());

fn last_by_acme(file: &Path) -> Option<Identity> {
    let last = BY_ACME.lock().unwrap_or_else(PoisonError::into_inner);
    last.get(file).cloned()
}

/// What is to be said of a certificate by ACME that cannot be read: nothing if it has not been issued yet.
fn of_acme(
    found: Vec<Problem>,
    files: &CertificateFiles,
    has_last: bool,
) -> impl Iterator<Item = Problem> {
    let is_awaited = !has_last && matches!(files.certificate.try_exists(), Ok(false));
    let (severity, help) = match has_last {
        true => (Severity::Error, "the one that was read last stays in force"),
        false => (
            Severity::Warning,
            "another one is ordered; make sure that carrick's user can read and write there",
        ),
    };
    // Certificate and key are in one file.
    let said = found.into_iter().take(usize::from(!is_awaited));
    said.map(move |mut problem| {
        problem.severity = severity;
        problem.help(help);
        problem
    })
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
    identity::load(&files, &Arc::new(aws_lc_rs::default_provider()))
}

#[cfg(test)]
mod tests;
