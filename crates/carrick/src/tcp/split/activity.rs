//! For how long a connection was active, as its ends could see it, and in how many turns.
//!
//! Split and joined connections are compared by this, so it is the same for both: from the first byte to the receiver's acknowledgement
//! of the last one, without the pauses in which nobody waits for the network. Of a pause in which nothing was under way [`PAUSE`] counts at
//! most: what a server needs for its answer belongs to what a user waits for, what the user needs for the next request does not, and
//! nobody here can tell one from the other but by its length.
//!
//! While the kernel forwards packets, its program keeps the same account by them (`active_ns` of bpf/tc/tc.h). Otherwise the process sees
//! when it relays bytes. What it has written may take long to arrive: in a longer pause, the kernel's own account of each
//! leg says for how long something was to be sent, or unacknowledged (`tcpi_busy_time`).
use std::time::{Duration, Instant};

/// As in the packet engine (`PACKET_PAUSE_NS`).
const PAUSE: Duration = Duration::from_secs(1);

/// So often the legs are asked, while bytes move.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// One connection.
#[derive(Debug, Default)]
pub struct Activity {
    last: Option<Instant>,
    active: Duration,
    /// Bytes relayed by the process: from the client, and to it.
    relayed: [u64; 2],
    /// Times at which bytes of that way followed others of the other way.
    turns: [u32; 2],
    is_down: bool,
    /// How long both legs had been busy when they were asked last.
    busy: [Duration; 2],
    asked: Option<Instant>,
}

impl Activity {
    /// Of a connection whose first bytes have come.
    pub fn begin(&mut self, now: Instant) {
        self.last.get_or_insert(now);
    }

    /// Takes note of the bytes that were relayed by now; `busy` asks both legs how long they have been busy.
    pub fn note(
        &mut self,
        now: Instant,
        relayed: [u64; 2],
        busy: impl FnOnce() -> Option<[Duration; 2]>,
    ) {
        let grew = [0, 1].map(|way| relayed[way] > self.relayed[way]);
        if grew == [false, false] {
            return;
        }
        self.note_turns(grew);
        self.relayed = relayed;
        let pause = self
            .last
            .map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.last = Some(now);
        let is_asking = self
            .asked
            .is_none_or(|asked| now.saturating_duration_since(asked) >= ASK_EVERY);
        if pause <= PAUSE && !is_asking {
            self.active += pause;
            return;
        }
        let before = self.busy;
        if let Some(busy) = busy() {
            (self.busy, self.asked) = (busy, Some(now));
        }
        let waited = [0, 1].map(|leg| self.busy[leg].saturating_sub(before[leg]));
        self.active += counted(pause, waited[0].max(waited[1]));
    }

    /// The kernel forwards from now on.
    pub fn leave(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.active += counted(now.saturating_duration_since(last), Duration::ZERO);
        }
    }

    /// For how long it was active, if the receiver acknowledged the last byte then; `None`: there was none.
    #[must_use]
    pub fn until(&self, delivered: Instant) -> Option<Duration> {
        Some(self.active + delivered.saturating_duration_since(self.last?))
    }

    /// For how long, with nothing more to come.
    #[must_use]
    pub fn active(&self) -> Duration {
        self.active
    }

    /// Turns of the way from the client, or to it.
    #[must_use]
    pub fn turns(&self, is_down: bool) -> u32 {
        self.turns[usize::from(is_down)]
    }

    fn note_turns(&mut self, grew: [bool; 2]) {
        for (way, turns) in self.turns.iter_mut().enumerate() {
            if grew[way] && (*turns == 0 || self.is_down != (way == 1)) {
                *turns = turns.saturating_add(1);
            }
        }
        if grew != [true, true] {
            self.is_down = grew[1];
        }
    }
}

/// What counts of a pause, for so long of which something was under way.
fn counted(pause: Duration, waited: Duration) -> Duration {
    let waited = waited.min(pause);
    waited + (pause - waited).min(PAUSE)
}

#[cfg(test)]
mod tests;
