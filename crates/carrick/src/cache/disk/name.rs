//! Names of files: nothing of them comes from outside but a hash.
use super::format::CLASS_MAX;
use sha2::{Digest, Sha256};
use std::fmt;

/// Folders that files are divided among: a power of two. Tests open thousands of stores, and have few.
pub(super) const FOLDERS: u16 = if cfg!(test) { 4 } else { 256 };

/// A file's name: `/ab/` of the folder, then 32 digits of the key's hash (SHA-256, cut off), the number of the writing, and
/// the class of its head's place. No two files ever have the same, so that a file that is removed is never another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) hash: u128,
    /// Counts up with each file, also from one start to the next: of two for the same, that with the larger one counts.
    pub(super) serial: u64,
    pub(super) class: u8,
}

impl Name {
    pub(super) fn new(key: &[u8], serial: u64, class: u8) -> Self {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let half = digest.first_chunk().copied().unwrap_or_default();
        Self {
            hash: u128::from_be_bytes(half),
            serial,
            class,
        }
    }

    /// All folders' numbers.
    pub(super) fn folders() -> impl Iterator<Item = u8> {
        (0..FOLDERS).map(|number| number as u8)
    }

    /// The folder's number.
    pub(super) fn folder(&self) -> u8 {
        (u16::from(self.hash.to_be_bytes()[0]) & (FOLDERS - 1)) as u8
    }

    /// Reads one, as it stands in the folder with this number.
    pub(super) fn parse(text: &str, folder: u8) -> Option<Self> {
        let mut parts = text.split('-');
        let (hash, serial, class) = (parts.next()?, parts.next()?, parts.next()?);
        let name = Self {
            hash: u128::from_str_radix(hash, 16).ok()?,
            serial: u64::from_str_radix(serial, 16).ok()?,
            class: u8::from_str_radix(class, 16).ok()?,
        };
        // Written in the one form that is ours.
        let is_ours = name.class <= CLASS_MAX && name.folder() == folder && name.file() == text;
        is_ours.then_some(name)
    }

    /// Within its folder.
    pub(super) fn file(&self) -> String {
        format!("{:032x}-{:016x}-{:x}", self.hash, self.serial, self.class)
    }

    /// Whether it is the name of this key.
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        Self::new(key, 0, 0).hash == self.hash
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:02x}/{}", self.folder(), self.file())
    }
}
