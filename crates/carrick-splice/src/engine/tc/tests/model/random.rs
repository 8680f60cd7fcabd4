//! Pseudo-random numbers from a seed, and the bytes that speakers send.
use carrick_test::mix;

pub struct Random(carrick_test::Random);

impl Random {
    pub fn new(seed: u64) -> Random {
        let spread = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xC0FF_EE00_5EED;
        Random(carrick_test::Random::new(spread))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// From 0 to `limit - 1`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// From `low` to `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Up to `high`, each order of magnitude equally often.
    pub fn magnitude(&mut self, high: u64) -> u64 {
        let bits = u64::from(64 - high.leading_zeros());
        let limit = 1 << self.below(bits + 1);
        self.below(limit).min(high)
    }

    /// True this often in 1000 times.
    pub fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    pub fn one_of<T: Copy>(&mut self, choice: &[T]) -> T {
        self.0.one_of(choice)
    }
}

/// Byte `at` of a speaker's data: no part of it equals another.
pub fn said(speaker: u64, at: u64) -> u8 {
    (mix(speaker.wrapping_mul(0x1234_5678_9ABC_DEF1) ^ (at >> 3)) >> (8 * (at & 7))) as u8
}
