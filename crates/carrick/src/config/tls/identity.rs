//! A certificate with its chain and its key: reads the files and checks that they belong together.
use super::ocsp::Ocsp;
use super::pem::{Block, PemFile, whole};
use super::{CertificateFiles, Provider};
use crate::config::problem::{Problem, Severity};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error};
use std::sync::Arc;
use std::time::SystemTime;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// How to look at a certificate.
const SEE: &str = "`openssl x509 -in FILE -noout -text` shows what is in it";
/// What is wrong with a certificate of [version 1](is_of_version_1), and what to do.
pub const VERSION_1: &str = "the certificate has version 1 of X.509, and must have version 3: issue it with extensions (`openssl x509 -req … -extfile`)";
/// What a key file looks like.
const KEY_FORM: &str =
    "it must have one block \"PRIVATE KEY\" (PKCS#8), \"EC PRIVATE KEY\" or \"RSA PRIVATE KEY\"";

/// A certificate that can be used.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Chain and key.
    pub key: Arc<CertifiedKey>,
    /// When its OCSP response expires, and the same without it.
    pub without_staple: Option<(SystemTime, Arc<CertifiedKey>)>,
    /// DNS names in lower case; a wildcard as `*.example.org`.
    pub names: Vec<String>,
    /// From when to when it is valid.
    pub validity: [SystemTime; 2],
    /// What is suspicious.
    pub warnings: Vec<Problem>,
}

/// Reads a certificate and its key.
///
/// # Errors
/// Everything that is wrong.
pub fn load(files: &CertificateFiles, provider: &Provider) -> Result<Identity, Vec<Problem>> {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let chain = note(
        &mut problems,
        PemFile::read(&files.certificate, "certificate"),
    )
    .and_then(|file| note(&mut problems, chain(&file)).map(|chain| (file, chain)));
    let key = note(&mut problems, PemFile::read(&files.key, "key"))
        .and_then(|file| note(&mut problems, key(&file, provider)));
    let ocsp = files.ocsp.as_deref().and_then(|path| {
        let read = note(&mut problems, Ocsp::read(path))?;
        Some((read, path))
    });
    let (Some((file, chain)), Some(key), true) = (chain, key, problems.is_empty()) else {
        return Err(problems);
    };
    let mut certified = CertifiedKey::new(chain.ders, key);
    let stapled = ocsp.and_then(|(read, path)| {
        let stapled = read.of(&chain.first, path);
        stapled.map_err(|problem| warnings.push(*problem)).ok()
    });
    let mut without_staple = None;
    if let Some((response, until)) = stapled {
        without_staple = until.map(|until| (until, Arc::new(certified.clone())));
        certified.ocsp = Some(response);
    }
    if let Err(Error::InconsistentKeys(_)) = certified.keys_match() {
        let message = format!(
            "the key in {} is not that of the certificate in {}",
            files.key.display(),
            file.name()
        );
        let help = "the server's own certificate must be the first in its file, before those that issued it";
        return Err(vec![*file.problem(chain.first_span, message, help)]);
    }
    warnings.extend(out_of_time(&file, &chain.first, chain.first_span.clone()));
    let names = names(&chain.first);
    let validity = chain.first.tbs_certificate().validity();
    let validity = [validity.not_before, validity.not_after].map(|time| time.to_system_time());
    Ok(Identity {
        key: Arc::new(certified),
        without_staple,
        names,
        validity,
        warnings,
    })
}

fn note<T>(problems: &mut Vec<Problem>, result: Result<T, Box<Problem>>) -> Option<T> {
    result.map_err(|problem| problems.push(*problem)).ok()
}

/// The certificates of a file.
struct Chain {
    ders: Vec<CertificateDer<'static>>,
    first: Certificate,
    first_span: std::ops::Range<usize>,
}

fn chain(file: &PemFile) -> Result<Chain, Box<Problem>> {
    let mut ders = Vec::new();
    let mut first = None;
    for block in certificates(file) {
        let der = certificate(file, &block)?;
        if first.is_none() {
            let parsed = Certificate::from_der(&der)
                .map_err(|error| bad(file, &block, &error.to_string()))?;
            first = Some((parsed, block.span));
        }
        ders.push(der);
    }
    let Some((first, first_span)) = first else {
        let message = format!("the certificate file {} has no certificate", file.name());
        return Err(whole(
            message,
            "it must have a block \"-----BEGIN CERTIFICATE-----\"",
        ));
    };
    Ok(Chain {
        ders,
        first,
        first_span,
    })
}

/// The blocks with certificates.
pub fn certificates(file: &PemFile) -> impl Iterator<Item = Block<'_>> {
    file.blocks().filter(|block| block.label == "CERTIFICATE")
}

/// One certificate, of which nothing but the block is looked at.
pub fn undecoded(
    file: &PemFile,
    block: &Block<'_>,
) -> Result<CertificateDer<'static>, Box<Problem>> {
    CertificateDer::from_pem_slice(block.text.as_bytes())
        .map_err(|error| bad(file, block, &reason(&error)))
}

/// One certificate, of which the outer form is checked.
pub fn certificate(
    file: &PemFile,
    block: &Block<'_>,
) -> Result<CertificateDer<'static>, Box<Problem>> {
    let der = undecoded(file, block)?;
    rustls::server::ParsedCertificate::try_from(&der).map_err(|error| match error {
        Error::InvalidCertificate(error) if is_of_version_1(&error) => bad(file, block, VERSION_1),
        error => bad(file, block, &error.to_string()),
    })?;
    Ok(der)
}

/// Whether the certificate has version 1 of X.509: rustls shows such an error of its library by name only.
#[must_use]
pub fn is_of_version_1(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(other) if other.to_string() == "UnsupportedCertVersion")
}

fn bad(file: &PemFile, block: &Block<'_>, reason: &str) -> Box<Problem> {
    let message = format!("this certificate cannot be read: {reason}");
    file.problem(block.span.clone(), message, SEE)
}

/// What is wrong with a block.
fn reason(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "its END line is missing".to_owned(),
        pem::Error::Base64Decode(_) => "its text is not Base64".to_owned(),
        other => other.to_string(),
    }
}

fn key(
    file: &PemFile,
    provider: &Provider,
) -> Result<Arc<dyn rustls::sign::SigningKey>, Box<Problem>> {
    let mut blocks = file
        .blocks()
        .filter(|block| block.label.ends_with("PRIVATE KEY"));
    let Some(block) = blocks.next() else {
        let message = format!("the key file {} has no private key", file.name());
        return Err(whole(message, KEY_FORM));
    };
    let at = |message: &str, help: &str| file.problem(block.span.clone(), message, help);
    if let Some(second) = blocks.next() {
        return Err(file.problem(
            second.span,
            "there is a second private key in this file",
            KEY_FORM,
        ));
    }
    if block.label.starts_with("ENCRYPTED") || block.text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(at(
            "this key is encrypted with a password",
            "`openssl pkey -in FILE -out NEW` removes it; let only carrick's user read the result",
        ));
    }
    let der = PrivateKeyDer::from_pem_slice(block.text.as_bytes()).map_err(|error| {
        at(
            &format!("this key cannot be read: {}", reason(&error)),
            KEY_FORM,
        )
    })?;
    (provider.key_provider.load_private_key(der)).map_err(|_| {
        at(
            "this key cannot be used",
            "it is damaged, or of another kind than RSA (2048 to 8192 bits), ECDSA (P-256, P-384, P-521) and Ed25519",
        )
    })
}

/// DNS names (RFC 9525 section 6.3); the common name does not count, as nowhere today.
fn names(certificate: &Certificate) -> Vec<String> {
    let names = certificate
        .tbs_certificate()
        .get_extension::<SubjectAltName>();
    let names = names
        .ok()
        .flatten()
        .map(|(_, names)| names.0)
        .unwrap_or_default();
    let dns = names.into_iter().filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.to_string().to_ascii_lowercase()),
        _ => None,
    });
    dns.collect()
}

/// Clients refuse it, but a clock may be wrong, and a certificate that is about to be replaced should not keep carrick from starting.
fn out_of_time(
    file: &PemFile,
    certificate: &Certificate,
    span: std::ops::Range<usize>,
) -> Option<Problem> {
    let validity = certificate.tbs_certificate().validity();
    let now = SystemTime::now();
    let message = if validity.not_after.to_system_time() < now {
        format!("this certificate has expired ({})", validity.not_after)
    } else if validity.not_before.to_system_time() > now {
        format!(
            "this certificate is not valid yet ({})",
            validity.not_before
        )
    } else {
        return None;
    };
    let mut problem = file.problem(span, message, "renew it; it will be refused");
    problem.severity = Severity::Warning;
    Some(*problem)
}
