//! How long a connection was active from its ends' point of view, and in how many turns.
//!
//! Split and joined connections are compared by this, so it is measured alike for both: from the first byte to the
//! receiver's acknowledgement of the last one, without pauses in which no end waits for the network. Of a pause with
//! nothing in flight, at most [`PAUSE`] counts: a server's thinking time is part of what a user waits for, the user's
//! own is not, and only the length tells them apart.
//!
//! While the kernel forwards packets, its program measures this (`active_ns` of bpf/tc/tc.h). Otherwise the process
//! measures it as it relays bytes. Written bytes may take long to arrive: in a longer pause, the kernel's accounting of
//! each leg says how long data was unsent or unacknowledged (`tcpi_busy_time`).
use std::time::{Duration, Instant};

/// As in the packet engine (`PACKET_PAUSE_NS`).
const PAUSE: Duration = Duration::from_secs(1);

/// How often both legs are queried while bytes move.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// One connection.
#[derive(Debug, Default)]
pub struct Activity {
    last: Option<Instant>,
    active: Duration,
    /// Bytes relayed by the process: from the client, and to it.
    relayed: [u64; 2],
    /// How often bytes in this direction followed bytes in the other one.
    turns: [u32; 2],
    is_down: bool,
    /// How long both legs had been busy at the last query.
    busy: [Duration; 2],
    asked: Option<Instant>,
}

impl Activity {
    /// Begins with the connection's first bytes.
    pub fn begin(&mut self, now: Instant) {
        self.last.get_or_insert(now);
    }

    /// Notes the bytes relayed so far; `busy` queries how long both legs have been busy.
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

    /// How long it was active if the receiver acknowledged the last byte at `delivered`; `None` without bytes.
    #[must_use]
    pub fn until(&self, delivered: Instant) -> Option<Duration> {
        Some(self.active + delivered.saturating_duration_since(self.last?))
    }

    /// How long it was active so far.
    #[must_use]
    pub fn active(&self) -> Duration {
        self.active
    }

    /// Turns of the direction to the client (`is_down`) or from it.
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

/// The part of a pause that counts, if data was in flight for `waited` of it.
fn counted(pause: Duration, waited: Duration) -> Duration {
    let waited = waited.min(pause);
    waited + (pause - waited).min(PAUSE)
}

#[cfg(test)]
mod tests;
