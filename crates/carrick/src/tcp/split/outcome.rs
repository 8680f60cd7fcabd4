//! Measures a splitter's connection at its end, and records the result in the path history.
use super::{Activity, Decided};
use crate::context::worker::{Telemetry, Worker};
use crate::net::transport::Transport;
use crate::telemetry::metrics::SplitEnd;
use crate::upstream::checkout::Checkout;
use carrick_logic::split::{LegSeen, Outcome, Way};
use carrick_splice::tcp::delivery;
use carrick_splice::tcp_tuning::measure;
use carrick_splice::{Exchange, Forwarded};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// A connection counts as joined if this share of its bytes went end to end.
const JOINED_PART: f64 = 0.9;

/// Waiting for the receiver's last acknowledgement: for how long, for how many connections of a worker, and how often it is checked.
const SETTLE_MAX: Duration = Duration::from_secs(60);
const SETTLING_MAX: usize = 1024;
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(250);

/// A connection while it is relayed.
#[derive(Debug)]
pub struct Watched {
    decided: Decided,
    activity: Activity,
    is_forwarded: bool,
    forwarded: Forwarded,
}

impl Watched {
    /// From its beginning; `has_begun` if bytes have already arrived.
    #[must_use]
    pub fn new(decided: Decided, has_begun: bool) -> Self {
        let mut activity = Activity::default();
        if has_begun {
            activity.begin(Instant::now());
        }
        Self {
            decided,
            activity,
            is_forwarded: false,
            forwarded: Forwarded::default(),
        }
    }

    /// Notes progress.
    pub fn note(&mut self, exchange: &Exchange<'_>) {
        self.forwarded = exchange.forwarded();
        let [up, down] = self.forwarded.bytes;
        let relayed = [
            exchange.a_to_b_bytes().saturating_sub(up),
            exchange.b_to_a_bytes().saturating_sub(down),
        ];
        self.activity.note(Instant::now(), relayed, || {
            let busy = |leg: &TcpStream| delivery(leg).map_or(Duration::ZERO, |leg| leg.busy);
            exchange.connections().map(|legs| legs.map(busy))
        });
        if let Some(since) = self.forwarded.since
            && !self.is_forwarded
        {
            self.is_forwarded = true;
            self.activity.leave(since);
        }
    }
}

/// Records a connection that ended regularly; `bytes` went from the client and to it.
pub fn settle(
    worker: &Rc<Worker>,
    client: &Transport,
    checkout: &Checkout,
    watched: Option<Watched>,
    bytes: [u64; 2],
    ended_well: bool,
) {
    let (Some(watched), Some([near, far])) = (
        watched,
        Transport::both_tcp(client, &checkout.upstream.transport),
    ) else {
        return;
    };
    let is_down = bytes[1] >= bytes[0];
    let bytes = bytes[0].max(bytes[1]);
    if !ended_well || bytes == 0 {
        return worker.metrics().split.ends(SplitEnd::Unmeasured).add(1);
    }
    let legs = [near, far].map(|leg| seen(leg));
    let forwarded = watched.forwarded.bytes[usize::from(is_down)];
    let wanted = watched.decided.way;
    let was = match forwarded {
        // It was not joined, or too late: it is like a split one.
        0 => Some(Way::Split),
        _ if forwarded as f64 >= JOINED_PART * bytes as f64 => Some(Way::Join),
        _ => None,
    };
    let outcome = Outcome {
        client: watched.decided.client,
        server: watched.decided.server,
        wanted,
        was,
        legs,
        bytes,
        turns: watched.activity.turns(is_down),
        active: Duration::ZERO,
        client_window_bytes: watched.decided.client_window_bytes,
    };
    if forwarded > 0 {
        let active = watched.activity.active() + watched.forwarded.active;
        return learn(&worker.telemetry, &outcome, Some(active));
    }
    let receiver = if is_down { near } else { far };
    if let Some(delivered) = delivered(receiver) {
        return learn(
            &worker.telemetry,
            &outcome,
            watched.activity.until(delivered),
        );
    }
    let acknowledgements = &worker.telemetry.acknowledgements;
    let is_full = Rc::strong_count(acknowledgements) > SETTLING_MAX;
    // The connection's own place goes to another one meanwhile.
    let Some(descriptor) = (!is_full)
        .then(|| worker.connector.admission.take_upstream())
        .flatten()
    else {
        return learn(&worker.telemetry, &outcome, None);
    };
    let (receiver, place) = (Rc::clone(receiver), Rc::clone(acknowledgements));
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let active = wait(&receiver, &watched.activity).await;
        drop((place, receiver, descriptor));
        learn(&worker.telemetry, &outcome, active);
    });
}

/// Waits until the receiver has acknowledged everything; `None` if that takes too long. The connection stays open
/// meanwhile, which its peer does not notice: both directions have ended.
async fn wait(receiver: &TcpStream, activity: &Activity) -> Option<Duration> {
    let give_up = Instant::now() + SETTLE_MAX;
    while Instant::now() < give_up {
        let rtt = delivery(receiver).map_or(Duration::ZERO, |delivery| delivery.rtt);
        tokio::time::sleep((rtt / 4).clamp(LOOK_MIN, LOOK_MAX)).await;
        if let Some(delivered) = delivered(receiver) {
            return activity.until(delivered);
        }
    }
    None
}

/// When the last byte was acknowledged, if it was.
fn delivered(receiver: &TcpStream) -> Option<Instant> {
    let before = delivery(receiver).ok()?.delivered_before()?;
    Instant::now().checked_sub(before)
}

fn learn(telemetry: &Telemetry, outcome: &Outcome, active: Option<Duration>) {
    let metrics = &telemetry.metrics.split;
    let Some(active) = active else {
        return metrics.ends(SplitEnd::Unmeasured).add(1);
    };
    metrics
        .ends(match outcome.was {
            Some(Way::Join) => SplitEnd::Joined,
            Some(_) => SplitEnd::Split,
            None => SplitEnd::Mixed,
        })
        .add(1);
    telemetry
        .path_history
        .learn(&Outcome { active, ..*outcome });
}

/// Measurements of a leg.
fn seen(leg: &TcpStream) -> LegSeen {
    // Fails only for a closed descriptor.
    measure(leg).map_or_else(
        |_| LegSeen::default(),
        |leg| LegSeen {
            rtt_min: leg.rtt_min.unwrap_or_default(),
            rtt: leg.rtt.unwrap_or_default(),
            segments: leg.segments_sent.into(),
            again: leg.retransmissions.into(),
            rate: leg.delivery_rate,
        },
    )
}
