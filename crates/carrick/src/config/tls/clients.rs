//! Certificates of clients: who issues them, and whether they are demanded.
use super::identity::{certificates, undecoded};
use super::pem::{PemFile, whole};
use super::revocation::lists;
use super::verifier::AnyCertificate;
use super::{Fault, Faults, Part, Provider};
use crate::config::problem::Problem;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use x509_cert::der::Decode;

/// `client_ca`, `client_crl` and `client_certificate`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The file with the authorities' certificates.
    pub ca: PathBuf,
    /// The file with the authorities' revocation lists.
    pub crl: Option<PathBuf>,
    /// Whether clients without one are refused.
    pub is_required: bool,
}

/// What verifies certificates of clients.
#[derive(Debug)]
pub struct ClientVerifier {
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// Until when it says the same of a certificate: the first revocation list expires.
    pub until: Option<SystemTime>,
}

impl ClientCertificates {
    /// All files that are named.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.ca).chain(&self.crl)
    }

    /// What verifies them. Also returns warnings.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn verifier(&self, provider: &Provider) -> Result<(ClientVerifier, Faults), Fault> {
        let of_authorities = |problem| (Part::Authorities, problem);
        let (roots, _) = authorities(&self.ca, "client CA", "clients").map_err(of_authorities)?;
        let mut builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let (mut until, mut warnings) = (None, Faults::new());
        if let Some(file) = &self.crl {
            let (lists, found) = lists(file, "client CRL")?;
            // The whole chain, and what is unknown or expired is refused.
            (until, warnings) = (lists.until, found);
            builder = builder
                .with_crls(lists.ders)
                .enforce_revocation_expiration();
        }
        let builder = if self.is_required {
            builder
        } else {
            builder.allow_unauthenticated()
        };
        let verifier = builder.build().map_err(|error| {
            of_authorities(whole(
                format!("these authorities cannot be used: {error}"),
                "",
            ))
        })?;
        Ok((ClientVerifier { verifier, until }, warnings))
    }
}

/// Reads a file of authorities, at least one; `what` it is, and whose certificates they issue. Also returns their
/// certificates.
///
/// # Errors
/// The file cannot be used.
pub fn authorities(
    path: &Path,
    what: &str,
    whose: &str,
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), Box<Problem>> {
    let file = PemFile::read(path, what)?;
    let (mut roots, mut ders) = (RootCertStore::empty(), Vec::new());
    for block in certificates(&file) {
        // One of an authority may have version 1 of X.509, as many of one's own do.
        let der = undecoded(&file, &block)?;
        roots.add(der.clone()).map_err(|error| {
            let message = format!("this certificate cannot be an authority: {error}");
            let help = format!("use the certificate that issues those of {whose}");
            file.problem(block.span.clone(), message, &help)
        })?;
        ders.push(der);
    }
    if ders.is_empty() {
        return Err(whole(
            format!("the {what} file {} has no certificate", file.name()),
            "it must have a block \"-----BEGIN CERTIFICATE-----\" for each authority",
        ));
    }
    Ok((roots, ders))
}

/// The authorities that this system trusts.
///
/// # Errors
/// There are none.
pub fn system_authorities() -> Result<RootCertStore, Box<Problem>> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Among so many there may be one that the library does not take.
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if taken > 0 {
        return Ok(roots);
    }
    let why = (found.errors.first()).map_or_else(String::new, |error| format!(": {error}"));
    Err(whole(
        format!("this system has no certificate authorities{why}"),
        "install ca-certificates, or name the authorities: `ca = \"ca.pem\"`",
    ))
}

/// The subject of a certificate as RFC 4514 writes it, such as `CN=alice,O=Example`, in ASCII.
#[must_use]
pub fn subject(der: &[u8]) -> Option<String> {
    let certificate = AnyCertificate::from_der(der).ok()?;
    let subject = certificate.tbs_certificate().subject().to_string();
    let mut ascii = String::with_capacity(subject.len());
    for byte in subject.bytes() {
        match byte {
            b' '..=b'~' => ascii.push(byte.into()),
            _ => ascii.push_str(&format!("\\{byte:02X}")),
        }
    }
    Some(ascii)
}
