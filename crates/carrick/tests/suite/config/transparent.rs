//! Transparent listeners: mistakes, and defaults.
use super::{parse, parse_right};
use Severity::{Error, Note};
use carrick::config::plan::Mode;
use carrick::config::problem::{Problem, Severity, render};

/// The meaning of `§`: a transparent switch on port 8080, up to its further keys.
const LISTENER: &str =
    "[[listener]]\nlisten = \"0.0.0.0:8080\"\nmode = \"switch\"\ntransparent = true\n";
/// `%`: the same with `intercept`.
const WHOLE: &str = "§intercept = { ports = [80], from = \"10.0.0.0/8\" }\n";

/// A configuration, its worst problem, the text that it points to, and parts of its message and of its advice.
const MISTAKES: &[(&str, Severity, &str, &str, &str)] = &[
    (
        "§",
        Error,
        "transparent",
        "nothing says what is intercepted",
        "intercept = { ports = [80]",
    ),
    (
        "§intercept = [80]",
        Error,
        "[80]",
        "a table is required",
        "intercept = { }",
    ),
    (
        "§intercept = {}",
        Error,
        "{}",
        "`ports` is missing",
        "ports = [80]",
    ),
    (
        "§intercept = { ports = [] }",
        Error,
        "[]",
        "nothing would be intercepted",
        "ports = [80]",
    ),
    (
        "§intercept = { ports = 80 }",
        Error,
        "80",
        "must be a list of ports",
        "",
    ),
    (
        "§intercept = { ports = [80, 0] }",
        Error,
        "0",
        "not a port",
        "",
    ),
    (
        "§intercept = { ports = [80, 8080] }",
        Error,
        "[80, 8080]",
        "the listener's own port",
        "not intercepted",
    ),
    (
        "§intercept = { ports = \"any\" }",
        Error,
        "\"any\"",
        "must be a list of ports, such as [80], or \"all\"",
        "",
    ),
    (
        "§intercept = { ports = [80, \"90-85\"] }",
        Error,
        "\"90-85\"",
        "not a port",
        "\"1000-2000\"",
    ),
    (
        "§intercept = { ports = [\"8000-9000\"] }",
        Error,
        "[\"8000-9000\"]",
        "the listener's own port",
        "`except_ports`",
    ),
    (
        "§intercept = { ports = \"all\", except_ports = 22 }",
        Error,
        "22",
        "must be a list of ports, such as [22]",
        "",
    ),
    (
        "§intercept = { ports = [80] }",
        Note,
        "{ ports = [80] }",
        "on every interface, from everybody",
        "`interfaces`",
    ),
    (
        "§intercept = { ports = [80], interfaces = \"eth 1\" }",
        Error,
        "\"eth 1\"",
        "not an interface's name",
        "ip link",
    ),
    (
        "§intercept = { ports = [80], interfaces = \"a\\\"; drop\" }",
        Error,
        "\"a\\\"; drop\"",
        "not an interface's name",
        "",
    ),
    (
        "§intercept = { ports = [80], interfaces = \"longer-than-fifteen\" }",
        Error,
        "\"longer-than-fifteen\"",
        "not an interface's name",
        "",
    ),
    (
        "§intercept = { ports = [80], interfaces = \"nowhere0\" }",
        Note,
        "\"nowhere0\"",
        "no interface nowhere0",
        "as soon as it is there",
    ),
    (
        "§intercept = { ports = [80], interfaces = [] }",
        Error,
        "[]",
        "could mean all or none",
        "leave `interfaces` out",
    ),
    (
        "§intercept = { ports = [80], from = [] }",
        Error,
        "[]",
        "could mean all or none",
        "leave `from` out",
    ),
    (
        "§intercept = { ports = [80], from = \"10.0.0.1/8\" }",
        Error,
        "\"10.0.0.1/8\"",
        "not a network",
        "10.0.0.0/8",
    ),
    (
        "§intercept = { ports = [80], from = \"fd00::/8\" }",
        Error,
        "\"fd00::/8\"",
        "does not take this family",
        "[::]:PORT",
    ),
    (
        "§intercept = { ports = [80], to = \"example.org\" }",
        Error,
        "\"example.org\"",
        "not a network",
        "",
    ),
    (
        "§intercept = { ports = [80], from = \"10.0.0.0/8\", mark = 0 }",
        Error,
        "0",
        "`mark` is too small",
        "",
    ),
    (
        "§intercept = { ports = [80], from = \"10.0.0.0/8\", table = 254 }",
        Error,
        "254",
        "`table` is too small",
        "",
    ),
    (
        "§intercept = { ports = [80], from = \"10.0.0.0/8\", table = \"main\" }",
        Error,
        "\"main\"",
        "must be a whole number",
        "",
    ),
    (
        "%proxy_protocol = true",
        Error,
        "proxy_protocol",
        "not possible in a transparent listener",
        "no PROXY header",
    ),
    (
        "%[[listener.route]]\npath = \"/a\"\nto = \"origin\"",
        Error,
        "\"origin\"",
        "cannot be \"origin\"",
        "\"original\"",
    ),
    (
        "%[[listener.route]]\npath = \"/a\"\nto = \"original\"\nupstream = \"u\"\n[upstream.u]\nservers = \"10.0.0.1\"",
        Error,
        "\"u\"",
        "either `upstream` or `to`",
        "remove one",
    ),
    (
        "%[[listener.route]]\npath = \"/a\"",
        Error,
        "[[listener.route]]",
        "no `upstream`",
        "",
    ),
    (
        "%[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\ntransparent = true\nintercept = { ports = [81], from = \"10.0.0.0/8\" }",
        Error,
        "\"127.0.0.1:8080\"",
        "already part of",
        "",
    ),
    (
        "[[listener]]\nlisten = \"10.0.0.1:8080\"\nmode = \"switch\"\ntransparent = true\nintercept = { ports = [81], from = \"10.0.0.0/8\" }\n[[listener]]\nlisten = \"10.0.0.2:8080\"\nmode = \"switch\"\ntransparent = true\nintercept = { ports = [80], from = \"10.0.0.0/8\" }",
        Error,
        "[[listener]]",
        "have the same port",
        "another port",
    ),
    (
        "%[[listener]]\nlisten = \"0.0.0.0:8081\"\nmode = \"switch\"\ntransparent = true\nintercept = { ports = [81], from = \"10.0.0.0/8\", mark = 108080 }",
        Error,
        "[[listener]]",
        "have the same mark",
        "another mark",
    ),
    (
        "%[[listener]]\nlisten = \"0.0.0.0:8081\"\nmode = \"switch\"\ntransparent = true\nintercept = { ports = [81], from = \"10.0.0.0/8\", table = 108080 }",
        Error,
        "[[listener]]",
        "have the same table",
        "another table",
    ),
    (
        "[[listener]]\nlisten = \"0.0.0.0:0\"\nmode = \"switch\"\ntransparent = true\nintercept = { ports = [80], from = \"10.0.0.0/8\" }",
        Error,
        "\"0.0.0.0:0\"",
        "needs a port of its own",
        "8080",
    ),
    // Keys for clients that know the proxy, or only for those that do not.
    (
        "[[listener]]\nlisten = \"0.0.0.0:3128\"\nmode = \"forward\"\ntransparent = true\nintercept = { ports = [80], from = \"10.0.0.0/8\" }\nusers = \"users.htpasswd\"",
        Error,
        "users",
        "not possible in a transparent listener",
        "`allow`",
    ),
    (
        "[[listener]]\nlisten = \"0.0.0.0:3128\"\nmode = \"forward\"\ntransparent = true\nintercept = { ports = [80], from = \"10.0.0.0/8\" }\nconnect_ports = [443]",
        Error,
        "connect_ports",
        "not possible in a transparent listener",
        "`intercept`",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\nintercept = { ports = [80] }",
        Error,
        "intercept",
        "means nothing without `transparent`",
        "transparent = true",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\nkeep_client_address = true",
        Error,
        "keep_client_address",
        "means nothing without `transparent`",
        "",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\nto = \"original\"",
        Error,
        "\"original\"",
        "only a transparent listener knows",
        "`upstream`",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\ndeny_to = \"10.0.0.1\"\n[[listener.route]]\nupstream = \"u\"\n[upstream.u]\nservers = \"10.0.0.1\"",
        Error,
        "deny_to",
        "means nothing in a \"switch\" listener",
        "",
    ),
];

#[test]
fn all_ports_are_all_but_the_listeners_own_and_ranges_may_leave_it_out() {
    let takes = |intercept: &str, ports: [u16; 5]| {
        let loaded = parse_right(&expand(&format!("§intercept = {{ {intercept} }}")));
        let listener = loaded.plan.listeners[0].interception.clone();
        let listener = listener.expect("it is transparent");
        ports.map(|port| listener.takes_port(port))
    };
    let ports = [1, 22, 8079, 8080, 65_535];
    assert_eq!(
        takes("ports = \"all\", except_ports = [22]", ports),
        [true, false, true, false, true]
    );
    assert_eq!(
        takes(
            "ports = [22, \"8000-9000\"], except_ports = [\"8080-8081\"]",
            ports
        ),
        [false, true, true, false, false]
    );
}

fn expand(text: &str) -> String {
    text.replace('%', WHOLE).replace('§', LISTENER)
}

fn problems(text: &str) -> Vec<Problem> {
    match parse(text) {
        Ok(loaded) => loaded.problems,
        Err(rejected) => rejected.problems,
    }
}

#[test]
fn each_mistake_is_found_at_its_place_with_advice() {
    for (text, severity, place, message, help) in MISTAKES {
        let text = expand(text);
        let found = problems(&text);
        let shown = render(&found, false);
        let hit = found
            .iter()
            .find(|problem| problem.severity == *severity && problem.message.contains(message));
        let hit = hit.unwrap_or_else(|| panic!("{message}:\n{text}\n{shown}"));
        assert!(
            hit.help.as_deref().unwrap_or_default().contains(help),
            "{text}\n{shown}"
        );
        let (line, column) = hit.line_and_column().expect("a place");
        let at = text
            .lines()
            .nth(line - 1)
            .and_then(|line| line.get(column - 1..));
        assert!(
            at.is_some_and(|at| at.starts_with(place)),
            "{place}:\n{text}\n{shown}"
        );
        let errors = found
            .iter()
            .filter(|problem| problem.severity == Error)
            .count();
        assert_eq!(errors, usize::from(*severity == Error), "{text}\n{shown}");
    }
}

#[test]
fn a_transparent_listener_has_defaults_that_are_safe() {
    let loaded = parse_right(&expand("%"));
    assert!(
        loaded.problems.is_empty(),
        "{}",
        render(&loaded.problems, false)
    );
    let listener = &loaded.plan.listeners[0];
    let interception = listener.interception.as_ref().expect("it is transparent");
    assert_eq!((interception.mark, interception.table), (108_080, 108_080));
    assert!(!interception.keeps_client);
    // This machine's own networks are denied as destinations, servers learn nothing about the client, and no route is needed.
    for address in ["127.0.0.1", "169.254.169.254"] {
        let address = address.parse().expect("an address");
        assert!(listener.access.check_address(address).is_err(), "{address}");
    }
    assert_eq!(
        listener.forwarded,
        carrick_logic::http1::Forwarded::Unchanged
    );
    let Mode::Switch(routes) = &listener.mode else {
        panic!("not a switch")
    };
    assert!(matches!(&routes[..], [last] if last.upstream.is_none()));
}
