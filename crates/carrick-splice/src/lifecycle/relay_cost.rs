//! When `auto` gives an exchange to the engine `packet`: once relaying has cost as much as attaching does. So
//! it never costs more than twice the optimum, however the exchange continues (Karlin, Manasse, Rudolph,
//! Sleator: Competitive Snoopy Caching, 1988, the ski-rental rule).

/// Attaching pays from this many bytes; each message counts as [`TURN_BYTES`] more: after three small ones. From
/// then on the kernel knows the connections, and takes them when it has seen two or three more. A slot, looks and
/// the end cost about as much CPU as relaying two exchanges. Of thresholds of two, three and four messages, two
/// cost tunnels of two exchanges a third more than relaying, three a fifth; four cost those of four exchanges a
/// fifth more, three nothing (docs/benchmarks.md, "What the engine `packet` costs").
pub(super) const PAYS_FROM_BYTES: u64 = 192 << 10;

/// What a change of the sending side costs the process, in bytes.
const TURN_BYTES: u64 = 64 << 10;

/// Adds up what relaying an exchange has cost.
#[derive(Debug, Default)]
pub(super) struct RelayCost {
    cost_bytes: u64,
    taken_bytes: [u64; 2],
    speaker: Option<u8>,
}

impl RelayCost {
    /// Records the bytes taken from each side so far. True if attaching pays.
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

    /// How many messages of `bytes`, from this many sides in turn, it takes.
    fn messages_until_it_pays(bytes: u64, sides: u64) -> Option<u64> {
        let (mut relay_cost, mut taken) = (RelayCost::default(), [0; 2]);
        (1..100_000).find(|count| {
            taken[(count % sides) as usize] += bytes;
            relay_cost.observe(taken)
        })
    }

    #[test]
    fn a_few_small_messages_pay() {
        assert_eq!(messages_until_it_pays(1, 2), Some(3));
    }

    #[test]
    fn one_large_answer_pays() {
        assert_eq!(
            messages_until_it_pays(PAYS_FROM_BYTES - 2 * TURN_BYTES, 2),
            Some(2)
        );
    }

    #[test]
    fn bytes_from_one_side_are_one_message() {
        let pieces = (PAYS_FROM_BYTES - TURN_BYTES) / 1024;
        assert_eq!(messages_until_it_pays(1024, 1), Some(pieces));
    }

    #[test]
    fn silence_costs_nothing() {
        let mut relay_cost = RelayCost::default();
        assert!((0..100_000).all(|_| !relay_cost.observe([100, 100])));
    }
}
