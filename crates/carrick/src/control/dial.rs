//! Connections of the control thread: health checks, and those to authorities.
use crate::net::shortage::connect_error;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Why there is no connection; if several addresses were tried, why not to the last one.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("it has no address")]
    NoAddress,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// Tries addresses in turn; each has an equal share of the time. `mark`: see
/// [`Plan::own_mark`](crate::config::plan::Plan::own_mark).
pub async fn dial(
    addresses: &[SocketAddr],
    limit: Duration,
    mark: Option<u32>,
) -> Result<TcpStream, DialError> {
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = DialError::NoAddress;
    for address in addresses {
        match timeout(share, dial_one(*address, mark)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = connect_error(*address, error).into(),
            Err(_) => last = DialError::Timeout(share),
        }
    }
    Err(last)
}

async fn dial_one(address: SocketAddr, mark: Option<u32>) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    if let Some(mark) = mark {
        SockRef::from(&socket).set_mark(mark)?;
    }
    socket.connect(address).await
}
