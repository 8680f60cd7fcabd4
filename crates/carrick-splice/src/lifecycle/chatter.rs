//! When `auto` gives an exchange to the engine `socket`: after small messages have gone back and forth for a
//! while. And when it takes it back: as soon as the engine needs the process, or one side sends a long run.

/// Longer messages are not chatter. The kernel's worker sends each fragment of a piece by itself: a message
/// of one or two segments costs less than copying, one of seven (10 KB) costs all machines together a third
/// more (docs/benchmarks.md).
const MESSAGE_BYTES_MAX: u64 = 2 << 10;

/// How many bytes one side may send before the other answers, while the kernel has the exchange.
pub(super) const RUN_BYTES_MAX: u64 = 4 << 10;

/// How often the sender must change before the kernel gets the exchange: moving it there and back costs about
/// ten round trips.
const TURNS: u32 = 20;

/// Each return multiplies the turns needed, up to this.
const TURNS_MAX: u32 = 10_000;

/// Detects chatter.
#[derive(Debug)]
pub(super) struct Chatter {
    turns: u32,
    turns_needed: u32,
    taken_bytes: [u64; 2],
    speaker: Option<u8>,
}

impl Default for Chatter {
    fn default() -> Chatter {
        Chatter {
            turns: 0,
            turns_needed: TURNS,
            taken_bytes: [0; 2],
            speaker: None,
        }
    }
}

impl Chatter {
    /// Records the bytes taken from each side so far. True if the exchange is chatter.
    pub(super) fn observe(&mut self, taken_bytes: [u64; 2]) -> bool {
        for (side, (now, before)) in (0..).zip(taken_bytes.into_iter().zip(self.taken_bytes)) {
            let bytes = now - before;
            if bytes > MESSAGE_BYTES_MAX {
                self.turns = 0;
                self.speaker = None;
            } else if bytes > 0 && self.speaker != Some(side) {
                self.turns += 1;
                self.speaker = Some(side);
            }
        }
        self.taken_bytes = taken_bytes;
        self.turns >= self.turns_needed
    }

    /// Starts anew after a return from the kernel.
    pub(super) fn came_back(&mut self, taken_bytes: [u64; 2]) {
        *self = Chatter {
            turns: 0,
            turns_needed: (self.turns_needed * 4).min(TURNS_MAX),
            taken_bytes,
            speaker: None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages of `bytes`, from both sides in turn, make chatter.
    fn messages_until_chatter(chatter: &mut Chatter, bytes: u64) -> Option<u32> {
        let mut taken = chatter.taken_bytes;
        (1..100_000).find(|count| {
            taken[*count as usize % 2] += bytes;
            chatter.observe(taken)
        })
    }

    #[test]
    fn small_messages_back_and_forth_are_chatter() {
        assert_eq!(
            messages_until_chatter(&mut Chatter::default(), 64),
            Some(TURNS)
        );
        assert_eq!(
            messages_until_chatter(&mut Chatter::default(), MESSAGE_BYTES_MAX),
            Some(TURNS)
        );
    }

    #[test]
    fn large_messages_are_not() {
        let found = messages_until_chatter(&mut Chatter::default(), MESSAGE_BYTES_MAX + 1);
        assert_eq!(found, None);
    }

    #[test]
    fn one_side_alone_does_not_chatter() {
        let mut chatter = Chatter::default();
        assert!((0..100_000).all(|count| !chatter.observe([count * 10, 0])));
    }

    #[test]
    fn each_return_from_the_kernel_needs_more_turns() {
        let mut chatter = Chatter::default();
        let mut before = 0;
        for _ in 0..10 {
            let messages = messages_until_chatter(&mut chatter, 100).unwrap();
            assert!(messages > before || messages == TURNS_MAX, "{messages}");
            before = messages;
            let taken = chatter.taken_bytes;
            chatter.came_back(taken);
        }
        assert_eq!(before, TURNS_MAX);
    }
}
