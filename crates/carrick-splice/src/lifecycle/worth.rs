//! When an exchange whose engine is chosen by what is seen is worth being forwarded packet by packet: once relaying it has cost as
//! much as giving it to the kernel does. Whoever waits so long never pays more than twice what would have been best, however the
//! exchange goes on (Karlin, Manasse, Rudolph, Sleator: Competitive Snoopy Caching, 1988: when to buy instead of rent).

/// From so many bytes on it pays; a message counts as [`TURN_BYTES`] besides. A first figure: a slot took 20 us, a look 8 us (there are two,
/// mostly), and the end 10 us, medians of a debug build on a busy machine; a request and its answer of 1 KB cost some 20 us of CPU more by the
/// process, of 1 MB some 200 us (docs/benchmarks.md, "What the engine `packet` costs"). So five messages would be even, and eight
/// are on the safe side.
pub(super) const PAYS_FROM_BYTES: u64 = 512 << 10;

/// When the other side begins to speak, that costs the process as much as so many bytes.
const TURN_BYTES: u64 = 64 << 10;

/// Adds up what an exchange has cost.
#[derive(Debug, Default)]
pub(super) struct Worth {
    cost_bytes: u64,
    taken_bytes: [u64; 2],
    speaker: Option<u8>,
}

impl Worth {
    /// Takes note of how many bytes the process has taken from each side so far. True if it pays.
    pub(super) fn observe(&mut self, taken_bytes: [u64; 2]) -> bool {
        for (side, (now, before)) in (0..).zip(taken_bytes.into_iter().zip(self.taken_bytes)) {
            if now == before {
                continue;
            }
            self.cost_bytes = self.cost_bytes.saturating_add(now - before);
            if self.speaker.replace(side) != Some(side) {
                self.cost_bytes = self.cost_bytes.saturating_add(TURN_BYTES);
            }
        }
        self.taken_bytes = taken_bytes;
        self.cost_bytes >= PAYS_FROM_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages of so many bytes, from either side in turn or all from one, it takes.
    fn messages_until_it_pays(bytes: u64, sides: u64) -> Option<u64> {
        let (mut worth, mut taken) = (Worth::default(), [0; 2]);
        (1..100_000).find(|count| {
            taken[(count % sides) as usize] += bytes;
            worth.observe(taken)
        })
    }

    #[test]
    fn a_few_small_messages_pay() {
        assert_eq!(messages_until_it_pays(1, 2), Some(8));
    }

    #[test]
    fn one_large_answer_pays() {
        assert_eq!(
            messages_until_it_pays(PAYS_FROM_BYTES - 2 * TURN_BYTES, 2),
            Some(2)
        );
    }

    #[test]
    fn what_comes_from_one_side_is_one_message() {
        let pieces = (PAYS_FROM_BYTES - TURN_BYTES) / 1024;
        assert_eq!(messages_until_it_pays(1024, 1), Some(pieces));
    }

    #[test]
    fn silence_costs_nothing() {
        let mut worth = Worth::default();
        assert!((0..100_000).all(|_| !worth.observe([100, 100])));
    }
}
