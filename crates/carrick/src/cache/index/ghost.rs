//! Which keys were evicted a short while ago.
//!
//! It remembers about as many keys as there are objects, with four bytes each: two of the key's hash, two of the time. They are in
//! buckets of eight, where a new one replaces the oldest. Once in some thousand times, one key is taken for another: then an object
//! enters the wrong queue, which does no harm.

const BUCKET: usize = 8;

/// The time in which as many objects are evicted as are remembered has so many moments.
pub(super) const MOMENTS: u16 = 256;

/// The evicted keys of one queue.
#[derive(Debug, Default)]
pub(super) struct Ghost {
    entries: Box<[GhostEntry]>,
    evicted: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct GhostEntry {
    print: u16,
    moment: u16,
}

impl Ghost {
    /// Remembers a key until about `capacity` others are evicted.
    pub(super) fn insert(&mut self, hash: u64, capacity: usize) {
        let wanted = capacity.next_power_of_two().max(BUCKET);
        if self.entries.len() < wanted {
            self.entries = vec![GhostEntry::default(); wanted].into();
        }
        self.evicted += 1;
        let now = self.moment();
        let (bucket, print) = self.place(hash);
        let oldest = self.entries[bucket..bucket + BUCKET]
            .iter_mut()
            .max_by_key(|entry| {
                let is_free = entry.print == 0;
                (is_free, now.wrapping_sub(entry.moment))
            });
        if let Some(entry) = oldest {
            *entry = GhostEntry { print, moment: now };
        }
    }

    /// Forgets a key; returns how long it was remembered, of [`MOMENTS`].
    pub(super) fn take(&mut self, hash: u64) -> Option<u16> {
        if self.entries.is_empty() {
            return None;
        }
        let now = self.moment();
        let (bucket, print) = self.place(hash);
        for entry in &mut self.entries[bucket..bucket + BUCKET] {
            if entry.print == print {
                let age = now.wrapping_sub(entry.moment);
                *entry = GhostEntry::default();
                return (age <= MOMENTS).then_some(age);
            }
        }
        None
    }

    fn moment(&self) -> u16 {
        let each = (self.entries.len() as u64 / u64::from(MOMENTS)).max(1);
        (self.evicted / each) as u16
    }

    fn place(&self, hash: u64) -> (usize, u16) {
        let buckets = self.entries.len() / BUCKET;
        let bucket = (hash >> 8) as usize & (buckets - 1);
        (bucket * BUCKET, (hash >> 48) as u16 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::Ghost;

    fn hash(number: u64) -> u64 {
        (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn what_was_evicted_last_is_remembered_once() {
        let mut ghost = Ghost::default();
        assert_eq!(ghost.take(hash(1)), None);
        for number in 0..10_000 {
            ghost.insert(hash(number), 1000);
        }
        let remembered = (9_500..10_000).filter(|&number| ghost.take(hash(number)).is_some());
        assert!(remembered.count() > 450);
        assert!(!(9_500..10_000).any(|number| ghost.take(hash(number)).is_some()));
        let old = (0..8_000).filter(|&number| ghost.take(hash(number)).is_some());
        assert!(old.count() < 20);
    }
}
