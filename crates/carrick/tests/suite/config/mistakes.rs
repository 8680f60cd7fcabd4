//! Mistakes: each is found, at its place, with advice; and all of them at once.
use super::{examples, parse, parse_right};
use carrick::config;
use carrick::config::plan::Mode;
use carrick::config::problem::{Problem, Severity, render};

/// What `§` stands for in the cases below: a forward proxy that is right.
const FORWARD: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n";
/// What `%` stands for: a switch that is right, up to the conditions of its only route.
const SWITCH: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n";
/// What `&` stands for: the same as a tunnel.
const TUNNEL: &str = "[upstream.u]\nservers = [\"10.0.0.1:443\"]\n[[listener]]\nlisten = \"127.0.0.1:8443\"\nmode = \"tunnel\"\n[[listener.route]]\nupstream = \"u\"\n";
/// What `^` stands for: an upstream that is used, up to its keys.
const UPSTREAM: &str = "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n[upstream.u]\n";

use Severity::{Error, Note, Warning};

/// A configuration, its worst problem, the text that the problem points to, and parts of its message and of its advice.
const MISTAKES: &[(&str, Severity, &str, &str, &str)] = &[
    // The whole
    ("", Error, "", "nothing to listen on", "[[listener]]"),
    (
        "§[limit]",
        Error,
        "limit",
        "not a key of the file",
        "`limits`",
    ),
    (
        "§limits = 5",
        Error,
        "limits",
        "not a key of [[listener]]",
        "its keys are",
    ),
    (
        "limits = 5\n§",
        Error,
        "5",
        "a table is wanted, not a number",
        "[limits]",
    ),
    (
        "upstream = 5\n§",
        Error,
        "5",
        "group of tables",
        "[upstream.NAME]",
    ),
    (
        "[listener]\nmode = \"forward\"",
        Error,
        "[listener]",
        "a list of tables",
        "two brackets",
    ),
    (
        "listener = []",
        Error,
        "[]",
        "`listener` is empty",
        "[[listener]]",
    ),
    (
        "listener = [5]",
        Error,
        "5",
        "a table is wanted",
        "[[listener]]",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:1\"\nmode = \"switch\"\nroute = []",
        Error,
        "[]",
        "`route` is empty",
        "[[listener.route]]",
    ),
    // The process
    (
        "§[process]\nuser = \"nobody-has-this\"",
        Error,
        "\"nobody-has-this\"",
        "this machine has no user \"nobody-has-this\"",
        "getent passwd",
    ),
    (
        "§[process]\nuser = \"\"",
        Error,
        "\"\"",
        "no user \"\"",
        "getent passwd",
    ),
    (
        "§[process]\nuser = \"4294967295\"",
        Error,
        "\"4294967295\"",
        "no user",
        "by number",
    ),
    (
        "§[process]\nuser = \"54321\"",
        Error,
        "\"54321\"",
        "no user has this number",
        "`group`",
    ),
    (
        "§[process]\nuser = 33",
        Error,
        "33",
        "`user` must be a string, not a number",
        "",
    ),
    (
        "§[process]\npins = \"pins\"",
        Error,
        "\"pins\"",
        "no absolute path",
        "/sys/fs/bpf/carrick",
    ),
    (
        "§[process]\nuser = \"nobody\"\ngroup = \"nobody-has-this\"",
        Error,
        "\"nobody-has-this\"",
        "this machine has no group \"nobody-has-this\"",
        "getent group",
    ),
    (
        "§[process]\ngroup = \"0\"",
        Error,
        "\"0\"",
        "`group` stands for nothing without `user`",
        "name the user",
    ),
    // TOML
    (
        "§[limits]\nrequest_head = 64 KB",
        Error,
        "64 KB",
        "not TOML",
        "\"64 KB\"",
    ),
    ("§[limits\n", Error, "", "not TOML", ""),
    (
        "§[limits]\npipes = 1\npipes = 2",
        Error,
        "pipes",
        "duplicate key",
        "",
    ),
    (
        "§[upstream.a]\n[upstream.a]",
        Error,
        "a",
        "duplicate key",
        "",
    ),
    // Kinds and limits
    (
        "§[limits]\nconnections = \"many\"",
        Error,
        "\"many\"",
        "a whole number, not a string",
        "",
    ),
    ("§[limits]\nconnections = 0", Error, "0", "too small", ""),
    (
        "§[limits]\nconnections = 10_000_001",
        Error,
        "10_000_001",
        "too large",
        "",
    ),
    ("§[limits]\nconnections = -1", Error, "-1", "too small", ""),
    (
        "§[limits]\nconnections = 99999999999999999999",
        Error,
        "99999999999999999999",
        "too large",
        "",
    ),
    (
        "§[limits]\nconnections = 1.5",
        Error,
        "1.5",
        "not a number with a fraction",
        "",
    ),
    (
        "§[limits]\nrequest_head = \"2 MB\"",
        Error,
        "\"2 MB\"",
        "too large",
        "",
    ),
    (
        "§[limits]\nrequest_head = \"64 KX\"",
        Error,
        "\"64 KX\"",
        "not a size",
        "\"64 KB\"",
    ),
    (
        "§[limits]\nrequest_head = -1",
        Error,
        "-1",
        "must be a size",
        "",
    ),
    (
        "§[limits]\nrequest_head = true",
        Error,
        "true",
        "must be a size",
        "",
    ),
    (
        "§[timeouts]\nhead = 10",
        Error,
        "10",
        "needs a unit",
        "\"10s\"",
    ),
    (
        "§[timeouts]\nhead = \"10\"",
        Error,
        "\"10\"",
        "not a time",
        "\"10s\"",
    ),
    (
        "§[timeouts]\nhead = \"0s\"",
        Error,
        "\"0s\"",
        "too small",
        "",
    ),
    (
        "§[timeouts]\nhead = \"2000d\"",
        Error,
        "\"2000d\"",
        "too large",
        "",
    ),
    (
        "§proxy_protocol = \"yes\"",
        Error,
        "\"yes\"",
        "`true` or `false`",
        "",
    ),
    (
        "§engine = \"pip\"",
        Error,
        "\"pip\"",
        "cannot be",
        "\"pipe\"",
    ),
    (
        "§[splice]\nengine = \"packets\"",
        Error,
        "\"packets\"",
        "cannot be",
        "\"packet\"",
    ),
    (
        "§[log]\nformat = \"apache\"",
        Error,
        "\"apache\"",
        "cannot be",
        "\"combined\", \"json\"",
    ),
    (
        "§[log]\naccess = \"/nonexistent/dir/access.log\"",
        Error,
        "\"/nonexistent/dir/access.log\"",
        "does not exist",
        "create it",
    ),
    (
        "§[log]\naccess = \".\"",
        Error,
        "\".\"",
        "is a directory",
        "a file in it",
    ),
    // Addresses
    (
        "§[admin]\nlisten = \"localhost:3129\"",
        Error,
        "\"localhost:3129\"",
        "not an address",
        "\"127.0.0.1:3129\"",
    ),
    (
        "§[admin]\nlisten = \"0.0.0.0:3129\"",
        Note,
        "\"0.0.0.0:3129\"",
        "no authentication",
        "",
    ),
    (
        "§[admin]\nlisten = \"127.0.0.1:3128\"",
        Error,
        "\"127.0.0.1:3128\"",
        "already taken by admin",
        "another port",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:3129\"\nmode = \"forward\"",
        Error,
        "\"127.0.0.1:3129\"",
        "taken by admin",
        "[admin]",
    ),
    (
        "§§",
        Error,
        "\"127.0.0.1:3128\"",
        "already taken by another listener",
        "another port",
    ),
    (
        "§[[listener]]\nlisten = \"0.0.0.0:3128\"\nmode = \"forward\"\nallow = \"10.0.0.0/8\"",
        Error,
        "\"0.0.0.0:3128\"",
        "already part of",
        "",
    ),
    (
        "§[[listener]]\nlisten = \"[::]:3128\"\nmode = \"forward\"\nallow = \"10.0.0.0/8\"",
        Error,
        "\"[::]:3128\"",
        "already part of",
        "",
    ),
    (
        "[[listener]]\nlisten = \"[::ffff:127.0.0.1]:3128\"\nmode = \"forward\"\n§",
        Error,
        "\"127.0.0.1:3128\"",
        "already part of",
        "",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:0\"\nmode = \"forward\"",
        Note,
        "\"127.0.0.1:0\"",
        "kernel picks",
        "",
    ),
    (
        "[[listener]]\nmode = \"forward\"",
        Error,
        "[[listener]]",
        "no `listen`",
        "",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:1\"",
        Error,
        "[[listener]]",
        "no `mode`",
        "",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"proxy\"",
        Error,
        "\"proxy\"",
        "cannot be",
        "\"forward\", \"switch\", \"tunnel\"",
    ),
    // Keys in the wrong mode
    (
        "%[[listener]]\nlisten = \"127.0.0.1:1\"\nmode = \"switch\"\nconnect_ports = [443]\nroute = [{ upstream = \"u\" }]",
        Error,
        "connect_ports",
        "means nothing in a \"switch\"",
        "\"forward\" listeners",
    ),
    (
        "&[[listener]]\nlisten = \"127.0.0.1:1\"\nmode = \"tunnel\"\nusers = \"x\"\nroute = [{ upstream = \"u\" }]",
        Error,
        "users",
        "means nothing in a \"tunnel\"",
        "\"forward\"",
    ),
    (
        "&[[listener]]\nlisten = \"127.0.0.1:1\"\nmode = \"tunnel\"\nvia = \"x\"\nroute = [{ upstream = \"u\" }]",
        Error,
        "via",
        "means nothing in a \"tunnel\"",
        "\"switch\"",
    ),
    (
        "[upstream.u]\nservers = \"10.0.0.1\"\n§[[listener.route]]\nupstream = \"u\"",
        Error,
        "route",
        "means nothing in a \"forward\"",
        "\"switch\"",
    ),
    // Forward proxies
    (
        "[[listener]]\nlisten = \"0.0.0.0:3128\"\nmode = \"forward\"",
        Error,
        "\"0.0.0.0:3128\"",
        "open to everybody",
        "`allow",
    ),
    (
        "[[listener]]\nlisten = \"[2001:db8::1]:3128\"\nmode = \"forward\"",
        Error,
        "\"[2001:db8::1]:3128\"",
        "open to everybody",
        "`users`",
    ),
    (
        "[[listener]]\nlisten = \"0.0.0.0:3128\"\nmode = \"forward\"\nallow = [\"0.0.0.0/0\"]",
        Note,
        "\"0.0.0.0/0\"",
        "open to everybody",
        "`users`",
    ),
    ("§allow = []", Error, "[]", "lets nobody in", "0.0.0.0/0"),
    (
        "§allow = [\"10.0.0.1/8\"]",
        Error,
        "\"10.0.0.1/8\"",
        "not a network",
        "\"10.0.0.0/8\"",
    ),
    (
        "§allow = [\"a.example\"]",
        Error,
        "\"a.example\"",
        "not a network",
        "\"10.0.0.0/8\"",
    ),
    (
        "§allow = [10]",
        Error,
        "10",
        "list of strings, not a number",
        "",
    ),
    ("§connect_ports = [0]", Error, "0", "not a port", ""),
    (
        "§connect_ports = [\"443\"]",
        Error,
        "\"443\"",
        "not a port",
        "",
    ),
    ("§connect_ports = 443", Error, "443", "list of ports", ""),
    (
        "§connect_ports = \"any\"",
        Error,
        "\"any\"",
        "\"all\" or \"none\"",
        "",
    ),
    (
        "§deny_to = [\"10.0.0.0/33\"]",
        Error,
        "\"10.0.0.0/33\"",
        "neither a network",
        "",
    ),
    (
        "§deny_to = [\"exa mple\"]",
        Error,
        "\"exa mple\"",
        "nor a name",
        "",
    ),
    (
        "§users = \"nobody.htpasswd\"",
        Error,
        "\"nobody.htpasswd\"",
        "cannot be read",
        "htpasswd -c -B",
    ),
    (
        "§users = \"forward.toml\"",
        Error,
        "",
        "no colon",
        "name:hash",
    ),
    (
        "§via = \"two words\"",
        Error,
        "\"two words\"",
        "`Via`",
        "one word",
    ),
    ("§via = \"a\\r\\nb\"", Error, "\"a\\r\\nb\"", "`Via`", ""),
    (
        "§parent = { for = \"a.example\" }",
        Error,
        "{ for = \"a.example\" }",
        "`proxy` is missing",
        "",
    ),
    (
        "§parent = { proxy = \"http://a.example:1\" }",
        Error,
        "\"http://a.example:1\"",
        "not a server",
        "\"a.example:1\"",
    ),
    (
        "§parent = { proxy = \"a.example\", for = [] }",
        Error,
        "[]",
        "nothing would go",
        "leave `for` out",
    ),
    (
        "§parent = { proxy = \"a.example\", for = \"10.0.0.0/8\" }",
        Error,
        "\"10.0.0.0/8\"",
        "names, not addresses",
        "",
    ),
    (
        "§parent = { proxy = \"127.0.0.1:3128\" }",
        Error,
        "\"127.0.0.1:3128\"",
        "relay to itself",
        "address",
    ),
    // Routes
    (
        "[upstream.u]\nservers = \"10.0.0.1\"\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"",
        Error,
        "[[listener]]",
        "has no routes",
        "[[listener.route]]",
    ),
    (
        "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\npath = \"/\"",
        Error,
        "[[listener.route]]",
        "no `upstream`",
        "",
    ),
    (
        "%[[listener.route]]\nupstream = \"v\"",
        Error,
        "\"v\"",
        "no upstream \"v\"",
        "[upstream.v]",
    ),
    (
        "%[[listener.route]]\nupstream = \"pages\"\n[upstream.pagse]\nservers = \"a.example\"",
        Error,
        "\"pages\"",
        "no upstream",
        "\"pagse\"",
    ),
    (
        "%host = [\"a.example\", \"b.example\"]",
        Error,
        "[\"a.example\", \"b.example\"]",
        "one string, not a list",
        "one route for each",
    ),
    (
        "%host = \"a.*.example\"",
        Error,
        "\"a.*.example\"",
        "not a name pattern",
        "",
    ),
    (
        "%host = \"a.example:80\"",
        Error,
        "\"a.example:80\"",
        "not a name pattern",
        "",
    ),
    (
        "%path = \"images\"",
        Error,
        "\"images\"",
        "begins with \"/\"",
        "\"/images\"",
    ),
    (
        "%extension = [\".gif\"]",
        Error,
        "\".gif\"",
        "without its dot",
        "\"gif\"",
    ),
    (
        "%extension = [\"*.gif\"]",
        Error,
        "\"*.gif\"",
        "without its dot",
        "\"gif\"",
    ),
    (
        "%extension = \"tar.gz\"",
        Error,
        "\"tar.gz\"",
        "not an extension",
        "last dot",
    ),
    (
        "%extension = []",
        Error,
        "[]",
        "all or none",
        "leave `extension` out",
    ),
    (
        "%cookie = \"a=b\"",
        Error,
        "\"a=b\"",
        "not a cookie's name",
        "not compared",
    ),
    ("%cookie = \"!\"", Error, "\"!\"", "not a cookie's name", ""),
    (
        "%header = \"x-beta\"",
        Error,
        "\"x-beta\"",
        "a table is wanted",
        "header = { }",
    ),
    (
        "%header = { name = \"x beta\", value = \"1\" }",
        Error,
        "\"x beta\"",
        "not a header's name",
        "without the colon",
    ),
    (
        "%header = { name = \"x-beta\", value = \" 1\" }",
        Error,
        "\" 1\"",
        "no header can have",
        "spaces",
    ),
    (
        "%header = { name = \"x-beta\" }",
        Error,
        "{ name = \"x-beta\" }",
        "`value` is missing",
        "",
    ),
    (
        "%method = \"get\"",
        Warning,
        "\"get\"",
        "compared exactly",
        "\"GET\"",
    ),
    (
        "%method = \"GET POST\"",
        Error,
        "\"GET POST\"",
        "not a method",
        "one word",
    ),
    (
        "%method = []",
        Error,
        "[]",
        "all or none",
        "leave `method` out",
    ),
    ("%cgi = \"yes\"", Error, "\"yes\"", "`true` or `false`", ""),
    (
        "%sni = \"a.example\"",
        Error,
        "sni",
        "does not speak TLS",
        "`host`",
    ),
    (
        "&host = \"a.example\"",
        Error,
        "host",
        "does not look at requests",
        "`sni`",
    ),
    (
        "&path = \"/\"",
        Error,
        "path",
        "does not look at requests",
        "\"switch\"",
    ),
    (
        "&method = \"GET\"",
        Error,
        "method",
        "does not look at requests",
        "\"switch\"",
    ),
    (
        "%[[listener.route]]\npath = \"/a\"\nupstream = \"u\"",
        Warning,
        "[[listener.route]]",
        "never be reached",
        "narrower route first",
    ),
    (
        "%path = \"/a\"\n[[listener.route]]\npath = \"/ab/\"\nupstream = \"u\"",
        Warning,
        "[[listener.route]]",
        "never be reached",
        "narrower route first",
    ),
    (
        "&[[listener.route]]\nsni = \"a.example\"\nupstream = \"u\"",
        Warning,
        "[[listener.route]]",
        "never be reached",
        "narrower route first",
    ),
    (
        "%method = \"CONNECT\"",
        Warning,
        "[[listener.route]]",
        "never match",
        "",
    ),
    (
        "%path = \"/a\"",
        Note,
        "[[listener.route]]",
        "404",
        "nothing but `upstream`",
    ),
    (
        "&sni = \"a.example\"",
        Note,
        "[[listener.route]]",
        "are closed",
        "nothing but `upstream`",
    ),
    // Upstreams
    (
        "§[upstream.a]\nservers = \"10.0.0.1\"",
        Warning,
        "a",
        "nothing uses",
        "remove it",
    ),
    ("^", Error, "[upstream.u]", "no `servers`", "host:port"),
    ("^servers = []", Error, "[]", "at least one server", ""),
    (
        "^servers = [80]",
        Error,
        "80",
        "\"host:port\" and { address, weight }, not a number",
        "",
    ),
    (
        "^servers = [\"10.0.0.256\"]",
        Error,
        "\"10.0.0.256\"",
        "not a server's address",
        "0 to 255",
    ),
    (
        "^servers = [\"2001:db8::1:80\"]",
        Error,
        "\"2001:db8::1:80\"",
        "not a server's address",
        "\"[2001:db8::1]:80\"",
    ),
    (
        "^servers = [{ weight = 2 }]",
        Error,
        "{ weight = 2 }",
        "`address` is missing",
        "",
    ),
    (
        "^servers = [{ address = \"a\", weight = 0 }]",
        Error,
        "0",
        "too small",
        "",
    ),
    (
        "^servers = [{ address = \"a\", weight = 1001 }]",
        Error,
        "1001",
        "too large",
        "",
    ),
    (
        "^servers = [\"10.0.0.1\", \"10.0.0.1:80\"]",
        Warning,
        "\"10.0.0.1:80\"",
        "already in the list",
        "weight",
    ),
    (
        "^servers = [\"127.0.0.1:8080\"]",
        Error,
        "\"127.0.0.1:8080\"",
        "relay to itself",
        "",
    ),
    (
        "[upstream.u]\nservers = \"10.0.0.1\"\n[[listener]]\nlisten = \"127.0.0.1:8443\"\nmode = \"tunnel\"\nroute = [{ upstream = \"u\" }]",
        Error,
        "\"10.0.0.1\"",
        "not a server's address",
        "port is missing",
    ),
    (
        "^servers = \"10.0.0.1\"\nbalance = \"roundrobin\"",
        Error,
        "\"roundrobin\"",
        "cannot be",
        "\"round-robin\"",
    ),
    (
        "^servers = \"10.0.0.1\"\nhash_on = \"path\"",
        Note,
        "\"path\"",
        "no effect",
        "balance",
    ),
    (
        "^servers = \"10.0.0.1\"\nhash_on = \"header\"",
        Error,
        "\"header\"",
        "not something to hash",
        "header:NAME",
    ),
    (
        "^servers = \"10.0.0.1\"\nhash_on = \"cookie:a b\"",
        Error,
        "\"cookie:a b\"",
        "not something to hash",
        "not a name",
    ),
    (
        "&[upstream.v]\nservers = \"10.0.0.2:1\"\nbalance = \"hash\"\nhash_on = \"path\"\n[[listener]]\nlisten = \"127.0.0.1:1\"\nmode = \"tunnel\"\nroute = [{ upstream = \"v\" }]",
        Error,
        "\"path\"",
        "knows nothing of this",
        "client",
    ),
    (
        "^servers = \"10.0.0.1\"\nhealth = true",
        Error,
        "true",
        "a table is wanted",
        "health = { }",
    ),
    (
        "^servers = \"10.0.0.1\"\nhealth = { path = \"healthz\" }",
        Error,
        "\"healthz\"",
        "begins with \"/\"",
        "\"/healthz\"",
    ),
    (
        "^servers = \"10.0.0.1\"\nhealth = { path = \"/a b\" }",
        Error,
        "\"/a b\"",
        "cannot be sent",
        "%20",
    ),
    (
        "^servers = \"10.0.0.1\"\nhealth = { host = \"a.example\" }",
        Warning,
        "\"a.example\"",
        "no effect without `path`",
        "path",
    ),
    (
        "^servers = \"10.0.0.1\"\nhealth = { path = \"/\", host = \"a/b\" }",
        Error,
        "\"a/b\"",
        "not a host",
        "",
    ),
    (
        "^servers = \"10.0.0.1\"\nhealth = { every = \"1ms\" }",
        Error,
        "\"1ms\"",
        "too small",
        "",
    ),
    (
        "^servers = \"10.0.0.1\"\nsend_proxy_protocol = \"v3\"",
        Error,
        "\"v3\"",
        "\"v1\" or \"v2\"",
        "",
    ),
    (
        "^servers = \"10.0.0.1\"\nsend_proxy_protocol = true\nkeepalive = 5",
        Note,
        "keepalive",
        "no effect",
        "one client",
    ),
    (
        "%[upstream.\"a b\"]\nservers = \"10.0.0.1\"",
        Error,
        "\"a b\"",
        "not a name for an upstream",
        "letters",
    ),
];

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
    for (written, severity, place, message, help) in MISTAKES {
        let text = expand(written);
        let found = problems(&text);
        let shown = render(&found, false);
        assert_eq!(
            found.iter().map(|problem| problem.severity).max(),
            Some(*severity),
            "{text}\n{shown}"
        );
        let fits = |problem: &&Problem| {
            let pointed = problem
                .place
                .as_ref()
                .and_then(|place| place.source.text.get(place.span.clone()));
            problem.severity == *severity
                && problem.message.contains(message)
                && problem.help.as_deref().unwrap_or_default().contains(help)
                && (place.is_empty() || pointed == Some(place))
        };
        assert!(
            found.iter().any(|problem| fits(&problem)),
            "{text}\n{severity:?} at {place}: {message}; {help}\n{shown}"
        );
        // A mistake does not make others appear: what is wrong is named once.
        let as_bad = found
            .iter()
            .filter(|problem| problem.severity == *severity)
            .count();
        assert!(
            as_bad == 1 || place.is_empty() || message.contains("not TOML"),
            "{text}\n{shown}"
        );
        assert_eq!(
            parse(&text).is_err(),
            *severity == Error,
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
fn a_file_that_cannot_be_read_is_said_so() {
    for (path, part) in [
        ("/nonexistent/carrick.toml", "No such file"),
        ("/", "directory"),
    ] {
        let rejected =
            config::load(Some(std::path::Path::new(path))).expect_err("it is not a file");
        assert!(rejected.to_string().contains(part), "{rejected}");
    }
    let latin = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(latin.path(), b"# caf\xe9\n").expect("a file");
    assert!(
        config::load(Some(latin.path()))
            .expect_err("not UTF-8")
            .to_string()
            .contains("UTF-8")
    );
}

#[test]
fn an_open_forward_proxy_does_not_reach_its_own_machine_and_link() {
    let with = |extra: &str| {
        let text = format!(
            "[[listener]]\nlisten = \"0.0.0.0:3128\"\nmode = \"forward\"\nallow = \"10.0.0.0/8\"\n{extra}"
        );
        parse_right(&text).plan.listeners[0].access.clone()
    };
    for address in [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "169.254.169.254",
        "::1",
        "::",
        "fe80::1",
        "::ffff:127.0.0.1",
    ] {
        let address = address.parse().expect("an address");
        assert!(
            with("").check_address(address).is_err(),
            "{address} is denied by default"
        );
        assert!(
            with("deny_to = []").check_address(address).is_ok(),
            "{address} is the user's choice"
        );
    }
    for address in ["192.0.2.1", "10.0.0.1", "2001:db8::1"] {
        assert!(
            with("")
                .check_address(address.parse().expect("an address"))
                .is_ok(),
            "{address}"
        );
    }
}

#[test]
fn connect_ports_none_is_not_all() {
    let with = |ports: &str| {
        parse_right(&expand(&format!("§connect_ports = {ports}")))
            .plan
            .listeners[0]
            .access
            .clone()
    };
    for (ports, https, ssh) in [
        ("[443]", true, false),
        ("\"all\"", true, true),
        ("\"none\"", false, false),
        ("[]", false, false),
    ] {
        let access = with(ports);
        assert_eq!(
            access.check_name(b"a.example", 443, true).is_ok(),
            https,
            "{ports}"
        );
        assert_eq!(
            access.check_name(b"a.example", 22, true).is_ok(),
            ssh,
            "{ports}"
        );
    }
}

#[test]
fn a_password_opens_a_forward_proxy_beyond_loopback() {
    let text =
        "[[listener]]\nlisten = \"0.0.0.0:3128\"\nmode = \"forward\"\nusers = \"users.htpasswd\"";
    let loaded = parse_right(text);
    assert!(loaded.problems.is_empty());
    let Mode::Forward(forward) = &loaded.plan.listeners[0].mode else {
        panic!("not a forward proxy")
    };
    assert_eq!(forward.users.as_ref().map(|users| users.count()), Some(1));
}

#[test]
fn relative_paths_are_relative_to_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::copy(
        examples().join("users.htpasswd"),
        directory.path().join("people"),
    )
    .expect("a copy");
    let file = directory.path().join("carrick.toml");
    std::fs::write(
        &file,
        expand("[log]\naccess = \"access.log\"\n§users = \"people\""),
    )
    .expect("a file");
    let loaded = config::load(Some(&file)).expect("a right file");
    assert_eq!(
        loaded.plan.log.access,
        config::plan::LogTarget::File(directory.path().join("access.log"))
    );
}
