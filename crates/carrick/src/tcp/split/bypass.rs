//! Which connections may bypass a splitter: it can neither refuse nor limit them then, and sends them nowhere else.
use crate::config::plan::{Limits, ListenerPlan, Mode, RoutePlan, Splitting};
use carrick_logic::split::Pair;

/// Whether a splitter changes nothing between two networks but whether connections are split: so it may leave all of them out, whatever
/// their addresses and ports.
#[must_use]
pub fn may_bypass(listener: &ListenerPlan, limits: &Limits, networks: Pair) -> bool {
    let Mode::Split(plan) = &listener.mode else {
        return false;
    };
    let interception = listener.interception.as_ref();
    interception.is_some_and(|interception| interception.keeps_client)
        && limits.connections_per_client == 0
        && plan.routes.iter().all(is_plain)
        && (listener.access).allows_all_between(networks.client, networks.server)
}

/// Whether a route leads every connection to its original destination, unpaced.
fn is_plain(route: &RoutePlan) -> bool {
    route.conditions.sni.is_none()
        && route.upstream.is_none()
        && route.link.is_none()
        && route.pace.is_none()
        && route.split == Splitting::Adaptive
}

#[cfg(test)]
mod tests;
