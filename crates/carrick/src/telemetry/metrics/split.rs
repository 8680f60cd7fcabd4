//! A worker's counters of connections of splitters.
use super::Counter;
use carrick_logic::split::Reason;

carrick_logic::named! {
    /// How a splitter's connection was carried.
    pub enum SplitEnd with label {
        /// Split to the end.
        Split = "split",
        /// Joined; nearly all bytes went end to end.
        Joined = "joined",
        /// Joined after many bytes had been relayed.
        Mixed = "mixed",
        /// It ended too early or with an error: nothing was measured.
        Unmeasured = "unmeasured",
    }
}

/// One worker's counters.
#[derive(Debug, Default)]
pub struct SplitMetrics {
    ends: [Counter; SplitEnd::ALL.len()],
    reasons: [Counter; Reason::ALL.len()],
    /// Connections that the packet engine refused to join.
    pub refused: Counter,
    /// Times that a pair was excluded from interception.
    pub left_out: Counter,
}

impl SplitMetrics {
    /// Connections with this end.
    #[must_use]
    pub fn ends(&self, end: SplitEnd) -> &Counter {
        // As long as the enum: the index exists.
        &self.ends[end as usize]
    }

    /// Connections decided for this reason.
    #[must_use]
    pub fn reasons(&self, reason: Reason) -> &Counter {
        &self.reasons[reason as usize]
    }
}
