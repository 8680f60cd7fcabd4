//! Records between the library and the connection below.
use super::framing::Framing;
use crate::net::admission::Admitted;
use crate::net::deadline::{Deadline, Timer};
use crate::net::io::{Stream, write_all};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long the last records wait for room in the kernel after the connection has ended.
pub const END_MAX: Duration = Duration::from_secs(30);

/// The type of the record that a handshake begins with (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Sends what is left of a connection that has ended, and its end. Its place is `held` as long.
pub async fn end_later(tcp: Rc<TcpStream>, rest: Vec<u8>, held: Option<Rc<Admitted>>) {
    let mut deadline = Deadline::after(END_MAX);
    let sent = Timer::default()
        .until(&mut deadline, write_all(&*tcp, &rest))
        .await;
    if matches!(sent, Ok(Ok(()))) {
        let _ = shutdown(&*tcp, Shutdown::Write);
    }
    drop(held);
}

/// Whether these are the first bytes of an HTTP request rather than of a handshake.
pub fn is_text(bytes: &[u8]) -> bool {
    bytes
        .first()
        .is_some_and(|first| *first != HANDSHAKE_RECORD && first.is_ascii_alphabetic())
}

/// The same, as a system call would say it.
pub fn errno(error: &io::Error) -> Errno {
    match (error.kind(), Errno::from_io_error(error)) {
        (_, Some(errno)) => errno,
        (ErrorKind::WouldBlock, None) => Errno::AGAIN,
        (ErrorKind::UnexpectedEof, None) => Errno::CONNRESET,
        _ => Errno::PROTO,
    }
}

/// What the runtime believes of the connection below.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It is asked, and told what a read finds.
    Followed,
    /// The kernel is asked in any case.
    Ignored,
}

/// Records from the kernel.
pub struct Incoming<'a> {
    /// The connection.
    pub tcp: &'a TcpStream,
    /// How it is asked.
    pub readiness: Readiness,
    /// Told of what is read.
    pub framing: &'a mut Framing,
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = if self.readiness == Readiness::Ignored {
            recv(self.tcp, &mut *buffer, RecvFlags::DONTWAIT)?.0
        } else {
            let count = self.tcp.try_read(buffer)?;
            if count > 0 && count < buffer.len() {
                self.tcp.forget_readable();
            }
            count
        };
        self.framing.pass(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// Records to the kernel.
pub struct Outgoing<'a> {
    /// The connection.
    pub tcp: &'a TcpStream,
    /// Whether more follows at once.
    pub more: bool,
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
