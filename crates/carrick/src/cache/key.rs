//! The key of stored responses, with its hash.
use std::hash::{BuildHasher, Hasher, RandomState};

/// The bytes of a key, and their hash.
///
/// The hash is SipHash with a random seed ([`RandomState`]), so that clients cannot choose keys that collide.
#[derive(Debug, Clone, Copy)]
pub struct Key<'k> {
    bytes: &'k [u8],
    hash: u64,
}

impl<'k> Key<'k> {
    pub(in crate::cache) fn of(seed: &RandomState, bytes: &'k [u8]) -> Self {
        let mut hasher = seed.build_hasher();
        hasher.write(bytes);
        Self {
            bytes,
            hash: hasher.finish(),
        }
    }

    /// A key whose hash is known.
    pub(in crate::cache) fn hashed(bytes: &'k [u8], hash: u64) -> Self {
        Self { bytes, hash }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }

    /// Their hash.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
