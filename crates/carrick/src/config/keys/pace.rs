//! The keys of `[pace]` and its classes, and what listeners and routes say about it.
use super::{Form, Key, MS, NONE, Table, seconds};
use carrick_splice::{HOLD_MAX, INTERVAL, Policy, RATE_MAX, RATE_MIN, Weight};
use std::time::Duration;

/// The form of all rates. How low and how high they may be is the splice service's to say.
const RATE: Form = Form::Other {
    what: "rate, `1000` to `100000000000`",
    default: NONE,
};

/// The least of a rate, in bytes per second.
pub const RATE_BYTES_MIN: u64 = RATE_MIN;
/// The most of a rate, in bytes per second.
pub const RATE_BYTES_MAX: u64 = RATE_MAX;
/// The least `target`.
pub const TARGET_MIN: Duration = Duration::from_micros(100);
/// The most.
pub const TARGET_MAX: Duration = seconds(10);
/// Each client's address is a network.
pub const PREFIX_V4_DEFAULT: u8 = 32;
/// What a customer's line or a machine has.
pub const PREFIX_V6_DEFAULT: u8 = 64;

/// `pace` of a listener.
pub(super) const OF_LISTENER: Key = Key {
    name: "pace",
    form: Form::Text {
        what: "a class's name, or `\"\"` for none",
        default: "the `default` of `[pace]`",
    },
    about: "The `[pace.classes.NAME]` of what is relayed for this listener's clients",
};

/// `pace` of a route.
pub(super) const OF_ROUTE: Key = Key {
    name: "pace",
    form: Form::Text {
        what: "a class's name, or `\"\"` for none",
        default: "that of the listener",
    },
    about: "Overrides the listener's `pace` for this route",
};

/// `[pace]`
pub static PACE: Table = Table {
    title: "[pace]",
    keys: &[
        Key {
            name: "interval",
            form: Form::Time {
                min: Duration::from_millis(100),
                max: seconds(60),
                default: INTERVAL,
            },
            about: "How often it is estimated anew how much is asked for, for `proportional` and `deadline`",
        },
        Key {
            name: "default",
            form: Form::Text {
                what: "a class's name",
                default: NONE,
            },
            about: "The class of listeners and routes that name none",
        },
        Key {
            name: "classes",
            form: Form::Other {
                what: "`[pace.classes.NAME]`, up to 64",
                default: NONE,
            },
            about: "What is paced alike, by the name that listeners and routes use",
        },
    ],
};

/// `[pace.classes.NAME]`
pub static PACE_CLASS: Table = Table {
    title: "[pace.classes.NAME]",
    keys: &[
        Key {
            name: "policy",
            form: Form::OneOf {
                words: POLICIES,
                default: "immediate",
            },
            about: "When it waits for what the worker does itself (answers from the cache, say): `immediate`, never; `conservative`, whenever the worker is busy; `proportional`, likewise, unless it gets less than its share of the requests; `deadline`, so much that cache hits are answered within `target`",
        },
        Key {
            name: "target",
            form: Form::Other {
                what: "time, `\"100us\"` to `\"10s\"`",
                default: "required with `deadline`",
            },
            about: "99 of 100 cache hits are to be answered within this, measured in the worker. Only with `policy = \"deadline\"`",
        },
        Key {
            name: "rate",
            form: RATE,
            about: "What the class has for itself of its parent's, whatever others take; needs `parent`",
        },
        Key {
            name: "ceiling",
            form: RATE,
            about: "What all of the class never exceed together, in each direction",
        },
        Key {
            name: "network_ceiling",
            form: RATE,
            about: "What the clients of each network never exceed together, in each direction",
        },
        Key {
            name: "network_prefix_v4",
            form: Form::Number {
                min: 0,
                max: 32,
                default: PREFIX_V4_DEFAULT as u64,
            },
            about: "Bits of an IPv4 address that make a network; 32: each address by itself",
        },
        Key {
            name: "network_prefix_v6",
            form: Form::Number {
                min: 0,
                max: 128,
                default: PREFIX_V6_DEFAULT as u64,
            },
            about: "Bits of an IPv6 address that make a network; 64 are what one line or machine mostly has",
        },
        Key {
            name: "splice_ceiling",
            form: RATE,
            about: "What each tunnel, and each client's connection for HTTP, never exceeds, in each direction",
        },
        Key {
            name: "parent",
            form: Form::Text {
                what: "a class's name",
                default: NONE,
            },
            about: "The class whose `ceiling` it shares with others; at most three are above each other",
        },
        Key {
            name: "priority",
            form: Form::Number {
                min: 0,
                max: 255,
                default: 100,
            },
            about: "Classes with the lowest number go first: of those that wait for the worker, and of those that share a parent's ceiling; they leave a 64th of it to the others",
        },
        Key {
            name: "weight",
            form: Form::OneOf {
                words: WEIGHTS,
                default: "even",
            },
            about: "Who goes first inside the class: `even`, each as much as each other; `rtt`, in proportion to the receiver's round-trip time; `window`, to its congestion window",
        },
        Key {
            name: "hold_max",
            form: Form::Time {
                min: MS,
                max: HOLD_MAX,
                default: Duration::from_millis(100),
            },
            about: "What was held back for so long because the worker is busy goes on, if only by a little",
        },
    ],
};

/// The words of `policy`.
pub const POLICIES: &[&str] = &["immediate", "conservative", "proportional", "deadline"];
/// The words of `weight`.
pub const WEIGHTS: &[&str] = &["even", "rtt", "window"];

/// The word for a weight.
#[must_use]
pub fn weight_name(weight: Weight) -> &'static str {
    match weight {
        Weight::Even => "even",
        Weight::Rtt => "rtt",
        Weight::Window => "window",
    }
}

/// What a word of `weight` means.
#[must_use]
pub fn weight(word: &str) -> Option<Weight> {
    let all = [Weight::Even, Weight::Rtt, Weight::Window];
    all.into_iter().find(|weight| weight_name(*weight) == word)
}

/// What a word of `policy` means; `target` is for `deadline`.
///
/// # Errors
/// What is not so: a word that is none, a `target` that is missing, or one too many.
pub fn policy(word: &str, target: Option<Duration>) -> Result<Policy, WrongPolicy> {
    let policy = match (word, target) {
        ("deadline", Some(target)) => return Ok(Policy::Deadline { target }),
        ("deadline", None) => return Err(WrongPolicy::NoTarget),
        ("immediate", _) => Policy::Immediate,
        ("conservative", _) => Policy::Conservative,
        ("proportional", _) => Policy::Proportional,
        _ => return Err(WrongPolicy::Unknown),
    };
    match target {
        None => Ok(policy),
        Some(_) => Err(WrongPolicy::Target(policy)),
    }
}

/// Why a policy cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongPolicy {
    /// There is none of this name.
    Unknown,
    /// It needs a `target`.
    NoTarget,
    /// It has none.
    Target(Policy),
}
