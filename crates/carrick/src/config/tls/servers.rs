//! TLS to the servers of an upstream: who is trusted, what carrick presents, and the sessions that are resumed.
use super::clients::{authorities, system_authorities};
use super::pem::whole;
use super::revocation::lists;
use super::verifier::Verifier;
use super::{
    CertificateFiles, Fault, Faults, FromFiles, HTTP1_ALPN, HTTP2_ALPN, Minimum, Part, Provider,
    Tls, identity, impossible, sessions,
};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Tickets kept for each server, the most that the library keeps for one name.
const TICKETS: usize = 8;

/// Where this system has the authorities that it trusts; the library knows other places as well.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Replaces it (OpenSSL, `SSL_CTX_set_default_verify_paths`).
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";

/// Folders of further ones.
const SYSTEM_FOLDERS_VARIABLE: &str = "SSL_CERT_DIR";

/// The least time between two warnings of a server's handshakes.
const WARNING_EVERY: Duration = Duration::from_secs(10);

/// Who issues servers' certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorities {
    /// Those that this system trusts. When this file changes, they are read again.
    System(PathBuf),
    /// Those in a file.
    File(PathBuf),
    /// Anybody: servers are not verified.
    Anybody,
}

/// What is offered to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/2, or else HTTP/1.1.
    Any,
}

impl Protocols {
    /// As they are offered (RFC 7301), the best first.
    fn offered(self) -> Vec<Vec<u8>> {
        let offered: &[&[u8]] = match self {
            Self::Http1 => &[HTTP1_ALPN],
            Self::Http2 => &[HTTP2_ALPN],
            Self::Any => &[HTTP2_ALPN, HTTP1_ALPN],
        };
        offered.iter().map(|one| one.to_vec()).collect()
    }
}

/// What the configuration says of TLS to servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTlsSettings {
    /// Who issues their certificates.
    pub authorities: Authorities,
    /// The file with the authorities' revocation lists.
    pub crl: Option<PathBuf>,
    /// What is presented to servers that ask for a certificate.
    pub certificate: Option<CertificateFiles>,
    /// What is offered to be spoken.
    pub protocols: Protocols,
    /// The oldest version.
    pub minimum: Minimum,
    /// The name of each server, in the order of the upstream, which is asked for and must be in its certificate.
    pub names: Vec<ServerName<'static>>,
}

/// How handshakes with servers are done.
#[derive(Debug)]
pub struct ServerHandshakes {
    /// For the library, one for each server.
    configs: Vec<Arc<ClientConfig>>,
    /// See [`ServerTls::digest`].
    digest: u64,
}

/// The secret of all digests: nobody can write files that have the same one.
static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// TLS to servers.
#[derive(Debug)]
pub struct ServerTls {
    /// Whose it is, for messages: `upstream NAME`.
    pub owner: String,
    /// What is in force.
    pub files: Tls<ServerTlsSettings>,
    /// When a warning of each server was last logged.
    warned: Vec<Mutex<Option<Instant>>>,
}

impl ServerTls {
    /// Reads all files. Also returns warnings.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    pub fn load(owner: String, settings: ServerTlsSettings) -> Result<(Self, Faults), Faults> {
        let warned = settings.names.iter().map(|_| Mutex::default()).collect();
        let (files, warnings) = Tls::load(settings)?;
        let tls = Self {
            owner,
            files,
            warned,
        };
        Ok((tls, warnings))
    }

    /// How to shake hands with a server, its name, and the [digest](Self::digest).
    #[must_use]
    pub fn server(&self, server: usize) -> Option<(Arc<ClientConfig>, ServerName<'static>, u64)> {
        let in_force = self.files.in_force();
        let config = in_force.configs.get(server)?.clone();
        let name = self.files.settings.names.get(server)?.clone();
        Some((config, name, in_force.digest))
    }

    /// Identifies the authorities, revocation lists and own certificate in force: it stays the same, across reloads, too, as long as
    /// the files have the same contents. Connections with another one were verified by what is no longer in force.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.files.in_force.load().digest
    }

    /// A new session with a server, and the [digest](Self::digest); `is_http1`: nothing else is offered.
    ///
    /// # Errors
    /// The kernel gives no random numbers, or there is no such server.
    pub fn session(
        &self,
        server: usize,
        is_http1: bool,
    ) -> Result<(ClientConnection, u64), rustls::Error> {
        let unknown = || rustls::Error::General("no such server".to_owned());
        let (config, name, digest) = self.server(server).ok_or_else(unknown)?;
        let session = match is_http1 {
            true => ClientConnection::new_with_alpn(config, name, Protocols::Http1.offered()),
            false => ClientConnection::new(config, name),
        };
        Ok((session?, digest))
    }

    /// Whether a warning of a server may be logged now, which is then noted.
    pub fn may_warn(&self, server: usize, now: Instant) -> bool {
        let Some(warned) = self.warned.get(server) else {
            return false;
        };
        let mut warned = warned.lock().unwrap_or_else(PoisonError::into_inner);
        let may = warned.is_none_or(|at| now.duration_since(at) >= WARNING_EVERY);
        if may {
            *warned = Some(now);
        }
        may
    }
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        self.files.settings == other.files.settings
    }
}

impl FromFiles for ServerTlsSettings {
    type Made = ServerHandshakes;

    fn files(&self) -> impl Iterator<Item = &Path> {
        let authorities = match &self.authorities {
            Authorities::System(file) | Authorities::File(file) => Some(file),
            Authorities::Anybody => None,
        };
        let own = (self.certificate.iter()).flat_map(|files| [&files.certificate, &files.key]);
        let files = authorities.into_iter().chain(&self.crl).chain(own);
        files.map(PathBuf::as_path)
    }

    fn read(&self) -> Result<(Self::Made, Faults), Faults> {
        let (config, until, digest, warnings) = self.made()?;
        let each = self.names.iter().map(|_| {
            let mut config = config.clone();
            // A server has no use for the tickets of another, and sessions end with what has verified them.
            config.resumption = sessions::with_server(TICKETS, until);
            Arc::new(config)
        });
        let configs = each.collect();
        Ok((ServerHandshakes { configs, digest }, warnings))
    }
}

impl ServerTlsSettings {
    /// For servers that these authorities issue certificates to.
    #[must_use]
    pub fn new(authorities: Authorities) -> Self {
        Self {
            authorities,
            crl: None,
            certificate: None,
            protocols: Protocols::Http1,
            minimum: Minimum::Tls12,
            names: Vec::new(),
        }
    }

    /// How to shake hands with any server. Also returns warnings.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    pub fn config(&self) -> Result<(ClientConfig, Faults), Faults> {
        let (mut config, until, _, warnings) = self.made()?;
        config.resumption = sessions::with_server(TICKETS, until);
        Ok((config, warnings))
    }

    /// The same without sessions, when the first revocation list expires, and the [digest](ServerTls::digest).
    fn made(&self) -> Result<(ClientConfig, Option<SystemTime>, u64, Faults), Faults> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut digest = SEED.build_hasher();
        let (mut warnings, mut errors) = (Faults::new(), Faults::new());
        let of_certificate = |problem| (Part::Certificate(0), problem);
        let verifier = match self.verifier(&provider, &mut digest) {
            Ok((verifier, until, found)) => {
                warnings.extend(found);
                Some((verifier, until))
            }
            Err((part, problem)) => {
                errors.push((part, *problem));
                None
            }
        };
        let own = match &self.certificate {
            None => None,
            Some(files) => match identity::load(files, &provider) {
                Ok(identity) => {
                    warnings.extend(identity.warnings.into_iter().map(of_certificate));
                    // There is one key for it.
                    identity.key.cert.hash(&mut digest);
                    Some(identity.key)
                }
                Err(found) => {
                    errors.extend(found.into_iter().map(of_certificate));
                    None
                }
            },
        };
        let (Some((verifier, until)), true) = (verifier, errors.is_empty()) else {
            return Err(errors);
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(self.minimum.versions())
            .map_err(|error| vec![(Part::Authorities, impossible(&error))])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match own {
            Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.protocols.offered();
        Ok((config, until, digest.finish(), warnings))
    }
}

impl ServerTlsSettings {
    /// Adds what is read to the digest. Also returns when the first revocation list expires, and warnings.
    fn verifier(
        &self,
        provider: &Provider,
        digest: &mut impl Hasher,
    ) -> Result<(Verifier, Option<SystemTime>, Faults), Fault> {
        let of_authorities = |problem| (Part::Authorities, problem);
        let (roots, trusted) = match &self.authorities {
            Authorities::System(_) => (system_authorities().map_err(of_authorities)?, Vec::new()),
            Authorities::File(path) => {
                authorities(path, "CA", "the servers").map_err(of_authorities)?
            }
            Authorities::Anybody => (RootCertStore::empty(), Vec::new()),
        };
        let (lists, warnings) = match &self.crl {
            Some(file) => lists(file, "CRL")?,
            None => Default::default(),
        };
        (&roots.roots, &trusted, &lists.ders).hash(digest);
        let until = lists.until;
        let chain = match &self.authorities {
            Authorities::Anybody => None,
            _ => Some(
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                    .with_crls(lists.ders)
                    .enforce_revocation_expiration()
                    .build()
                    .map_err(|error| {
                        of_authorities(whole(
                            format!("these authorities cannot be used: {error}"),
                            "",
                        ))
                    })?,
            ),
        };
        let verifier = Verifier {
            chain,
            trusted,
            algorithms: provider.signature_verification_algorithms,
        };
        Ok((verifier, until, warnings))
    }
}

impl Authorities {
    /// Those in a file, else the system's.
    #[must_use]
    pub fn of(file: Option<PathBuf>) -> Self {
        let of_system = || std::env::var_os(SYSTEM_VARIABLE).map(PathBuf::from);
        file.map_or_else(
            || Self::System(of_system().unwrap_or_else(|| SYSTEM_AUTHORITIES.into())),
            Self::File,
        )
    }

    /// Folders in which there may be further ones.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        match (self, std::env::var_os(SYSTEM_FOLDERS_VARIABLE)) {
            (Self::System(_), Some(folders)) => std::env::split_paths(&folders).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::generate_simple_self_signed;

    #[test]
    fn the_digest_is_that_of_the_contents() {
        let folder = tempfile::tempdir().unwrap();
        let made = [(); 2].map(|()| generate_simple_self_signed(["a.example".to_owned()]).unwrap());
        let [ca, own] = ["ca", "own"].map(|name| folder.path().join(name));
        let digest = |of_ca: usize, of_own: usize| {
            std::fs::write(&ca, made[of_ca].cert.pem()).unwrap();
            let key = made[of_own].signing_key.serialize_pem();
            std::fs::write(&own, made[of_own].cert.pem() + &key).unwrap();
            let settings = ServerTlsSettings {
                certificate: Some(CertificateFiles {
                    certificate: own.clone(),
                    key: own.clone(),
                    ocsp: None,
                    acme: None,
                }),
                ..ServerTlsSettings::new(Authorities::File(ca.clone()))
            };
            let (tls, _) = ServerTls::load("upstream u".to_owned(), settings).unwrap();
            tls.digest()
        };
        let first = digest(0, 0);
        assert_eq!(digest(0, 0), first);
        assert_ne!(digest(1, 0), first);
        assert_ne!(digest(0, 1), first);
    }

    #[test]
    fn warnings_of_each_server_are_few() {
        let name = ServerName::try_from("a.example").unwrap();
        let settings = ServerTlsSettings {
            authorities: Authorities::Anybody,
            crl: None,
            certificate: None,
            protocols: Protocols::Http1,
            minimum: Minimum::Tls12,
            names: vec![name.clone(), name],
        };
        let (tls, warnings) = ServerTls::load("upstream u".to_owned(), settings).unwrap();
        assert!(warnings.is_empty());
        let begun = Instant::now();
        // A server, seconds, and whether a warning may be logged.
        let table = [
            (0, 0, true),
            (0, 9, false),
            (1, 9, true),
            (0, 10, true),
            (1, 10, false),
            (0, 19, false),
            (2, 30, false),
        ];
        for (server, seconds, expected) in table {
            let now = begun + Duration::from_secs(seconds);
            assert_eq!(tls.may_warn(server, now), expected, "{server} {seconds}");
        }
    }
}
