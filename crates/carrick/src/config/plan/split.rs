//! What a splitter does, and how transparent connections begin.
use super::RoutePlan;

/// What a split listener does.
#[derive(Debug)]
pub struct SplitPlan {
    /// Where connections go; on a transparent listener the last one takes all, to their original destination.
    pub routes: Vec<RoutePlan>,
    /// Per cent of connections that are joined end to end, to measure against them what splitting gains; 0 to 100.
    pub control_group: u8,
}

/// When a client's handshake on a transparent listener is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Handshake {
    /// When it comes.
    #[default]
    AtOnce,
    /// When the server has accepted.
    ServerFirst {
        /// Whether the file says so; else it is how it is done where it can be done.
        is_named: bool,
    },
}
