//! Whether a server is the one that was meant, by its certificate.
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode;

/// A certificate that may break rules which are for its issuer, such as the longest serial number (RFC 5280 section 4.1.2.2): the library
/// that verifies chains takes it, too.
pub(super) type AnyCertificate = CertificateInner<Raw>;

/// Verifies servers' certificates. That a server has the certificate's key is verified in any case.
#[derive(Debug)]
pub struct Verifier {
    /// Finds a chain to an authority; `None`: any certificate will do.
    pub chain: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates that are trusted themselves, as those that nobody else has signed.
    pub trusted: Vec<CertificateDer<'static>>,
    /// The signatures that can be verified.
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        if !self.trusted.contains(own) {
            return chain.verify_server_cert(own, intermediates, name, ocsp, now);
        }
        check_time(own, now)?;
        verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a certificate is valid now.
pub(super) fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let certificate =
        AnyCertificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let validity = certificate.tbs_certificate().validity();
    let unix_time = |time: Duration| UnixTime::since_unix_epoch(time);
    let not_before = unix_time(validity.not_before.to_unix_duration());
    let not_after = unix_time(validity.not_after.to_unix_duration());
    if now < not_before {
        let error = CertificateError::NotValidYetContext {
            time: now,
            not_before,
        };
        return Err(error.into());
    }
    if now > not_after {
        let error = CertificateError::ExpiredContext {
            time: now,
            not_after,
        };
        return Err(error.into());
    }
    Ok(())
}
