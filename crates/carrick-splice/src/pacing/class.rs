//! What an administrator says of splices that are to be treated alike.

use std::fmt;
use std::time::Duration;

/// A rate below this would be a standstill: bytes per second.
pub const RATE_MIN: u64 = 1000;

/// The highest rate that can be kept apart from none, in bytes per second.
pub const RATE_MAX: u64 = 100_000_000_000;

/// What is held back waits no longer than this.
pub const HOLD_MAX: Duration = Duration::from_secs(10);

/// When splices wait for what the worker does itself (the paper's *yield condition*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Never.
    Immediate,
    /// As long as the worker is runnable.
    Conservative,
    /// Likewise, unless fewer bytes were spliced for each byte served by the worker than requests for each request.
    Proportional,
    /// Likewise, but for as many bytes in each of the worker's rounds that 99 of 100 cache hits wait no longer than `target`.
    Deadline {
        /// In the worker: in the round in which a hit's last bytes are written, from the earliest moment at which it could have gone on. A
        /// hit that its client takes in several rounds is counted with the last of them only: what the client takes is not the worker's delay.
        target: Duration,
    },
}

impl Policy {
    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::Immediate => "immediate",
            Policy::Conservative => "conservative",
            Policy::Proportional => "proportional",
            Policy::Deadline { .. } => "deadline",
        }
    }
}

/// Who goes first of those that wait in a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Weight {
    /// Each gets as many bytes as each other.
    #[default]
    Even,
    /// In proportion to the receiver's round-trip time: it has to have more under way to be as fast as others.
    Rtt,
    /// In proportion to the receiver's congestion window.
    Window,
}

/// A bound on what the clients of a network get together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkRate {
    /// Bytes per second, in each direction.
    pub ceiling: u64,
    /// How many bits of an IPv4 address make the network: at most 32.
    pub prefix_v4: u8,
    /// Likewise, of an IPv6 address: at most 128.
    pub prefix_v6: u8,
}

/// A class of splices. All rates are bytes per second, in each direction by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSettings {
    /// Its name.
    pub name: String,
    /// When its splices wait.
    pub policy: Policy,
    /// What it has for itself of its parent's rate, whatever others take.
    pub rate: Option<u64>,
    /// What it never exceeds.
    pub ceiling: Option<u64>,
    /// What each network of clients never exceeds.
    pub network: Option<NetworkRate>,
    /// What each splice never exceeds.
    pub splice: Option<u64>,
    /// The class with which it shares.
    pub parent: Option<String>,
    /// Classes with the lowest number go first: of those that wait for the worker, and of those below the same parent, whose ceiling the more urgent
    /// have but for a 64th. Four steps are told apart there.
    pub priority: u8,
    /// Who goes first inside the class.
    pub weight: Weight,
    /// What was held back for so long for the worker's sake goes on, if only by a little. At most [`HOLD_MAX`].
    pub hold_max: Duration,
}

impl ClassSettings {
    /// A class that holds nothing back.
    #[must_use]
    pub fn new(name: impl Into<String>) -> ClassSettings {
        ClassSettings {
            name: name.into(),
            policy: Policy::Immediate,
            rate: None,
            ceiling: None,
            network: None,
            splice: None,
            parent: None,
            priority: 100,
            weight: Weight::Even,
            hold_max: Duration::from_millis(100),
        }
    }
}

/// Why classes cannot be as they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaceError {
    /// The class, if it is one class's fault.
    pub class: Option<String>,
    /// What is wrong, and what would be right.
    pub why: String,
}

impl PaceError {
    pub(super) fn of(class: &str, why: impl Into<String>) -> PaceError {
        PaceError {
            class: Some(class.to_owned()),
            why: why.into(),
        }
    }
}

impl fmt::Display for PaceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.class {
            Some(class) => write!(formatter, "class {class:?}: {}", self.why),
            None => formatter.write_str(&self.why),
        }
    }
}

impl std::error::Error for PaceError {}

/// What a class has done so far.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassReport {
    /// As it stands.
    pub settings: ClassSettings,
    /// Splices that are paced by it now.
    pub splices: u64,
    /// Networks of clients that have a rate of their own now.
    pub networks: u64,
    /// Bytes that were let pass, in both directions: by the process, and by programs in the kernel.
    pub bytes: u64,
    /// Of which by programs in the kernel.
    pub kernel_bytes: u64,
    /// How often a splice had to wait for the worker (a yield).
    pub yields: u64,
    /// How often it had to wait because of a rate.
    pub rate_waits: u64,
    /// How often a program in the kernel held something back, for either.
    pub kernel_holds: u64,
    /// How long splices have waited, together, for either. In the process only.
    pub waited: Duration,
    /// How often one went on because it had waited for `hold_max`.
    pub overdue: u64,
    /// With `proportional` and `deadline`: the credit for one byte served, or for one round, as it stands; bytes.
    pub credit: u64,
    /// Splices that went without a rate of their own, or of their client's network, because there was no bucket left for it.
    pub unbounded: u64,
}

/// What a worker has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WorkerReport {
    /// Whether it works just now.
    pub is_runnable: bool,
    /// How long it was runnable.
    pub runnable: Duration,
    /// How long it forwarded what waited for its leave.
    pub forwarding: Duration,
    /// Requests that it has served itself, and their bytes.
    pub local_requests: u64,
    /// See `local_requests`.
    pub local_bytes: u64,
    /// Requests whose responses were spliced, and bytes that were spliced by it.
    pub spliced_requests: u64,
    /// See `spliced_requests`.
    pub spliced_bytes: u64,
    /// Bytes that were spliced by programs in the kernel, of paced splices.
    pub kernel_bytes: u64,
    /// 99 of 100 cache hits waited no longer than this in the worker (see [`Policy::Deadline`]), of the latest tenth of a second with enough of them;
    /// `None` if there was none, or no class needs to know.
    pub hits_p99: Option<Duration>,
}
