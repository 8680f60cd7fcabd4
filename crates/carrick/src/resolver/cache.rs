//! A cache of limited size that keeps what is in use.
use std::collections::HashMap;
use std::time::Instant;

/// Values by name, each with its own expiry.
///
/// There are two generations. New and used entries go to the younger one; when that has half of the allowed entries, it
/// becomes the older one, and the previous older one is dropped. So every step is cheap, and a flood of names that are
/// asked for once does not evict names in use.
#[derive(Debug)]
pub(super) struct NameCache<V> {
    young: HashMap<Box<str>, Entry<V>>,
    old: HashMap<Box<str>, Entry<V>>,
    generation_max: usize,
    evicted: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    valid_until: Instant,
}

impl<V> NameCache<V> {
    /// Holds at most `names_max` names (at least 2).
    pub fn new(names_max: usize) -> Self {
        let generation_max = (names_max / 2).max(1);
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            generation_max,
            evicted: 0,
        }
    }

    /// Forgets all names.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// Forgets a name.
    pub fn remove(&mut self, name: &str) {
        self.young.remove(name);
        self.old.remove(name);
    }

    /// How many names it holds.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// How many valid values were evicted since the last call.
    pub fn take_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }

    /// The value, if it is still valid.
    pub fn get(&mut self, name: &str, now: Instant) -> Option<&V> {
        self.get_mut(name, now).map(|value| &*value)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: &str, now: Instant) -> Option<&mut V> {
        if let Some((name, entry)) = self.old.remove_entry(name)
            && entry.valid_until > now
        {
            self.make_room(now);
            self.young.insert(name, entry);
        }
        if self
            .young
            .get(name)
            .is_some_and(|entry| entry.valid_until <= now)
        {
            self.young.remove(name);
        }
        self.young.get_mut(name).map(|entry| &mut entry.value)
    }

    /// Stores a value.
    pub fn insert(&mut self, name: &str, value: V, valid_until: Instant, now: Instant) {
        self.old.remove(name);
        if !self.young.contains_key(name) {
            self.make_room(now);
        }
        self.young.insert(name.into(), Entry { value, valid_until });
    }

    fn make_room(&mut self, now: Instant) {
        if self.young.len() < self.generation_max {
            return;
        }
        self.young.retain(|_, entry| entry.valid_until > now);
        if self.young.len() >= self.generation_max {
            self.evicted += self
                .old
                .values()
                .filter(|entry| entry.valid_until > now)
                .count() as u64;
            self.old = std::mem::take(&mut self.young);
        }
    }
}
