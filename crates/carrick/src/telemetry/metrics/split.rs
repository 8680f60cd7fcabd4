//! A worker's counters of connections of splitters.
use super::Counter;
use carrick_logic::split::Reason;

/// How a splitter's connection was carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitEnd {
    /// Split to the end.
    Split,
    /// Joined; nearly all bytes went end to end.
    Joined,
    /// Joined after many bytes had been relayed.
    Mixed,
    /// It ended too early or with an error: nothing was measured.
    Unmeasured,
}

impl SplitEnd {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Split, Self::Joined, Self::Mixed, Self::Unmeasured];

    /// The label in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Joined => "joined",
            Self::Mixed => "mixed",
            Self::Unmeasured => "unmeasured",
        }
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
