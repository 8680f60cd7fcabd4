//! How far a connection has come with what it was given to send.

use crate::sys::tcp_info::unacked_bytes;
use crate::sys::tcp_info::{info, number, word};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Offsets in `struct tcp_info` (linux/tcp.h).
const LAST_DATA_SENT_MS: usize = 44;
const RTT_US: usize = 68;
const BUSY_US: usize = 168;

/// What a connection has delivered to its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes that were written and not acknowledged yet; the end of the stream counts as one.
    pub unacked_bytes: u64,
    /// How long ago the last segment with data was sent, for the first time or again; to the millisecond.
    pub since_sent: Duration,
    /// The round-trip time, smoothed; zero: never measured.
    pub rtt: Duration,
    /// How long there was something to send, or unacknowledged, since the connection exists.
    pub busy: Duration,
}

impl Delivery {
    /// How long ago the peer's acknowledgement of the last byte came, if all are acknowledged: a round trip after that was sent. (When the
    /// last acknowledgement came is known as well, but that may be one of something else.)
    #[must_use]
    pub fn delivered_before(&self) -> Option<Duration> {
        (self.unacked_bytes == 0).then(|| self.since_sent.saturating_sub(self.rtt))
    }
}

/// How far a connection has come; also when it has ended and is not closed yet. Two system calls.
///
/// # Errors
/// What `getsockopt` and `ioctl` say.
pub fn delivery(socket: &impl AsFd) -> io::Result<Delivery> {
    let info = info(socket)?;
    Ok(Delivery {
        unacked_bytes: unacked_bytes(socket)?,
        since_sent: Duration::from_millis(word(&info, LAST_DATA_SENT_MS).into()),
        rtt: Duration::from_micros(word(&info, RTT_US).into()),
        busy: Duration::from_micros(number(&info, BUSY_US)),
    })
}
