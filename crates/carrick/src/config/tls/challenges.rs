//! Answers to the challenges by which an authority sees that a name is carrick's. They are files beside the certificates,
//! so that every process that shares these can answer.
use super::new_file::NewFile;
use rcgen::{CertificateParams, CustomExtension, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::crypto::aws_lc_rs::sign::any_ecdsa_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most that a challenge's file has: a name, and a token with a thumbprint.
const ANSWER_BYTES_MAX: u64 = 1024;

/// The most letters of a token. Authorities have at least 22 (RFC 8555 section 8.3), and seldom more than 43.
const TOKEN_BYTES_MAX: usize = 128;

/// The folder of answers.
#[derive(Debug, Clone)]
pub struct ChallengeFiles(PathBuf);

/// An answer that is there until it is dropped.
#[derive(Debug)]
pub struct Answer(PathBuf);

impl Drop for Answer {
    fn drop(&mut self) {
        // An answer that stays says nothing to anybody who does not have its token.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl ChallengeFiles {
    /// Where authorities ask for answers by HTTP, before the token (RFC 8555 section 8.3).
    pub const PATH: &str = "/.well-known/acme-challenge/";

    /// Those in this folder of certificates.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self(folder.join("challenges"))
    }

    /// Gives the answer for a token to HTTP requests for this host (RFC 8555 section 8.3).
    ///
    /// # Errors
    /// The file cannot be written, or the token is none.
    pub fn answer_http(&self, host: &str, token: &str, answer: &str) -> io::Result<Answer> {
        if !is_token(token) {
            return Err(io::Error::other("the authority's token is not one"));
        }
        self.write(token, &format!("{host}\n{answer}"))
    }

    /// Gives the answer to TLS handshakes with this name (RFC 8737 section 3).
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn answer_tls(&self, name: &str, answer: &str) -> io::Result<Answer> {
        self.write(&of_name(name), answer)
    }

    /// The answer to a request for this host and token, if there is one.
    #[must_use]
    pub fn http(&self, host: &[u8], token: &[u8]) -> Option<String> {
        let token = std::str::from_utf8(token).ok()?;
        if !is_token(token) {
            return None;
        }
        let text = self.read(token)?;
        let (own, answer) = text.split_once('\n')?;
        own.as_bytes()
            .eq_ignore_ascii_case(host)
            .then(|| answer.to_owned())
    }

    /// A certificate that answers for this name, if there is an answer.
    pub(super) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        if !(name.bytes()).all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)) {
            return None;
        }
        let answer = self.read(&of_name(&name))?;
        match certificate(&name, &answer) {
            Ok(made) => Some(Arc::new(made)),
            Err(error) => {
                tracing::error!("{name}: cannot answer the challenge tls-alpn-01: {error}");
                None
            }
        }
    }

    fn read(&self, name: &str) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.0.join(name)).ok()?;
        file.take(ANSWER_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Others see the whole file or none.
    fn write(&self, name: &str, text: &str) -> io::Result<Answer> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0);
        made?;
        let path = self.0.join(name);
        NewFile::write(path.clone(), text.as_bytes())?.put()?;
        Ok(Answer(path))
    }
}

/// Tokens have no dot, and names of files for TLS have one.
fn of_name(name: &str) -> String {
    format!("{name}.tls")
}

/// Base64url (RFC 8555 section 8.3).
fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_letter)
}

fn certificate(name: &str, answer: &str) -> Result<CertifiedKey, Box<dyn std::error::Error>> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    let digest = Sha256::digest(answer.as_bytes());
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&digest)];
    let made = params.self_signed(&key)?;
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let chain = vec![CertificateDer::from(made.der().to_vec())];
    Ok(CertifiedKey::new(chain, any_ecdsa_type(&der)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_for_its_host_and_token_as_long_as_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let files = ChallengeFiles::new(folder.path());
        let token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA";
        let kept = files.answer_http("a.example", token, "answer").unwrap();
        let asked = |host: &str, token: &str| files.http(host.as_bytes(), token.as_bytes());
        assert_eq!(asked("A.example", token).as_deref(), Some("answer"));
        for (host, token) in [
            ("b.example", token),
            ("a.example", "another"),
            ("a.example", ""),
            ("a.example", "../a.example.pem"),
            ("a.example", "."),
        ] {
            assert_eq!(asked(host, token), None, "{host} {token}");
        }
        drop(kept);
        assert_eq!(asked("a.example", token), None);
        assert!(files.answer_http("a.example", "../x", "").is_err());
    }

    #[test]
    fn a_certificate_answers_for_its_name_only() {
        let folder = tempfile::tempdir().unwrap();
        let files = ChallengeFiles::new(folder.path());
        let _kept = files.answer_tls("a.example", "token.thumbprint").unwrap();
        assert!(files.certificate("A.Example").is_some());
        assert!(files.certificate("b.example").is_none());
        assert!(files.certificate("../challenges/a.example").is_none());
        let made = certificate("a.example", "token.thumbprint").unwrap();
        // RFC 8737 section 3: id-pe-acmeIdentifier, critical, with the digest.
        let mut expected =
            b"\x06\x08\x2b\x06\x01\x05\x05\x07\x01\x1f\x01\x01\xff\x04\x22\x04\x20".to_vec();
        expected.extend(Sha256::digest(b"token.thumbprint"));
        let der = made.cert[0].as_ref();
        assert!(der.windows(expected.len()).any(|part| part == expected));
    }
}
