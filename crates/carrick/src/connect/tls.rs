//! TLS handshakes with servers.
use crate::config::tls::{ServerTls, VERSION_1, is_of_version_1};
use crate::net::deadline::now;
use crate::net::io::write_all;
use crate::net::transport::Transport;
use crate::net::transport::tls::{HandshakeError, TlsStream};
use crate::telemetry::metrics::{ServerHandshake, WorkerMetrics};
use crate::upstream::{Unreachable, Upstream};
use rustls::{AlertDescription as Alert, CertificateError, Error};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A handshake to be done with a server.
#[derive(Debug, Clone)]
pub struct Handshake {
    /// How.
    pub tls: Arc<ServerTls>,
    /// Which of its servers.
    pub server: usize,
    /// What is sent before, in plain: a PROXY header.
    pub preamble: Vec<u8>,
    /// Whether only HTTP/1.1 is offered, whatever the upstream says.
    pub is_http1: bool,
}

impl Handshake {
    /// Performs it on a new connection. The caller limits the time.
    ///
    /// # Errors
    /// It failed, which is counted and logged.
    pub async fn perform(
        &self,
        upstream: &mut Upstream,
        metrics: &WorkerMetrics,
    ) -> Result<(), Unreachable> {
        // Boxed: what few connections need should not make every session larger.
        match Box::pin(self.shake_hands(&upstream.transport)).await {
            Ok(stream) => {
                metrics
                    .server_tls_handshakes
                    .count(match stream.is_resumed() {
                        true => ServerHandshake::Resumed,
                        false => ServerHandshake::Full,
                    });
                upstream.transport = Transport::Tls(Rc::new(stream));
                Ok(())
            }
            Err(error) => Err(failed(
                (&self.tls, self.server),
                upstream.address,
                error,
                metrics,
            )),
        }
    }

    async fn shake_hands(&self, transport: &Transport) -> Result<TlsStream, HandshakeError> {
        let tcp = transport
            .shared_tcp()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        write_all(&**tcp, &self.preamble).await?;
        let (session, digest) = self.tls.session(self.server, self.is_http1)?;
        TlsStream::connect(Rc::clone(tcp), session, digest).await
    }

    /// It took too long, which is counted and logged.
    pub fn timed_out(&self, address: SocketAddr, metrics: &WorkerMetrics) -> Unreachable {
        metrics
            .server_tls_handshakes
            .count(ServerHandshake::Timeout);
        let why = "it took too long: is this the server's port for TLS?";
        warn((&self.tls, self.server), address, why);
        Unreachable::TlsTimedOut(address)
    }
}

/// Counts and logs a handshake that failed, or that the server takes back afterwards.
pub fn failed(
    (tls, server): (&ServerTls, usize),
    address: SocketAddr,
    error: HandshakeError,
    metrics: &WorkerMetrics,
) -> Unreachable {
    metrics.server_tls_handshakes.count(kind(&error));
    let has_certificate = tls.files.settings.certificate.is_some();
    let why = match advice(&error, has_certificate) {
        "" => error.to_string(),
        advice => format!("{error}; {advice}"),
    };
    warn((tls, server), address, &why);
    Unreachable::Tls { address, error }
}

/// A server that fails would fill the log: warnings of each are few.
fn warn((tls, server): (&ServerTls, usize), address: SocketAddr, why: &str) {
    let name = tls.files.settings.names.get(server);
    let name = name.map_or_else(Default::default, |name| name.to_str());
    let owner = &tls.owner;
    if tls.may_warn(server, now()) {
        tracing::warn!("{owner}: TLS handshake with {address} as \"{name}\": {why}");
    } else {
        tracing::debug!("{owner}: TLS handshake with {address} as \"{name}\": {why}");
    }
}

/// What a failure is counted as.
fn kind(error: &HandshakeError) -> ServerHandshake {
    match error {
        HandshakeError::Closed | HandshakeError::Tcp(_) => ServerHandshake::Closed,
        HandshakeError::NotTls => ServerHandshake::NotTls,
        HandshakeError::Tls(error) => match error {
            Error::AlertReceived(Alert::ProtocolVersion | Alert::HandshakeFailure)
            | Error::PeerIncompatible(_)
            | Error::NoApplicationProtocol => ServerHandshake::Incompatible,
            Error::AlertReceived(_) => ServerHandshake::Alert,
            Error::NoCertificatesPresented | Error::InvalidCertificate(_) => {
                ServerHandshake::Certificate
            }
            Error::InvalidMessage(_) | Error::PeerMisbehaved(_) | Error::DecryptError => {
                ServerHandshake::Malformed
            }
            _ => ServerHandshake::Other,
        },
    }
}

/// What would be right; empty if that is not known.
#[must_use]
pub fn advice(error: &HandshakeError, has_certificate: bool) -> &'static str {
    let error = match error {
        HandshakeError::NotTls => return "use the server's port for TLS, or remove `tls`",
        HandshakeError::Closed | HandshakeError::Tcp(_) => return "the server's log may say why",
        HandshakeError::Tls(error) => error,
    };
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnknownCA
            | Alert::CertificateUnknown
            | Alert::CertificateExpired
            | Alert::UnsupportedCertificate
            | Alert::AccessDenied,
        ) => match has_certificate {
            true => "the server does not accept the `certificate` of `tls`",
            false => "the server demands a certificate: add `certificate` and `key` to `tls`",
        },
        Error::AlertReceived(Alert::UnrecognisedName) => {
            "the server does not know this name: set `server_name` of `tls`"
        }
        Error::AlertReceived(Alert::ProtocolVersion | Alert::HandshakeFailure)
        | Error::PeerIncompatible(_) => {
            "the server must speak TLS 1.2 or 1.3 (not older than `minimum` of `tls`) with AES-GCM or ChaCha20-Poly1305"
        }
        Error::AlertReceived(Alert::NoApplicationProtocol) => {
            "the server does not speak what `http2` of its upstream says"
        }
        _ => "",
    }
}

fn of_certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "`ca` of `tls` must name the authority that issued it, and the server must send the certificates in between"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "set `server_name` of `tls` to a name that it has"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew the server's certificate, or correct this machine's clock"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "correct the clock of this machine, or of the one that issued the certificate"
        }
        CertificateError::Revoked => "its authority has revoked it: renew the server's certificate",
        CertificateError::UnknownRevocationStatus => {
            "`crl` of `tls` must have a list of each authority of the chain"
        }
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "get a new list for `crl` of `tls`"
        }
        error if is_of_version_1(error) => VERSION_1,
        CertificateError::Other(_) => {
            "a certificate that signs others cannot be the server's, unless `ca` of `tls` has it"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use std::sync::Arc;

    #[test]
    fn failures_are_told_apart() {
        use ServerHandshake as Kind;
        let unknown = CertificateError::UnknownIssuer;
        let table: [(HandshakeError, Kind, &str); 6] = [
            (HandshakeError::NotTls, Kind::NotTls, "port for TLS"),
            (HandshakeError::Closed, Kind::Closed, "log"),
            (Error::from(unknown).into(), Kind::Certificate, "`ca`"),
            (
                Error::AlertReceived(Alert::CertificateRequired).into(),
                Kind::Alert,
                "demands",
            ),
            (
                Error::AlertReceived(Alert::ProtocolVersion).into(),
                Kind::Incompatible,
                "1.2",
            ),
            (Error::DecryptError.into(), Kind::Malformed, ""),
        ];
        for (error, expected, words) in table {
            assert_eq!(kind(&error), expected, "{error}");
            let advice = advice(&error, false);
            assert!(advice.contains(words), "{error}: {advice}");
        }
    }

    /// Of `openssl x509 -req` without extensions.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBEjCBuQIUShBMEGVOEbfLaCsfdSrvfjukA4swCgYIKoZIzj0EAwIwDDEKMAgG\n\
A1UEAwwBczAeFw0yNjExMjcyMTUxMjFaFw0yNjExMjkyMTUxMjFaMAwxCjAIBgNV\n\
BAMMAXMwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARatXmUKbTIRsGr6SuOiCbj\n\
agnN1HfRBGmismer/ehg3TWJ3VUrIQ9Iz5ARK7+wDYIuYMIj3qlafc7NCEEsflG/\n\
MAoGCCqGSM49BAMCA0gAMEUCIGUzTxi5+Yy3sp9uzcLK50tib50rx6cu4YXNx86r\n\
NCflAiEA8bd0jYlqR/XVoaq1E07EeEp6p7uqUROG0WyDsgSNqMo=\n\
-----END CERTIFICATE-----\n";

    #[test]
    fn a_certificate_of_version_1_is_named() {
        let der = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(der.clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let name = ServerName::try_from("a.example").unwrap();
        let now = UnixTime::now();
        let error = (verifier.build().unwrap())
            .verify_server_cert(&der, &[], &name, &[], now)
            .unwrap_err();
        let advice = advice(&error.into(), false);
        assert!(advice.contains("version 3"), "{advice}");
    }
}
