//! What the kernel reports of one TCP socket: counts and state.

use super::sockopt::get_bytes;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `struct tcp_info`, with zeros for fields that the kernel lacks.
pub(crate) type TcpInfo = [u8; 256];

/// Offsets in `struct tcp_info` (linux/tcp.h), which only ever grows at its end.
const STATE: usize = 0;
const OPTIONS: usize = 5;
const SEND_MSS: usize = 16;
const RTT_US: usize = 68;
const CONGESTION_WINDOW: usize = 80;
const RETRANSMISSIONS: usize = 100;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const RTT_MIN_US: usize = 148;
const DATA_SEGMENTS_SENT: usize = 156;

/// `TCP_CLOSE` (net/tcp_states.h).
const CLOSED: u8 = 7;

/// In the byte of options: the connection has timestamps (linux/tcp.h), which take 12 bytes of each segment.
const WITH_TIMESTAMPS: u8 = 1;
const TIMESTAMPS_BYTES: u32 = 12;

/// The states in which the peer has not closed its side: `TCP_ESTABLISHED`, `TCP_FIN_WAIT1`, `TCP_FIN_WAIT2`.
const OPEN: [u8; 3] = [1, 4, 5];

/// How often counts are read again if an acknowledgement arrived in between.
const TRIES: usize = 64;

/// Bytes written to the socket's TCP over its life, in the unit of the verdict program: acknowledged and
/// unacknowledged. `None` if the connection is gone. Never too large; too small only while acknowledgements
/// arrive faster than it can be read.
pub(crate) fn written_bytes(socket: &impl AsFd) -> io::Result<Option<u64>> {
    Ok(measure(socket)?.map(|(bytes, _)| bytes))
}

/// The same, exactly, or an error. Nothing may write meanwhile.
pub(crate) fn base_bytes(socket: &impl AsFd) -> io::Result<u64> {
    match measure(socket)? {
        Some((bytes, true)) => Ok(bytes),
        Some(_) => Err(io::ErrorKind::WouldBlock.into()),
        None => Err(io::ErrorKind::NotConnected.into()),
    }
}

/// The bytes, and whether no acknowledgement came in between.
fn measure(socket: &impl AsFd) -> io::Result<Option<(u64, bool)>> {
    let mut bytes = 0;
    for _ in 0..TRIES {
        let Some(acked) = acked_bytes(socket)? else {
            return Ok(None);
        };
        bytes = acked + unacked_bytes(socket)?;
        match acked_bytes(socket)? {
            Some(again) if again == acked => return Ok(Some((bytes, true))),
            Some(_) => {}
            None => return Ok(None),
        }
    }
    Ok(Some((bytes, false)))
}

/// Bytes read from the socket's queue over its life, by any reader; `None` if unknown, because the connection
/// is gone or bytes arrive faster than it can be read.
pub(crate) fn consumed_bytes(socket: &impl AsFd) -> io::Result<Option<u64>> {
    for _ in 0..TRIES {
        let before = info(socket)?;
        let waiting = rustix::io::ioctl_fionread(socket)?;
        let after = info(socket)?;
        let received = number(&before, BYTES_RECEIVED);
        if before[STATE] == CLOSED {
            return Ok(None);
        }
        if before[STATE] == after[STATE] && received == number(&after, BYTES_RECEIVED) {
            // The end of the stream counts as a byte (`tcp_rcv_nxt_update`).
            let end = u64::from(!OPEN.contains(&before[STATE]));
            return Ok(received.checked_sub(waiting + end));
        }
    }
    Ok(None)
}

/// Whether the connection is gone altogether.
pub(crate) fn is_closed(socket: &impl AsFd) -> bool {
    info(socket).is_ok_and(|info| info[STATE] == CLOSED)
}

/// Statistics of a connection over its life.
pub(crate) struct ConnectionStatistics {
    /// The smoothed round-trip time in microseconds; 0: never measured.
    pub(crate) rtt_us: u32,
    /// Data segments sent, retransmissions included; 0 on kernels before 4.6.
    pub(crate) segments: u32,
    /// Segments retransmitted.
    pub(crate) retransmissions: u32,
}

/// Stays readable after the connection has ended.
pub(crate) fn connection_statistics(socket: &impl AsFd) -> io::Result<ConnectionStatistics> {
    let info = info(socket)?;
    Ok(ConnectionStatistics {
        rtt_us: word(&info, RTT_US),
        segments: word(&info, DATA_SEGMENTS_SENT),
        retransmissions: word(&info, RETRANSMISSIONS),
    })
}

/// The shortest round trip of the last minutes (`net.ipv4.tcp_min_rtt_wlen`), `None`: never measured; and
/// bytes received.
pub(crate) fn rtt_min_and_received(socket: &impl AsFd) -> io::Result<(Option<Duration>, u64)> {
    let info = info(socket)?;
    // `tcp_min_rtt()` begins with all ones; kernels that do not know it leave zeros.
    let rtt = match word(&info, RTT_MIN_US) {
        0 | u32::MAX => None,
        rtt_us => Some(Duration::from_micros(rtt_us.into())),
    };
    Ok((rtt, number(&info, BYTES_RECEIVED)))
}

/// The smoothed round-trip time in microseconds, and the congestion window in bytes.
pub(crate) fn path_of(socket: &impl AsFd) -> io::Result<(u32, u32)> {
    let info = info(socket)?;
    let window = word(&info, CONGESTION_WINDOW).saturating_mul(word(&info, SEND_MSS));
    Ok((word(&info, RTT_US), window))
}

/// The present limit of segments to the peer, without headers but with timestamps, as the option MSS of a SYN
/// counts (RFC 6691).
pub(crate) fn segment_bytes(socket: &impl AsFd) -> io::Result<u32> {
    let info = info(socket)?;
    let has_timestamps = info[OPTIONS] & WITH_TIMESTAMPS != 0;
    Ok(word(&info, SEND_MSS) + if has_timestamps { TIMESTAMPS_BYTES } else { 0 })
}

/// The number of 32 bits at `offset`.
pub(crate) fn word(info: &TcpInfo, offset: usize) -> u32 {
    let bytes = info.get(offset..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// Bytes that the peer has acknowledged over its life; `None` if the connection is gone.
pub(crate) fn acked_bytes(socket: &impl AsFd) -> io::Result<Option<u64>> {
    let info = info(socket)?;
    Ok((info[STATE] != CLOSED).then(|| number(&info, BYTES_ACKED)))
}

/// The number of 64 bits at `offset`.
pub(crate) fn number(info: &TcpInfo, offset: usize) -> u64 {
    let (_, rest) = info.split_at(offset);
    let (bytes, _) = rest.split_at(8);
    u64::from_ne_bytes(bytes.try_into().unwrap_or_default())
}

/// All of it, as it stands.
pub(crate) fn info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let mut info = [0; 256];
    let bytes = get_bytes(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    if bytes < BYTES_RECEIVED + 8 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(info)
}

/// Bytes that were written and not acknowledged yet.
#[expect(unsafe_code, reason = "no library has this ioctl for sockets")]
pub(crate) fn unacked_bytes(socket: &impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (which is TIOCOUTQ, linux/sockios.h) writes one int, which lives for the call.
    let outcome =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}
