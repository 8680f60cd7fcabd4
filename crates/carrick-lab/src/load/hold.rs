//! Opens many connections, uses each once, and holds them idle: what does an idle client cost a proxy?

use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::load::fault::Fault;
use crate::load::response::{Expected, Response};
use crate::tls::Client;

/// For one connection's connect and exchange together.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a refused connection is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// What is sent and expected on each connection.
#[derive(Clone, Debug)]
pub enum Exchange {
    /// A GET for `target`, answered by 200 with a body of this length.
    Http {
        /// The request target, absolute for a forward proxy.
        target: String,
        /// The `Host` field.
        host: String,
        /// The expected length of the body.
        body_bytes: usize,
        /// Over TLS, whose session is forgotten afterwards: the server does not notice.
        is_tls: bool,
    },
    /// Sixteen bytes, sent back as they are.
    Echo,
    /// Nothing is sent, and what the server sends without end is not read.
    Stalled,
}

/// Connections from one address: somewhat less than it has ports in the test bed.
pub const CONNECTIONS_PER_ADDRESS: usize = 50_000;

/// Opens `count` connections to `address`, at most `concurrency` at a time, and completes one exchange on each: from the
/// addresses `from`, [`CONNECTIONS_PER_ADDRESS`] each, where there are some.
/// A failed connection is tried again until `patience` is over (counted from the start of the call).
///
/// # Errors
/// When a connection or an exchange fails for good.
pub async fn open(
    (address, from): (SocketAddr, &[IpAddr]),
    exchange: &Exchange,
    count: usize,
    concurrency: usize,
    patience: Duration,
) -> Result<Vec<TcpStream>> {
    let deadline = Instant::now() + patience;
    let mut held = Vec::with_capacity(count);
    let mut under_way = JoinSet::new();
    let mut started = 0;
    while held.len() < count {
        while started < count && under_way.len() < concurrency.max(1) {
            let exchange = exchange.clone();
            let ends = (
                address,
                from.get(started / CONNECTIONS_PER_ADDRESS).copied(),
            );
            under_way.spawn(async move { open_patiently(ends, &exchange, deadline).await });
            started += 1;
        }
        let Some(joined) = under_way.join_next().await else {
            break;
        };
        let stream = joined
            .context("a task of the holder failed")?
            .with_context(|| format!("connection {} of {count}", held.len() + 1))?;
        held.push(stream);
    }
    Ok(held)
}

/// How many of the held connections are still open, and silent; or stalled, with something to be read.
#[must_use]
pub fn count_open(held: &[TcpStream], exchange: &Exchange) -> usize {
    let is_stalled = matches!(exchange, Exchange::Stalled);
    let is_open = |stream: &&TcpStream| {
        let mut byte = [MaybeUninit::uninit(); 1];
        let socket = SockRef::from(*stream);
        match socket.peek(&mut byte) {
            // What came before a reset can still be read.
            Ok(bytes) => is_stalled && bytes > 0 && matches!(socket.take_error(), Ok(None)),
            Err(error) => !is_stalled && error.kind() == std::io::ErrorKind::WouldBlock,
        }
    };
    held.iter().filter(is_open).count()
}

async fn open_patiently(
    ends: (SocketAddr, Option<IpAddr>),
    exchange: &Exchange,
    deadline: Instant,
) -> Result<TcpStream> {
    loop {
        let attempt = tokio::time::timeout(EXCHANGE_TIMEOUT, open_one(ends, exchange)).await;
        match attempt
            .map_err(anyhow::Error::from)
            .and_then(|result| result)
        {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
        }
    }
}

async fn open_one(
    (address, from): (SocketAddr, Option<IpAddr>),
    exchange: &Exchange,
) -> Result<TcpStream> {
    let connecting = async {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        if let Some(from) = from {
            socket.bind((from, 0).into())?;
        }
        socket.connect(address).await
    };
    let mut stream = connecting
        .await
        .with_context(|| format!("cannot connect to {address}"))?;
    match exchange {
        Exchange::Http {
            target,
            host,
            body_bytes,
            is_tls,
        } => {
            let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            if *is_tls {
                let mut tls = Client::new()?.connect(stream).await?;
                ask(&mut tls, &request, *body_bytes).await?;
                return Ok(tls.into_inner().0);
            }
            ask(&mut stream, &request, *body_bytes).await?;
        }
        Exchange::Stalled => stream.readable().await.context("nothing came")?,
        Exchange::Echo => {
            let sent = *b"carrick-holds-on";
            let mut received = [0; 16];
            stream.write_all(&sent).await.context("cannot send")?;
            stream
                .read_exact(&mut received)
                .await
                .context("nothing came back")?;
            if received != sent {
                bail!("other bytes came back than were sent");
            }
        }
    }
    Ok(stream)
}

async fn ask(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &str,
    body_bytes: usize,
) -> Result<()> {
    stream
        .write_all(request.as_bytes())
        .await
        .context("cannot send the request")?;
    let expected = Expected {
        body_bytes: Some(body_bytes as u64),
        ..Expected::default()
    };
    let mut response = Response::default();
    let mut input = Vec::with_capacity(2048);
    while !response.is_done() {
        input.clear();
        let read = stream.read_buf(&mut input).await;
        let read = read.context("cannot read the response")?;
        if read == 0 {
            response.end(&expected)?;
        }
        let taken = response.take(&input, &expected)?;
        ensure!(taken == read, Fault::Surplus((read - taken) as u64));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
