//! The connection below HTTP, a client's or a server's: HTTP/1 uses a [`Transport`] and depends on nothing else of it.
//!
//! It has the few operations that HTTP needs. Code that can do more with TCP (splicing, forwarding packets, sending
//! from the page cache) asks for [`tcp`](Stream::tcp), and copies if there is none.
use super::io::Stream;
use crate::net::deadline::{Deadline, now};
use carrick_splice::Throttle;
use carrick_splice::tcp::{UnreadWindow, acknowledged_bytes, until_reset};
use http2::Http2Stream;
use http2::server::ServerStream;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use std::future::{pending, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tls::TlsStream;
use tokio::net::TcpStream;

pub mod http2;
#[cfg(test)]
pub mod testing;
pub mod tls;

/// A connection to a client or a server.
#[derive(Debug)]
pub enum Transport {
    /// TCP.
    Tcp(Rc<TcpStream>),
    /// TLS over TCP, encrypted by the process, or, from a long body on, by the kernel.
    Tls(Rc<TlsStream>),
    /// A stream of a client's HTTP/2, in the form of HTTP/1.1.
    Http2(Rc<Http2Stream>),
    /// A stream of HTTP/2 to a server, in the form of HTTP/1.1.
    Http2Server(Rc<ServerStream>),
    /// No connection: a tunnel has taken it out, or left it to the kernel; see [`take`](Self::take).
    Taken,
    /// In this process.
    #[cfg(test)]
    Memory(Rc<testing::End>),
}

/// Where connections to servers are opened.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// By the kernel.
    #[default]
    Kernel,
    /// To servers in this process.
    #[cfg(test)]
    Memory(testing::Servers),
}

/// The error of every call on [`Transport::Taken`].
const TAKEN: Errno = Errno::NOTCONN;

/// Calls the same method of each variant.
macro_rules! each {
    ($transport:expr, $method:ident($($argument:expr),*), $taken:expr) => {
        match $transport {
            Transport::Tcp(stream) => Stream::$method(&**stream, $($argument),*),
            Transport::Tls(stream) => Stream::$method(&**stream, $($argument),*),
            Transport::Http2(stream) => Stream::$method(&**stream, $($argument),*),
            Transport::Http2Server(stream) => Stream::$method(&**stream, $($argument),*),
            Transport::Taken => $taken,
            #[cfg(test)]
            Transport::Memory(stream) => Stream::$method(&**stream, $($argument),*),
        }
    };
}

impl Transport {
    /// The TCP connection, to be shared.
    #[must_use]
    pub fn shared_tcp(&self) -> Option<&Rc<TcpStream>> {
        match self {
            Self::Tcp(stream) => Some(stream),
            _ => None,
        }
    }

    /// The TCP connection, unless it is shared.
    #[must_use]
    pub fn into_tcp(self) -> Option<TcpStream> {
        match self {
            Self::Tcp(stream) => Rc::try_unwrap(stream).ok(),
            _ => None,
        }
    }

    /// Two TCP connections, if both are TCP: the kernel can join them.
    #[must_use]
    pub fn both_tcp<'a>(one: &'a Self, other: &'a Self) -> Option<[&'a Rc<TcpStream>; 2]> {
        Some([one.shared_tcp()?, other.shared_tcp()?])
    }

    /// Two connections between which the kernel can move this many bytes, one way.
    #[must_use]
    pub fn spliceable<'a>(from: &'a Self, to: &'a Self, bytes: u64) -> Option<[&'a TcpStream; 2]> {
        Some([from.tcp()?, to.sink(bytes)?])
    }

    /// The TCP connection, also that below TLS and HTTP/2: for its options and state. Bytes are moved on [`tcp`](Stream::tcp) only.
    #[must_use]
    pub fn socket(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(stream) => Some(stream.socket()),
            Self::Http2(stream) => stream.connection().socket(),
            Self::Http2Server(stream) => stream.transport().socket(),
            Self::Taken => None,
            #[cfg(test)]
            Self::Memory(_) => None,
        }
    }

    /// The connection, if it is TLS.
    #[must_use]
    pub fn tls(&self) -> Option<&TlsStream> {
        match self {
            Self::Tls(stream) => Some(stream),
            _ => None,
        }
    }

    /// The digest of the certificates and revocation lists by which a connection of TLS to a server was made.
    #[must_use]
    pub fn made_by(&self) -> Option<u64> {
        match self {
            Self::Tls(stream) => stream.made_by(),
            Self::Http2Server(stream) => stream.transport().made_by(),
            _ => None,
        }
    }

    /// The stream, if it is one of HTTP/2 to a server.
    #[must_use]
    pub fn server_stream(&self) -> Option<&ServerStream> {
        match self {
            Self::Http2Server(stream) => Some(stream),
            _ => None,
        }
    }

    /// Takes the connection and leaves [`Taken`](Self::Taken).
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Taken)
    }

    /// The address of this end; `None` if it has none or is gone.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Tls(stream) => stream.local_addr().ok(),
            Self::Http2(stream) => stream.connection().local_addr(),
            Self::Http2Server(stream) => stream.transport().local_addr(),
            Self::Taken => None,
            #[cfg(test)]
            Self::Memory(end) => end.local_addr().ok(),
        }
    }

    /// Ends the sending direction.
    ///
    /// # Errors
    /// Those of `shutdown(2)`.
    pub fn end(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => Ok(shutdown(stream, Shutdown::Write)?),
            Self::Tls(stream) => stream.end(),
            Self::Http2(stream) => stream.end(),
            Self::Http2Server(stream) => stream.end(),
            Self::Taken => Err(TAKEN.into()),
            #[cfg(test)]
            Self::Memory(end) => end.end(),
        }
    }

    /// Call before dropping the connection if everything was sent. TCP tells the other end by itself, others only then.
    pub fn finish(&self) {
        if let Self::Tls(_) | Self::Http2(_) | Self::Http2Server(_) = self {
            // Fails only if the connection is broken.
            let _ = self.end();
        }
    }

    /// Call before dropping the connection if the other end must notice that not everything was sent.
    pub fn reset_on_close(&self) {
        match self {
            Self::Tcp(stream) => {
                let _ = carrick_splice::tcp::reset_on_close(stream);
            }
            Self::Tls(stream) => stream.reset_on_close(),
            Self::Http2(stream) => stream.reset(),
            Self::Http2Server(stream) => stream.reset(),
            Self::Taken => {}
            #[cfg(test)]
            Self::Memory(end) => end.reset_on_close(),
        }
    }

    /// Sends what the kernel has delayed.
    pub fn push(&self) {
        #[cfg(test)]
        if let Self::Memory(end) = self {
            end.push();
        }
        if let Some(stream) = self.socket() {
            // Setting it again pushes (tcp_sock_set_nodelay()). Fails only if the connection is broken, which the next operation reports.
            let _ = carrick_splice::tcp::set_nodelay(stream);
        }
    }

    /// Whether the connection has failed; consumes the error, and nothing else.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.socket()
            .is_none_or(|stream| !matches!(stream.take_error(), Ok(None)))
    }

    /// What the peer has acknowledged; 0 if unknown, or if the room in the connection is not what is waited for: then frames without content
    /// may be all that it takes.
    #[must_use]
    pub fn acked_bytes(&self) -> u64 {
        match self {
            Self::Http2(stream) if stream.connection_has_room() => 0,
            Self::Http2Server(stream) if stream.connection_has_room() => 0,
            _ => self.socket().and_then(acknowledged_bytes).unwrap_or(0),
        }
    }

    /// Until when a peer need take nothing that has taken something at `moved_at`, if it is not past: for `limit`. Streams to a client of
    /// HTTP/2 take turns: the bytes of others count, too.
    #[must_use]
    pub fn not_idle_before(&self, limit: Duration, moved_at: Option<Instant>) -> Option<Deadline> {
        let of_others = match self {
            Self::Http2(stream) => Some(stream.moved_at()),
            _ => None,
        };
        let until = moved_at.max(of_others)? + limit;
        (until > now()).then(|| Deadline::at(until))
    }

    /// Waits until the other end has reset the connection or the stream, which need not be read, or it has failed.
    pub async fn lost(&self) {
        match self {
            Self::Http2(stream) => return poll_fn(|cx| stream.poll_reset(cx)).await,
            Self::Http2Server(stream) => return poll_fn(|cx| stream.poll_reset(cx)).await,
            _ => {}
        }
        match self.socket() {
            Some(socket) => until_reset(socket).await,
            None => pending().await,
        }
    }

    /// Whether a write would be accepted now. Tells which side is at fault when no bytes move.
    #[must_use]
    pub fn has_room(&self) -> bool {
        if let Self::Http2(stream) = self {
            return stream.has_room();
        }
        if let Self::Http2Server(stream) = self {
            return stream.has_room();
        }
        #[cfg(test)]
        if let Self::Memory(end) = self {
            return end.has_room();
        }
        self.socket().is_some_and(tls::kernel::is_writable)
    }

    /// Sent bytes that the other end has not acknowledged; `None` after an error.
    #[must_use]
    pub fn unacknowledged_bytes(&self) -> Option<u64> {
        if let Self::Http2Server(_) = self {
            // Those of the connection are not its own.
            return Some(0);
        }
        #[cfg(test)]
        if let Self::Memory(end) = self {
            return Some(end.unacknowledged_bytes());
        }
        carrick_splice::tcp::unacknowledged_bytes(self.socket()?)
    }

    /// Waits until this many bytes may be written; returns the time waited. Only TCP is paced.
    pub async fn wait_for(&self, throttle: &mut Throttle, bytes: u64) -> Duration {
        match self.socket() {
            Some(stream) => throttle.pass(stream, bytes).await,
            None => Duration::ZERO,
        }
    }

    /// Reports read bytes to the kernel's window.
    pub fn took(&self, window: &mut UnreadWindow, bytes: u64) {
        if let Some(stream) = self.socket() {
            window.took(stream, bytes);
        }
    }
}

impl From<TcpStream> for Transport {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(Rc::new(stream))
    }
}

impl Stream for Transport {
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            _ => None,
        }
    }

    fn sink(&self, bytes: u64) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(stream) => stream.sink(bytes),
            _ => None,
        }
    }

    fn note_sunk(&self, bytes: u64) {
        if let Self::Tls(stream) = self {
            stream.note_sunk(bytes);
        }
    }

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, poll_read_ready(cx), Poll::Ready(Err(TAKEN.into())))
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, poll_write_ready(cx), Poll::Ready(Err(TAKEN.into())))
    }

    fn try_read(&self, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
        each!(self, try_read(buffer, room), Err(TAKEN.into()))
    }

    fn read_now(&self, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
        each!(self, read_now(buffer), Err(TAKEN))
    }

    fn peek(&self) -> rustix::io::Result<bool> {
        each!(self, peek(), Err(TAKEN))
    }

    fn try_peek(&self) -> io::Result<bool> {
        each!(self, try_peek(), Err(TAKEN.into()))
    }

    fn forget_readable(&self) {
        each!(self, forget_readable(), ());
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, try_write(bytes), Err(TAKEN.into()))
    }

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        each!(self, try_write_vectored(pieces), Err(TAKEN.into()))
    }

    fn try_send(&self, pieces: &[IoSlice<'_>], offered: usize, more: bool) -> io::Result<usize> {
        each!(self, try_send(pieces, offered, more), Err(TAKEN.into()))
    }
}
