//! A connection whose records the kernel encrypts and decrypts: after the handshake, for a long body that then reaches it
//! by `splice(2)` or `sendfile(2)`.
//!
//! The library gives away both directions at once, and cannot take them back. So the kernel is prepared first, which it
//! may refuse; whoever fails behind that has lost the connection, and nothing is sent on it any more. What a client may
//! send but data and alerts ends the connection: new keys (RFC 8446 section 4.6.3), which kernels before 6.14 do not take,
//! and renegotiation.
use super::socket::{END_MAX, Readiness};
use super::{Session, TlsStream};
use crate::net::admission::Admitted;
use crate::net::deadline::{Deadline, Timer};
use crate::net::io::Stream;
use carrick_splice::ktls::{
    self, ALERT, Cipher, Direction, HANDSHAKE, Keys, KtlsService, Record, Suite, Version,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use rustls::{CipherSuite, Connection, ConnectionTrafficSecrets};
use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, BufRead, ErrorKind, IoSlice, Write};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes that are sent with one key: 2^24 full records (RFC 8446 section 5.5).
pub const SENT_BYTES_MAX: u64 = 1 << 38;

/// Records without data that a client may send in a row.
const EMPTY_RECORDS_MAX: u8 = 32;

/// Room for what is not read right into a caller's buffer: a record's content.
const INBOX_BYTES: usize = 16 * 1024;

/// A caller's buffer with less room is not read into: an alert has to fit.
const DIRECT_BYTES_MIN: usize = 64;

/// Alerts (RFC 8446 section 6): level, and description.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
const UNEXPECTED_MESSAGE: [u8; 2] = [2, 10];
/// The description of an alert that says nothing.
const USER_CANCELED: u8 = 90;

/// Why the process still encrypts, or nobody.
#[derive(Debug, thiserror::Error)]
pub enum NotHandedOver {
    /// The kernel does not take this suite.
    #[error("the kernel does not take {0}")]
    Cipher(&'static str),
    /// A part of the next record has been read.
    #[error("a part of the client's next record has been read")]
    Record,
    /// The client has ended its side, or what was sent before waits for room.
    #[error("the client has ended its side, or does not read")]
    Busy,
    /// The kernel did not prepare it.
    #[error("the kernel does not take it: {0}")]
    Refused(io::Error),
    /// The keys had been given away, and the kernel did not take them: the connection is lost.
    #[error("the kernel does not take its keys, so that it is closed: {0}")]
    Failed(io::Error),
}

/// What the process has to know of a connection that the kernel encrypts.
#[derive(Debug)]
pub struct KernelSession {
    version: Version,
    /// Data that was received, and not read.
    inbox: Vec<u8>,
    /// Whether the client has ended its side.
    is_over: bool,
    /// Whether it has sent what is not followed.
    has_failed: bool,
    empty_records: u8,
    /// Bytes that may still be sent.
    left_bytes: Cell<u64>,
}

impl TlsStream {
    /// Has the kernel encrypt and decrypt from here on, unless it does already; returns whether it did not.
    ///
    /// # Errors
    /// Nothing has changed, but after [`NotHandedOver::Failed`].
    pub fn hand_over(&self, service: &KtlsService) -> Result<bool, NotHandedOver> {
        let mut session = self.session.borrow_mut();
        let Session::Process(process) = &mut *session else {
            return Ok(false);
        };
        if self.has_ended.get() || self.owed_bytes.get() > 0 {
            return Err(NotHandedOver::Busy);
        }
        let (suite, name) = suite(process);
        let suite = suite.filter(|suite| service.takes(*suite));
        let suite = suite.ok_or(NotHandedOver::Cipher(name))?;
        if !self.framing.borrow().is_between_records() {
            return Err(NotHandedOver::Record);
        }
        // An empty write queues the answer to a change of the client's keys, with which ours have changed already.
        let written = process.writer().write(&[]);
        if written.is_err() || self.flush(process, false).is_err() || process.wants_write() {
            return Err(NotHandedOver::Busy);
        }
        let state = process.process_new_packets();
        if state.map_or(true, |state| state.peer_has_closed()) {
            return Err(NotHandedOver::Busy);
        }
        ktls::attach(&*self.tcp).map_err(NotHandedOver::Refused)?;
        let mut inbox = Vec::new();
        let mut reader = process.reader();
        while let Ok(bytes @ [_, ..]) = reader.fill_buf() {
            let count = bytes.len();
            inbox.extend_from_slice(bytes);
            reader.consume(count);
        }
        let Session::Process(process) = std::mem::replace(&mut *session, Session::Gone) else {
            return Ok(false);
        };
        install(&self.tcp, suite, *process).map_err(NotHandedOver::Failed)?;
        *session = Session::Kernel(KernelSession {
            version: suite.version,
            inbox,
            is_over: false,
            has_failed: false,
            empty_records: 0,
            left_bytes: Cell::new(SENT_BYTES_MAX),
        });
        Ok(true)
    }

    /// Whether so much was sent with one key that the connection is to be replaced soon.
    #[must_use]
    pub fn is_worn(&self) -> bool {
        matches!(&*self.session.borrow(), Session::Kernel(session) if !session.may_send(SENT_BYTES_MAX / 2))
    }
}

/// What was agreed, as the kernel is told of it, and its name.
fn suite(session: &Connection) -> (Option<Suite>, &'static str) {
    let Some(agreed) = session.negotiated_cipher_suite() else {
        return (None, "unknown");
    };
    use CipherSuite as Name;
    let (version, cipher) = match agreed.suite() {
        Name::TLS13_AES_128_GCM_SHA256 => (Version::Tls13, Cipher::Aes128Gcm),
        Name::TLS13_AES_256_GCM_SHA384 => (Version::Tls13, Cipher::Aes256Gcm),
        Name::TLS13_CHACHA20_POLY1305_SHA256 => (Version::Tls13, Cipher::ChaCha20Poly1305),
        Name::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | Name::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => (Version::Tls12, Cipher::Aes128Gcm),
        Name::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | Name::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => (Version::Tls12, Cipher::Aes256Gcm),
        Name::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | Name::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => {
            (Version::Tls12, Cipher::ChaCha20Poly1305)
        }
        _ => return (None, agreed.suite().as_str().unwrap_or("unknown")),
    };
    (
        Some(Suite::new(version, cipher)),
        agreed.suite().as_str().unwrap_or("unknown"),
    )
}

/// Gives the kernel the keys of both directions.
fn install(tcp: &TcpStream, suite: Suite, session: Connection) -> io::Result<()> {
    let secrets = (session.dangerous_extract_secrets()).map_err(io::Error::other)?;
    for (direction, (sequence, secrets)) in [
        (Direction::Send, &secrets.tx),
        (Direction::Receive, &secrets.rx),
    ] {
        let (cipher, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (Cipher::ChaCha20Poly1305, key, iv)
            }
            _ => return Err(ErrorKind::Unsupported.into()),
        };
        if cipher != suite.cipher {
            return Err(ErrorKind::InvalidData.into());
        }
        let keys = Keys {
            key: key.as_ref(),
            iv: iv.as_ref().try_into().map_err(io::Error::other)?,
            sequence: *sequence,
        };
        ktls::install(tcp, suite, direction, &keys)?;
    }
    Ok(())
}

impl KernelSession {
    /// Whether reading needs more from the kernel.
    pub(super) fn is_empty(&self) -> bool {
        self.inbox.is_empty() && !self.is_over && !self.has_failed
    }

    /// Whether so many bytes may still be sent.
    pub(super) fn may_send(&self, bytes: u64) -> bool {
        bytes <= self.left_bytes.get()
    }

    /// So many bytes were sent.
    pub(super) fn note_sent(&self, bytes: u64) {
        self.left_bytes
            .set(self.left_bytes.get().saturating_sub(bytes));
    }

    pub(super) fn send(&self, tcp: &TcpStream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let offered = pieces.iter().map(|piece| piece.len()).sum();
        if !self.may_send(offered as u64) {
            return Err(io::Error::other("too much was sent with one key"));
        }
        // A record that waits for more would not be sent when TCP is told to send all (`Transport::push`).
        let sent = tcp.try_send(pieces, offered, false)?;
        self.note_sent(sent as u64);
        Ok(sent)
    }

    /// Reads what there is into `buffer`, at most `room` bytes; 0: the client has ended its side.
    pub(super) fn read(
        &mut self,
        tcp: &TcpStream,
        readiness: Readiness,
        buffer: &mut Vec<u8>,
        room: usize,
    ) -> io::Result<usize> {
        if self.is_empty() && room >= DIRECT_BYTES_MIN {
            let before = buffer.len();
            self.receive(tcp, readiness, buffer, room)?;
            return Ok(buffer.len() - before);
        }
        if !self.pull(tcp, readiness)? {
            return Ok(0);
        }
        let count = self.inbox.len().min(room);
        buffer.extend(self.inbox.drain(..count));
        if self.inbox.is_empty() {
            self.inbox = Vec::new();
        }
        Ok(count)
    }

    /// Whether there is something to read (true), or the client has ended its side.
    pub(super) fn pull(&mut self, tcp: &TcpStream, readiness: Readiness) -> io::Result<bool> {
        if self.inbox.is_empty() {
            let mut inbox = Vec::with_capacity(INBOX_BYTES);
            self.receive(tcp, readiness, &mut inbox, INBOX_BYTES)?;
            if !inbox.is_empty() {
                self.inbox = inbox;
            }
        }
        Ok(!self.inbox.is_empty())
    }

    /// Receives data into `buffer`; none: the client has ended its side.
    fn receive(
        &mut self,
        tcp: &TcpStream,
        readiness: Readiness,
        buffer: &mut Vec<u8>,
        room: usize,
    ) -> io::Result<()> {
        while !self.is_over {
            if self.has_failed {
                return Err(ErrorKind::InvalidData.into());
            }
            let record = match readiness {
                Readiness::Ignored => ktls::receive(tcp, buffer, room),
                // Less than there is room for does not mean that there is no more: records of different types come apart.
                Readiness::Followed => {
                    tcp.try_io(Interest::READABLE, || ktls::receive(tcp, buffer, room))
                }
            }?;
            match record {
                Record::Data(0) => self.count_empty()?,
                Record::Data(_) => {
                    self.empty_records = 0;
                    return Ok(());
                }
                Record::Other(ALERT, alert) => self.take_alert(&alert)?,
                Record::Other(kind, _) => return Err(self.refuse(tcp, kind)),
                Record::End => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(())
    }

    fn take_alert(&mut self, alert: &[u8]) -> io::Result<()> {
        match *alert {
            [_, description] if description == CLOSE_NOTIFY[1] => self.is_over = true,
            [_, USER_CANCELED] => self.count_empty()?,
            // A warning.
            [1, _] if self.version == Version::Tls12 => self.count_empty()?,
            [_, description] => {
                self.has_failed = true;
                let alert = rustls::Error::AlertReceived(description.into());
                return Err(io::Error::new(ErrorKind::InvalidData, alert));
            }
            _ => {
                self.has_failed = true;
                return Err(ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }

    /// A record without data: each costs the client little, and the process as much as one with data.
    fn count_empty(&mut self) -> io::Result<()> {
        self.empty_records += 1;
        if self.empty_records > EMPTY_RECORDS_MAX {
            self.has_failed = true;
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    fn refuse(&mut self, tcp: &TcpStream, kind: u8) -> io::Error {
        self.has_failed = true;
        // The alert is worth one attempt.
        let _ = ktls::send_record(tcp, ALERT, &UNEXPECTED_MESSAGE);
        io::Error::new(
            ErrorKind::InvalidData,
            match (kind, self.version) {
                (HANDSHAKE, Version::Tls13) => "the client changes its keys below the kernel",
                (HANDSHAKE, Version::Tls12) => "the client renegotiates",
                _ => "a record of an unexpected type",
            },
        )
    }
}

/// Ends the sending direction, later if there is no room. Its place is `held` as long.
pub(super) fn end(tcp: &Rc<TcpStream>, held: Option<Rc<Admitted>>) -> io::Result<()> {
    let mut is_said = false;
    if !try_end(tcp, &mut is_said)? {
        tokio::task::spawn_local(end_later(Rc::clone(tcp), is_said, held));
    }
    Ok(())
}

/// The kernel accepts data before it has room for its records in TCP: these must not come behind TCP's end. Where there is
/// room, they are in TCP. `false`: there is none.
fn try_end(tcp: &TcpStream, is_said: &mut bool) -> io::Result<bool> {
    if !is_writable(tcp) {
        return Ok(false);
    }
    if !*is_said {
        match ktls::send_record(tcp, ALERT, &CLOSE_NOTIFY) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            result => result?,
        }
        *is_said = true;
        if !is_writable(tcp) {
            return Ok(false);
        }
    }
    shutdown(tcp, Shutdown::Write)?;
    Ok(true)
}

async fn end_later(tcp: Rc<TcpStream>, mut is_said: bool, held: Option<Rc<Admitted>>) {
    let mut deadline = Deadline::after(END_MAX);
    let ending = poll_fn(|cx| {
        while !try_end(&tcp, &mut is_said)? {
            // What the runtime believes may be older.
            let _ = tcp.try_io(Interest::WRITABLE, || {
                io::Result::<()>::Err(ErrorKind::WouldBlock.into())
            });
            ready!(tcp.poll_write_ready(cx))?;
        }
        Poll::Ready(io::Result::Ok(()))
    });
    let _ = Timer::default().until(&mut deadline, pin!(ending)).await;
    drop(held);
}

/// Whether a write would be accepted now. Otherwise, the kernel tells the runtime when that changes.
pub fn is_writable(tcp: &TcpStream) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(tcp, PollFlags::OUT)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}
