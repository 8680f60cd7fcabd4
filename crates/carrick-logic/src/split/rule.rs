//! The rule: from what is likely and what was seen to a decision, and its reason.

use super::DWELL;
use super::evidence::Evidence;
use super::leg::LegState;
use super::model::likely_gain;
use super::sizes::{SizeClass, Sizes};

crate::named! {
    /// What becomes of a connection.
    pub enum Way with name {
        /// Two connections, with a relay between them.
        Split = "split",
        /// One connection from end to end, as far as the gateway can: by the packet engine.
        Join = "join",
        /// This one is split, and those that follow between these networks pass by the gateway for a while: they would be joined, but end
        /// before that can be done, or cannot be joined here.
        LeaveOut = "leave-out",
    }
}

crate::named! {
    /// Why.
    pub enum Reason with name {
        /// The configuration says so.
        Configured = "configured",
        /// It is in the control group.
        Control = "control",
        /// It goes the other way than the others, to be compared with them.
        Explore = "explore",
        /// By the legs' round-trip times and losses, splitting is likely to gain.
        LikelyGain = "likely_gain",
        /// By those, it is not.
        NoLikelyGain = "no_likely_gain",
        /// Split connections were faster.
        MeasuredGain = "measured_gain",
        /// Joined connections were faster.
        MeasuredLoss = "measured_loss",
        /// Both were alike.
        MeasuredAlike = "measured_alike",
        /// It would be joined, but packets cannot be joined here, nor the pair left out.
        CannotJoin = "cannot_join",
    }
}

impl Reason {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Configured => "as configured",
            Self::Control => "in the control group",
            Self::Explore => "tried, to compare",
            Self::LikelyGain => "by its legs, splitting gains",
            Self::NoLikelyGain => "by its legs, splitting gains nothing",
            Self::MeasuredGain => "split connections were faster",
            Self::MeasuredLoss => "joined connections were faster",
            Self::MeasuredAlike => "split and joined connections were alike",
            Self::CannotJoin => "splitting gains nothing, but it cannot be joined",
        }
    }
}

/// What is decided of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// What is to become of it.
    pub way: Way,
    /// Why.
    pub reason: Reason,
}

/// A pair is joined if splitting loses more than this, and split if it gains more: as a logarithm.
const THRESHOLD: f64 = 0.02;

/// How far the model's logarithm is off, as a standard deviation: it knows neither queues nor what else goes over a leg; by so much, and
/// by such a part of what it says.
const MODEL_DEVIATION: f64 = 0.25;
const MODEL_DEVIATION_PART: f64 = 0.5;

/// Throughputs of like connections differ at least so much, and by so much if too few were seen to know.
const DEVIATION_MIN: f64 = 0.05;
const DEVIATION_UNKNOWN: f64 = 0.5;

/// Spread is not believed of fewer.
const FREE_MIN: f64 = 6.0;

/// What was measured is called so when it has this part in what is believed.
const MEASURED_PART: f64 = 0.5;

/// What exploring may cost: this part of the throughput; and the share of connections that explore.
const EXPLORING_COST: f64 = 0.01;
const EXPLORING_MIN: f64 = 1.0 / 64.0;
/// As long as nothing was measured.
const EXPLORING_MIN_AT_FIRST: f64 = 1.0 / 16.0;
const EXPLORING_MAX: f64 = 1.0 / 4.0;

/// The size of transfers between networks of which nothing was seen, in bytes: of a page of the web.
const SIZE_UNKNOWN: u64 = 60_000;

/// What is believed of splitting for a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    /// The logarithm of 1 + GoS.
    pub(super) gain: f64,
    /// Its standard deviation.
    pub(super) deviation: f64,
    /// The part that measurements have in it, 0 to 1.
    pub(super) measured: f64,
}

/// Weighs model and evidence for each class of sizes, and the classes by how many connections they have.
pub(super) fn believe(
    legs: &[LegState; 2],
    client_window_bytes: f64,
    sizes: &Sizes,
    evidence: &[Evidence; SizeClass::ALL.len()],
) -> Belief {
    let mut classes = sizes.classes();
    if classes.iter().all(|(share, _)| *share == 0.0)
        && let Some(class) = classes.get_mut(SizeClass::of(SIZE_UNKNOWN) as usize)
    {
        *class = (1.0, SIZE_UNKNOWN);
    }
    let (mut gain, mut variance, mut measured) = (0.0, 0.0, 0.0);
    for ((share, bytes), evidence) in classes.into_iter().zip(evidence) {
        if share <= 0.0 {
            continue;
        }
        let likely = likely_gain(legs, client_window_bytes, bytes);
        let trust_model = (MODEL_DEVIATION + MODEL_DEVIATION_PART * likely.abs()).powi(-2);
        let trust_seen = evidence.count() / deviation(evidence).powi(2);
        let trust = trust_model + trust_seen;
        let mean = (likely * trust_model + evidence.difference() * trust_seen) / trust;
        gain += share * mean;
        variance += share * share / trust;
        measured += share * trust_seen / trust;
    }
    Belief {
        gain,
        deviation: variance.sqrt(),
        measured,
    }
}

/// By how much the throughputs of like connections differ.
fn deviation(evidence: &Evidence) -> f64 {
    let (squares, free) = evidence.spread();
    if free < FREE_MIN {
        DEVIATION_UNKNOWN
    } else {
        (squares / free).sqrt().max(DEVIATION_MIN)
    }
}

/// How a pair stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PairState {
    pub(super) is_split: bool,
    pub(super) reason: Reason,
    /// Connections since that changed.
    pub(super) age: u32,
}

impl PairState {
    /// Of a pair that was not decided yet.
    pub(super) fn first(belief: &Belief) -> Self {
        let is_split = belief.gain > THRESHOLD;
        Self {
            is_split,
            reason: reason(belief, is_split),
            age: 0,
        }
    }

    /// After one more connection.
    pub(super) fn follow(&mut self, belief: &Belief) {
        self.age = self.age.saturating_add(1);
        // So far beyond a threshold that it is no chance.
        let is_sure = |beyond: f64| beyond > 0.0 && beyond + THRESHOLD > belief.deviation;
        let wants_split = if self.is_split {
            !is_sure(-belief.gain - THRESHOLD)
        } else {
            is_sure(belief.gain - THRESHOLD)
        };
        if wants_split != self.is_split && self.age >= DWELL {
            (self.is_split, self.age) = (wants_split, 0);
        }
        self.reason = reason(belief, self.is_split);
    }

    /// The share of connections that go the other way.
    pub(super) fn exploring_share(self, belief: &Belief) -> f64 {
        // What one loses that goes the other way, of its throughput.
        let loss = if self.is_split {
            -(-belief.gain).exp_m1()
        } else {
            -belief.gain.exp_m1()
        };
        if loss <= 0.0 {
            return EXPLORING_MAX;
        }
        let least = if belief.measured < MEASURED_PART {
            EXPLORING_MIN_AT_FIRST
        } else {
            EXPLORING_MIN
        };
        (EXPLORING_COST / loss).clamp(least, EXPLORING_MAX)
    }
}

fn reason(belief: &Belief, is_split: bool) -> Reason {
    if belief.measured < MEASURED_PART {
        return if is_split {
            Reason::LikelyGain
        } else {
            Reason::NoLikelyGain
        };
    }
    match belief.gain {
        gain if gain > THRESHOLD => Reason::MeasuredGain,
        gain if gain < -THRESHOLD => Reason::MeasuredLoss,
        _ => Reason::MeasuredAlike,
    }
}
