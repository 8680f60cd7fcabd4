//! TLS 1.3 to the proxies that are measured, whoever they are.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The name in the proxies' certificate.
const NAME: &str = "proxy.test";
/// Tickets that are kept, the most that the library keeps for one server.
const TICKETS: usize = 8;

/// A client with sessions of its own.
#[derive(Clone)]
pub struct Client(TlsConnector);

impl Client {
    /// One without sessions.
    ///
    /// # Errors
    /// When the library cannot be set up.
    pub fn new() -> Result<Self> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(TICKETS);
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Performs the handshake, and resumes a session if there is one.
    ///
    /// # Errors
    /// When it fails.
    pub async fn connect(&self, tcp: TcpStream) -> Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(NAME)?;
        self.0.connect(name, tcp).await.context("TLS")
    }
}

/// Takes any certificate, as wrk does.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General(String::from("only TLS 1.3 is offered")))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
