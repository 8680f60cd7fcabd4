//! What happens to each packet of a path: two-state loss, rate and queue, delay and jitter, reordering, duplication.
//!
//! The order is NISTNet's: a packet is first lost or not, then waits for the rate limit or is dropped at the tail of its
//! queue, then is delayed. Lost packets use up no rate. Copies are made behind the rate limit.

use std::collections::VecDeque;

use fastrand::Rng;

use crate::wan::spec::Path;

/// Packets that wait for a rate limit, unless the specification says otherwise.
pub const QUEUE_PACKETS_DEFAULT: usize = 1_000;
/// Nanoseconds that a byte takes at 1 kbit/s.
const NS_PER_BYTE_AT_1_KBIT: f64 = 8e6;

/// A path as it is used: in nanoseconds, with defaults filled in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Delay.
    pub delay_ns: u64,
    /// Largest deviation from it.
    pub jitter_ns: u64,
    /// Rate of the line; none: no limit.
    pub rate_kbit: Option<f64>,
    /// Packets that may wait for the line, besides the one that is on it.
    pub queue_packets: usize,
    /// Loss when the packet before was not lost, 0 to 1.
    pub loss_first: f64,
    /// Loss when the packet before was lost, 0 to 1.
    pub loss_next: f64,
    /// Probability of overtaking, 0 to 1.
    pub reorder: f64,
    /// Probability of a copy, 0 to 1.
    pub duplicate: f64,
}

impl From<&Path> for Settings {
    fn from(path: &Path) -> Self {
        Self {
            delay_ns: nanoseconds(path.delay_ms),
            jitter_ns: nanoseconds(path.jitter_ms),
            rate_kbit: path.rate_kbit,
            queue_packets: path.queue_packets.unwrap_or(QUEUE_PACKETS_DEFAULT),
            loss_first: path.loss,
            loss_next: path.loss_after_loss.unwrap_or(path.loss),
            reorder: path.reorder,
            duplicate: path.duplicate,
        }
    }
}

impl Settings {
    /// Whether packets pass at once and unharmed.
    #[must_use]
    pub fn is_transparent(&self) -> bool {
        self.delay_ns == 0
            && self.jitter_ns == 0
            && self.rate_kbit.is_none()
            && !self.is_per_packet()
    }

    /// Whether each packet counts by itself, so that joined packets (segmentation offload) would falsify the result.
    #[must_use]
    pub fn is_per_packet(&self) -> bool {
        self.loss_first > 0.0 || self.loss_next > 0.0 || self.reorder > 0.0 || self.duplicate > 0.0
    }
}

pub(crate) fn nanoseconds(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is lost on the way.
    Lost {
        /// The packet before it was lost, too.
        after_loss: bool,
    },
    /// The queue in front of the rate limit is full.
    Dropped,
    /// It arrives.
    Sent {
        /// When; never before it came.
        at_ns: u64,
        /// A copy arrives right behind it.
        twice: bool,
        /// It leaves before packets that came before it.
        overtakes: bool,
    },
}

/// The state of one path: of a rule, or of one port of a rule `for_each_port`.
#[derive(Clone, Debug)]
pub struct PathState {
    random: Rng,
    last_was_lost: bool,
    /// When the line is free again.
    line_free_ns: u64,
    /// When each packet in front of the line, and the one on it, has left; in order.
    leaving_ns: VecDeque<u64>,
    /// When the last of the packets leaves that keep their order.
    last_sent_ns: u64,
}

impl PathState {
    /// A path on which nothing has happened yet. The seed decides all that is left to chance.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            last_was_lost: false,
            line_free_ns: 0,
            leaving_ns: VecDeque::new(),
            last_sent_ns: 0,
        }
    }

    /// Decides about the next packet: of `bytes` (IP header included), come at `now_ns`, which never goes back.
    ///
    /// Each packet uses the same random numbers whatever happens to it, so that what chance does to the n-th packet
    /// depends on the seed alone and not on timing.
    pub fn decide(&mut self, settings: &Settings, now_ns: u64, bytes: usize) -> Fate {
        let loss = if self.last_was_lost {
            settings.loss_next
        } else {
            settings.loss_first
        };
        let is_lost = self.happens(loss, settings.loss_first > 0.0 || settings.loss_next > 0.0);
        let jitter_ns = self.jitter(settings.jitter_ns);
        let overtakes = self.happens(settings.reorder, settings.reorder > 0.0);
        let twice = self.happens(settings.duplicate, settings.duplicate > 0.0);

        let after_loss = std::mem::replace(&mut self.last_was_lost, is_lost);
        if is_lost {
            return Fate::Lost { after_loss };
        }
        let Some(left_ns) = self.pass_line(settings, now_ns, bytes) else {
            return Fate::Dropped;
        };
        if overtakes {
            return Fate::Sent {
                at_ns: left_ns,
                twice,
                overtakes: left_ns < self.last_sent_ns,
            };
        }
        let due_ns = left_ns
            .saturating_add(settings.delay_ns)
            .saturating_add_signed(jitter_ns)
            .max(left_ns);
        // Jitter does not change the order: who would overtake leaves together with the one in front.
        let at_ns = due_ns.max(self.last_sent_ns);
        self.last_sent_ns = at_ns;
        Fate::Sent {
            at_ns,
            twice,
            overtakes: false,
        }
    }

    /// When the packet has left the line; `None`: there is no place in front of it.
    fn pass_line(&mut self, settings: &Settings, now_ns: u64, bytes: usize) -> Option<u64> {
        let Some(rate_kbit) = settings.rate_kbit else {
            return Some(now_ns);
        };
        while self.leaving_ns.front().is_some_and(|left| *left <= now_ns) {
            self.leaving_ns.pop_front();
        }
        // One of them is on the line and does not wait.
        if self.leaving_ns.len() > settings.queue_packets {
            return None;
        }
        // Rounded up: the rate is never exceeded.
        let takes_ns = (bytes as f64 * NS_PER_BYTE_AT_1_KBIT / rate_kbit).ceil() as u64;
        let left_ns = self.line_free_ns.max(now_ns).saturating_add(takes_ns);
        self.line_free_ns = left_ns;
        self.leaving_ns.push_back(left_ns);
        Some(left_ns)
    }

    fn happens(&mut self, probability: f64, is_asked: bool) -> bool {
        is_asked && self.random.f64() < probability
    }

    fn jitter(&mut self, most_ns: u64) -> i64 {
        match i64::try_from(most_ns) {
            Ok(most) if most > 0 => self.random.i64(-most..=most),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
