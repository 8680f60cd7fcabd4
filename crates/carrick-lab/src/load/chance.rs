//! Random choices that are the same for the same seed: classes by weight, Zipf, shares.

use crate::content::mix;

/// A stream of random numbers: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The stream of a seed; `purpose` keeps the streams of different kinds of choices apart.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self {
            state: mix(mix(seed) ^ purpose),
        }
    }

    /// The next number, any of 64 bits.
    pub fn number(&mut self) -> u64 {
        let now = self.state;
        self.state = now.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(now)
    }

    /// Uniform in `0.0..1.0`, with 53 bits.
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `0..below`; 0 if `below` is. By the high half of a product (Lemire 2019, without rejection: the bias is
    /// below `below / 2^64`).
    pub fn below(&mut self, below: u64) -> u64 {
        let product = u128::from(self.number()) * u128::from(below);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// True with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        // Without a draw where there is no choice, so that plans that differ only there are alike in all else.
        probability > 0.0 && (probability >= 1.0 || self.share() < probability)
    }
}

/// A choice among few things, each with its weight.
#[derive(Clone, Debug)]
pub struct Weighted {
    /// Sums of the weights up to each, as shares of the whole.
    up_to: Vec<f64>,
}

impl Weighted {
    /// Weights must be finite and not negative, and one above zero (see `check`); others count as zero.
    pub fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let mut up_to: Vec<f64> = weights
            .into_iter()
            .map(|weight| {
                sum += if weight.is_finite() {
                    weight.max(0.0)
                } else {
                    0.0
                };
                sum
            })
            .collect();
        for share in &mut up_to {
            *share /= sum;
        }
        Self { up_to }
    }

    /// The law of Zipf: P(n) proportional to n^-alpha for n from 1 to `max`; [`Self::choose`] gives n - 1.
    #[must_use]
    pub fn zipf(alpha: f64, max: u32) -> Self {
        Self::new((1..=max).map(|n| f64::from(n).powf(-alpha)))
    }

    /// An index, with its weight's probability.
    pub fn choose(&self, chance: &mut Chance) -> usize {
        if self.up_to.len() < 2 {
            return 0;
        }
        let share = chance.share();
        self.up_to
            .partition_point(|up_to| *up_to <= share)
            .min(self.up_to.len() - 1)
    }
}

#[cfg(test)]
mod tests;
