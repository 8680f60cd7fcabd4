//! `/paths`: the path history of splitters, and the gain of splitting.
use crate::control::ControlState;
use crate::telemetry::metrics::SplitEnd;
use carrick_logic::split::{Gain, LegState, PairView, Reason, SizeClass};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Most pairs on the page; the most recently used ones are shown.
const LISTED_MAX: usize = 1000;

/// Splitting as a part of `/status`.
#[derive(Debug, Serialize)]
pub(super) struct SplitStatus {
    pairs: u64,
    pairs_evicted: u64,
    connections: BTreeMap<&'static str, u64>,
    decisions: BTreeMap<&'static str, u64>,
    refused: u64,
    left_out: u64,
    gain: Vec<ClassGain>,
}

impl SplitStatus {
    pub(super) fn of(state: &ControlState) -> Self {
        let (pairs, pairs_evicted) = state.kernel.path_history.counts();
        let connections = SplitEnd::ALL.map(|end| {
            let count = state.sum(|worker| worker.split.ends(end).get());
            (end.label(), count)
        });
        let decisions = Reason::ALL.map(|reason| {
            let count = state.sum(|worker| worker.split.reasons(reason).get());
            (reason.name(), count)
        });
        Self {
            pairs,
            pairs_evicted,
            connections: connections.into(),
            decisions: decisions.into(),
            refused: state.sum(|worker| worker.split.refused.get()),
            left_out: state.sum(|worker| worker.split.left_out.get()),
            gain: gains(state),
        }
    }
}

/// The gain in one class of sizes. Classes with too few measurements are omitted.
#[derive(Debug, Serialize)]
struct ClassGain {
    size: &'static str,
    #[serde(flatten)]
    gain: GainShown,
}

#[derive(Debug, Serialize)]
struct GainShown {
    gos: f64,
    /// The 95 % confidence interval.
    low: f64,
    high: f64,
    /// Weighted number of connections; older ones weigh less.
    split: f64,
    joined: f64,
}

impl From<Gain> for GainShown {
    fn from(gain: Gain) -> Self {
        let [low, high] = gain.interval;
        Self {
            gos: rounded(gain.gos),
            low: rounded(low),
            high: rounded(high),
            split: rounded(gain.split),
            joined: rounded(gain.joined),
        }
    }
}

#[derive(Debug, Serialize)]
struct Page {
    pairs: Vec<Pair>,
    pairs_known: u64,
    pairs_evicted: u64,
    gain: Vec<ClassGain>,
}

#[derive(Debug, Serialize)]
struct Pair {
    client: String,
    server: String,
    client_leg: Leg,
    server_leg: Leg,
    decision: &'static str,
    reason: &'static str,
    because: &'static str,
    /// The estimate, from a model and from measurements.
    gos_believed: f64,
    /// From measurements only; `null` if there are too few.
    gos: Option<GainShown>,
    exploring_share: f64,
    connections: u64,
    joined: u64,
    idle_seconds: u64,
}

#[derive(Debug, Serialize)]
struct Leg {
    rtt_ms: Option<f64>,
    rtt_min_ms: Option<f64>,
    loss_percent: f64,
    /// Bytes per second.
    rate: Option<u64>,
}

impl Leg {
    fn of(leg: &LegState) -> Self {
        let ms = |time: Duration| rounded(time.as_secs_f64() * 1e3);
        Self {
            rtt_ms: leg.rtt().map(ms),
            rtt_min_ms: leg.rtt_min().map(ms),
            loss_percent: rounded(100.0 * leg.loss()),
            rate: (leg.rate() > 0.0).then_some(leg.rate() as u64),
        }
    }
}

impl Pair {
    fn of(view: &PairView) -> Self {
        let [client_leg, server_leg] = view.legs.each_ref().map(Leg::of);
        Self {
            client: view.pair.client.to_string(),
            server: view.pair.server.to_string(),
            client_leg,
            server_leg,
            decision: view.decision.way.name(),
            reason: view.decision.reason.name(),
            because: view.decision.reason.words(),
            gos_believed: rounded(view.believed),
            gos: view.gain.map(GainShown::from),
            exploring_share: rounded(view.exploring),
            connections: view.connections,
            joined: view.joined,
            idle_seconds: view.idle.as_secs(),
        }
    }
}

/// The page.
pub(super) fn json(state: &ControlState) -> serde_json::Result<String> {
    let path_history = &state.kernel.path_history;
    let mut views = path_history.pairs();
    views.sort_by_key(|view| view.idle);
    let (pairs_known, pairs_evicted) = path_history.counts();
    let page = Page {
        pairs: views.iter().take(LISTED_MAX).map(Pair::of).collect(),
        pairs_known,
        pairs_evicted,
        gain: gains(state),
    };
    let mut json = serde_json::to_string_pretty(&page)?;
    json.push('\n');
    Ok(json)
}

fn gains(state: &ControlState) -> Vec<ClassGain> {
    let gains = state.kernel.path_history.gains().into_iter();
    // Below 1 KB, the gain says nothing.
    let shown = gains.filter(|(class, _)| *class != SizeClass::Tiny);
    shown
        .filter_map(|(class, gain)| {
            Some(ClassGain {
                size: class.name(),
                gain: gain?.into(),
            })
        })
        .collect()
}

/// To four decimals: nothing is known more precisely.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}
