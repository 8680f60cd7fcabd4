//! Names of files: a hash is all that clients and servers can influence.
use super::format::CLASS_MAX;
use sha2::{Digest, Sha256};
use std::fmt;

/// Folders that files are divided among: a power of two. Tests, which open thousands of stores, have few.
pub(super) const FOLDERS: u16 = if cfg!(test) { 4 } else { 256 };

/// A file's name: two digits of the folder, 32 of the key's hash (SHA-256, truncated), the serial number, and the class of its heads'
/// slots. Names are never used again, so that a removal never hits another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) hash: u128,
    /// Counts files, over all starts: of two files for the same object, the one with the larger number counts.
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

    /// The numbers of all folders.
    pub(super) fn folders() -> impl Iterator<Item = u8> {
        (0..FOLDERS).map(|number| number as u8)
    }

    /// The folder's number.
    pub(super) fn folder(&self) -> u8 {
        (u16::from(self.hash.to_be_bytes()[0]) & (FOLDERS - 1)) as u8
    }

    /// Parses a name in the folder with this number.
    pub(super) fn parse(text: &str, folder: u8) -> Option<Self> {
        let mut parts = text.split('-');
        let (hash, serial, class) = (parts.next()?, parts.next()?, parts.next()?);
        let name = Self {
            hash: u128::from_str_radix(hash, 16).ok()?,
            serial: u64::from_str_radix(serial, 16).ok()?,
            class: u8::from_str_radix(class, 16).ok()?,
        };
        // Only the form that `file` writes.
        let is_ours = name.class <= CLASS_MAX && name.folder() == folder && name.file() == text;
        is_ours.then_some(name)
    }

    /// The name within its folder.
    pub(super) fn file(&self) -> String {
        format!("{:032x}-{:016x}-{:x}", self.hash, self.serial, self.class)
    }

    /// Whether the file is for this key.
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        Self::new(key, 0, 0).hash == self.hash
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:02x}/{}", self.folder(), self.file())
    }
}
