//! Checks `[[listener.route]]`, and whether every route can be reached.
use super::cache::OfListener;
use super::file_context::FileContext;
use super::{conditions, split, transparent};
use crate::config::file::{self, Job};
use crate::config::plan::{Requests, Responses, RoutePlan, ServerHttp2, Splitting};
use crate::config::problem::Problems;
use crate::config::section::{Keys, Written};
use crate::config::setting::Setting;
use crate::config::word::Word;
use carrick_logic::route::Conditions;
use carrick_splice::Choice;

/// The routes of a listener, and what a listener with them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Looks at requests.
    Switch,
    /// Looks at the server name of a TLS ClientHello, or at nothing.
    Tunnel,
    /// The same.
    Split,
    /// Of a switch with TLS: looks at the server name, and passes the connection on undecrypted.
    Passed,
}

impl Kind {
    fn job(self) -> Job {
        match self {
            Self::Switch => Job::Switch,
            Self::Tunnel | Self::Passed => Job::Tunnel,
            Self::Split => Job::Split,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Tunnel => "tunnel",
            Self::Split => "splitter",
            Self::Passed => "route with `sni`",
        }
    }
}

/// What routes have of their listener.
pub struct Inherited<'l> {
    /// The engine.
    pub engine: Choice,
    /// The class by which it is paced.
    pub pace: Option<usize>,
    /// What it says of the cache, if it may use one.
    pub cache: Option<&'l OfListener<'l>>,
    /// Whether connections are split, if the listener does that.
    pub split: Splitting,
    /// The link that they go through.
    pub link: Option<usize>,
}

/// Checks the routes of a listener. `None` if one of them cannot be used.
pub fn check_all(
    written: &Written<file::Listener>,
    kind: Kind,
    inherited: &Inherited<'_>,
    context: &FileContext<'_>,
    problems: &mut Problems,
) -> Option<Vec<RoutePlan>> {
    let (default, cache) = (inherited.engine, inherited.cache);
    let needs_routes = !written.is_transparent() && written.redirect_to_https.given().is_none();
    if written.routes.is_empty() && needs_routes && written.key("route").is_none() {
        problems
            .error(written.span.clone(), "the listener has no routes")
            .help("add [[listener.route]] with `upstream = \"NAME\"`");
        return None;
    }
    let routes: Vec<Option<RoutePlan>> = written
        .routes
        .iter()
        .map(|route| {
            let has_name = !written.tls.is_absent() && !route.sni.is_absent();
            let kind = match kind {
                Kind::Switch if has_name => Kind::Passed,
                kind => kind,
            };
            let conditions = self::conditions(route, Some(kind), problems);
            let upstream = transparent::destination(written, route, context.known, problems);
            let split = given_or(&route.split, inherited.split);
            let engine = split::engine(split, given_or(&route.engine, default));
            let engine = match spoken(context, upstream.flatten()) {
                Some(spoken) => engine_to(spoken, route, kind, problems),
                None => engine,
            };
            let link = link(route, kind, (split, inherited.link), context, problems);
            let requests = given_or(&route.requests, default_requests(engine));
            let responses = given_or(&route.responses, default_responses(engine));
            let cache = cache
                .filter(|_| kind != Kind::Passed)
                .and_then(|cache| cache.route(route, (engine, requests, responses), problems));
            let pace = (context.classes).of(&route.pace, inherited.pace, problems);
            Some(RoutePlan {
                conditions: conditions?,
                upstream: upstream?,
                engine,
                requests,
                not_in_kernel: None,
                responses,
                cache,
                pace,
                split,
                link,
            })
        })
        .collect();
    let way = (default, Requests::Process, default_responses(default));
    let rest = cache
        .filter(|_| written.is_transparent())
        .and_then(|cache| cache.rest(way, problems));
    if let Some(cache) = cache {
        // Of a route that cannot be used it is not known.
        let may_use =
            |route: &Option<RoutePlan>| route.as_ref().is_none_or(|route| route.cache.is_some());
        cache.report_idle(rest.is_some() || routes.iter().any(may_use), problems);
    }
    report_unreachable(&written.routes, &routes, kind, problems);
    let mut routes: Vec<RoutePlan> = if written.is_transparent() {
        routes.into_iter().collect::<Option<_>>()?
    } else {
        report_gap(written, &routes, kind, problems);
        return routes.into_iter().collect();
    };
    // What meets none of them goes where it wanted to go.
    routes.push(RoutePlan {
        conditions: Conditions::default(),
        upstream: None,
        engine: split::engine(inherited.split, default),
        requests: Requests::Process,
        not_in_kernel: None,
        responses: default_responses(default),
        cache: rest,
        pace: inherited.pace,
        split: inherited.split,
        link: inherited
            .link
            .filter(|_| inherited.split != Splitting::Never),
    });
    Some(routes)
}

/// What the process itself has to speak to the servers of an upstream, and the key that says so.
fn spoken(
    context: &FileContext<'_>,
    upstream: Option<usize>,
) -> Option<(&'static str, &'static str)> {
    let plan = upstream.and_then(|index| context.upstreams.get(index)?.as_ref())?;
    match (&plan.tls, plan.http2) {
        (Some(_), _) => Some(("TLS", "tls")),
        (None, ServerHttp2::Always | ServerHttp2::Auto) => Some(("HTTP/2", "http2")),
        (None, ServerHttp2::Never) => None,
    }
}

/// The engine of a route to such servers. Reports what cannot be for them.
fn engine_to(
    (spoken, key): (&str, &str),
    route: &Written<file::Route>,
    kind: Kind,
    problems: &mut Problems,
) -> Choice {
    if let Some(upstream) = route.upstream.given()
        && kind != Kind::Switch
    {
        problems
            .error(upstream.span(), format!("carrick speaks {spoken} to the servers of this upstream, but a tunnel passes on what clients send"))
            .help(format!("use `mode = \"switch\"`, or an upstream without `{key}`"));
    }
    if let Some(engine) = route.engine.given()
        && !matches!(engine.get_ref(), Choice::Auto | Choice::Copy)
    {
        let does = match key {
            "tls" => "encrypts",
            _ => "speaks HTTP/2",
        };
        problems
            .warning(engine.span(), format!("the process {does} for the servers of this upstream: no engine moves their bytes"))
            .help(format!("remove `engine`, or `{key}` from the upstream"));
    }
    Choice::Copy
}

/// `auto` has the kernel classify what it can.
fn default_requests(engine: Choice) -> Requests {
    if engine == Choice::Auto {
        Requests::Kernel
    } else {
        Requests::Process
    }
}

/// `auto` leaves responses unread only with requests that the kernel forwards.
fn default_responses(engine: Choice) -> Responses {
    if engine == Choice::Packet {
        Responses::Unread
    } else {
        Responses::Read
    }
}

/// The link of a route: what it names; else the listener's, for what goes to its original destination.
fn link(
    route: &Written<file::Route>,
    kind: Kind,
    (split, inherited): (Splitting, Option<usize>),
    context: &FileContext<'_>,
    problems: &mut Problems,
) -> Option<usize> {
    let inherited = inherited.filter(|_| !route.to.is_absent() && split != Splitting::Never);
    let named = context.links.of(&route.link, problems);
    let Some(span) = route.link.given().map(toml::Spanned::span) else {
        return inherited;
    };
    if kind == Kind::Switch {
        problems
            .error(span, "a switch cannot use a link")
            .help("use `mode = \"tunnel\"` or \"split\", or remove it");
    } else if matches!(named, Some(Some(_))) && split == Splitting::Never {
        problems
            .error(span, "what goes through a link is always split")
            .help("remove `split = \"never\"`, or write `link = \"\"`");
    }
    named.flatten()
}

fn given_or<T: Copy>(setting: &Setting<T>, default: T) -> T {
    setting.given().map_or(default, |value| *value.get_ref())
}

/// The conditions of a route; `None` if one of them is wrong. Without a kind, what depends on it is not checked.
pub fn conditions(
    route: &Written<file::Route>,
    kind: Option<Kind>,
    problems: &mut Problems,
) -> Option<Conditions> {
    let errors_before = problems.count_errors();
    for (key, span) in &route.keys_given {
        let Some(kind) = kind else {
            break;
        };
        let modes = file::Route::TABLE.modes(key);
        if kind == Kind::Switch && *key == "sni" {
            problems
                .error(
                    span.clone(),
                    "`sni` means nothing in a switch without `tls`",
                )
                .help("write `host` for the host of a request, or use `mode = \"tunnel\"` for TLS");
        } else if !modes.is_empty() && !modes.contains(&kind.job().word()) {
            let help = match (kind, *key) {
                (Kind::Passed, _) => "remove it, or remove `sni` to have carrick decrypt them",
                (_, "host") => "write `sni` for the server name of a TLS connection",
                _ => "use `mode = \"switch\"` to have carrick read requests, or remove it",
            };
            problems
                .error(
                    span.clone(),
                    format!(
                        "a {} does not read requests, so `{key}` is not possible",
                        kind.name()
                    ),
                )
                .help(help);
        }
    }
    let conditions = Conditions {
        host: conditions::pattern(&route.host, problems),
        path: conditions::path(&route.path, problems),
        extension: conditions::extensions(&route.extension, problems),
        cookie: conditions::cookie(&route.cookie, problems),
        header: conditions::header(&route.header, problems),
        method: conditions::methods(&route.method, problems),
        cgi: route.cgi.given().map(|cgi| *cgi.get_ref()),
        sni: conditions::pattern(&route.sni, problems),
    };
    // A condition that is wrong would be a condition less: such a route must not be checked any further.
    if is_wrong(route) || problems.count_errors() > errors_before {
        None
    } else {
        Some(conditions)
    }
}

fn is_wrong(route: &Written<file::Route>) -> bool {
    [&route.host, &route.path, &route.cookie, &route.sni]
        .into_iter()
        .any(Setting::is_wrong)
        || [&route.extension, &route.method]
            .into_iter()
            .any(Setting::is_wrong)
        || route.header.is_wrong()
        || route.cgi.is_wrong()
}

/// Warns of routes that no request can reach: because of themselves, or because an earlier route takes all of theirs.
fn report_unreachable(
    written: &[Written<file::Route>],
    routes: &[Option<RoutePlan>],
    kind: Kind,
    problems: &mut Problems,
) {
    // A switch looks at names before it looks at requests.
    let are_compared = |earlier: &Conditions, later: &Conditions| {
        kind != Kind::Switch || earlier.sni.is_some() == later.sni.is_some()
    };
    for (index, route) in routes.iter().enumerate() {
        let (Some(route), Some(place)) = (route, written.get(index)) else {
            continue;
        };
        if let Some(reason) = route.conditions.never_matches() {
            problems
                .warning(place.span.clone(), "this route can never match")
                .help(reason);
            continue;
        }
        let earlier = routes.iter().take(index).zip(written).find(|(earlier, _)| {
            earlier.as_ref().is_some_and(|earlier| {
                are_compared(&earlier.conditions, &route.conditions)
                    && earlier.conditions.covers(&route.conditions)
            })
        });
        if let Some((_, earlier)) = earlier {
            problems
                .warning(place.span.clone(), "this route can never be reached")
                .with(
                    earlier.span.clone(),
                    "this one takes all that it would match",
                )
                .help("the first match wins: put the narrower route first");
        }
    }
}

/// Notes that some requests meet no route.
fn report_gap(
    written: &Written<file::Listener>,
    routes: &[Option<RoutePlan>],
    kind: Kind,
    problems: &mut Problems,
) {
    let catches_all = |route: &Option<RoutePlan>| match route {
        Some(route) => route.conditions.covers(&Conditions::default()),
        None => true,
    };
    if let Some(last) = written.routes.last()
        && !routes.iter().any(catches_all)
    {
        let outcome = match kind {
            Kind::Switch => "requests that meet none of the routes are answered with 404",
            Kind::Tunnel | Kind::Split | Kind::Passed => {
                "connections that meet none of the routes are closed"
            }
        };
        problems
            .note(last.span.clone(), outcome)
            .help("a last route with nothing but `upstream` would take them");
    }
}
