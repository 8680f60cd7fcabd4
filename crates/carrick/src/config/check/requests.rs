//! Where a switch's requests are classified. By default `auto` has the kernel forward those of every route that allows it; the others keep
//! their reason, for `carrick check`. What `requests` and `responses` demand is checked.
use crate::config::file::{self, Job};
use crate::config::in_kernel;
use crate::config::plan::{
    HashOn, Mode, Requests, Responses, RoutePlan, ServerHttp2, UpstreamPlan, Via,
};
use crate::config::problem::Problems;
use crate::config::section::Written;
use carrick_logic::balance::Algorithm;
use carrick_splice::Choice;
use carrick_splice::requests::{RequestTable, Settings};
use std::ops::Range;

/// Why the kernel cannot forward a route's requests, and what can be done.
type Obstacle = (String, &'static str);

/// Settles it for a listener's routes. Without a mode that can be used, checks only what its word tells.
pub fn settle(
    written: &Written<file::Listener>,
    mode: Option<&mut Mode>,
    via: &Via,
    upstreams: &[Option<UpstreamPlan>],
    problems: &mut Problems,
) {
    if matches!(written.job(), Some(Job::Tunnel | Job::Split)) {
        report_blind(written, problems);
    }
    let Some(Mode::Switch(routes)) = mode else {
        return;
    };
    check_responses(written, routes, problems);
    // A transparent listener has a last route that is not in the file.
    let given = |number: usize| written.routes.get(number)?.requests.given();
    let is_demanded =
        |number: usize| given(number).is_some_and(|word| *word.get_ref() == Requests::Kernel);
    let is_read = |number: usize| {
        let responses = written.routes.get(number)?.responses.given();
        responses.filter(|word| *word.get_ref() == Responses::Read)
    };
    let are_alike = routes
        .windows(2)
        .all(|pair| matches!(pair, [one, other] if one.pace == other.pace));
    let of = |route: &RoutePlan| upstreams.get(route.upstream?)?.as_ref();
    let mut obstacles: Vec<Option<Obstacle>> = (routes.iter().enumerate())
        .map(|(number, route)| {
            let upstream = of(route);
            upstream
                .and_then(translated)
                .or_else(|| {
                    let is_given = (given(number).is_some(), is_read(number).is_some());
                    obstacle(route, upstream, via, are_alike, is_given)
                })
                .or_else(|| in_process(!written.tls.is_absent()))
        })
        .collect();
    for (route, obstacle) in routes.iter_mut().zip(&obstacles) {
        route.requests = if obstacle.is_none() {
            Requests::Kernel
        } else {
            Requests::Process
        };
    }
    let table = RequestTable::new(&in_kernel::routes(routes), Settings::default());
    for (number, why) in table.left_out() {
        if let Some(obstacle) = obstacles.get_mut(*number) {
            obstacle.get_or_insert((
                format!("this route cannot be classified in the kernel: {why}"),
                "remove `requests`; the others may keep it, and what may be for this one goes to the process",
            ));
        }
    }
    for (number, (route, obstacle)) in routes.iter_mut().zip(obstacles).enumerate() {
        let unkept = of(route).and_then(unkept);
        if obstacle.is_some() {
            route.requests = Requests::Process;
        } else if route.engine == Choice::Auto {
            route.responses = Responses::Unread;
        }
        let Some((why, help)) = obstacle.or(unkept) else {
            continue;
        };
        match given(number).filter(|_| is_demanded(number)) {
            Some(word) => refuse(problems, word.span(), &why, help),
            None => route.not_in_kernel = Some(why),
        }
    }
}

/// `is_given`: whether the route has `requests`; `is_read`: whether it has `responses = "read"`.
fn obstacle(
    route: &RoutePlan,
    upstream: Option<&UpstreamPlan>,
    via: &Via,
    are_alike: bool,
    (is_given, is_read): (bool, bool),
) -> Option<Obstacle> {
    let hashes = upstream.is_some_and(|upstream| {
        upstream.balance == Algorithm::Hash && upstream.hash_on != HashOn::Client
    });
    let (why, help) = match route {
        RoutePlan { conditions, .. } if conditions.sni.is_some() => (
            "connections with this server name are passed on undecrypted",
            "remove `requests`, or `sni`",
        ),
        RoutePlan {
            requests: Requests::Process,
            ..
        } if is_given => ("`requests = \"process\"` says so", "remove it"),
        RoutePlan {
            requests: Requests::Process,
            engine: Choice::Packet,
            ..
        } => (
            "with `engine = \"packet\"`, `requests = \"kernel\"` is to be named",
            "name it, or use `engine = \"auto\"`",
        ),
        RoutePlan {
            engine: Choice::Copy | Choice::Pipe | Choice::Socket,
            ..
        } => (
            "requests are classified in the kernel only on connections that the packet engine has",
            "use `engine = \"auto\"` or \"packet\" for the route, or remove `requests`",
        ),
        RoutePlan {
            cache: Some(_),
            engine: Choice::Auto,
            ..
        } => (
            "requests that the kernel classifies do not reach the cache",
            "add `cache = false` to the route, or remove `requests`",
        ),
        _ if is_read => (
            "of a request that the kernel forwards, the process does not see the response",
            "remove `responses = \"read\"`, or `requests`",
        ),
        RoutePlan { upstream: None, .. } => (
            "the process checks the original destination at each request",
            "name an `upstream` in place of `to`, or remove `requests`",
        ),
        _ if hashes => (
            "the servers of this upstream are chosen by what each request says, and in the kernel a request goes where the last one went",
            "use another `balance`, or `hash_on = \"client\"`",
        ),
        _ if via.is_in_responses => (
            "the kernel forwards responses as they are, without `Via`",
            "remove `via = \"both\"` from the listener, or `requests`",
        ),
        _ if !are_alike => (
            "the listener's routes have different pacing classes, and the kernel keeps that of a client's last request",
            "give all routes of the listener the same `pace`, or remove `requests`",
        ),
        _ => return None,
    };
    Some((why.to_owned(), help))
}

/// Why no request for these servers can be classified in the kernel.
fn translated(upstream: &UpstreamPlan) -> Option<Obstacle> {
    let (why, help) = if upstream.tls.is_some() {
        (
            "the process encrypts for the servers of this upstream",
            "remove `requests`, or `tls` from the upstream",
        )
    } else if upstream.http2 != ServerHttp2::Never {
        (
            "the process speaks HTTP/2 to the servers of this upstream",
            "remove `requests`, or `http2` from the upstream",
        )
    } else {
        return None;
    };
    Some((why.to_owned(), help))
}

/// Why the kernel never has a connection to these servers with which it could forward a request, though it could read it.
fn unkept(upstream: &UpstreamPlan) -> Option<Obstacle> {
    let (why, help) = if upstream.send_proxy_protocol.is_some() {
        (
            "with `send_proxy_protocol`, connections to servers are not kept",
            "remove `requests`, or `send_proxy_protocol` from the upstream",
        )
    } else if upstream.keepalive == 0 {
        (
            "with `keepalive = 0`, connections to servers are not kept",
            "remove `requests`, or `keepalive = 0` from the upstream",
        )
    } else {
        return None;
    };
    Some((why.to_owned(), help))
}

/// Why no request of a listener can be classified in the kernel.
fn in_process(is_encrypted: bool) -> Option<Obstacle> {
    is_encrypted.then(|| {
        (
            "the kernel cannot read requests inside TLS".to_owned(),
            "remove `requests`, or `tls`",
        )
    })
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
                    format!("a tunnel does not read {what}, so `{what}` is not possible"),
                )
                .help(format!(
                    "use `mode = \"switch\"` to have carrick read {what}, or remove it"
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
            && !matches!(route.engine, Choice::Packet | Choice::Auto)
        {
            refuse(
                problems,
                word.span(),
                "only the packet engine leaves responses unread",
                "use `engine = \"auto\"` or \"packet\" for the route, or remove `responses`",
            );
        }
    }
}

fn refuse(problems: &mut Problems, span: Range<usize>, message: &str, help: &str) {
    problems.error(span, message.to_owned()).help(help);
}
