//! `[pace]` and its classes.
use crate::config::keys::NONE;
use crate::config::kinds::{
    MS, milliseconds, named_tables, number, one_of, one_of_or, rate, seconds, text_or, time,
    time_or,
};
use crate::config::section::{Written, section};
use crate::config::setting::Setting;
use crate::config::word::words;
use carrick_splice::{HOLD_MAX, INTERVAL, Policy, RATE_MAX, RATE_MIN, Weight};
use std::ops::RangeInclusive;
use std::time::Duration;

/// How low and how high rates may be is the splice service's to say.
const RATES: RangeInclusive<u64> = RATE_MIN..=RATE_MAX;
/// Each client's address is a network.
pub const PREFIX_V4_DEFAULT: u8 = 32;
/// What a customer's line or a machine has.
pub const PREFIX_V6_DEFAULT: u8 = 64;

section! {
    /// `[pace]`
    #[derive(Debug)]
    pub struct Pace = "[pace]" {
        /// How often demand is estimated, for `proportional` and `deadline`
        interval: Duration = time(milliseconds(100)..=seconds(60), INTERVAL),
        /// The class of listeners and routes that name none
        default: Setting<String> = text_or("a class's name", NONE),
        /// Classes of traffic, by the name that listeners and routes use
        classes: Vec<Written<PaceClass>> = named_tables("`[pace.classes.NAME]`, up to 64"),
    }
}

section! {
    /// `[pace.classes.NAME]`
    #[derive(Debug)]
    pub struct PaceClass = "[pace.classes.NAME]" {
        /// When it waits for the worker's own work, such as answers from the cache: `immediate`, never;
        /// `conservative`, whenever the worker is busy; `proportional`, likewise, unless it gets less than its share
        /// of the requests; `deadline`, long enough that cache hits are answered within `target`
        policy: Setting<PolicyName> = one_of_or("immediate"),
        /// 99 of 100 cache hits are to be answered within this, measured in the worker. Only with `policy = "deadline"`
        target: Setting<Duration> = time_or(Duration::from_micros(100)..=seconds(10), "required with `deadline`"),
        /// The guaranteed share of the parent's ceiling; requires `parent`
        rate: Setting<u64> = rate(RATES),
        /// The limit of the whole class, in each direction
        ceiling: Setting<u64> = rate(RATES),
        /// The limit of each network's clients together, in each direction
        network_ceiling: Setting<u64> = rate(RATES),
        /// Bits of an IPv4 address that make a network; 32: each address by itself
        network_prefix_v4: u8 = number(0..=32, PREFIX_V4_DEFAULT as u64),
        /// Bits of an IPv6 address that make a network; 64: what one line or machine usually has
        network_prefix_v6: u8 = number(0..=128, PREFIX_V6_DEFAULT as u64),
        /// The limit of each tunnel, and of each client's connection for HTTP, in each direction
        splice_ceiling: Setting<u64> = rate(RATES),
        /// The class whose `ceiling` it shares with others; at most three levels
        parent: Setting<String> = text_or("a class's name", NONE),
        /// Classes with lower numbers go first, among those that wait for the worker and those that share a parent's
        /// ceiling; they leave a 64th of it to the others
        priority: u8 = number(0..=255, 100),
        /// Which traffic goes first within the class: `even`, all alike; `rtt`, in proportion to the receiver's
        /// round-trip time; `window`, to its congestion window
        weight: Weight = one_of("even"),
        /// Traffic that a busy worker has held back for this long continues in small amounts
        hold_max: Duration = time(MS..=HOLD_MAX, milliseconds(100)),
    }
}

words!(Weight { "even" => Even, "rtt" => Rtt, "window" => Window });

/// The words of `policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the configuration's")]
pub enum PolicyName {
    Immediate,
    Conservative,
    Proportional,
    Deadline,
}

words!(PolicyName {
    "immediate" => Immediate,
    "conservative" => Conservative,
    "proportional" => Proportional,
    "deadline" => Deadline,
});

/// What a `policy` is with this `target`, which is for `deadline`.
///
/// # Errors
/// The `target` is missing, or one too many.
pub fn policy(name: PolicyName, target: Option<Duration>) -> Result<Policy, WrongPolicy> {
    let policy = match (name, target) {
        (PolicyName::Deadline, Some(target)) => return Ok(Policy::Deadline { target }),
        (PolicyName::Deadline, None) => return Err(WrongPolicy::NoTarget),
        (PolicyName::Immediate, _) => Policy::Immediate,
        (PolicyName::Conservative, _) => Policy::Conservative,
        (PolicyName::Proportional, _) => Policy::Proportional,
    };
    match target {
        None => Ok(policy),
        Some(_) => Err(WrongPolicy::Target(policy)),
    }
}

/// Why a policy cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongPolicy {
    /// It needs a `target`.
    NoTarget,
    /// It has none.
    Target(Policy),
}
