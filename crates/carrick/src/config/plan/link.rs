//! Links: connections that are kept to a carrick at their other end, and what that one does.
use super::{Fallback, ServerAddress, TcpProfilePlan};
use carrick_splice::Choice;
use std::sync::Arc;

/// `[link.NAME]`
#[derive(Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// Its name.
    pub name: String,
    /// The carrick at the other end.
    pub peer: ServerAddress,
    /// Most idle connections that a worker keeps.
    pub connections: usize,
    /// Idle connections that a worker opens before they are needed; not more than `connections`.
    pub preconnect: usize,
    /// How the TCP of these connections is to be; `None`: as the system has it.
    pub tcp_profile: Option<Arc<TcpProfilePlan>>,
    /// What is done with clients while there is no connection.
    pub fallback: Fallback,
}

/// What a link listener, the far end of a link, does.
#[derive(Debug)]
pub struct FarPlan {
    /// The engine for what is relayed.
    pub engine: Choice,
    /// The class of what is relayed: index into [`PacePlan::classes`](super::PacePlan::classes); `None`: it is not paced.
    pub pace: Option<usize>,
}
