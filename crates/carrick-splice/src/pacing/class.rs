//! The settings of a class of splices.

use std::fmt;
use std::time::Duration;

/// The lowest rate, in bytes per second.
pub const RATE_MIN: u64 = 1000;

/// The highest rate, in bytes per second; beyond it, rates are as good as unlimited.
pub const RATE_MAX: u64 = 100_000_000_000;

/// The longest `hold_max`.
pub const HOLD_MAX: Duration = Duration::from_secs(10);

/// When splices wait for the worker's own work (the paper's *yield condition*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Never.
    Immediate,
    /// As long as the worker is runnable.
    Conservative,
    /// Likewise, unless the ratio of bytes spliced to bytes served by the worker is below that of their
    /// requests.
    Proportional,
    /// Likewise, except for as many bytes in each of the worker's rounds as keep the 99th percentile of cache
    /// hits within `target`.
    Deadline {
        /// The delay in the worker: in the round that writes a hit's last bytes, from the earliest moment at
        /// which it could have gone on. A hit that its client reads over several rounds counts with the last
        /// one only, since the client's time is not the worker's delay.
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

/// The order among waiting splices of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Weight {
    /// Each gets the same number of bytes.
    #[default]
    Even,
    /// In proportion to the receiver's round-trip time: a longer one needs more in flight for the same speed.
    Rtt,
    /// In proportion to the receiver's congestion window.
    Window,
}

/// A limit on the clients of a network together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkRate {
    /// Bytes per second, in each direction.
    pub ceiling: u64,
    /// Prefix length for IPv4 addresses: at most 32.
    pub prefix_v4: u8,
    /// Likewise, for IPv6: at most 128.
    pub prefix_v6: u8,
}

/// A class of splices. All rates are in bytes per second and per direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSettings {
    /// Its name.
    pub name: String,
    /// When its splices wait.
    pub policy: Policy,
    /// Its guaranteed part of its parent's rate.
    pub rate: Option<u64>,
    /// Its limit.
    pub ceiling: Option<u64>,
    /// The limit of each network of clients.
    pub network: Option<NetworkRate>,
    /// The limit of each splice.
    pub splice: Option<u64>,
    /// The parent class.
    pub parent: Option<String>,
    /// Classes with the lowest number go first: among those that wait for the worker, and among those with
    /// the same parent, whose ceiling goes to the more urgent except for a 64th. Four levels are
    /// distinguished there.
    pub priority: u8,
    /// The order inside the class.
    pub weight: Weight,
    /// After waiting for the worker this long, a splice gets a small grant. At most [`HOLD_MAX`].
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

/// Why classes are invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaceError {
    /// The class, if one is at fault.
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
    /// Its settings.
    pub settings: ClassSettings,
    /// Its present splices.
    pub splices: u64,
    /// Networks of clients with a rate of their own now.
    pub networks: u64,
    /// Bytes passed, in both directions: by the process, and by programs in the kernel.
    pub bytes: u64,
    /// Of these, by programs in the kernel.
    pub kernel_bytes: u64,
    /// How often a splice had to wait for the worker (a yield).
    pub yields: u64,
    /// How often it had to wait for a rate.
    pub rate_waits: u64,
    /// How often a program in the kernel held data back, for either reason.
    pub kernel_holds: u64,
    /// Total waiting time of splices, for either reason. In the process only.
    pub waited: Duration,
    /// How often one went on after waiting for `hold_max`.
    pub overdue: u64,
    /// With `proportional` and `deadline`: the present credit per byte served, or per round; bytes.
    pub credit: u64,
    /// Splices without a rate of their own, or of their client's network, because no bucket was free.
    pub unbounded: u64,
}

/// What a worker has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WorkerReport {
    /// Whether it is runnable now.
    pub is_runnable: bool,
    /// Total time runnable.
    pub runnable: Duration,
    /// Total time spent forwarding traffic that had waited for it.
    pub forwarding: Duration,
    /// Requests it has served itself, and their bytes.
    pub local_requests: u64,
    /// See `local_requests`.
    pub local_bytes: u64,
    /// Requests whose responses were spliced, and bytes that were spliced by it.
    pub spliced_requests: u64,
    /// See `spliced_requests`.
    pub spliced_bytes: u64,
    /// Bytes of paced splices that programs in the kernel have spliced.
    pub kernel_bytes: u64,
    /// 99th percentile of how long cache hits waited in the worker (see [`Policy::Deadline`]), over the
    /// latest tenth of a second with enough hits; `None` if there was none, or no class uses it.
    pub hits_p99: Option<Duration>,
}
