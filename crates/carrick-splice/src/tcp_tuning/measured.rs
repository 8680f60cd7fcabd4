//! What the kernel has measured of a leg.

use crate::sys::tcp_info::{TcpInfo, info, number, word};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Offsets in `struct tcp_info` (linux/tcp.h), in the order of the fields of [`Measured`].
const RTT_US: usize = 68;
const MIN_RTT_US: usize = 148;
const SEGMENTS_SENT: usize = 156;
const RETRANSMISSIONS: usize = 100;
const DELIVERY_RATE: usize = 160;
const CONGESTION_WINDOW: usize = 80;
const SEND_MSS: usize = 16;

/// TCP statistics of a leg over its life; readable also after its end, until it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Round-trip time, smoothed; `None`: never measured.
    pub rtt: Option<Duration>,
    /// The least round-trip time of the last minutes (`net.ipv4.tcp_min_rtt_wlen`); `None`: never measured.
    pub rtt_min: Option<Duration>,
    /// Data segments sent, retransmissions included.
    pub segments_sent: u32,
    /// Segments retransmitted, necessarily or not; SYN or SYN-ACK count, too.
    pub retransmissions: u32,
    /// Highest recent delivery rate, in bytes per second; 0: not measured.
    pub delivery_rate: u64,
    /// Congestion window, in segments.
    pub congestion_window: u32,
    /// Bytes of data in a segment.
    pub segment_bytes: u32,
}

/// What the kernel has measured of a connection. One system call (`TCP_INFO`).
///
/// # Errors
/// What `getsockopt` says.
pub fn measure(socket: &impl AsFd) -> io::Result<Measured> {
    Ok(Measured::read(&info(socket)?))
}

impl Measured {
    fn read(info: &TcpInfo) -> Measured {
        // The kernel reports all ones for a minimum that it has not measured.
        let rtt = |offset| match word(info, offset) {
            0 | u32::MAX => None,
            rtt_us => Some(Duration::from_micros(rtt_us.into())),
        };
        Measured {
            rtt: rtt(RTT_US),
            rtt_min: rtt(MIN_RTT_US),
            segments_sent: word(info, SEGMENTS_SENT),
            retransmissions: word(info, RETRANSMISSIONS),
            delivery_rate: number(info, DELIVERY_RATE),
            congestion_window: word(info, CONGESTION_WINDOW),
            segment_bytes: word(info, SEND_MSS),
        }
    }
}

#[cfg(test)]
mod tests;
