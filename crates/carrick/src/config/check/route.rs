//! Checks `[[listener.route]]`, and whether every route can be reached.
use super::cache::OfListener;
use super::listener::Given;
use super::{split, transparent};
use crate::config::file;
use crate::config::plan::{Requests, Responses, RoutePlan, Splitting};
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use crate::config::values;
use carrick_logic::access::NamePattern;
use carrick_logic::route::{Conditions, CookieRule};
use carrick_splice::Choice;
use std::ops::Range;

/// The routes of a listener, and what a listener with them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Looks at requests.
    Switch,
    /// Looks at the server name of a TLS ClientHello, or at nothing.
    Tunnel,
    /// The same.
    Split,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Tunnel => "tunnel",
            Self::Split => "splitter",
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
    given: &Given<'_>,
    problems: &mut Problems,
) -> Option<Vec<RoutePlan>> {
    let (default, cache) = (inherited.engine, inherited.cache);
    if written.routes.is_empty() && !written.is_transparent() && written.key("route").is_none() {
        problems
            .error(written.span.clone(), "the listener has no routes", "")
            .help("add [[listener.route]] with `upstream = \"NAME\"`");
        return None;
    }
    let routes: Vec<Option<RoutePlan>> = written
        .routes
        .iter()
        .map(|route| {
            let conditions = conditions(route, Some(kind), problems);
            let upstream = transparent::destination(written, route, given.known, problems);
            let split = given_or(&route.split, inherited.split);
            let engine = split::engine(split, given_or(&route.engine, default));
            let link = link(route, kind, (split, inherited.link), given, problems);
            let (requests, responses) = (
                given_or(&route.requests, Requests::default()),
                given_or(&route.responses, Responses::default()),
            );
            let cache =
                cache.and_then(|cache| cache.route(route, (engine, requests, responses), problems));
            let pace = (given.classes).of(&route.pace, inherited.pace, problems);
            Some(RoutePlan {
                conditions: conditions?,
                upstream: upstream?,
                engine,
                requests,
                responses,
                cache,
                pace,
                split,
                link,
            })
        })
        .collect();
    let way = (default, Requests::Process, Responses::Unread);
    let rest = cache
        .filter(|_| written.is_transparent())
        .and_then(|cache| cache.rest(way, problems));
    if let Some(cache) = cache {
        // Of a route that cannot be used it is not known.
        let may_use =
            |route: &Option<RoutePlan>| route.as_ref().is_none_or(|route| route.cache.is_some());
        cache.report_idle(rest.is_some() || routes.iter().any(may_use), problems);
    }
    report_unreachable(&written.routes, &routes, problems);
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
        responses: Responses::Unread,
        cache: rest,
        pace: inherited.pace,
        split: inherited.split,
        link: inherited
            .link
            .filter(|_| inherited.split != Splitting::Never),
    });
    Some(routes)
}

/// The link of a route: what it names; else the listener's, for what goes to its original destination.
fn link(
    route: &Written<file::Route>,
    kind: Kind,
    (split, inherited): (Splitting, Option<usize>),
    given: &Given<'_>,
    problems: &mut Problems,
) -> Option<usize> {
    let inherited = inherited.filter(|_| !route.to.is_absent() && split != Splitting::Never);
    let named = given.links.of(&route.link, problems);
    let Some(span) = route.link.given().map(toml::Spanned::span) else {
        return inherited;
    };
    if kind == Kind::Switch {
        problems
            .error(span, "a switch has no connections through a link", "")
            .help("use `mode = \"tunnel\"` or \"split\", or remove it");
    } else if matches!(named, Some(Some(_))) && split == Splitting::Never {
        problems
            .error(span, "what goes through a link is always split", "")
            .help("remove `split = \"never\"`, or write `link = \"\"`");
    }
    named.flatten()
}

fn given_or<T: Copy>(setting: &Setting<T>, default: T) -> T {
    setting.given().map_or(default, |value| *value.get_ref())
}

/// The conditions of a route; `None` if one of them is wrong. Without a kind, what depends on it is not judged.
pub fn conditions(
    route: &Written<file::Route>,
    kind: Option<Kind>,
    problems: &mut Problems,
) -> Option<Conditions> {
    const HTTP_ONLY: [&str; 12] = [
        "host",
        "path",
        "extension",
        "cookie",
        "header",
        "method",
        "cgi",
        "cache",
        "default_ttl",
        "cache_key",
        "cache_bypass",
        "prefetch",
    ];
    let errors_before = problems.count_errors();
    for (key, span) in &route.keys_given {
        let Some(kind) = kind else {
            break;
        };
        if kind != Kind::Switch && HTTP_ONLY.contains(key) {
            let help = if *key == "host" {
                "write `sni` for the server name of a TLS connection"
            } else {
                "use `mode = \"switch\"` to look at requests, or remove it"
            };
            problems
                .error(
                    span.clone(),
                    format!(
                        "a {} does not look at requests, so `{key}` is not possible",
                        kind.name()
                    ),
                    "",
                )
                .help(help);
        }
        if kind == Kind::Switch && *key == "sni" {
            problems
                .error(
                    span.clone(),
                    "a switch does not speak TLS, so `sni` is not possible",
                    "",
                )
                .help("write `host` for the host of a request, or use `mode = \"tunnel\"` for TLS");
        }
    }
    let conditions = Conditions {
        host: pattern(&route.host, problems),
        path: path(&route.path, problems),
        extension: extensions(&route.extension, problems),
        cookie: cookie(&route.cookie, problems),
        header: header(&route.header, problems),
        method: methods(&route.method, problems),
        cgi: route.cgi.given().map(|cgi| *cgi.get_ref()),
        sni: pattern(&route.sni, problems),
    };
    // A condition that is wrong would be a condition less: such a route must not be judged any further.
    if is_wrong(route) || problems.count_errors() > errors_before {
        None
    } else {
        Some(conditions)
    }
}

/// The conditions of one of `cache_bypass`; `None` if one of them is wrong.
pub fn bypass(written: &Written<file::Bypass>, problems: &mut Problems) -> Option<Conditions> {
    let errors_before = problems.count_errors();
    let conditions = Conditions {
        host: pattern(&written.host, problems),
        path: path(&written.path, problems),
        extension: extensions(&written.extension, problems),
        cookie: cookie(&written.cookie, problems),
        header: header(&written.header, problems),
        cgi: written.cgi.given().map(|cgi| *cgi.get_ref()),
        ..Conditions::default()
    };
    (problems.count_errors() == errors_before).then_some(conditions)
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

fn pattern(written: &Setting<String>, problems: &mut Problems) -> Option<NamePattern> {
    match written.refine("a name pattern", problems, |text| NamePattern::parse(text)) {
        Setting::Given(pattern) => Some(pattern.into_inner()),
        Setting::Absent | Setting::Wrong => None,
    }
}

fn path(written: &Setting<String>, problems: &mut Problems) -> Option<String> {
    let path = written.given()?;
    let text = path.get_ref();
    if let Some(pattern) = text.strip_prefix(['~', '^', '=', '*', '\\', '(']) {
        problems
            .error(
                path.span(),
                "this is a pattern of another program; `path` is the beginning of a path",
                "",
            )
            .help(beginning(pattern));
    } else if !text.starts_with('/') {
        problems
            .error(path.span(), "a path begins with \"/\"", "")
            .help(format!("write \"/{text}\""));
    } else if let Some(strange) = text.chars().find(|letter| "*\\^|".contains(*letter)) {
        problems
            .warning(
                path.span(),
                format!("\"{strange}\" stands for itself here, not for anything else"),
                "",
            )
            .help(beginning(text));
    }
    Some(text.clone())
}

/// What to write in place of a pattern: as much of it as is the same for all paths that it was meant for.
fn beginning(pattern: &str) -> String {
    const EXTENSION: &str = "`extension = [\"gif\", \"jpg\"]` is for the ends of names";
    let is_mark = |letter: char| "~*^= ".contains(letter);
    let bare = pattern.trim_start_matches(is_mark);
    let is_special = |letter: char| "*+?()[]{}|\\^$".contains(letter);
    let end = bare.find(is_special).unwrap_or(bare.len());
    // Before a quantifier stands what it repeats: `/x/.*` begins with `/x/`.
    let literal = bare[..end].trim_end_matches('.');
    if literal.starts_with('/') && literal.len() > 1 {
        format!("write \"{literal}\" for every path that begins so, letter by letter; {EXTENSION}")
    } else {
        format!("write \"/images/\" for every path that begins so, letter by letter; {EXTENSION}")
    }
}

fn extensions(
    written: &Setting<Vec<toml::Spanned<String>>>,
    problems: &mut Problems,
) -> Vec<String> {
    let Some(list) = written.given() else {
        return Vec::new();
    };
    if list.get_ref().is_empty() {
        report_empty_list(list.span(), "extension", problems);
    }
    for extension in list.get_ref() {
        let text = extension.get_ref();
        let bare = text.trim_start_matches(['*', '.']);
        if bare.len() < text.len() {
            problems
                .error(
                    extension.span(),
                    "an extension is written without its dot",
                    "",
                )
                .help(format!("write \"{bare}\""));
        } else if text.is_empty() || text.contains(['/', '.', '?', '#']) {
            problems
                .error(extension.span(), "this is not an extension", "")
                .help("it is what follows the last dot of a file's name, such as \"jpg\"");
        }
    }
    list.get_ref()
        .iter()
        .map(|extension| extension.get_ref().to_ascii_lowercase())
        .collect()
}

fn cookie(written: &Setting<String>, problems: &mut Problems) -> Option<CookieRule> {
    let cookie = written.given()?;
    let (name, present) = match cookie.get_ref().strip_prefix('!') {
        Some(name) => (name, false),
        None => (cookie.get_ref().as_str(), true),
    };
    if !values::is_token(name) {
        problems
            .error(cookie.span(), "this is not a cookie's name", "")
            .help("write the name for a cookie that must be there, \"!name\" for one that must not; values are not compared");
    }
    Some(CookieRule {
        name: name.to_owned(),
        present,
    })
}

fn header(
    written: &Setting<Written<file::Header>>,
    problems: &mut Problems,
) -> Option<(String, String)> {
    let header = written.given()?.get_ref();
    let (name, value) = (header.field.given()?, header.text.given()?);
    if !values::is_token(name.get_ref()) {
        problems
            .error(name.span(), "this is not a header's name", "")
            .help("write it without the colon, such as \"x-beta\"");
    }
    if !values::is_field_value(value.get_ref()) {
        problems
            .error(value.span(), "no header can have this value", "")
            .help("values have no spaces around them and no control characters");
    }
    Some((name.get_ref().to_ascii_lowercase(), value.get_ref().clone()))
}

fn methods(written: &Setting<Vec<toml::Spanned<String>>>, problems: &mut Problems) -> Vec<String> {
    const USUAL: [&str; 8] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH",
    ];
    let Some(list) = written.given() else {
        return Vec::new();
    };
    if list.get_ref().is_empty() {
        report_empty_list(list.span(), "method", problems);
    }
    for method in list.get_ref() {
        let upper = method.get_ref().to_ascii_uppercase();
        if !values::is_token(method.get_ref()) {
            problems
                .error(method.span(), "this is not a method", "")
                .help("it is one word, such as \"GET\"");
        } else if upper != *method.get_ref() && USUAL.contains(&upper.as_str()) {
            problems
                .warning(
                    method.span(),
                    "methods are compared exactly, and this one is written otherwise",
                    "",
                )
                .help(format!("write \"{upper}\""));
        }
    }
    list.get_ref()
        .iter()
        .map(|method| method.get_ref().clone())
        .collect()
}

fn report_empty_list(span: Range<usize>, key: &str, problems: &mut Problems) {
    problems
        .error(
            span,
            format!("an empty `{key}` list could mean all or none"),
            "",
        )
        .help(format!("leave `{key}` out for all"));
}

/// Warns of routes that no request can reach: because of themselves, or because an earlier route takes all of theirs.
fn report_unreachable(
    written: &[Written<file::Route>],
    routes: &[Option<RoutePlan>],
    problems: &mut Problems,
) {
    for (index, route) in routes.iter().enumerate() {
        let (Some(route), Some(place)) = (route, written.get(index)) else {
            continue;
        };
        if let Some(reason) = route.conditions.never_matches() {
            problems
                .warning(place.span.clone(), "this route can never match", "")
                .help(reason);
            continue;
        }
        let earlier = routes.iter().take(index).zip(written).find(|(earlier, _)| {
            earlier
                .as_ref()
                .is_some_and(|earlier| earlier.conditions.covers(&route.conditions))
        });
        if let Some((_, earlier)) = earlier {
            let source = problems.source();
            problems
                .warning(place.span.clone(), "this route can never be reached", "")
                .with(
                    &source,
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
            Kind::Tunnel | Kind::Split => "connections that meet none of the routes are closed",
        };
        problems
            .note(last.span.clone(), outcome, "")
            .help("a last route with nothing but `upstream` would take them");
    }
}
