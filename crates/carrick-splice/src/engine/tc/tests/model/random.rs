//! Pseudo-random numbers from a seed (SplitMix64), and the bytes that speakers send.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xC0FF_EE00_5EED)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
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
        choice[self.below(choice.len() as u64) as usize]
    }
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Byte `at` of a speaker's data: no part of it equals another.
pub fn said(speaker: u64, at: u64) -> u8 {
    (mix(speaker.wrapping_mul(0x1234_5678_9ABC_DEF1) ^ (at >> 3)) >> (8 * (at & 7))) as u8
}
