//! Certificate revocation lists (RFC 5280 section 5), from files.
use super::pem::{PemFile, read_at_most, whole};
use super::{Fault, Faults, Part};
use crate::config::problem::{Problem, Severity};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use std::time::SystemTime;
use x509_cert::crl::CertificateList;
use x509_cert::der::Decode;

/// Most bytes of such a file: some hundred thousand entries.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What the label of a block is.
const LABEL: &str = "X509 CRL";

/// What was read, with warnings.
type Read<T> = Result<(T, Vec<Problem>), Box<Problem>>;

/// Revocation lists.
#[derive(Debug, Default)]
pub struct Lists {
    pub ders: Vec<CertificateRevocationListDer<'static>>,
    /// When the first of them expires.
    pub until: Option<SystemTime>,
}

impl Lists {
    /// Takes a list; whether it has expired.
    fn take(&mut self, der: CertificateRevocationListDer<'static>) -> Result<bool, String> {
        let next = next_update(&der)?;
        self.until = self.until.into_iter().chain(next).min();
        self.ders.push(der);
        Ok(next.is_some_and(|time| time < SystemTime::now()))
    }
}

/// Reads a file of lists, at least one, in PEM, or one in DER; `what` it is. Also returns warnings.
///
/// # Errors
/// The file cannot be used.
pub fn lists(path: &Path, what: &str) -> Result<(Lists, Faults), Fault> {
    let of = |problem| (Part::RevocationLists, problem);
    let (lists, warnings) = read(path, what).map_err(|problem| (Part::RevocationLists, problem))?;
    Ok((lists, warnings.into_iter().map(of).collect()))
}

fn read(path: &Path, what: &str) -> Read<Lists> {
    let bytes = read_at_most(path, what, FILE_BYTES_MAX)?;
    let name = path.display().to_string();
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return one(error.into_bytes(), &name, what),
    };
    let file = PemFile::of(text, name.clone());
    let (mut lists, mut warnings) = (Lists::default(), Vec::new());
    for block in file.blocks().filter(|block| block.label == LABEL) {
        let bad = |error: String| {
            let message = format!("this revocation list cannot be read: {error}");
            file.problem(block.span.clone(), message, HELP)
        };
        let der = CertificateRevocationListDer::from_pem_slice(block.text.as_bytes())
            .map_err(|error| bad(error.to_string()))?;
        if lists.take(der).map_err(bad)? {
            let mut problem = file.problem(block.span.clone(), EXPIRED, RENEW);
            problem.severity = Severity::Warning;
            warnings.push(*problem);
        }
    }
    match lists.ders.is_empty() {
        true => Err(whole(
            format!("the {what} file {name} has no revocation list"),
            "it must have a block \"-----BEGIN X509 CRL-----\" for each authority, or be one list in DER",
        )),
        false => Ok((lists, warnings)),
    }
}

const HELP: &str = "it must be of version 2 (RFC 5280 section 5.1); `openssl ca -gencrl` makes such lists with `crl_extensions`";
const EXPIRED: &str = "this revocation list has expired: certificates of its authority are refused";
const RENEW: &str = "get a new one from its authority";

/// A file with one list in DER.
fn one(bytes: Vec<u8>, name: &str, what: &str) -> Read<Lists> {
    let mut lists = Lists::default();
    let warnings = match lists.take(bytes.into()) {
        Ok(false) => Vec::new(),
        Ok(true) => {
            let mut problem = whole(format!("{name}: {EXPIRED}"), RENEW);
            problem.severity = Severity::Warning;
            vec![*problem]
        }
        Err(error) => {
            return Err(whole(
                format!("the {what} file {name} is not a revocation list in PEM or DER: {error}"),
                HELP,
            ));
        }
    };
    Ok((lists, warnings))
}

/// When there should be a newer one.
fn next_update(der: &[u8]) -> Result<Option<SystemTime>, String> {
    let list = <CertificateList as Decode>::from_der(der).map_err(|error| error.to_string())?;
    let next = list.tbs_cert_list.next_update;
    Ok(next.map(|time| time.to_system_time()))
}
