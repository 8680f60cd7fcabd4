//! What of a switch's routes the kernel can classify: the plan in the form that the splice service takes.
#[cfg(test)]
mod tests;

use super::plan::{ListenerPlan, Mode, Plan, Requests, RoutePlan};
use super::tls::ChallengeFiles;
use carrick_logic::access::{NamePattern, NameShape};
use carrick_logic::route::Conditions;
use carrick_splice::requests::{Cookie, Host, RequestTable, Route, Settings};
use std::net::IpAddr;

/// The number of no upstream: such a route leads to the client's original destination.
const NO_UPSTREAM: u32 = u32::MAX;

/// The table of a listener's routes, if the kernel is to classify any of its requests. An event tells one of so many.
#[must_use]
pub fn table(listener: &ListenerPlan, plan: &Plan, sample_every: u32) -> Option<RequestTable> {
    let Mode::Switch(routes) = &listener.mode else {
        return None;
    };
    let limits = plan.limits.head();
    let mut routes = self::routes(routes);
    if plan.acme.is_some() && listener.tls.is_none() {
        // What authorities ask for, the process answers.
        let challenges = Route {
            path: Some(ChallengeFiles::PATH.to_owned()),
            upstream: NO_UPSTREAM,
            ..Route::default()
        };
        routes.insert(0, challenges);
    }
    if plan.cache.is_some() {
        // What is deleted is not to be sent from the store any more (RFC 9111 section 4.4).
        let unsafe_ones = Route {
            methods: vec!["DELETE".to_owned()],
            upstream: NO_UPSTREAM,
            ..Route::default()
        };
        routes.insert(0, unsafe_ones);
    }
    let settings = Settings {
        head_bytes_max: limits.head_bytes_max,
        fields_max: limits.fields_max,
        passes_forwarded: listener.believes(false),
        sample_every,
    };
    let table = RequestTable::new(&routes, settings);
    table.is_useful().then_some(table)
}

/// Whether the kernel is to classify requests to this listener.
#[must_use]
pub fn is_wanted(listener: &ListenerPlan) -> bool {
    matches!(&listener.mode, Mode::Switch(routes)
        if routes.iter().any(|route| route.requests == Requests::Kernel))
}

/// Routes as the kernel classifies by them. The number of an upstream is its index in the plan.
#[must_use]
pub fn routes(routes: &[RoutePlan]) -> Vec<Route> {
    routes
        .iter()
        .map(|route| Route {
            upstream: route
                .upstream
                .and_then(|index| u32::try_from(index).ok())
                .unwrap_or(NO_UPSTREAM),
            in_kernel: route.requests == Requests::Kernel,
            ..conditions(&route.conditions)
        })
        .collect()
}

fn conditions(conditions: &Conditions) -> Route {
    Route {
        host: conditions.host.as_ref().map_or(Host::Any, host),
        path: conditions.path.clone(),
        extensions: conditions.extension.clone(),
        cookie: conditions.cookie.as_ref().map(|rule| Cookie {
            name: rule.name.clone(),
            is_present: rule.present,
        }),
        methods: conditions.method.clone(),
        cgi: conditions.cgi,
        has_more: conditions.header.is_some(),
        ..Route::default()
    }
}

fn host(pattern: &NamePattern) -> Host {
    match pattern.shape() {
        NameShape::Any => Host::Any,
        NameShape::Exact(name) => Host::Is(name.to_owned()),
        NameShape::Below(name) => Host::Below(name.to_owned()),
        NameShape::ExactOrBelow(name) => Host::IsOrBelow(name.to_owned()),
        // It has one usual form, and others are no addresses.
        NameShape::Address(IpAddr::V4(address)) => Host::Is(address.to_string()),
        NameShape::Address(IpAddr::V6(_)) => Host::Other,
    }
}
