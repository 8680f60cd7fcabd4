//! What became of a profile: what was got, and what was refused, with the reason.

use crate::Unavailable;
use std::fmt;

/// One thing that a [`Profile`](super::Profile) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Setting {
    /// `initial_window_bytes`
    InitialWindow,
    /// `congestion_control`
    CongestionControl,
    /// `pacing_rate`
    PacingRate,
    /// `send_buffer_bytes`
    SendBuffer,
    /// `receive_buffer_bytes`
    ReceiveBuffer,
    /// `window_clamp_bytes`
    WindowClamp,
    /// `initial_receive_window_segments`
    InitialReceiveWindow,
    /// `user_timeout`
    UserTimeout,
    /// `keepalive`
    Keepalive,
    /// `rto_min`
    RtoMin,
    /// `rto_initial`
    RtoInitial,
    /// `rto_max`
    RtoMax,
    /// `delayed_ack_max`
    DelayedAckMax,
    /// `quick_ack`
    QuickAck,
    /// `unsent_low_water_bytes`
    UnsentLowWater,
    /// `segment_bytes_max`
    SegmentLimit,
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Setting::InitialWindow => "initial window",
            Setting::CongestionControl => "congestion control",
            Setting::PacingRate => "pacing rate",
            Setting::SendBuffer => "send buffer",
            Setting::ReceiveBuffer => "receive buffer",
            Setting::WindowClamp => "window clamp",
            Setting::InitialReceiveWindow => "initial receive window",
            Setting::UserTimeout => "user time-out",
            Setting::Keepalive => "keep-alive",
            Setting::RtoMin => "least retransmission time-out",
            Setting::RtoInitial => "initial retransmission time-out",
            Setting::RtoMax => "longest retransmission time-out",
            Setting::DelayedAckMax => "delay of acknowledgements",
            Setting::QuickAck => "quick acknowledgements",
            Setting::UnsentLowWater => "low water of unsent bytes",
            Setting::SegmentLimit => "segment limit",
        })
    }
}

/// What a socket got of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Applied {
    /// What it did not get. Empty if it got all that can be had at this moment.
    pub refused: Vec<Refused>,
    /// The send buffer that it has now, in bytes of data; `None`: not asked for.
    pub send_buffer_bytes: Option<u32>,
    /// The receive buffer that it has now; `None`: not asked for.
    pub receive_buffer_bytes: Option<u32>,
    /// The initial window that it has now, in segments; `None`: not asked for, or refused.
    pub initial_window_segments: Option<u32>,
}

impl Applied {
    /// Why it did not get this; `None`: it did, or nobody asked.
    #[must_use]
    pub fn refusal(&self, setting: Setting) -> Option<&Why> {
        let refused = self.refused.iter().find(|one| one.setting == setting);
        refused.map(|refused| &refused.why)
    }
}

/// A setting that a socket did not get, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct Refused {
    /// The setting.
    pub setting: Setting,
    /// Why.
    pub why: Why,
}

/// Why a socket did not get a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// It needs what this kernel, or this process, does not have.
    #[error("{0}")]
    Unavailable(Unavailable),
    /// No congestion control of this name is there.
    #[error("this kernel has no congestion control {asked:?}; it has {available}")]
    NoSuchCongestionControl {
        /// The name.
        asked: String,
        /// `net.ipv4.tcp_available_congestion_control`
        available: String,
    },
    /// Only privileged processes may have this congestion control.
    #[error(
        "congestion control {asked:?} needs CAP_NET_ADMIN; everybody may have {allowed} (net.ipv4.tcp_allowed_congestion_control)"
    )]
    RestrictedCongestionControl {
        /// The name.
        asked: String,
        /// `net.ipv4.tcp_allowed_congestion_control`
        allowed: String,
    },
    /// The buffer is smaller than asked for.
    #[error("{got} bytes instead of {asked}: {limit} allows no more without CAP_NET_ADMIN")]
    Reduced {
        /// Bytes asked for.
        asked: u32,
        /// Bytes got.
        got: u32,
        /// The sysctl that says so.
        limit: &'static str,
    },
    /// Data has been sent already.
    #[error("data has been sent already")]
    TooLate,
    /// What the kernel said.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Kernel(i32),
}
