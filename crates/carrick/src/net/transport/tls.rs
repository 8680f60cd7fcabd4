//! TLS over TCP. The process encrypts and decrypts: the kernel never has the connection.
//!
//! A write reports bytes only when the kernel has taken all their records, so that nothing is left to be sent by the
//! time that the caller turns to something else. Until then it says `WouldBlock`, and the caller offers the same bytes
//! again, as it would to TCP.
use crate::net::deadline::{Deadline, Timer};
use crate::net::io::{Stream, read_some, write_all};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use rustls::{
    ClientConnection, Connection, HandshakeKind, ProtocolVersion, ServerConfig, ServerConnection,
};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;

/// Room for what the other end sends of its handshake at a time.
const HANDSHAKE_BYTES: usize = 4 * 1024;

/// How long the last records wait for room in the kernel after the connection has ended.
const END_MAX: Duration = Duration::from_secs(30);

/// The type of the record that a handshake begins with (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// A client's or a server's connection after the handshake.
#[derive(Debug)]
pub struct TlsStream {
    tcp: Rc<TcpStream>,
    session: RefCell<Connection>,
    /// Accepted bytes whose records the kernel has not taken entirely.
    owed_bytes: Cell<usize>,
    /// Whether the kernel has taken any of their records.
    has_begun: Cell<bool>,
    has_ended: Cell<bool>,
    /// Why the session failed.
    refusal: RefCell<Option<rustls::Error>>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other end went away.
    #[error("the connection was closed")]
    Closed,
    /// It sent text, such as an HTTP request or response.
    #[error("the other end does not speak TLS")]
    NotTls,
    /// The kernel's connection failed.
    #[error("{0}")]
    Tcp(#[from] io::Error),
    /// Something was wrong with its messages, or with ours for it. An alert was sent.
    #[error("{0}")]
    Tls(#[from] rustls::Error),
}

/// What was agreed.
#[derive(Debug, Clone)]
pub struct Agreed {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite's name in the IANA registry.
    pub cipher: &'static str,
    /// The server name that the client asked for.
    pub server_name: Option<Box<str>>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
    /// The subject of the client's certificate, which was verified.
    pub client_subject: Option<Box<str>>,
}

impl TlsStream {
    /// Performs the handshake; `first` has been read already. The caller limits the time.
    ///
    /// # Errors
    /// See [`HandshakeError`].
    pub async fn accept(
        tcp: Rc<TcpStream>,
        config: Arc<ServerConfig>,
        first: Vec<u8>,
    ) -> Result<Self, HandshakeError> {
        let session = ServerConnection::new(config)?;
        Self::shake_hands(tcp, session.into(), first).await
    }

    /// Performs the handshake with a server. The caller limits the time.
    ///
    /// # Errors
    /// See [`HandshakeError`].
    pub async fn connect(
        tcp: Rc<TcpStream>,
        session: ClientConnection,
    ) -> Result<Self, HandshakeError> {
        Self::shake_hands(tcp, session.into(), Vec::new()).await
    }

    async fn shake_hands(
        tcp: Rc<TcpStream>,
        session: Connection,
        mut first: Vec<u8>,
    ) -> Result<Self, HandshakeError> {
        let stream = Self {
            tcp,
            session: RefCell::new(session),
            owed_bytes: Cell::new(0),
            has_begun: Cell::new(false),
            has_ended: Cell::new(false),
            refusal: RefCell::default(),
        };
        let mut has_begun = false;
        loop {
            poll_fn(|cx| stream.poll_flush(cx)).await?;
            if !stream.session.borrow().is_handshaking() {
                return Ok(stream);
            }
            if first.is_empty() {
                first.reserve(HANDSHAKE_BYTES);
                if read_some(&*stream.tcp, &mut first).await? == 0 {
                    return Err(HandshakeError::Closed);
                }
            }
            if !std::mem::replace(&mut has_begun, true) && is_text(&first) {
                return Err(HandshakeError::NotTls);
            }
            let result = stream.take_handshake(&first);
            first.clear();
            if let Err(error) = result {
                // The alert is worth one attempt.
                let _ = stream.flush(&mut stream.session.borrow_mut(), false);
                return Err(error);
            }
        }
    }

    fn take_handshake(&self, mut bytes: &[u8]) -> Result<(), HandshakeError> {
        let mut session = self.session.borrow_mut();
        while !bytes.is_empty() {
            session.read_tls(&mut bytes)?;
            session.process_new_packets()?;
        }
        Ok(())
    }

    /// What the handshake has agreed; `subject` reads that of a certificate (DER).
    #[must_use]
    pub fn agreed(&self, subject: impl FnOnce(&[u8]) -> Option<String>) -> Agreed {
        let session = self.session.borrow();
        let certificate = session.peer_certificates().and_then(|chain| chain.first());
        Agreed {
            version: match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                _ => "TLSv1.2",
            },
            cipher: (session.negotiated_cipher_suite())
                .and_then(|suite| suite.suite().as_str())
                .unwrap_or("unknown"),
            server_name: match &*session {
                Connection::Server(session) => session.server_name().map(Into::into),
                Connection::Client(_) => None,
            },
            is_resumed: self.is_resumed(),
            client_subject: certificate.and_then(|der| subject(der)).map(Into::into),
        }
    }

    /// Whether this protocol was agreed (RFC 7301).
    #[must_use]
    pub fn speaks(&self, protocol: &[u8]) -> bool {
        self.session.borrow().alpn_protocol() == Some(protocol)
    }

    /// Whether an earlier session was resumed.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.session.borrow().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// What the other end says against the session that this end thought was agreed: with TLS 1.3, a server checks a
    /// client's certificate after the client's last word in the handshake.
    #[must_use]
    pub fn refusal(&self) -> Option<rustls::Error> {
        if self.refusal.borrow().is_none() {
            let _ = self.peek_with(Readiness::Ignored);
        }
        self.refusal.borrow().clone()
    }

    /// Announces the end, if the kernel has room for it, to an end that may be reset next.
    pub fn take_leave(&self) {
        let mut session = self.session.borrow_mut();
        session.send_close_notify();
        let _ = self.flush(&mut session, false);
    }

    /// The connection below, for its options and state. Its bytes are not to be touched.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.tcp
    }

    /// The address of this end.
    ///
    /// # Errors
    /// Those of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Ends the sending direction. If the kernel has no room for the end, that follows in the background.
    ///
    /// # Errors
    /// Those of `sendmsg(2)` and `shutdown(2)`.
    pub fn end(&self) -> io::Result<()> {
        if self.has_ended.replace(true) {
            return Ok(());
        }
        let mut session = self.session.borrow_mut();
        session.send_close_notify();
        match self.flush(&mut session, false) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut rest = Vec::new();
                while session.wants_write() {
                    session.write_tls(&mut rest)?;
                }
                tokio::task::spawn_local(end_later(Rc::clone(&self.tcp), rest));
                Ok(())
            }
            result => {
                result?;
                Ok(shutdown(&*self.tcp, Shutdown::Write)?)
            }
        }
    }

    /// Closing will reset the connection. Without [`end`](Self::end), closing does not end the stream in any case: the
    /// client knows that something is missing.
    pub fn reset_on_close(&self) {
        let _ = carrick_splice::tcp::reset_on_close(&self.tcp);
    }

    /// Gives the kernel all records that are ready.
    fn flush(&self, session: &mut Connection, more: bool) -> io::Result<()> {
        let mut outgoing = Outgoing {
            tcp: &self.tcp,
            more,
        };
        while session.wants_write() {
            session.write_tls(&mut outgoing)?;
            self.has_begun.set(true);
        }
        Ok(())
    }

    /// Encrypts `pieces`, or a part of them, for [`poll_flush`](Self::poll_flush) to send. Not to be mixed with the writes of
    /// [`Stream`].
    ///
    /// # Errors
    /// Those of `sendmsg(2)`.
    pub fn poll_encrypt(
        &self,
        pieces: &[IoSlice<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let count = self.session.borrow_mut().writer().write_vectored(pieces)?;
        if count > 0 || pieces.iter().all(|piece| piece.is_empty()) {
            return Poll::Ready(Ok(count));
        }
        // So much is encrypted as the library keeps.
        std::task::ready!(self.poll_flush(cx))?;
        Poll::Ready(self.session.borrow_mut().writer().write_vectored(pieces))
    }

    /// Gives the kernel all records that are ready.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.flush(&mut self.session.borrow_mut(), false) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            std::task::ready!(self.tcp.poll_write_ready(cx))?;
        }
    }

    /// Encrypts and sends `pieces`, or goes on with those of the call before, which must be the same. An error means that
    /// none of their records went out. A connection that fails later has taken them, as TCP takes bytes that are lost, and
    /// the next call fails.
    fn send(&self, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let mut session = self.session.borrow_mut();
        if self.owed_bytes.get() == 0 {
            self.flush(&mut session, more)?;
            self.owed_bytes
                .set(session.writer().write_vectored(pieces)?);
            self.has_begun.set(false);
        }
        match self.flush(&mut session, more) {
            Err(error) if error.kind() == ErrorKind::WouldBlock || !self.has_begun.get() => {
                Err(error)
            }
            _ => Ok(self.owed_bytes.take()),
        }
    }

    /// Reads records until there are bytes (true), or the end (false).
    fn pull(&self, session: &mut Connection, readiness: Readiness) -> io::Result<bool> {
        loop {
            match session.reader().fill_buf() {
                Ok(bytes) => return Ok(!bytes.is_empty()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            session.read_tls(&mut Incoming {
                tcp: &self.tcp,
                readiness,
            })?;
            let result = session.process_new_packets();
            // Alerts, and answers to key updates. What does not go out now goes with the next write.
            let _ = self.flush(session, false);
            if let Err(error) = result {
                self.refusal.replace(Some(error.clone()));
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
    }

    fn read(&self, readiness: Readiness, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
        let mut session = self.session.borrow_mut();
        if !self.pull(&mut session, readiness)? {
            return Ok(0);
        }
        let mut read = 0;
        let mut reader = session.reader();
        while read < room
            && let Ok(bytes @ [_, ..]) = reader.fill_buf()
        {
            let count = bytes.len().min(room - read);
            buffer.extend_from_slice(&bytes[..count]);
            reader.consume(count);
            read += count;
        }
        Ok(read)
    }

    fn peek_with(&self, readiness: Readiness) -> io::Result<bool> {
        match self.pull(&mut self.session.borrow_mut(), readiness) {
            // An end, though not one that a read accepts.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            result => result,
        }
    }
}

impl Stream for TlsStream {
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut session = self.session.borrow_mut();
        let is_empty = matches!(session.reader().fill_buf(), Err(error) if error.kind() == ErrorKind::WouldBlock);
        if is_empty {
            return self.tcp.poll_read_ready(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_write_ready(cx)
    }

    fn try_read(&self, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
        self.read(Readiness::Followed, buffer, room)
    }

    fn read_now(&self, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
        let room = buffer.capacity() - buffer.len();
        self.read(Readiness::Ignored, buffer, room)
            .map_err(|error| errno(&error))
    }

    fn peek(&self) -> rustix::io::Result<bool> {
        self.peek_with(Readiness::Ignored)
            .map_err(|error| errno(&error))
    }

    fn try_peek(&self) -> io::Result<bool> {
        self.peek_with(Readiness::Followed)
    }

    fn forget_readable(&self) {
        // The reads of the connection below do.
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send(&[IoSlice::new(bytes)], false)
    }

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send(pieces, false)
    }

    fn try_send(&self, pieces: &[IoSlice<'_>], _: usize, more: bool) -> io::Result<usize> {
        self.send(pieces, more)
    }
}

/// Sends what is left of a connection that has ended, and its end.
async fn end_later(tcp: Rc<TcpStream>, rest: Vec<u8>) {
    let mut deadline = Deadline::after(END_MAX);
    let sent = Timer::default()
        .until(&mut deadline, write_all(&*tcp, &rest))
        .await;
    if matches!(sent, Ok(Ok(()))) {
        let _ = shutdown(&*tcp, Shutdown::Write);
    }
}

/// Whether these are the first bytes of an HTTP request rather than of a handshake.
fn is_text(bytes: &[u8]) -> bool {
    bytes
        .first()
        .is_some_and(|first| *first != HANDSHAKE_RECORD && first.is_ascii_alphabetic())
}

fn errno(error: &io::Error) -> Errno {
    match (error.kind(), Errno::from_io_error(error)) {
        (_, Some(errno)) => errno,
        (ErrorKind::WouldBlock, None) => Errno::AGAIN,
        (ErrorKind::UnexpectedEof, None) => Errno::CONNRESET,
        _ => Errno::PROTO,
    }
}

/// What the runtime believes of the connection below.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// It is asked, and told what a read finds.
    Followed,
    /// The kernel is asked in any case.
    Ignored,
}

/// Records from the kernel.
struct Incoming<'a> {
    tcp: &'a TcpStream,
    readiness: Readiness,
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.readiness == Readiness::Ignored {
            return Ok(recv(self.tcp, &mut *buffer, RecvFlags::DONTWAIT)?.0);
        }
        let count = self.tcp.try_read(buffer)?;
        if count > 0 && count < buffer.len() {
            self.tcp.forget_readable();
        }
        Ok(count)
    }
}

/// Records to the kernel.
struct Outgoing<'a> {
    tcp: &'a TcpStream,
    more: bool,
}

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let offered = pieces.iter().map(|piece| piece.len()).sum();
        self.tcp.try_send(pieces, offered, self.more)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
