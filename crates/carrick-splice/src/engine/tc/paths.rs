//! Statistics of connections between networks: decides where one leg is so bad that two connections do better
//! than one.
//!
//! A packet splice is one connection for both peers: a loss on one leg is retransmitted over both, and the
//! sender's window is the worse one. Under loss, throughput falls with the round-trip time (Mathis, Semke,
//! Mahdavi, Ott: The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm, 1997), which is the sum
//! of both; independent legs each have their own. Pure decisions: observations and the time are arguments.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The most pairs of networks.
const PAIRS_MAX: usize = 1024;

/// Network prefixes: the longest that are routed on the Internet.
const V4_BITS: u8 = 24;
const V6_BITS: u8 = 48;

/// The half-life of observations.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// The fewest segments by which a leg is judged.
const SEGMENTS_MIN: f64 = 200.0;

/// A leg is bad if it loses more than this.
const LOSS_MAX: f64 = 0.01;

/// If one leg is far longer, a loss on the short one costs a round trip on the long one: then either leg is
/// bad if it loses more than this.
const FAR_LOSS_MAX: f64 = 0.001;

/// "Far longer": at least this long, and this many times as long as the other.
const FAR_US: f64 = 50_000.0;
const FAR_TIMES: f64 = 4.0;

/// Weight of a new round-trip time in the mean (as in RFC 6298).
const RTT_GAIN: f64 = 1.0 / 8.0;

/// How long a pair stays bad after that was last seen.
const BAD_FOR: Duration = Duration::from_secs(300);

/// The networks of two peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pair([IpNet; 2]);

impl Pair {
    /// Those of these addresses.
    pub(crate) fn of(peers: [IpAddr; 2]) -> Pair {
        Pair(peers.map(|peer| {
            let network = match peer.to_canonical() {
                IpAddr::V4(address) => Ipv4Net::new(address, V4_BITS).map(IpNet::V4),
                IpAddr::V6(address) => Ipv6Net::new(address, V6_BITS).map(IpNet::V6),
            };
            // Fails only for more bits than an address has.
            network.map_or(IpNet::from(peer), |network| network.trunc())
        }))
    }
}

/// Observations of a leg since the last report.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Seen {
    /// Segments sent to its peer.
    pub(crate) segments: u64,
    /// Of these, retransmissions.
    pub(crate) again: u64,
    /// Its round-trip time in microseconds; 0: not known.
    pub(crate) rtt_us: u32,
}

/// A pair of networks that is not spliced for now.
#[derive(Debug, Clone, PartialEq)]
pub struct BadPath {
    /// The first peers' network: clients'.
    pub client: IpNet,
    /// The second peers': servers'.
    pub server: IpNet,
    /// Percentage of segments retransmitted to each of them.
    pub lost_percent: [f64; 2],
    /// Round-trip times to each of them.
    pub rtt: [Duration; 2],
    /// Remaining time, unless more loss is seen.
    pub left: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Leg {
    segments: f64,
    again: f64,
    rtt_us: f64,
}

impl Leg {
    fn loss(&self) -> f64 {
        if self.segments < SEGMENTS_MIN {
            0.0
        } else {
            self.again / self.segments
        }
    }
}

#[derive(Debug)]
struct Path {
    legs: [Leg; 2],
    seen: Instant,
    bad_until: Option<Instant>,
}

impl Path {
    fn is_bad_at(&self, now: Instant) -> bool {
        self.bad_until.is_some_and(|until| now < until)
    }

    /// By what is known of it.
    fn has_bad_leg(&self) -> bool {
        let worst = self.legs.iter().map(Leg::loss).fold(0.0, f64::max);
        let [a, b] = self.legs.map(|leg| leg.rtt_us);
        let (short, long) = (a.min(b), a.max(b));
        let is_far = short > 0.0 && long >= FAR_US && long >= FAR_TIMES * short;
        worst > if is_far { FAR_LOSS_MAX } else { LOSS_MAX }
    }
}

/// All pairs of networks.
#[derive(Debug, Default)]
pub(crate) struct Paths(HashMap<Pair, Path>);

impl Paths {
    /// Records observations of both legs of a pair of connections.
    pub(crate) fn observe(&mut self, pair: Pair, seen: [Seen; 2], now: Instant) {
        if seen.iter().all(|seen| seen.segments == 0) {
            return;
        }
        if !self.0.contains_key(&pair) {
            self.make_room(now);
        }
        let path = self.0.entry(pair).or_insert_with(|| Path {
            legs: [Leg::default(); 2],
            seen: now,
            bad_until: None,
        });
        let passed = now.saturating_duration_since(path.seen);
        let fading = (-passed.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
        path.seen = now;
        for (leg, seen) in path.legs.iter_mut().zip(seen) {
            leg.segments = leg.segments * fading + seen.segments as f64;
            leg.again = leg.again * fading + seen.again as f64;
            let rtt_us = f64::from(seen.rtt_us);
            if leg.rtt_us == 0.0 {
                leg.rtt_us = rtt_us;
            } else if rtt_us > 0.0 && seen.segments > 0 {
                leg.rtt_us += RTT_GAIN * (rtt_us - leg.rtt_us);
            }
        }
        if path.has_bad_leg() {
            path.bad_until = Some(now + BAD_FOR);
        }
    }

    /// Whether connections of this pair do better unjoined.
    pub(crate) fn is_bad(&self, pair: Pair, now: Instant) -> bool {
        self.0.get(&pair).is_some_and(|path| path.is_bad_at(now))
    }

    /// All bad pairs.
    pub(crate) fn bad(&self, now: Instant) -> Vec<BadPath> {
        let bad = self.0.iter().filter_map(|(Pair(networks), path)| {
            let left = path.bad_until?.saturating_duration_since(now);
            let [client, server] = *networks;
            (!left.is_zero()).then(|| BadPath {
                client,
                server,
                lost_percent: path.legs.map(|leg| 100.0 * leg.loss()),
                rtt: path
                    .legs
                    .map(|leg| Duration::from_micros(leg.rtt_us as u64)),
                left,
            })
        });
        bad.collect()
    }

    /// Evicts a pair if there are too many: preferably a good one, and the least recently seen.
    fn make_room(&mut self, now: Instant) {
        if self.0.len() < PAIRS_MAX {
            return;
        }
        let least = self.0.iter();
        let least = least.min_by_key(|(_, path)| (path.is_bad_at(now), path.seen));
        if let Some(pair) = least.map(|(pair, _)| *pair) {
            self.0.remove(&pair);
        }
    }
}

#[cfg(test)]
mod tests;
