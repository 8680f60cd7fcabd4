//! Pseudo-random bytes and choices, determined by a seed.
pub use carrick_test::Random;
use sha2::{Digest, Sha256};

/// The SHA-256 of bytes, to compare data that is too long to show.
pub fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
