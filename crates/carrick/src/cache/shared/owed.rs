//! Deletions that failed, which are made good before the server is asked again.
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys, at most. If it would be more, everything is to be deleted.
const KEYS_MAX: usize = 1024;

/// What is to be deleted. A reload that replaces the shared cache leaves it as it is.
#[derive(Debug, Default)]
pub struct Owed(Mutex<Deletions>);

#[derive(Debug, Default)]
struct Deletions {
    /// By key, or for everything, the number of the deletion.
    owed: BTreeMap<Option<Box<str>>, u64>,
    /// The last number.
    last: u64,
}

/// A deletion that is owed.
#[cfg(any(test, feature = "shared-cache"))]
#[derive(Debug, PartialEq, Eq)]
pub struct Deletion {
    /// `None`: everything.
    pub key: Option<Box<str>>,
    number: u64,
}

impl Owed {
    /// Adds the deletion of a key, or of everything.
    pub fn add(&self, key: Option<Box<str>>) {
        let mut deletions = self.lock();
        deletions.last += 1;
        let (number, is_all) = (deletions.last, key.is_none());
        deletions.owed.insert(key, number);
        if is_all || deletions.owed.len() > KEYS_MAX {
            deletions.owed.clear();
            deletions.owed.insert(None, number);
        }
    }

    /// What is to be deleted next, until it is [done](Self::done). Everything comes before keys.
    #[cfg(any(test, feature = "shared-cache"))]
    pub fn first(&self) -> Option<Deletion> {
        let deletions = self.lock();
        let (key, number) = deletions.owed.first_key_value()?;
        Some(Deletion {
            key: key.clone(),
            number: *number,
        })
    }

    /// Notes that something is deleted. If that failed once more meanwhile, it is still owed.
    #[cfg(any(test, feature = "shared-cache"))]
    pub fn done(&self, deletion: &Deletion) {
        let mut deletions = self.lock();
        if deletions.owed.get(&deletion.key) == Some(&deletion.number) {
            deletions.owed.remove(&deletion.key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Deletions> {
        // No code under the lock can leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
