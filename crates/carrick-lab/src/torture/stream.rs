//! One direction of a connection: seeded bytes go in at one end, and each is checked at the other.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::content::{Body, PIECE_BYTES_MAX};
use crate::origin::sys::unacknowledged_bytes;

/// Calls to the kernel in a row, after which it is the turn of other connections.
const TURN: u32 = 32;

/// So many bytes that are in the wrong place are sought so far around.
const SOUGHT_BYTES: usize = 16;
const SEARCH_BYTES: u64 = 1 << 20;

thread_local! {
    /// What was read last. It is checked before anything else is read, so one is enough for all connections of a thread.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE_BYTES_MAX]);
}

/// What was sent in one direction, and what has come of it.
#[derive(Debug)]
pub struct Lane {
    body: Body,
    offered: Cell<u64>,
    received: Cell<u64>,
    wrong: Cell<Option<Wrong>>,
}

/// The first byte that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Where it was read.
    pub at: u64,
    /// Where in the sender's stream it, and what was read with it, stands: what came is there, but in the wrong place. None:
    /// nowhere near.
    pub belongs_at: Option<u64>,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    /// Longer than the relay may stay silent when it has something to pass on: bytes, an end, a reset.
    patience: Duration,
    /// A reset is reported once, to the next call; afterwards a read says 0, as if the stream had ended well.
    was_reset: Cell<bool>,
}

/// How the bytes of a direction ended, as their receiver saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By a FIN: the sender has said all that it had to say.
    Clean,
    /// By a RST, or another error of the connection.
    Broken,
    /// Not within the socket's patience.
    Silent,
}

impl Lane {
    /// An unused direction with the bytes of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            body: Body::of_seed(seed),
            offered: Cell::new(0),
            received: Cell::new(0),
            wrong: Cell::new(None),
        }
    }

    /// Bytes that the sender's kernel has taken.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.offered.get()
    }

    /// Bytes that were read at the other end.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.get()
    }

    /// The first byte that is not the one that was sent, or that was never sent.
    #[must_use]
    pub fn wrong(&self) -> Option<Wrong> {
        self.wrong.get()
    }

    /// Sends the next `bytes`, at most `piece_bytes` with each call to the kernel.
    ///
    /// # Errors
    /// When the connection breaks; `TimedOut` if it takes nothing for the socket's patience.
    pub async fn send(&self, socket: &Socket, bytes: u64, piece_bytes: usize) -> io::Result<()> {
        let end = self.offered() + bytes;
        let mut calls = 0;
        while self.offered() < end {
            let left = usize::try_from(end - self.offered()).unwrap_or(usize::MAX);
            take_turns(&mut calls).await;
            let piece = self.body.piece(self.offered(), left.min(piece_bytes));
            match socket.note(socket.stream.try_write(piece)) {
                Ok(written) => self.offered.set(self.offered() + written as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    within(socket.patience, socket.stream.writable()).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads and checks the next `bytes`, at most `piece_bytes` with each call to the kernel.
    ///
    /// # Errors
    /// When the connection breaks; `UnexpectedEof` if it ends before; `TimedOut` if nothing comes for the socket's patience.
    pub async fn receive(&self, socket: &Socket, bytes: u64, piece_bytes: usize) -> io::Result<()> {
        let end = self.received() + bytes;
        let mut calls = 0;
        while self.received() < end {
            let left = usize::try_from(end - self.received()).unwrap_or(usize::MAX);
            take_turns(&mut calls).await;
            if self.read(socket, left.min(piece_bytes)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Reads and checks everything up to the end, at most `piece_bytes` with each call to the kernel.
    pub async fn receive_to_end(&self, socket: &Socket, piece_bytes: usize) -> Ending {
        let mut calls = 0;
        loop {
            take_turns(&mut calls).await;
            match self.read(socket, piece_bytes).await {
                Ok(0) if socket.was_reset.get() => return Ending::Broken,
                Ok(0) => return Ending::Clean,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ending::Silent,
                Err(_) => return Ending::Broken,
            }
        }
    }

    /// Reads and checks what is there, at most `piece_bytes`; 0 at the end.
    async fn read(&self, socket: &Socket, piece_bytes: usize) -> io::Result<usize> {
        loop {
            let read = BUFFER.with_borrow_mut(|buffer| {
                let room = piece_bytes.clamp(1, buffer.len());
                let read = socket.note(socket.stream.try_read(&mut buffer[..room]))?;
                self.check(&buffer[..read]);
                Ok::<_, io::Error>(read)
            });
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    within(socket.patience, socket.stream.readable()).await?;
                }
                read => return read,
            }
        }
    }

    fn check(&self, bytes: &[u8]) {
        let at = self.received();
        let end = at + bytes.len() as u64;
        if self.wrong().is_none() {
            // More than was sent is wrong even if it goes on as the body would.
            let surplus = (end > self.offered()).then(|| at.max(self.offered()));
            let wrong_at = self.body.first_difference(at, bytes).or(surplus);
            self.wrong.set(wrong_at.map(|wrong_at| Wrong {
                at: wrong_at,
                belongs_at: self.find(
                    wrong_at,
                    &bytes[usize::try_from(wrong_at - at).unwrap_or(0)..],
                ),
            }));
        }
        self.received.set(end);
    }

    /// Where in the stream these bytes stand, if not too far from `near`.
    fn find(&self, near: u64, bytes: &[u8]) -> Option<u64> {
        let sought = &bytes[..bytes.len().min(SOUGHT_BYTES)];
        let places = near.saturating_sub(SEARCH_BYTES)..near + SEARCH_BYTES;
        (sought.len() == SOUGHT_BYTES).then(|| {
            places
                .into_iter()
                .find(|place| self.body.piece(*place, SOUGHT_BYTES) == sought)
        })?
    }

    /// Bytes that the relay has acknowledged to the sender and not brought to the receiver's kernel: what it, and the kernel
    /// on its behalf, hold.
    #[must_use]
    pub fn held_bytes(&self, sender: &Socket, receiver: &Socket) -> u64 {
        // In this order: what arrives meanwhile makes it smaller, never larger.
        let taken = self.taken_bytes(sender);
        let waiting = rustix::io::ioctl_fionread(&receiver.stream).unwrap_or(0);
        taken.saturating_sub(self.received() + waiting)
    }

    /// Bytes that the relay has acknowledged to the sender.
    #[must_use]
    pub fn taken_bytes(&self, sender: &Socket) -> u64 {
        self.offered()
            .saturating_sub(unacknowledged_bytes(&sender.stream).unwrap_or(0))
    }
}

impl Socket {
    /// This end, on which the relay may be silent for so long when it has something to pass on.
    #[must_use]
    pub fn new(stream: TcpStream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            was_reset: Cell::new(false),
        }
    }

    /// Says that nothing more will be sent.
    pub fn end(&self) {
        // An error means that the connection is broken, which its reader finds out.
        let _ = SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write);
    }

    /// Closes by RST.
    pub fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }

    /// Lets the kernel take so many bytes from this end at once, whatever the relay takes. Without the right to do so
    /// (`CAP_NET_ADMIN`) it takes what it takes.
    pub fn set_send_buffer(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(&self.stream, bytes);
    }

    fn note<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done
            && error.kind() == io::ErrorKind::ConnectionReset
        {
            self.was_reset.set(true);
        }
        done
    }
}

/// Waits until a socket is ready, for so long at most.
///
/// # Errors
/// `TimedOut` behind the limit.
pub async fn within(
    limit: Duration,
    ready: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::time::timeout(limit, ready)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Lets other tasks run after some calls: a socket that is always ready would keep the thread for itself.
pub async fn take_turns(calls: &mut u32) {
    *calls += 1;
    if calls.is_multiple_of(TURN) {
        tokio::task::yield_now().await;
    }
}
