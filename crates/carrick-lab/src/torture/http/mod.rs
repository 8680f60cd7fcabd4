//! The torture of HTTP: carrick as a switch, between clients and an origin that are both in one thread, over a bad network.
//!
//! A *scenario* (`scenario`) is all that a run's seed decides: the network, and conversations of *exchanges* (`exchange`). It
//! is played by `client` and `origin`, which know the same plan, so that each byte can be compared; `run` puts carrick and
//! the network between them. `client` and `origin` know nothing of namespaces, so that tests can put bad relays between.

pub mod client;
pub mod decode;
pub mod disturbance;
pub mod exchange;
pub mod network;
pub mod origin;
pub mod play;
pub mod report;
pub mod request;
pub mod run;
pub mod scenario;
pub mod shared;
pub mod tally;

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Longest time without a byte that is due: a tail that is lost seven times takes half a minute.
pub const PATIENCE: Duration = Duration::from_secs(75);

/// Likewise, for the end of what the origin has cut where resets may be lost, which are not sent again.
pub const PATIENCE_FOR_RESETS: Duration = Duration::from_secs(15);

/// How carrick moves the responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// There is no carrick: the kernel routes the packets. What this shows is a fault of the suite.
    Routed,
    /// `engine = "auto"`: through the process, for comparison.
    Auto,
    /// `engine = "packet"`: responses that the process does not read.
    Unread,
    /// `engine = "packet"`, `responses = "read"`: the process reads heads, the kernel forwards the rest of long bodies.
    Bodies,
    /// `engine = "packet"`, `requests = "kernel"`: the kernel classifies requests, too.
    Classified,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Routed,
        Self::Auto,
        Self::Unread,
        Self::Bodies,
        Self::Classified,
    ];

    /// Those that a seed chooses from, with their weights.
    pub const DRAWN: [(Self, f64); 4] = [
        (Self::Auto, 0.1),
        (Self::Unread, 0.3),
        (Self::Bodies, 0.3),
        (Self::Classified, 0.3),
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Routed => "routed",
            Self::Auto => "auto",
            Self::Unread => "unread",
            Self::Bodies => "bodies",
            Self::Classified => "classified",
        }
    }

    /// The way of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    /// Whether the kernel is to forward packets.
    #[must_use]
    pub fn is_packet(self) -> bool {
        matches!(self, Self::Unread | Self::Bodies | Self::Classified)
    }

    /// Whether the process reads each response's head.
    #[must_use]
    pub fn reads_heads(self) -> bool {
        matches!(self, Self::Auto | Self::Bodies)
    }
}
