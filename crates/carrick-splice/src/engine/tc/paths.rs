//! Statistics of connections between networks: decides where one leg loses so much that two connections do better
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

/// The fewest segments by which a leg is assessed.
const SEGMENTS_MIN: f64 = 200.0;

/// A leg is lossy if it loses more than this.
const LOSS_MAX: f64 = 0.01;

/// If one leg is far longer, a loss on the short one costs a round trip on the long one: then either leg is
/// lossy if it loses more than this.
const FAR_LOSS_MAX: f64 = 0.001;

/// "Far longer": at least this long, and this many times as long as the other.
const FAR_US: f64 = 50_000.0;
const FAR_TIMES: f64 = 4.0;

/// Weight of a new round-trip time in the mean (as in RFC 6298).
const RTT_GAIN: f64 = 1.0 / 8.0;

/// How long a pair stays lossy after that was last seen.
const LOSSY_FOR: Duration = Duration::from_secs(300);

/// The networks of two peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NetworkPair([IpNet; 2]);

impl NetworkPair {
    /// Those of these addresses.
    pub(crate) fn of(peers: [IpAddr; 2]) -> NetworkPair {
        NetworkPair(peers.map(|peer| {
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
pub struct LossyPath {
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
struct LegStatistics {
    segments: f64,
    again: f64,
    rtt_us: f64,
}

impl LegStatistics {
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
    legs: [LegStatistics; 2],
    seen: Instant,
    lossy_until: Option<Instant>,
}

impl Path {
    fn is_lossy_at(&self, now: Instant) -> bool {
        self.lossy_until.is_some_and(|until| now < until)
    }

    /// By what is known of it.
    fn loses_too_much(&self) -> bool {
        let worst = self
            .legs
            .iter()
            .map(LegStatistics::loss)
            .fold(0.0, f64::max);
        let [a, b] = self.legs.map(|leg| leg.rtt_us);
        let (short, long) = (a.min(b), a.max(b));
        let is_far = short > 0.0 && long >= FAR_US && long >= FAR_TIMES * short;
        worst > if is_far { FAR_LOSS_MAX } else { LOSS_MAX }
    }
}

/// All pairs of networks.
#[derive(Debug, Default)]
pub(crate) struct Paths(HashMap<NetworkPair, Path>);

impl Paths {
    /// Records observations of both legs of a pair of connections.
    pub(crate) fn observe(&mut self, pair: NetworkPair, seen: [Seen; 2], now: Instant) {
        if seen.iter().all(|seen| seen.segments == 0) {
            return;
        }
        let path = self.path(pair, now);
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
        if path.loses_too_much() {
            path.lossy_until = Some(now + LOSSY_FOR);
        }
    }

    /// A packet of this pair came in fragments, which are not forwarded: it counts as lossy.
    pub(crate) fn avoid(&mut self, pair: NetworkPair, now: Instant) {
        self.path(pair, now).lossy_until = Some(now + LOSSY_FOR);
    }

    fn path(&mut self, pair: NetworkPair, now: Instant) -> &mut Path {
        if !self.0.contains_key(&pair) {
            self.make_room(now);
        }
        self.0.entry(pair).or_insert_with(|| Path {
            legs: [LegStatistics::default(); 2],
            seen: now,
            lossy_until: None,
        })
    }

    /// Whether connections of this pair do better unjoined.
    pub(crate) fn is_lossy(&self, pair: NetworkPair, now: Instant) -> bool {
        self.0.get(&pair).is_some_and(|path| path.is_lossy_at(now))
    }

    /// All lossy pairs.
    pub(crate) fn lossy(&self, now: Instant) -> Vec<LossyPath> {
        let lossy = self.0.iter().filter_map(|(NetworkPair(networks), path)| {
            let left = path.lossy_until?.saturating_duration_since(now);
            let [client, server] = *networks;
            (!left.is_zero()).then(|| LossyPath {
                client,
                server,
                lost_percent: path.legs.map(|leg| 100.0 * leg.loss()),
                rtt: path
                    .legs
                    .map(|leg| Duration::from_micros(leg.rtt_us as u64)),
                left,
            })
        });
        lossy.collect()
    }

    /// Evicts a pair if there are too many: preferably one that is not lossy, and the least recently seen.
    fn make_room(&mut self, now: Instant) {
        if self.0.len() < PAIRS_MAX {
            return;
        }
        let least = self.0.iter();
        let least = least.min_by_key(|(_, path)| (path.is_lossy_at(now), path.seen));
        if let Some(pair) = least.map(|(pair, _)| *pair) {
            self.0.remove(&pair);
        }
    }
}

#[cfg(test)]
mod tests;
