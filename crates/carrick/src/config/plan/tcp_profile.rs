//! Leg profiles, and which connections have them.
use carrick_splice::tcp_tuning::{Profile, Selector};
use std::sync::Arc;

/// `[tcp_profile.NAME]`
#[derive(Debug, PartialEq, Eq)]
pub struct TcpProfilePlan {
    /// Its name.
    pub name: String,
    /// What is asked of TCP.
    pub profile: Profile,
}

/// `tcp_profiles`
#[derive(Debug)]
pub struct TcpProfileRules {
    /// The rules in order.
    pub rules: Selector<Arc<TcpProfilePlan>>,
    /// The profile that every client has, whoever it is; `None`: that depends.
    pub of_all_clients: Option<Arc<TcpProfilePlan>>,
}
