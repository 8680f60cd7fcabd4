//! How much of what a peer has sent may wait to be read.
//!
//! Linux lets a receive buffer grow with what is read of it (`tcp_rcv_space_adjust`, up to `net.ipv4.tcp_rmem`), and does not make it smaller. A
//! receiver that takes fast for a moment and then nothing would leave all of it full. So the buffer has a fixed size, and grows while as much as half
//! of its window comes in a round trip: the kernel's own measure of a window that is too small.

use super::socket_receive_buffer_max;
use crate::sys::sockopt::{self, RECEIVE_LOCK, set_buffer_locks, set_receive_low_water};
use socket2::SockRef;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// A peer that is nearer than this needs no long window.
const NEAR: Duration = Duration::from_millis(2);

/// Most connections carry less than this before they end or the kernel joins them, and until then their buffers have hardly grown.
const EARLY_BYTES: u32 = 32 << 10;

/// How far a peer is taken to be of which that is not known.
const FAR: Duration = Duration::from_millis(100);

/// What was set for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnreadLimit {
    /// The window, in bytes of the stream, from which it may grow; 0: it has no limit of this kind, or one that does not grow.
    /// With [`LATE`]: the limit that is to be set once [`EARLY_BYTES`] were read.
    window_bytes: u32,
}

/// No window is so long.
const LATE: u32 = 1 << 31;

impl UnreadLimit {
    /// Lets what has come from a peer and was not read hold so many bytes of memory at most. For peers that are farther away than 2 ms this is the
    /// beginning: whoever reads tells an [`UnreadWindow`] so. Buffers that somebody has set stay as they are, and all
    /// where the kernel cannot lock one (before Linux 5.14).
    ///
    /// # Errors
    /// What the system calls say.
    pub fn begin(stream: &TcpStream, bytes: u32) -> io::Result<Self> {
        Self::set(stream, bytes, true)
    }

    /// The same, once 32 KB were read, of which an [`UnreadWindow`] is told: that spares most connections the system calls. It is set at once if it
    /// is less than the connection has already (`net.ipv4.tcp_rmem`). For connections that are read by one window all their life.
    ///
    /// # Errors
    /// What the system calls say.
    pub fn begin_late(stream: &TcpStream, bytes: u32) -> io::Result<Self> {
        if SockRef::from(stream).recv_buffer_size()? > bytes as usize {
            return Self::begin(stream, bytes);
        }
        Ok(Self {
            window_bytes: bytes.min(i32::MAX as u32) | LATE,
        })
    }

    /// The same for near peers only.
    ///
    /// # Errors
    /// What the system calls say.
    pub fn begin_if_near(stream: &TcpStream, bytes: u32) -> io::Result<()> {
        Self::set(stream, bytes, false).map(drop)
    }

    fn set(stream: &TcpStream, bytes: u32, may_be_far: bool) -> io::Result<Self> {
        let Ok(locks) = sockopt::buffer_locks(stream) else {
            return Ok(Self::default());
        };
        if locks & RECEIVE_LOCK != 0 {
            return Ok(Self::default());
        }
        let is_far = Sample::at(stream)?.rtt >= NEAR;
        if is_far && !may_be_far {
            return Ok(Self::default());
        }
        // Half of a buffer is for bytes, the other half for what the kernel needs besides.
        let window_bytes = (bytes / 2).min(i32::MAX as u32);
        // First to less, and the kernel doubles what is asked for (sock_setsockopt()): only a buffer that gets larger lets the window be as long
        // (`tcp_set_rcvlowat`). By itself, the option leaves it at the 64 KB with which connections begin.
        let less_bytes = (window_bytes / 4).min(socket_receive_buffer_max());
        sockopt::set(
            stream.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            less_bytes,
        )?;
        widen(stream, window_bytes, locks)?;
        Ok(Self {
            window_bytes: if is_far { window_bytes } else { 0 },
        })
    }

    /// Whether whoever reads is to tell an [`UnreadWindow`].
    pub(crate) fn may_grow(self) -> bool {
        self.window_bytes > 0
    }

    /// The limit that is to be set later.
    fn late_bytes(self) -> Option<u32> {
        (self.window_bytes & LATE != 0).then_some(self.window_bytes & !LATE)
    }

    /// Leaves the size of the buffer to the kernel again, if the peer is far: for readers that do not tell a window what they read.
    pub fn lift(self, stream: &TcpStream) {
        if self.may_grow() {
            // Without it, the window stays as it is.
            let _ = other_locks(stream).and_then(|others| set_buffer_locks(stream, others));
        }
    }
}

/// The window of a connection that is read, as it was found to be needed.
#[derive(Debug, Default)]
pub struct UnreadWindow {
    limit: UnreadLimit,
    /// Bytes that were read since it was looked at.
    read_bytes: u64,
    /// When half a window had come, and what had come until then.
    since: Option<(Instant, u64)>,
}

/// What there is to be seen of a connection.
#[derive(Clone, Copy)]
struct Sample {
    now: Instant,
    /// Bytes that have come since it exists, read or not.
    come_bytes: u64,
    /// The shortest round trip to the peer.
    rtt: Duration,
}

impl UnreadWindow {
    /// A window that may grow from this limit on.
    #[must_use]
    pub fn new(limit: UnreadLimit) -> Self {
        Self {
            limit,
            read_bytes: 0,
            since: None,
        }
    }

    /// So many bytes were read. A system call for each half of a window, and some more when it has to be larger.
    #[inline]
    pub fn took(&mut self, stream: &TcpStream, bytes: u64) {
        if let Some(limit_bytes) = self.limit.late_bytes() {
            self.read_bytes += bytes;
            if self.read_bytes >= EARLY_BYTES.into() {
                // The connection works without the limit.
                self.limit = UnreadLimit::begin(stream, limit_bytes).unwrap_or_default();
            }
        } else if self.limit.may_grow()
            && let Some(window_bytes) = self.grown(bytes, || Sample::at(stream).ok())
            && !other_locks(stream)
                .and_then(|others| widen(stream, window_bytes, others))
                .unwrap_or(false)
        {
            // As large as the system allows: from here on it is the kernel's.
            self.limit.window_bytes = 0;
        }
    }

    /// So many bytes have left it without being read: the kernel has handed them on.
    pub(crate) fn note(&mut self, bytes: u64) {
        self.read_bytes += bytes;
    }

    /// After how many more bytes it is looked at again; `None`: it does not grow any more.
    pub(crate) fn until_look(&self) -> Option<u64> {
        let bytes = u64::from(match self.limit.late_bytes() {
            None => self.limit.window_bytes / 2,
            Some(_) => EARLY_BYTES,
        });
        (bytes > 0).then(|| bytes.saturating_sub(self.read_bytes).max(1))
    }

    /// The window that it is to have from now on, if it is to grow.
    fn grown(&mut self, bytes: u64, sample: impl FnOnce() -> Option<Sample>) -> Option<u32> {
        self.read_bytes += bytes;
        let window_bytes = self.limit.window_bytes;
        let half_bytes = window_bytes / 2;
        if self.since.is_some() && self.read_bytes < half_bytes.into() {
            return None;
        }
        self.read_bytes = 0;
        let Sample {
            now,
            come_bytes,
            rtt,
        } = sample()?;
        let (since, come_before) = *self.since.get_or_insert((now, come_bytes));
        // What had waited is read faster than it has come.
        let came_bytes = come_bytes.saturating_sub(come_before);
        if came_bytes < half_bytes.into() {
            return None;
        }
        self.since = Some((now, come_bytes));
        // Half a window in a round trip, or as much in as long.
        let passed_us = now.saturating_duration_since(since).as_micros();
        if passed_us * u128::from(half_bytes) > u128::from(came_bytes) * rtt.as_micros() {
            return None;
        }
        self.limit.window_bytes = window_bytes.saturating_mul(2).min(i32::MAX as u32);
        Some(self.limit.window_bytes)
    }
}

impl Sample {
    fn at(stream: &TcpStream) -> io::Result<Self> {
        // Not the smoothed round trip: a server that acknowledges a request with its answer seems far as long as it thinks.
        let (rtt, come_bytes) = crate::sys::tcp_info::rtt_min_and_received(stream)?;
        Ok(Self {
            now: Instant::now(),
            come_bytes,
            rtt: rtt.unwrap_or(FAR),
        })
    }
}

/// Makes the buffer at least so large that the window can be so long, whatever `net.core.rmem_max` is, and fixes its size: a low-water mark makes
/// room for itself (`tcp_set_rcvlowat`), up to half of what `net.ipv4.tcp_rmem` allows. False: that is less; the size is not fixed. `others`: locks
/// (`SO_BUF_LOCK`) of the send buffer, which stay as they are.
fn widen(stream: &TcpStream, window_bytes: u32, others: u32) -> io::Result<bool> {
    set_buffer_locks(stream, others)?;
    set_receive_low_water(stream, window_bytes.min(i32::MAX as u32))?;
    let reached = sockopt::receive_low_water(stream);
    let is_wide = matches!(reached, Ok(reached) if reached >= window_bytes);
    let locked = if is_wide {
        set_buffer_locks(stream, others | RECEIVE_LOCK)
    } else {
        Ok(())
    };
    // In any case: until then nobody is told of what comes. What has come meanwhile is told of now.
    set_receive_low_water(stream, 1)?;
    locked.map(|()| is_wide)
}

/// The locks besides that of the receive buffer.
fn other_locks(stream: &TcpStream) -> io::Result<u32> {
    Ok(sockopt::buffer_locks(stream)? & !RECEIVE_LOCK)
}

#[cfg(test)]
mod tests;
