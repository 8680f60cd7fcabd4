//! What a worker counts of connections that are split, or could be.
use super::Counter;
use carrick_logic::split::Reason;

/// What has become of a connection of a splitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitEnd {
    /// Both legs were apart to the end.
    Split,
    /// They were joined; nearly all bytes went from end to end.
    Joined,
    /// They were joined when much had been relayed already.
    Mixed,
    /// It ended too early, or badly: nothing was learned of it.
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

/// Counts of one worker.
#[derive(Debug, Default)]
pub struct SplitMetrics {
    ends: [Counter; SplitEnd::ALL.len()],
    reasons: [Counter; Reason::ALL.len()],
    /// Connections that were to be joined, which the packet engine has refused.
    pub refused: Counter,
    /// Times at which a pair was left out.
    pub left_out: Counter,
}

impl SplitMetrics {
    /// Connections with this end.
    #[must_use]
    pub fn ends(&self, end: SplitEnd) -> &Counter {
        // As long as the enum: the index exists.
        &self.ends[end as usize]
    }

    /// Connections that were decided for this reason.
    #[must_use]
    pub fn reasons(&self, reason: Reason) -> &Counter {
        &self.reasons[reason as usize]
    }
}
