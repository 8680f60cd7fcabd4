//! The result of applying a profile: what was set, and what was refused, with the reason.

use crate::Unavailable;
use std::fmt;

/// One setting of a [`Profile`](super::Profile).
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

/// The result of applying a profile to a socket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Applied {
    /// Settings refused. Empty if all that apply at this moment were set.
    pub refused: Vec<Refused>,
    /// The send buffer that it has now, in bytes of data; `None`: not set.
    pub send_buffer_bytes: Option<u32>,
    /// The receive buffer that it has now; `None`: not set.
    pub receive_buffer_bytes: Option<u32>,
    /// The initial window that it has now, in segments; `None`: not set, or refused.
    pub initial_window_segments: Option<u32>,
}

impl Applied {
    /// Why this was refused; `None`: it was not.
    #[must_use]
    pub fn refusal(&self, setting: Setting) -> Option<&RefusalReason> {
        let refused = self.refused.iter().find(|one| one.setting == setting);
        refused.map(|refused| &refused.why)
    }
}

/// A refused setting, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {why}")]
pub struct Refused {
    /// The setting.
    pub setting: Setting,
    /// Why.
    pub why: RefusalReason,
}

/// Why a setting was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// It needs a feature that this kernel, or this process, lacks.
    #[error("{0}")]
    Unavailable(Unavailable),
    /// There is no congestion control of this name.
    #[error("this kernel has no congestion control {asked:?}; it has {available}")]
    NoSuchCongestionControl {
        /// The name.
        asked: String,
        /// `net.ipv4.tcp_available_congestion_control`
        available: String,
    },
    /// Only privileged processes may have this congestion control.
    #[error(
        "congestion control {asked:?} needs CAP_NET_ADMIN; any process may use {allowed} (net.ipv4.tcp_allowed_congestion_control)"
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
        /// Bytes requested.
        asked: u32,
        /// Bytes obtained.
        got: u32,
        /// The sysctl that limits it.
        limit: &'static str,
    },
    /// Data has been sent already.
    #[error("data has been sent already")]
    TooLate,
    /// The kernel's error.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Kernel(i32),
}
