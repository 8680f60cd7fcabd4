//! Whether a connection is split in two at the gateway, or its ends are joined: decided for each pair of networks, and learned.
//!
//! A splitter gains where one leg is long: each leg has a control loop of its own, and the window over the long one can be opened at
//! once. It loses where there is nothing to gain, since it costs time itself: many small objects, and small files over loss
//! (*Evaluation of performance enhancing proxies in Internet over satellite*, 2003, sections 3.4 to 3.6). GoS, the gain of splitting,
//! is (throughput split - throughput end to end) / throughput end to end.
//!
//! The rule, in its order:
//!
//! 1. *A model says what is likely* ([`model`]): how long a transfer of each size takes, split and joined, by what is known of both
//!    legs. Of a pair that nothing is known of, that is the handshakes' round-trip times.
//! 2. *What was seen corrects it*: throughput of split and of joined connections of this pair, for each class of sizes apart, since a
//!    connection's size says more about its throughput than anything else. Model and evidence are weighed by their
//!    variances: few samples move the model little, many overrule it.
//!    A connection that carries several transfers, one after the other, is for the model what each of them is.
//! 3. *The pair's own sizes* weigh the classes: a connection counts as a connection, not by its bytes, since users wait for pages.
//! 4. *Hysteresis*: a pair is joined when splitting loses more than 2 %, and split when it gains more than 2 %; in between it stays as it
//!    is. After a change it stays so for [`DWELL`] connections.
//! 5. *A share of the connections goes the other way* to be compared: so many that they cost 1 % of the throughput at most, one in four
//!    at most, one in 64 at least; and one in 16 at least as long as the model alone has decided. So the rule never stops to learn, and never pays much for it.
//!
//! Which connections explore, and which are the control group, is a hash of their addresses and ports ([`is_chosen`]): the same
//! connection always goes the same way, and no client can be at a disadvantage for long.
//!
//! What was seen counts half after [`HALF_LIFE`], and the last [`SAMPLES_MAX`] of a kind at most: conditions change.

mod chosen;
mod evidence;
mod gain;
mod leg;
pub mod model;
mod pair;
mod rule;
mod sizes;
mod table;
#[cfg(test)]
mod tests;

pub use chosen::{Purpose, is_chosen};
pub use gain::{Gain, SHOWN_MIN};
pub use leg::{LegSeen, LegState};
pub use pair::{Pair, Prefixes};
pub use rule::{Decision, Reason, Way};
pub use sizes::SizeClass;
pub use table::{ClassTotal, FirstKnown, Outcome, PAIRS_MAX, PairView, Settings, Table};

use std::time::Duration;

/// What was seen counts half after so long.
pub const HALF_LIFE: Duration = Duration::from_secs(2 * 3600);

/// So many samples of a kind count at most: later ones take the places of earlier ones.
pub const SAMPLES_MAX: f64 = 64.0;

/// So many connections a pair stays as it was decided, before it is decided anew.
pub const DWELL: u32 = 16;

/// What fades by time.
fn fading(passed: Duration) -> f64 {
    (-passed.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
}
