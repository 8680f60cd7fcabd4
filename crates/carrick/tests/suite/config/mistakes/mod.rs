//! Mistakes: each is found at its place, with advice; and all of them at once.
mod acme;
mod cache;
mod file;
mod links;
mod listeners;
mod pace;
mod routes;
#[cfg(feature = "shared-cache")]
mod shared;
mod upstreams;
mod values;

use super::{parse, parse_right};
use carrick::config;
use carrick::config::problem::{Problem, Severity, render};

/// A configuration, its worst problem, the text that the problem points to, and parts of its message and of its advice.
type Mistake = (
    &'static str,
    Severity,
    &'static str,
    &'static str,
    &'static str,
);

/// By subject.
const MISTAKES: &[&[Mistake]] = &[
    file::MISTAKES,
    values::MISTAKES,
    listeners::MISTAKES,
    routes::MISTAKES,
    upstreams::MISTAKES,
    acme::MISTAKES,
    cache::MISTAKES,
    pace::MISTAKES,
    links::MISTAKES,
    #[cfg(feature = "shared-cache")]
    shared::MISTAKES,
];

/// The meaning of `§` in the cases below: a valid forward proxy.
pub const FORWARD: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n";
/// `%`: a valid switch, up to the conditions of its only route.
const SWITCH: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n";
/// `&`: the same as a tunnel.
const TUNNEL: &str = "[upstream.u]\nservers = [\"10.0.0.1:443\"]\n[[listener]]\nlisten = \"127.0.0.1:8443\"\nmode = \"tunnel\"\n[[listener.route]]\nupstream = \"u\"\n";
/// `^`: an upstream that is in use, up to its keys.
const UPSTREAM: &str = "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n[upstream.u]\n";

fn expand(text: &str) -> String {
    text.replace('§', FORWARD)
        .replace('%', SWITCH)
        .replace('&', TUNNEL)
        .replace('^', UPSTREAM)
}

fn problems(text: &str) -> Vec<Problem> {
    match parse(text) {
        Ok(loaded) => loaded.problems,
        Err(rejected) => rejected.problems,
    }
}

#[test]
fn each_mistake_is_found_at_its_place_with_advice() {
    for (written, severity, place, message, help) in MISTAKES.concat() {
        let text = expand(written);
        let found = problems(&text);
        let shown = render(&found, false);
        assert_eq!(
            found.iter().map(|problem| problem.severity).max(),
            Some(severity),
            "{text}\n{shown}"
        );
        let fits = |problem: &&Problem| {
            let pointed = problem
                .place
                .as_ref()
                .and_then(|place| place.source.text.get(place.span.clone()));
            problem.severity == severity
                && problem.message.contains(message)
                && problem.help.as_deref().unwrap_or_default().contains(help)
                && (place.is_empty() || pointed == Some(place))
        };
        assert!(
            found.iter().any(|problem| fits(&problem)),
            "{text}\n{severity:?} at {place}: {message}; {help}\n{shown}"
        );
        // A mistake does not cause others: each is reported once.
        let as_bad = found
            .iter()
            .filter(|problem| problem.severity == severity)
            .count();
        assert!(
            as_bad == 1 || place.is_empty() || message.contains("not TOML"),
            "{text}\n{shown}"
        );
        assert_eq!(
            parse(&text).is_err(),
            severity == Severity::Error,
            "only errors keep carrick from running: {text}"
        );
    }
}

#[test]
fn the_beginnings_of_the_cases_are_right() {
    for text in ["§", "%", "&", "^servers = \"10.0.0.1\""] {
        assert_eq!(parse_right(&expand(text)).problems.len(), 0, "{text}");
    }
}

#[test]
fn all_mistakes_are_shown_at_once_in_the_order_of_the_file() {
    let text = expand(
        "[limits]\nconections = 1\nheaders = \"x\"\n[timeouts]\nhead = 1\n[log]\nformat = \"x\"\n§allow = []\nusers = \"none\"\ndeny_to = 5\n[upstream.u]\nservers = 7\nkeepalive = -1",
    );
    let found = problems(&text);
    let lines: Vec<usize> = found
        .iter()
        .filter_map(|problem| Some(problem.line_and_column()?.0))
        .collect();
    assert_eq!(
        lines,
        [2, 3, 5, 7, 11, 12, 13, 14, 15, 16],
        "{}",
        render(&found, false)
    );
}

/// A line that ends in `# wrong` has a mistake, and no other line has.
#[test]
fn the_first_mistake_of_a_listener_does_not_hide_the_others() {
    let forward = "[[listener]]
listen = \"127.0.0.1\" # wrong
mode = \"forward\"
allow = [\"10.0.0.1/8\"] # wrong
deny_to = [\"exa mple\"] # wrong
via_name = \"a b\" # wrong
connect_ports = [0] # wrong
users = \"none\" # wrong
engine = \"pipes\" # wrong
parent = { proxy = \"http://10.0.0.9\", for = [\"10.0.0.1\"] } # wrong
tcp_profiles = [{ profile = \"none\", subnet = \"10.0.0.1/8\" }] # wrong
";
    let switch = "[upstream.u]
servers = [\"10.0.0.1\"]
[[listener]]
listen = \"0.0.0.0:80\"
mode = \"switch\"
transparent = true
allow = [] # wrong
deny_to = [\"10.0.0.1/8\"] # wrong
via_name = \"a b\" # wrong
intercept = { ports = [80], from = [\"10.0.0.1/8\"] } # wrong
[[listener.route]]
path = \"~^/x\" # wrong
extension = [\".gif\"] # wrong
upstream = \"v\" # wrong
[[listener.route]]
cookie = \"a=b\" # wrong
upstream = \"u\"
";
    let unknown_mode = "[upstream.u]
servers = [\"10.0.0.1\"]
[[listener]]
listen = \"127.0.0.1:8080\"
mode = \"swich\" # wrong
allow = [\"10.0.0.1/8\"] # wrong
via_name = \"a b\" # wrong
[[listener.route]]
path = \"images\" # wrong
upstream = \"u\"
";
    let tunnel = "[upstream.u]
servers = [\"10.0.0.1:443\"]
[[listener]]
listen = \"127.0.0.1:8443\"
mode = \"tunnel\"
allow = [] # wrong
[[listener.route]]
upstream = \"u\"
sni = \"a..b\" # wrong
requests = \"kernel\" # wrong
";
    let cache = "[cache]
targeted = [\"a b\"] # wrong
[cache.peers]
members = [\"http://10.0.0.1\"] # wrong
self = \"10.0.0.1:x\" # wrong
[[listener]]
listen = \"127.0.0.1:3128\"
mode = \"forward\"
";
    for text in [forward, switch, unknown_mode, tunnel, cache] {
        let found = problems(text);
        let mut lines: Vec<usize> = found
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .filter_map(|problem| Some(problem.line_and_column()?.0))
            .collect();
        lines.sort_unstable();
        lines.dedup();
        let wrong: Vec<usize> = (1..)
            .zip(text.lines())
            .filter(|(_, line)| line.ends_with("# wrong"))
            .map(|(number, _)| number)
            .collect();
        assert_eq!(lines, wrong, "{text}\n{}", render(&found, false));
    }
}

#[test]
fn a_problem_is_shown_with_file_line_text_and_advice() {
    let found = problems(&expand("§[timeouts]\nhead = 10"));
    let shown = render(&found, false);
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert_eq!(
        lines[..6],
        [
            "error: `head` needs a unit",
            " --> test.toml:5:8",
            "  |",
            "5 | head = 10",
            "  |        ^^",
            "  |"
        ],
        "{shown}"
    );
    assert!(
        lines[6].contains("help: write \"10s\" for seconds"),
        "{shown}"
    );
    assert_eq!(
        found[0].to_string(),
        "test.toml:5:8: `head` needs a unit; write \"10s\" for seconds, \"10ms\" for milliseconds"
    );
}

#[test]
fn an_unreadable_file_is_reported() {
    for (path, part) in [
        ("/nonexistent/carrick.toml", "No such file"),
        ("/", "directory"),
    ] {
        let rejected =
            config::load(Some(std::path::Path::new(path))).expect_err("it is not a file");
        assert!(rejected.to_string().contains(part), "{rejected}");
    }
    let latin = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(latin.path(), b"# tea\n# caf\xe9\n").expect("a file");
    let rejected = config::load(Some(latin.path())).expect_err("not UTF-8");
    assert!(
        rejected.to_string().contains("line 2 is not UTF-8"),
        "{rejected}"
    );
}
