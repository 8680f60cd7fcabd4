//! The bytes of bodies: pseudo-random, the same for the same seed, so that a client can check each of them at the cost of
//! a comparison of memory.
//!
//! A body is a window into one endless repetition of a table. The seed says where the window begins. The table's length
//! is a prime, so that a body that lost, gained or repeated a piece of any common size no longer fits.

pub mod framing;

use std::sync::OnceLock;

/// Length of the table: the largest prime below 2^20.
const TABLE_BYTES: usize = 1_048_573;

/// How many copies of the table's beginning follow it, so that a window never has to wrap within one piece.
const OVERLAP_BYTES: usize = 256 * 1024;

/// The longest piece that [`Body::piece`] gives at once, in bytes.
pub const PIECE_BYTES_MAX: usize = OVERLAP_BYTES;

/// One body, from its first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    start: usize,
}

impl Body {
    /// The body of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        // The remainder is below TABLE_BYTES, so it fits.
        let start = usize::try_from(mix(seed) % TABLE_BYTES as u64).unwrap_or(0);
        Self { start }
    }

    /// The bytes from `offset` on: at least one, at most `bytes_max` and [`PIECE_BYTES_MAX`].
    #[must_use]
    pub fn piece(self, offset: u64, bytes_max: usize) -> &'static [u8] {
        let within = usize::try_from(offset % TABLE_BYTES as u64).unwrap_or(0);
        let from = (self.start + within) % TABLE_BYTES;
        &table()[from..from + bytes_max.clamp(1, PIECE_BYTES_MAX)]
    }

    /// Where `received`, which came at `offset`, first differs from what was sent; `None` if it is right.
    #[must_use]
    pub fn first_difference(self, mut offset: u64, mut received: &[u8]) -> Option<u64> {
        while !received.is_empty() {
            let expected = self.piece(offset, received.len());
            let (now, later) = received.split_at(expected.len());
            if now != expected {
                let equal = now.iter().zip(expected).take_while(|(a, b)| a == b).count();
                return Some(offset + equal as u64);
            }
            offset += now.len() as u64;
            received = later;
        }
        None
    }
}

fn table() -> &'static [u8] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut bytes: Vec<u8> = (0..TABLE_BYTES.div_ceil(8) as u64)
            .flat_map(|index| mix(index).to_le_bytes())
            .collect();
        bytes.truncate(TABLE_BYTES);
        bytes.extend_from_within(..OVERLAP_BYTES);
        bytes
    })
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): spreads neighbouring numbers over all 64 bits.
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
