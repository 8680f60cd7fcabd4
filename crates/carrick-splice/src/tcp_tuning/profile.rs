//! The settings of a leg's TCP, and whether they are possible at all.

use std::time::Duration;

/// The largest first flight, in bytes.
pub const INITIAL_WINDOW_MAX: u32 = 16 << 20;
/// The largest socket buffer: the kernel doubles it, in an int.
pub const BUFFER_BYTES_MAX: u32 = 1 << 30;
/// `TCP_RTO_MIN` and `TCP_DELACK_MAX` of net/tcp.h: Linux lets both be shortened, never lengthened.
pub const KERNEL_TIMER: Duration = Duration::from_millis(200);
/// The shortest of both: two kernel clock ticks (`TCP_TIMEOUT_MIN`), at the slowest clock of 100 per second.
pub const KERNEL_TIMER_MIN: Duration = Duration::from_millis(20);
/// The longest time between two transmissions of a segment (`TCP_RTO_MAX_SEC`).
pub const RTO_MAX: Duration = Duration::from_secs(120);
/// The shortest maximum of that time.
pub const RTO_MAX_MIN: Duration = Duration::from_secs(1);
/// `TCP_CA_NAME_MAX` of net/tcp.h, less the zero byte.
pub const CONGESTION_CONTROL_BYTES_MAX: usize = 15;

/// The settings of a leg's TCP. `None` (or `false`) leaves the kernel's default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// Bytes sent before the first acknowledgement (the initial congestion window), at most 16 MB; rounded
    /// down to whole segments, at least one. The peer's first receive window, usually 64 KB, limits it
    /// further.
    pub initial_window_bytes: Option<u32>,
    /// The congestion control, as `net.ipv4.tcp_available_congestion_control` lists it.
    pub congestion_control: Option<String>,
    /// The highest rate in bytes per second (`SO_MAX_PACING_RATE`), with headers of IP and TCP.
    pub pacing_rate: Option<u64>,
    /// Size of the send buffer in bytes of data (`SO_SNDBUF`), at most 1 GB. `None`: Linux tunes it, up to
    /// `net.ipv4.tcp_wmem`.
    pub send_buffer_bytes: Option<u32>,
    /// Size of the receive buffer in bytes of data (`SO_RCVBUF`), at most 1 GB. `None`: Linux tunes it, up to
    /// `net.ipv4.tcp_rmem`.
    pub receive_buffer_bytes: Option<u32>,
    /// The largest receive window, in bytes (`TCP_WINDOW_CLAMP`): how much the peer may have in flight.
    pub window_clamp_bytes: Option<u32>,
    /// The receive window of SYN or SYN-ACK in segments (as `initrwnd` of ip-route(8)), 1 to 1024. It can
    /// only lower the kernel's own, which is at most 65535 bytes.
    pub initial_receive_window_segments: Option<u32>,
    /// How long bytes may stay unacknowledged before the connection ends (`TCP_USER_TIMEOUT`), to the millisecond.
    pub user_timeout: Option<Duration>,
    /// Keep-alive probes.
    pub keepalive: Option<Keepalive>,
    /// The shortest retransmission time-out, 20 to 200 ms: a socket option can only shorten Linux's 200 ms on
    /// top of the round trip.
    pub rto_min: Option<Duration>,
    /// How long until SYN and SYN-ACK are retransmitted; 1 ms to 120 s, default 1 s.
    pub rto_initial: Option<Duration>,
    /// The longest retransmission time-out; 1 to 120 s, default 120 s. Linux 6.15 and later.
    pub rto_max: Option<Duration>,
    /// The longest delay of an acknowledgement; 20 to 200 ms.
    pub delayed_ack_max: Option<Duration>,
    /// Acknowledge the next data at once (`TCP_QUICKACK`). Linux returns to delayed acknowledgements by
    /// itself.
    pub quick_ack: bool,
    /// Unsent bytes in the send buffer at which the socket stops being writable (`TCP_NOTSENT_LOWAT`).
    pub unsent_low_water_bytes: Option<u32>,
    /// The longest segment, in both directions, that SYN or SYN-ACK announce, counted as by
    /// [`limit_segments`](crate::tcp::limit_segments) (`TCP_MAXSEG`); 88 to 32767.
    pub segment_bytes_max: Option<u32>,
}

/// Keep-alive of an idle connection; whole seconds (tcp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe; 1 to 32767 s.
    pub idle: Duration,
    /// Between two probes; 1 to 32767 s.
    pub interval: Duration,
    /// Unanswered probes that end the connection; 1 to 127.
    pub probes: u8,
}

/// A value that no kernel accepts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct ProfileError {
    /// The setting.
    pub setting: super::Setting,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// The bandwidth-delay product in bytes: what a buffer needs to fill the link. At most [`BUFFER_BYTES_MAX`].
#[must_use]
pub fn bandwidth_delay_bytes(bytes_per_second: u64, rtt: Duration) -> u32 {
    let bytes = u128::from(bytes_per_second).saturating_mul(rtt.as_micros()) / 1_000_000;
    u32::try_from(bytes).map_or(BUFFER_BYTES_MAX, |bytes| bytes.min(BUFFER_BYTES_MAX))
}

impl Profile {
    /// Whether any kernel could do this. [`TcpTuning::rehearse`](super::TcpTuning::rehearse) finds out what
    /// this one can do.
    ///
    /// The first value out of range.
    pub fn check(&self) -> Result<(), ProfileError> {
        use super::Setting as S;
        within(
            S::InitialWindow,
            "bytes",
            self.initial_window_bytes,
            1,
            INITIAL_WINDOW_MAX,
        )?;
        let receive_window = self.initial_receive_window_segments;
        within(S::InitialReceiveWindow, "segments", receive_window, 1, 1024)?;
        within(
            S::PacingRate,
            "bytes per second",
            self.pacing_rate,
            1,
            u64::MAX - 1,
        )?;
        within(
            S::SendBuffer,
            "bytes",
            self.send_buffer_bytes,
            1,
            BUFFER_BYTES_MAX,
        )?;
        within(
            S::ReceiveBuffer,
            "bytes",
            self.receive_buffer_bytes,
            1,
            BUFFER_BYTES_MAX,
        )?;
        within(
            S::WindowClamp,
            "bytes",
            self.window_clamp_bytes,
            1,
            BUFFER_BYTES_MAX,
        )?;
        let low_water = self.unsent_low_water_bytes;
        within(S::UnsentLowWater, "bytes", low_water, 1, i32::MAX as u32)?;
        within(S::SegmentLimit, "bytes", self.segment_bytes_max, 88, 32_767)?;
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        during(
            S::UserTimeout,
            self.user_timeout,
            ms(1),
            ms(i32::MAX as u64),
        )?;
        during(S::RtoMin, self.rto_min, KERNEL_TIMER_MIN, KERNEL_TIMER)?;
        during(S::RtoInitial, self.rto_initial, ms(1), RTO_MAX)?;
        during(S::RtoMax, self.rto_max, RTO_MAX_MIN, RTO_MAX)?;
        during(
            S::DelayedAckMax,
            self.delayed_ack_max,
            KERNEL_TIMER_MIN,
            KERNEL_TIMER,
        )?;
        if let Some(keepalive) = self.keepalive {
            during(S::Keepalive, Some(keepalive.idle), s(1), s(32_767))?;
            during(S::Keepalive, Some(keepalive.interval), s(1), s(32_767))?;
            within(S::Keepalive, "probes", Some(keepalive.probes), 1, 127)?;
        }
        match &self.congestion_control {
            Some(name) if !is_name(name) => Err(ProfileError {
                setting: S::CongestionControl,
                problem: format!(
                    "{name:?} is no name: 1 to {CONGESTION_CONTROL_BYTES_MAX} letters, digits, '_' or '-'"
                ),
            }),
            _ => Ok(()),
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=CONGESTION_CONTROL_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_part)
}

fn within<N: PartialOrd + std::fmt::Display>(
    setting: super::Setting,
    unit: &str,
    value: Option<N>,
    least: N,
    most: N,
) -> Result<(), ProfileError> {
    match value {
        Some(value) if value < least || value > most => Err(ProfileError {
            setting,
            problem: format!("{value} {unit}; it can be {least} to {most}"),
        }),
        _ => Ok(()),
    }
}

fn during(
    setting: super::Setting,
    value: Option<Duration>,
    least: Duration,
    most: Duration,
) -> Result<(), ProfileError> {
    match value {
        Some(value) if value < least || value > most => Err(ProfileError {
            setting,
            problem: format!("{value:?}; it can be {least:?} to {most:?}"),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
