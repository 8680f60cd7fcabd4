//! The network between this host and a peer: delay, loss, reordering, duplication.

use super::random::Random;

#[derive(Debug, Clone)]
pub struct Road {
    /// Delay of a packet, and the additional delay of some; in microseconds.
    pub delay: u64,
    pub jitter: u64,
    /// In 1000 packets.
    pub lost: u64,
    pub late: u64,
    pub doubled: u64,
    /// From then on everything arrives, in order.
    pub calm_at: u64,
    /// When the last packet that kept its order arrives, in each direction.
    last: [u64; 2],
}

impl Road {
    pub fn new(delay: u64, jitter: u64, [lost, late, doubled]: [u64; 3], calm_at: u64) -> Road {
        Road {
            delay,
            jitter,
            lost,
            late,
            doubled,
            calm_at,
            last: [0; 2],
        }
    }

    /// When a packet that leaves now arrives: never, once, or twice.
    pub fn arrivals(&mut self, now: u64, is_outward: bool, random: &mut Random) -> Vec<u64> {
        let is_calm = now >= self.calm_at;
        let last = &mut self.last[usize::from(is_outward)];
        let mut happens = |per_mille| !is_calm && random.happens(per_mille);
        if happens(self.lost) {
            return Vec::new();
        }
        let is_late = happens(self.late);
        let is_doubled = happens(self.doubled);
        let on_time = now + self.delay + random.below(self.jitter + 1);
        let mut arrivals = Vec::new();
        if is_late {
            arrivals.push(on_time + random.between(1, 3 * self.delay + 2000));
        } else {
            *last = on_time.max(*last);
            arrivals.push(*last);
        }
        if is_doubled {
            arrivals.push(on_time + random.between(1, 2 * self.delay + 5000));
        }
        arrivals
    }
}
