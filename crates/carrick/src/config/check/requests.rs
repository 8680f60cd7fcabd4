//! Checks `requests = "kernel"`: a request that is classified in the kernel goes on as its client has sent it, on the connection of the last one.
//! And `responses`, which says what is read of responses that go by the packet engine.
use crate::config::file::{self, Job};
use crate::config::in_kernel;
use crate::config::plan::{HashOn, Mode, Requests, Responses, RoutePlan, UpstreamPlan, Via};
use crate::config::problem::Problems;
use crate::config::section::Written;
use carrick_logic::balance::Algorithm;
use carrick_logic::http1::Forwarded;
use carrick_splice::Choice;
use carrick_splice::requests::{NotInKernel, RequestTable, Settings};
use std::ops::Range;

/// Checks a listener's routes. Without a mode that can be used, only what its word tells.
pub fn check(
    written: &Written<file::Listener>,
    mode: Option<&Mode>,
    (forwarded, via): (Forwarded, &Via),
    upstreams: &[Option<UpstreamPlan>],
    problems: &mut Problems,
) {
    if matches!(written.job(), Some(Job::Tunnel | Job::Split)) {
        report_blind(written, problems);
    }
    let given = |route: &file::Route| route.requests.given().map(toml::Spanned::span);
    let Some(Mode::Switch(routes)) = mode else {
        return;
    };
    check_responses(written, routes, problems);
    let table = RequestTable::new(&in_kernel::routes(routes), Settings::default());
    for (number, (route, place)) in routes.iter().zip(&written.routes).enumerate() {
        let Some(span) = given(place).filter(|_| route.requests == Requests::Kernel) else {
            continue;
        };
        let upstream = route.upstream.map(|index| upstreams.get(index));
        let hashes = matches!(upstream, Some(Some(Some(upstream)))
            if upstream.balance == Algorithm::Hash && upstream.hash_on != HashOn::Client);
        if route.engine != Choice::Packet {
            refuse(
                problems,
                span,
                "requests are classified in the kernel only on connections that the packet engine has",
                "add `engine = \"packet\"` to the route, or remove `requests`",
            );
        } else if route.responses == Responses::Read {
            refuse(
                problems,
                span,
                "of a request that the kernel forwards, the process does not see the response",
                "remove `responses = \"read\"`, or `requests`",
            );
        } else if route.upstream.is_none() {
            refuse(
                problems,
                span,
                "where a client wanted to go is for the process to check, at each request",
                "name an `upstream` in place of `to`, or remove `requests`",
            );
        } else if hashes {
            refuse(
                problems,
                span,
                "the servers of this upstream are chosen by what each request says, and in the kernel a request goes where the last one went",
                "use another `balance`, or `hash_on = \"client\"`",
            );
        } else if matches!(forwarded, Forwarded::XForwarded | Forwarded::Standard) {
            refuse(
                problems,
                span,
                "the kernel sends requests on as they are, and servers would learn of the client with some requests only",
                "add `forwarded = \"off\"` or \"unchanged\" to the listener; `send_proxy_protocol` of the upstream tells servers the client's address once for each connection",
            );
        } else if via.is_in_requests {
            refuse(
                problems,
                span,
                "the kernel sends requests on as they are, and `Via` would be in some of them only",
                "add `via = \"\"` to the listener",
            );
        } else if let Some(why) = reason(&table, number) {
            refuse(
                problems,
                span,
                &format!("this route cannot be classified in the kernel: {why}"),
                "remove `requests`; the others may keep it, and what may be for this one goes to the process",
            );
        }
    }
}

/// What a listener that looks at no requests cannot do.
fn report_blind(written: &Written<file::Listener>, problems: &mut Problems) {
    for route in &written.routes {
        let requests = route.requests.given().map(toml::Spanned::span);
        let responses = route.responses.given().map(toml::Spanned::span);
        for (what, span) in [("requests", requests), ("responses", responses)] {
            let Some(span) = span else {
                continue;
            };
            problems
                .error(
                    span,
                    format!("a tunnel does not look at {what}, so `{what}` is not possible"),
                    "",
                )
                .help(format!(
                    "use `mode = \"switch\"` to look at {what}, or remove it"
                ));
        }
    }
}

/// Other engines always leave responses' heads to the process.
fn check_responses(
    written: &Written<file::Listener>,
    routes: &[RoutePlan],
    problems: &mut Problems,
) {
    for (route, place) in routes.iter().zip(&written.routes) {
        if let Some(word) = place.responses.given()
            && route.engine != Choice::Packet
        {
            refuse(
                problems,
                word.span(),
                "only the packet engine leaves responses unread",
                "add `engine = \"packet\"` to the route, or remove `responses`",
            );
        }
    }
}

fn refuse(problems: &mut Problems, span: Range<usize>, message: &str, help: &str) {
    problems.error(span, message.to_owned(), "").help(help);
}

fn reason(table: &RequestTable, route: usize) -> Option<NotInKernel> {
    let mut left_out = table.left_out().iter();
    left_out
        .find(|(number, _)| *number == route)
        .map(|(_, why)| *why)
}
