//! One check of one server: a connection and, if a path is configured, a GET.
use crate::config::plan::{ProxyVersion, ServerAddress, UpstreamPlan};
use crate::net::shortage::{Shortage, is_tcp_memory_short};
use crate::resolver::{ResolveError, Resolver};
use crate::upstream::state::ServerState;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

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

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    #[error("{0}")]
    Name(#[from] ResolveError),
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("connection lost: {0}")]
    Lost(io::Error),
    #[error("connection closed without a response")]
    Closed,
    #[error("the response is not HTTP/1")]
    NotHttp,
    #[error("answered with status {0}")]
    Status(u16),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl CheckError {
    /// Whether the cause is on this machine, so that it says nothing about the server.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Connect(error) | Self::Lost(error) if Shortage::of(error).is_some() => true,
            Self::Timeout(_) | Self::Connect(_) | Self::Lost(_) => is_tcp_memory_short(),
            _ => false,
        }
    }
}

/// A check of one server.
#[derive(Debug)]
pub(super) struct Probe {
    address: ServerAddress,
    resolver: Resolver,
    /// The bytes to send; empty if connecting is enough.
    request: Vec<u8>,
    wants_response: bool,
    /// See [`Plan::own_mark`](crate::config::plan::Plan::own_mark).
    mark: Option<u32>,
}

impl Probe {
    /// `None` if the upstream has no active checks.
    pub fn new(plan: &UpstreamPlan, server: &ServerState, resolver: &Resolver) -> Option<Self> {
        let health = plan.health.as_ref()?;
        let mut request = Vec::new();
        match plan.send_proxy_protocol {
            Some(ProxyVersion::V1) => request.extend_from_slice(PROXY_V1_UNKNOWN),
            Some(ProxyVersion::V2) => request.extend_from_slice(&PROXY_V2_LOCAL),
            None => {}
        }
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
            request,
            wants_response: health.path.is_some(),
            mark: None,
        })
    }

    /// Sets carrick's own mark.
    pub fn marked(self, mark: Option<u32>) -> Self {
        Self { mark, ..self }
    }

    /// Performs one check.
    pub async fn check(&self, limit: Duration) -> Result<(), CheckError> {
        let answered = timeout(limit, self.ask(limit))
            .await
            .unwrap_or(Err(CheckError::Timeout(limit)))?;
        let Some((stream, status)) = answered else {
            return Ok(());
        };
        // A server that answers in time but does not close passes.
        finish(stream).await;
        if (200..400).contains(&status) {
            Ok(())
        } else {
            Err(CheckError::Status(status))
        }
    }

    /// The status and its connection; `None` if connecting is enough.
    async fn ask(&self, limit: Duration) -> Result<Option<(TcpStream, u16)>, CheckError> {
        let mut stream = self.connect(limit).await?;
        stream
            .write_all(&self.request)
            .await
            .map_err(CheckError::Lost)?;
        if !self.wants_response {
            return Ok(None);
        }
        let status = read_status(&mut stream).await?;
        Ok(Some((stream, status)))
    }

    /// Tries the server's addresses in turn; each has an equal share of the time.
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
        let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last_error = CheckError::Name(ResolveError::NoAddress);
        for address in addresses {
            match timeout(share, self.connect_to(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last_error = CheckError::Connect(error),
                Err(_) => last_error = CheckError::Timeout(share),
            }
        }
        Err(last_error)
    }

    async fn connect_to(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        if let Some(mark) = self.mark {
            SockRef::from(&socket).set_mark(mark)?;
        }
        socket.connect(address).await
    }
}

/// The status of the final response; interim ones (1xx) are skipped.
async fn read_status(stream: &mut TcpStream) -> Result<u16, CheckError> {
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
async fn finish(stream: TcpStream) {
    let mut body = stream.take(BODY_BYTES_MAX);
    // The verdict does not depend on the end.
    let _ = timeout(
        BODY_WAIT,
        tokio::io::copy(&mut body, &mut tokio::io::sink()),
    )
    .await;
}
