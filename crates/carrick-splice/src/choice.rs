//! Chooses the engine: which one is asked for, which one is used next, and why.

/// Which engine is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Choice {
    /// The faster one for each transfer, by its length or by the bursts seen.
    #[default]
    Auto,
    /// Always [`Engine::Copy`](crate::Engine::Copy).
    Copy,
    /// [`Engine::Pipe`](crate::Engine::Pipe) wherever a pipe can be had.
    Pipe,
}

/// Why an engine was chosen. Counted in [`Counters`](crate::Counters), once per decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The order names the engine.
    Forced,
    /// The length is known and small: copying is cheaper.
    SmallBody,
    /// The length is known and large: a pipe is cheaper.
    LargeBody,
    /// The length is unknown and nothing has been seen yet: copying, until a large burst comes.
    UnknownLength,
    /// A large burst came: on with a pipe.
    BurstLarge,
    /// Only small bursts came for a while: back to copying.
    BurstSmall,
    /// The local copy goes to the process, which has the bytes in a buffer anyway.
    LocalCopy,
    /// A pipe was wanted and not to be had: copying.
    PipesExhausted,
}

impl Reason {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Reason; 8] = [
        Reason::Forced,
        Reason::SmallBody,
        Reason::LargeBody,
        Reason::UnknownLength,
        Reason::BurstLarge,
        Reason::BurstSmall,
        Reason::LocalCopy,
        Reason::PipesExhausted,
    ];

    /// A short name for metrics: lower case, words joined by `_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::Forced => "forced",
            Reason::SmallBody => "small_body",
            Reason::LargeBody => "large_body",
            Reason::UnknownLength => "unknown_length",
            Reason::BurstLarge => "burst_large",
            Reason::BurstSmall => "burst_small",
            Reason::LocalCopy => "local_copy",
            Reason::PipesExhausted => "pipes_exhausted",
        }
    }
}
