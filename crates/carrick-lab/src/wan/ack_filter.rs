//! An ACK filter, as before a line that is much slower than the way back: of the pure ACKs of a flow one in so many passes.
//! What one ACK says, the next says, too; so the newest is kept for a moment, and passes if none follows it.
//!
//! It has no clock: times are nanoseconds since whenever, and never go back.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::wan::packet::Segment;
use crate::wan::rules::Flow;
use crate::wan::schedule::Schedule;

/// Flows that are known at a time; with more, ACKs of new ones pass.
pub const FLOWS_MAX: usize = 65_536;

/// What a rule's filter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterSettings {
    /// One in so many passes; at least 2.
    pub one_in: u32,
    /// How long the newest is kept while no other follows, in nanoseconds.
    pub hold_ns: u64,
}

/// Flows with the ACK that each has kept.
#[derive(Debug)]
pub struct AckFilter<T> {
    flows: HashMap<Flow, State<T>>,
    due: Schedule<Flow>,
}

#[derive(Debug)]
struct State<T> {
    /// The highest number that was acknowledged.
    acknowledged: u32,
    /// Pure ACKs since one passed.
    count: u32,
    kept: Option<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    what: T,
    until_ns: u64,
}

/// What becomes of a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// It passes, at once. What was kept passes before it.
    Passes {
        /// What was kept, if this packet does not say the same and more.
        before: Option<T>,
        /// ACKs that this one makes needless: they are dropped.
        dropped: u64,
    },
    /// It is kept; what was kept before is dropped.
    Kept {
        /// One, or none.
        dropped: u64,
    },
}

impl<T> Default for AckFilter<T> {
    fn default() -> Self {
        Self {
            flows: HashMap::new(),
            due: Schedule::default(),
        }
    }
}

impl<T> AckFilter<T> {
    /// Decides about a TCP packet; `keep` makes of it what can be kept.
    pub fn decide(
        &mut self,
        flow: &Flow,
        segment: &Segment,
        settings: FilterSettings,
        now_ns: u64,
        keep: impl FnOnce() -> T,
    ) -> Verdict<T> {
        let at_once = Verdict::Passes {
            before: None,
            dropped: 0,
        };
        if segment.begins_or_aborts {
            let kept = self.flows.remove(flow).and_then(|state| state.kept);
            return Verdict::Passes {
                before: kept.map(|kept| kept.what),
                dropped: 0,
            };
        }
        let is_full = self.flows.len() >= FLOWS_MAX;
        let state = match self.flows.entry(*flow) {
            Entry::Vacant(_) if is_full => return at_once,
            Entry::Vacant(vacant) => {
                // The first one ends a handshake, or says where the flow is.
                vacant.insert(State {
                    acknowledged: segment.acknowledged,
                    count: 0,
                    kept: None,
                });
                return at_once;
            }
            Entry::Occupied(occupied) => occupied.into_mut(),
        };
        let is_new = is_behind(state.acknowledged, segment.acknowledged);
        if is_new {
            state.acknowledged = segment.acknowledged;
        }
        if !segment.is_pure_ack || !is_new {
            // Data and FIN acknowledge, too. A duplicate or a window's update would mean something else without the ACK
            // that it repeats.
            let kept = state.kept.take();
            state.count = 0;
            let verdict = match kept {
                Some(kept) if !is_new && segment.is_pure_ack => Verdict::Passes {
                    before: Some(kept.what),
                    dropped: 0,
                },
                kept => Verdict::Passes {
                    before: None,
                    dropped: u64::from(kept.is_some()),
                },
            };
            if segment.ends {
                self.flows.remove(flow);
            }
            return verdict;
        }
        state.count += 1;
        let dropped = u64::from(state.kept.take().is_some());
        if state.count >= settings.one_in {
            state.count = 0;
            return Verdict::Passes {
                before: None,
                dropped,
            };
        }
        let until_ns = now_ns.saturating_add(settings.hold_ns);
        state.kept = Some(Kept {
            what: keep(),
            until_ns,
        });
        self.due.push(until_ns, *flow);
        Verdict::Kept { dropped }
    }

    /// When something that is kept may have to pass.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.due.next_ns()
    }

    /// Takes an ACK that none has followed in time: it passes now.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<T> {
        while let Some(flow) = self.due.pop_due(now_ns) {
            let Some(state) = self.flows.get_mut(&flow) else {
                continue;
            };
            if state
                .kept
                .as_ref()
                .is_some_and(|kept| kept.until_ns <= now_ns)
            {
                state.count = 0;
                return state.kept.take().map(|kept| kept.what);
            }
        }
        None
    }
}

/// Whether a sequence number comes before another, modulo 2^32 (RFC 9293, section 3.4).
fn is_behind(earlier: u32, later: u32) -> bool {
    later != earlier && later.wrapping_sub(earlier) < 1 << 31
}

#[cfg(test)]
mod tests;
