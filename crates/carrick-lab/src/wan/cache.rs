//! A bounded map that forgets what was not used for long: two generations, of which the older is thrown away whole.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::Hash;
use std::mem;

/// Remembers answers; holds at most twice `entries_max`.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
    entries_max: usize,
}

impl<K: Eq + Hash, V: Copy> Cache<K, V> {
    /// An empty one, with generations of `entries_max`.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            entries_max,
        }
    }

    /// What is remembered.
    #[inline]
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(*value);
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value);
        Some(value)
    }

    /// Remembers an answer.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.entries_max {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// How many answers are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests;
