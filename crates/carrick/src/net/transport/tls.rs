//! TLS over TCP. The process encrypts and decrypts, until it hands a connection over to the kernel; see [`kernel`].
//!
//! A write reports bytes only when the kernel has taken all their records, so that nothing is left to be sent by the
//! time that the caller turns to something else. Until then it says `WouldBlock`, and the caller offers the same bytes
//! again, as it would to TCP.
mod framing;
pub mod kernel;
mod socket;

use crate::net::admission::Admitted;
use crate::net::deadline::now;
use crate::net::io::{Stream, read_some};
use framing::Framing;
use kernel::KernelSession;
use rustix::net::{Shutdown, shutdown};
use rustls::{
    CertificateError, ClientConnection, Connection, HandshakeKind, ProtocolVersion, ServerConfig,
    ServerConnection, SupportedCipherSuite,
};
use rustls_pki_types::CertificateDer;
use socket::{Incoming, Outgoing, Readiness, end_later, errno, is_text};
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::future::poll_fn;
use std::io::{self, BufRead, ErrorKind, IoSlice, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::net::TcpStream;

/// Room for what the other end sends of its handshake at a time.
const HANDSHAKE_BYTES: usize = 4 * 1024;

/// Most content of a record (RFC 8446 section 5.1).
const RECORD_BYTES: usize = 16 * 1024;

/// Reads in a row that bring no content, such as those of tickets: to take more would keep all others waiting.
const READS_MAX: usize = 64;

/// Records that are left for the handshake's end and for alerts.
const SPARE_RECORDS: u64 = 1024;

/// A client's or a server's connection after the handshake.
#[derive(Debug)]
pub struct TlsStream {
    tcp: Rc<TcpStream>,
    session: RefCell<Session>,
    /// Where the records of what was read begin.
    framing: RefCell<Framing>,
    /// Accepted bytes whose records the kernel has not taken entirely.
    owed_bytes: Cell<usize>,
    /// Whether the kernel has taken any of their records.
    has_begun: Cell<bool>,
    has_ended: Cell<bool>,
    /// Records that may still be sent, as far as the library does not change the keys.
    left_records: Cell<u64>,
    /// Why the session failed.
    refusal: RefCell<Option<rustls::Error>>,
    /// Of a connection to a server: what it was made by.
    made_by: Option<u64>,
    /// Of a client's connection: its place among those that are admitted.
    admitted: Option<Rc<Admitted>>,
}

/// Who encrypts and decrypts.
#[derive(Debug)]
enum Session {
    Process(Box<Connection>),
    Kernel(KernelSession),
    /// Nobody: the kernel did not take the keys. Nothing is sent or received any more.
    Gone,
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
    /// That certificate, and those that the client sent with it; none: it has no certificate.
    pub client_chain: Box<[CertificateDer<'static>]>,
    /// The serial number of what verified it last, and when.
    pub verified: Cell<(u64, Instant)>,
}

impl TlsStream {
    /// Performs the handshake; `first` has been read already. The connection has its place among the clients that are `admitted` to its end.
    /// The caller limits the time.
    ///
    /// # Errors
    /// See [`HandshakeError`].
    pub async fn accept(
        tcp: Rc<TcpStream>,
        config: Arc<ServerConfig>,
        first: Vec<u8>,
        admitted: Option<Rc<Admitted>>,
    ) -> Result<Self, HandshakeError> {
        let session = ServerConnection::new(config)?;
        let mut stream = Self::shake_hands(tcp, session.into(), first).await?;
        stream.admitted = admitted;
        Ok(stream)
    }

    /// Performs the handshake with a server; see [`made_by`](Self::made_by). The caller limits the time.
    ///
    /// # Errors
    /// See [`HandshakeError`].
    pub async fn connect(
        tcp: Rc<TcpStream>,
        session: ClientConnection,
        made_by: u64,
    ) -> Result<Self, HandshakeError> {
        let mut stream = Self::shake_hands(tcp, session.into(), Vec::new()).await?;
        stream.made_by = Some(made_by);
        Ok(stream)
    }

    async fn shake_hands(
        tcp: Rc<TcpStream>,
        session: Connection,
        mut first: Vec<u8>,
    ) -> Result<Self, HandshakeError> {
        let stream = Self {
            tcp,
            session: RefCell::new(Session::Process(Box::new(session))),
            framing: RefCell::default(),
            owed_bytes: Cell::new(0),
            has_begun: Cell::new(false),
            has_ended: Cell::new(false),
            left_records: Cell::new(u64::MAX),
            refusal: RefCell::default(),
            made_by: None,
            admitted: None,
        };
        let mut has_begun = false;
        loop {
            let is_over = !stream.is_handshaking();
            // Nobody waits for tickets: they go with the first answer, or a little later.
            let more = is_over && stream.ends_with_tickets();
            poll_fn(|cx| stream.poll_flush_and(more, cx)).await?;
            if is_over {
                stream.limit_records();
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
                let _ = stream.flush(&mut *stream.in_process()?, false);
                return Err(error);
            }
        }
    }

    /// RFC 9325 section 4.4. With TLS 1.3 the library changes the keys in time; with TLS 1.2 it would announce the end, and discard what
    /// is written from there on without a word.
    fn limit_records(&self) {
        let suite = (self.looked_at()).and_then(|session| session.negotiated_cipher_suite());
        if let Some(SupportedCipherSuite::Tls12(suite)) = suite {
            let most = suite.common.confidentiality_limit;
            self.left_records.set(most.saturating_sub(SPARE_RECORDS));
        }
    }

    fn is_handshaking(&self) -> bool {
        self.looked_at()
            .is_some_and(|session| session.is_handshaking())
    }

    /// Whether all that is to be sent at the end of the handshake is tickets: with TLS 1.3, the client has the last word.
    fn ends_with_tickets(&self) -> bool {
        self.looked_at().is_some_and(|session| {
            matches!(&*session, Connection::Server(_))
                && session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
        })
    }

    /// The library's session, if the process has it still.
    fn looked_at(&self) -> Option<Ref<'_, Connection>> {
        Ref::filter_map(self.session.borrow(), |session| match session {
            Session::Process(session) => Some(&**session),
            Session::Kernel(_) | Session::Gone => None,
        })
        .ok()
    }

    /// The same, for its work.
    fn in_process(&self) -> io::Result<RefMut<'_, Connection>> {
        RefMut::filter_map(self.session.borrow_mut(), |session| match session {
            Session::Process(session) => Some(&mut **session),
            Session::Kernel(_) | Session::Gone => None,
        })
        .map_err(|_| gone())
    }

    fn take_handshake(&self, mut bytes: &[u8]) -> Result<(), HandshakeError> {
        let mut session = self.in_process()?;
        self.framing.borrow_mut().pass(bytes);
        while !bytes.is_empty() {
            // Nothing is taken behind the end that the other end has announced.
            if session.read_tls(&mut bytes)? == 0 {
                return match session.is_handshaking() {
                    true => Err(HandshakeError::Closed),
                    false => Ok(()),
                };
            }
            session.process_new_packets()?;
        }
        Ok(())
    }

    /// What the handshake has agreed; `subject` reads that of a certificate (DER).
    ///
    /// # Errors
    /// There is a certificate, but its subject cannot be read; or the process does not have the connection any more.
    pub fn agreed(
        &self,
        subject: impl FnOnce(&[u8]) -> Option<String>,
    ) -> Result<Agreed, HandshakeError> {
        let session = self.looked_at().ok_or_else(gone)?;
        let chain = session.peer_certificates().unwrap_or_default();
        let client_subject = chain
            .first()
            .map(|der| subject(der).ok_or(CertificateError::BadEncoding));
        Ok(Agreed {
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
            client_subject: (client_subject.transpose())
                .map_err(rustls::Error::from)?
                .map(Into::into),
            client_chain: chain.iter().map(|der| der.clone().into_owned()).collect(),
            verified: Cell::new((0, now())),
        })
    }

    /// Whether this protocol was agreed (RFC 7301).
    #[must_use]
    pub fn speaks(&self, protocol: &[u8]) -> bool {
        self.looked_at()
            .is_some_and(|session| session.alpn_protocol() == Some(protocol))
    }

    /// Whether an earlier session was resumed.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.looked_at()
            .is_some_and(|session| session.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// The digest of the certificates and revocation lists by which this connection to a server was made.
    #[must_use]
    pub fn made_by(&self) -> Option<u64> {
        self.made_by
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
        if let Ok(mut session) = self.in_process() {
            session.send_close_notify();
            let _ = self.flush(&mut session, false);
        }
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
        let held = self.admitted.clone();
        if let Session::Kernel(_) = &*self.session.borrow() {
            return kernel::end(&self.tcp, held);
        }
        let mut session = self.in_process()?;
        session.send_close_notify();
        // The end of the stream goes in the same segment.
        match self.flush(&mut session, true) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut rest = Vec::new();
                while session.wants_write() {
                    session.write_tls(&mut rest)?;
                }
                tokio::task::spawn_local(end_later(Rc::clone(&self.tcp), rest, held));
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
        let count = self.encrypt(&mut *self.in_process()?, pieces)?;
        if count > 0 || pieces.iter().all(|piece| piece.is_empty()) {
            return Poll::Ready(Ok(count));
        }
        // So much is encrypted as the library keeps.
        std::task::ready!(self.poll_flush(cx))?;
        Poll::Ready(self.encrypt(&mut *self.in_process()?, pieces))
    }

    /// Encrypts `pieces`, or as much of them as the library has room for.
    fn encrypt(&self, session: &mut Connection, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let records = |bytes: usize| bytes.div_ceil(RECORD_BYTES) as u64;
        let left = self.left_records.get();
        if records(pieces.iter().map(|piece| piece.len()).sum()) > left {
            return Err(io::Error::other(
                "as much was sent as may be with one key of TLS 1.2",
            ));
        }
        let count = session.writer().write_vectored(pieces)?;
        self.left_records.set(left - records(count));
        Ok(count)
    }

    /// Gives the kernel all records that are ready.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush_and(false, cx)
    }

    /// The same; with `more`, the kernel may keep a segment that is not full for what follows.
    fn poll_flush_and(&self, more: bool, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.flush(&mut *self.in_process()?, more) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            std::task::ready!(self.tcp.poll_write_ready(cx))?;
        }
    }

    /// Encrypts and sends `pieces`, or goes on with those of the call before, which must be the same: whoever gives a write
    /// up writes nothing else. An error means that none of their records went out. A connection that fails later has taken
    /// them, as TCP takes bytes that are lost, and the next call fails.
    fn send(&self, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        if let Session::Kernel(session) = &*self.session.borrow() {
            return session.send(&self.tcp, pieces);
        }
        let mut session = self.in_process()?;
        if self.owed_bytes.get() > pieces.iter().map(|piece| piece.len()).sum() {
            return Err(ErrorKind::InvalidInput.into());
        }
        if self.owed_bytes.get() == 0 {
            self.flush(&mut session, more)?;
            self.owed_bytes.set(self.encrypt(&mut session, pieces)?);
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
        for _ in 0..READS_MAX {
            match session.reader().fill_buf() {
                Ok(bytes) => return Ok(!bytes.is_empty()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            session.read_tls(&mut Incoming {
                tcp: &self.tcp,
                readiness,
                framing: &mut self.framing.borrow_mut(),
            })?;
            let result = session.process_new_packets();
            // Alerts, and answers to key updates. What does not go out now goes with the next write.
            let _ = self.flush(session, false);
            if let Err(error) = result {
                self.refusal.replace(Some(error.clone()));
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
        Err(io::Error::new(
            ErrorKind::InvalidData,
            "a flood of TLS records that carry nothing",
        ))
    }

    fn read(&self, readiness: Readiness, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
        if let Session::Kernel(session) = &mut *self.session.borrow_mut() {
            return session.read(&self.tcp, readiness, buffer, room);
        }
        let mut session = self.in_process()?;
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
        let pulled = match &mut *self.session.borrow_mut() {
            Session::Process(session) => self.pull(session, readiness),
            Session::Kernel(session) => session.pull(&self.tcp, readiness),
            Session::Gone => Err(gone()),
        };
        match pulled {
            // An end, though not one that a read accepts.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            result => result,
        }
    }
}

impl Stream for TlsStream {
    fn sink(&self, bytes: u64) -> Option<&TcpStream> {
        match &*self.session.borrow() {
            Session::Kernel(session) if session.may_send(bytes) => Some(&self.tcp),
            _ => None,
        }
    }

    fn note_sunk(&self, bytes: u64) {
        if let Session::Kernel(session) = &*self.session.borrow() {
            session.note_sent(bytes);
        }
    }

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_empty = match &mut *self.session.borrow_mut() {
            Session::Process(session) => {
                matches!(session.reader().fill_buf(), Err(error) if error.kind() == ErrorKind::WouldBlock)
            }
            Session::Kernel(session) => session.is_empty(),
            Session::Gone => false,
        };
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

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send(pieces, false)
    }

    fn try_send(&self, pieces: &[IoSlice<'_>], _: usize, more: bool) -> io::Result<usize> {
        self.send(pieces, more)
    }
}

/// What every call says of a connection for which nobody has keys.
fn gone() -> io::Error {
    ErrorKind::NotConnected.into()
}

#[cfg(test)]
mod tests;
