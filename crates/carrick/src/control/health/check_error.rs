//! Why a health check failed.
use crate::control::dial::DialError;
use crate::net::shortage::{Shortage, is_tcp_memory_short};
use crate::resolver::ResolveError;
use std::io;
use std::time::Duration;

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    #[error("{0}")]
    Name(#[from] ResolveError),
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("TLS handshake: {0}")]
    Tls(String),
    #[error("connection lost: {0}")]
    Lost(io::Error),
    #[error("connection closed without a response")]
    Closed,
    #[error("the response is not HTTP/1")]
    NotHttp,
    #[error("answered with status {0}")]
    Status(u16),
    #[error("HTTP/2: {0}")]
    Http2(String),
    #[error("the server does not speak HTTP/2")]
    NotHttp2,
    #[error("gRPC: {0}")]
    Grpc(String),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl From<DialError> for CheckError {
    fn from(error: DialError) -> Self {
        match error {
            DialError::NoAddress => Self::Name(ResolveError::NoAddress),
            DialError::Io(error) => Self::Connect(error),
            DialError::Timeout(share) => Self::Timeout(share),
        }
    }
}

impl CheckError {
    /// Whether the cause is on this machine, so that it says nothing about the server.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Name(ResolveError::Busy) => true,
            Self::Connect(error) | Self::Lost(error) if Shortage::of(error).is_some() => true,
            Self::Timeout(_) | Self::Connect(_) | Self::Lost(_) => is_tcp_memory_short(),
            _ => false,
        }
    }
}
