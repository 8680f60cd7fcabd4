//! Leg profiles, and which connections have them.
use carrick_splice::tcp_tuning::{Profile, Selector};
use std::sync::Arc;

/// `[leg.NAME]`
#[derive(Debug, PartialEq, Eq)]
pub struct LegPlan {
    /// Its name.
    pub name: String,
    /// What is asked of TCP.
    pub profile: Profile,
}

/// `legs`
#[derive(Debug)]
pub struct LegRules {
    /// The rules in order.
    pub rules: Selector<Arc<LegPlan>>,
    /// The profile that every client has, whoever it is; `None`: that depends.
    pub of_all_clients: Option<Arc<LegPlan>>,
}
