//! A TCP server that sends back what it receives: the far end of idle tunnels.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const BACKLOG: u32 = 4096;
/// Small, because there is one per connection and thousands of connections.
const BUFFER_BYTES: usize = 256;

/// Serves until the process ends.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(listen: SocketAddr) -> Result<()> {
    let socket = tokio::net::TcpSocket::new_v4().context("cannot create a socket")?;
    socket
        .set_reuseaddr(true)
        .context("cannot set SO_REUSEADDR")?;
    socket
        .bind(listen)
        .with_context(|| format!("cannot bind {listen}"))?;
    let listener: TcpListener = socket.listen(BACKLOG).context("cannot listen")?;
    loop {
        // An accept fails for a client that is gone already, or for want of descriptors: neither ends the server.
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(echo(stream));
            }
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

async fn echo(mut stream: TcpStream) {
    let mut buffer = [0; BUFFER_BYTES];
    // An error or the end of the stream ends this connection, and nothing else.
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
