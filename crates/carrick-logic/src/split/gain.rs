//! GoS with its confidence interval, of one pair or of all.

use super::evidence::Evidence;

/// Fewer split, or fewer joined connections than this show nothing.
pub const SHOWN_MIN: f64 = 8.0;

/// Quantiles of Student's distribution for 95 % both sides, by degrees of freedom from 8 on: it is never taken for fewer.
const STUDENT: [(f64, f64); 6] = [
    (8.0, 2.306),
    (12.0, 2.179),
    (20.0, 2.086),
    (40.0, 2.021),
    (120.0, 1.980),
    (f64::INFINITY, 1.960),
];

/// A gain of splitting, as a ratio: 0.5 is half more throughput, -0.02 a fiftieth less.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// The geometric mean.
    pub gos: f64,
    /// Between these it lies with a probability of 95 %.
    pub interval: [f64; 2],
    /// Split connections that count; old ones count less.
    pub split: f64,
    /// Joined ones.
    pub joined: f64,
}

/// Adds up pairs: each compared within itself, weighed by how much it has to say (Mantel and Haenszel's weights).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    weight: f64,
    difference: f64,
    squares: f64,
    free: f64,
    split: f64,
    joined: f64,
}

impl Total {
    pub(super) fn add(&mut self, evidence: &Evidence) {
        let weight = evidence.count();
        if weight <= 0.0 {
            return;
        }
        let (squares, free) = evidence.spread();
        self.weight += weight;
        self.difference += weight * evidence.difference();
        self.squares += squares;
        self.free += free;
        self.split += evidence.split.count();
        self.joined += evidence.joined.count();
    }

    /// `None` where too little was seen.
    pub(super) fn gain(&self) -> Option<Gain> {
        if self.split.min(self.joined) < SHOWN_MIN || self.free < SHOWN_MIN {
            return None;
        }
        let mean = self.difference / self.weight;
        let error = (self.squares / self.free / self.weight).sqrt();
        let wide = error * student(self.free);
        Some(Gain {
            gos: mean.exp_m1(),
            interval: [(mean - wide).exp_m1(), (mean + wide).exp_m1()],
            split: self.split,
            joined: self.joined,
        })
    }
}

/// The quantile for at most so many degrees of freedom, rather too large than too small.
fn student(free: f64) -> f64 {
    let mut quantile = STUDENT[0].1;
    for (from, value) in STUDENT {
        if free >= from {
            quantile = value;
        }
    }
    quantile
}
