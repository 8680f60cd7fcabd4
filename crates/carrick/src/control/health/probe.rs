//! One check of one server: a connection and, if a path is configured, a GET.
use super::check_error::CheckError;
use super::http2::{self, Question};
use crate::config::plan::{ProxyVersion, ServerAddress, ServerHttp2, ServerTls, UpstreamPlan};
use crate::config::tls::HTTP2_ALPN;
use crate::connect::tls;
use crate::control::dial::dial;
use crate::net::transport::tls::HandshakeError;
use crate::resolver::Resolver;
use crate::upstream::state::ServerState;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Most bytes that are read for the response's head, interim responses included.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most header fields of a response.
const FIELDS_MAX: usize = 100;

/// Most bytes of a body that are read before closing.
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// Limit on reading the rest of a response once its status is known.
const BODY_WAIT: Duration = Duration::from_millis(200);

/// PROXY protocol, version 2, command LOCAL: the proxy speaks for itself (proxy-protocol.txt, section 2.2).
const PROXY_V2_LOCAL: [u8; 16] = *b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// Version 1 has no such command; `UNKNOWN` is for connections without a client (section 2.1).
const PROXY_V1_UNKNOWN: &[u8] = b"PROXY UNKNOWN\r\n";

/// A check of one server.
#[derive(Debug)]
pub(super) struct Probe {
    address: ServerAddress,
    resolver: Resolver,
    /// TLS, and which of its servers this is.
    tls: Option<(Arc<ServerTls>, usize)>,
    /// What is sent before a TLS handshake.
    preamble: &'static [u8],
    /// The bytes to send; empty if connecting is enough.
    request: Vec<u8>,
    wants_response: bool,
    /// What is asked by HTTP/2.
    question: Option<Question>,
    /// Whether that is spoken.
    http2: ServerHttp2,
    /// See [`Plan::own_mark`](crate::config::plan::Plan::own_mark).
    mark: Option<u32>,
}

impl Probe {
    /// `None` if the upstream has no active checks.
    pub fn new(
        plan: &UpstreamPlan,
        (index, server): (usize, &ServerState),
        resolver: &Resolver,
    ) -> Option<Self> {
        let health = plan.health.as_ref()?;
        let mut request = Vec::new();
        let preamble = match plan.send_proxy_protocol {
            Some(ProxyVersion::V1) => PROXY_V1_UNKNOWN,
            Some(ProxyVersion::V2) => &PROXY_V2_LOCAL,
            None => &[],
        };
        if let Some(path) = &health.path {
            let host = health.host.as_deref().unwrap_or(&server.label);
            let version = env!("CARGO_PKG_VERSION");
            request.extend_from_slice(
                format!(
                    "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: carrick/{version}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
                )
                .as_bytes(),
            );
        }
        Some(Self {
            address: server.address.clone(),
            resolver: resolver.clone(),
            tls: plan.tls.clone().map(|tls| (tls, index)),
            preamble,
            request,
            wants_response: health.path.is_some() || health.grpc.is_some(),
            question: Question::of(health, server, plan.tls.is_some()),
            http2: plan.http2,
            mark: None,
        })
    }

    /// Sets carrick's own mark.
    pub fn marked(self, mark: Option<u32>) -> Self {
        Self { mark, ..self }
    }

    /// Performs one check.
    pub async fn check(&self, limit: Duration) -> Result<(), CheckError> {
        let deadline = Instant::now() + limit;
        let late = |_| CheckError::Timeout(limit);
        let stream = timeout_at(deadline, self.open(limit))
            .await
            .map_err(late)??;
        let Some((tls, server)) = &self.tls else {
            let is_http2 = self.http2 != ServerHttp2::Never;
            return self
                .ask_as(stream, is_http2, deadline)
                .await
                .map_err(late)?;
        };
        // Boxed: most checks have no need of its room.
        let shaking = Box::pin(shake_hands(stream, tls, *server));
        let stream = timeout_at(deadline, shaking).await.map_err(late)??;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2_ALPN);
        if self.http2 == ServerHttp2::Always && !is_http2 {
            return Err(CheckError::NotHttp2);
        }
        Box::pin(self.ask_as(stream, is_http2, deadline))
            .await
            .map_err(late)?
    }

    /// Asks by the protocol that was agreed.
    async fn ask_as(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_http2: bool,
        deadline: Instant,
    ) -> Result<Result<(), CheckError>, Elapsed> {
        match &self.question {
            Some(question) if is_http2 => {
                timeout_at(deadline, Box::pin(http2::ask(stream, question))).await
            }
            Some(Question::Grpc { .. }) => Ok(Err(CheckError::NotHttp2)),
            _ => self.ask_by(stream, deadline).await,
        }
    }

    /// Connects, and sends what goes before everything else.
    async fn open(&self, limit: Duration) -> Result<TcpStream, CheckError> {
        let mut stream = self.connect(limit).await?;
        stream
            .write_all(self.preamble)
            .await
            .map_err(CheckError::Lost)?;
        Ok(stream)
    }

    /// Asks on a connection, if connecting is not enough.
    async fn ask_by(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        deadline: Instant,
    ) -> Result<Result<(), CheckError>, Elapsed> {
        if !self.wants_response {
            return Ok(Ok(()));
        }
        let status = match timeout_at(deadline, self.ask(&mut stream)).await? {
            Ok(status) => status,
            Err(error) => return Ok(Err(error)),
        };
        // A server that answers in time but does not close passes.
        finish(stream).await;
        Ok(if (200..400).contains(&status) {
            Ok(())
        } else {
            Err(CheckError::Status(status))
        })
    }

    /// The status of the response.
    async fn ask(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<u16, CheckError> {
        stream
            .write_all(&self.request)
            .await
            .map_err(CheckError::Lost)?;
        stream.flush().await.map_err(CheckError::Lost)?;
        read_status(stream).await
    }

    async fn connect(&self, limit: Duration) -> Result<TcpStream, CheckError> {
        let addresses: Vec<SocketAddr> = match &self.address {
            ServerAddress::Ip(address) => vec![*address],
            ServerAddress::Name { host, port } => {
                let addresses = self.resolver.resolve(host).await?;
                addresses
                    .iter()
                    .map(|address| SocketAddr::new(*address, *port))
                    .collect()
            }
        };
        Ok(dial(&addresses, limit, self.mark).await?)
    }
}

/// Performs the handshake with a server.
async fn shake_hands(
    stream: TcpStream,
    tls: &ServerTls,
    server: usize,
) -> Result<TlsStream<TcpStream>, CheckError> {
    let (config, name, _) = (tls.server(server)).ok_or_else(|| CheckError::Tls(String::new()))?;
    let connecting = TlsConnector::from(config).connect(name, stream);
    connecting.await.map_err(|error| {
        let text = error.to_string();
        let own = error.into_inner().and_then(|own| own.downcast().ok());
        let advice = own.map_or("", |own: Box<rustls::Error>| {
            let has_certificate = tls.files.settings.certificate.is_some();
            tls::advice(&HandshakeError::Tls(*own), has_certificate)
        });
        CheckError::Tls(match advice {
            "" => text,
            advice => format!("{text}; {advice}"),
        })
    })
}

/// The status of the final response; interim ones (1xx) are skipped.
async fn read_status(stream: &mut (impl AsyncRead + Unpin)) -> Result<u16, CheckError> {
    let mut bytes = Vec::new();
    loop {
        while let Some((status, head_bytes)) = parse_status(&bytes)? {
            if !(100..200).contains(&status) {
                return Ok(status);
            }
            bytes.drain(..head_bytes);
        }
        if bytes.len() >= HEAD_BYTES_MAX {
            return Err(CheckError::NotHttp);
        }
        match stream.read_buf(&mut bytes).await {
            Ok(0) if bytes.is_empty() => return Err(CheckError::Closed),
            Ok(0) => return Err(CheckError::NotHttp),
            Ok(_) => {}
            Err(error) => return Err(CheckError::Lost(error)),
        }
    }
}

/// Status and length of the head at the start of `bytes`; `None` if it is not whole.
fn parse_status(bytes: &[u8]) -> Result<Option<(u16, usize)>, CheckError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(head_bytes)) => {
            Ok(response.code.map(|status| (status, head_bytes)))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(CheckError::NotHttp),
    }
}

/// Reads some of the rest: closing with unread bytes sends the server a reset, which it may log as an error.
async fn finish(stream: impl AsyncRead + Unpin) {
    let mut body = stream.take(BODY_BYTES_MAX);
    // The verdict does not depend on the end.
    let _ = timeout(
        BODY_WAIT,
        tokio::io::copy(&mut body, &mut tokio::io::sink()),
    )
    .await;
}
