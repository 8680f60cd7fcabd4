//! Each rule that a bypass would switch off, and those that it would not.
use super::*;
use std::path::Path;

const LISTENER: &str = "[[listener]]\nlisten = \"[::]:3130\"\nmode = \"split\"\nintercept = { ports = \"all\", interfaces = [\"eth1\"] }\n";

/// Whether a splitter with these lines leaves 10.1.0.0/24 and 10.2.0.0/24 out.
fn bypasses(lines: &str, behind: &str) -> bool {
    let text = format!("{LISTENER}{lines}\n{behind}");
    let parsed = crate::config::parse(&text, "carrick.toml", Path::new("/"));
    let plan = parsed.expect("a right file").plan;
    let networks = Pair {
        client: "10.1.0.0/24".parse().unwrap(),
        server: "10.2.0.0/24".parse().unwrap(),
    };
    may_bypass(&plan.listeners[0], &plan.limits, networks)
}

#[test]
fn a_splitter_that_only_splits_is_bypassed() {
    for lines in [
        "",
        "handshake = \"at-once\"",
        "control_group = 1",
        "allow = \"10.1.0.0/16\"",
        "deny_to = [\"inner\", \"10.3.0.0/16\"]",
        "deny_to = []",
    ] {
        assert!(bypasses(lines, ""), "{lines}");
    }
    let route = "[[listener.route]]\nto = \"original\"\n";
    assert!(bypasses("", route));
}

#[test]
fn a_splitter_with_a_rule_is_not_bypassed() {
    let upstream = "[upstream.cache]\nservers = [\"10.3.0.1:80\"]\n";
    let class = "[pace.classes.slow]\nceiling = \"1 MB\"\n";
    let link = "[link.far]\npeer = \"10.4.0.1:4140\"\n";
    let route = |lines: &str| format!("[[listener.route]]\n{lines}\n");
    let by_name = "handshake = \"at-once\"";
    for (lines, behind) in [
        ("allow = \"10.1.0.2\"", String::new()),
        ("deny_to = [\"inner\", \"10.2.0.7\"]", String::new()),
        ("deny_to = [\"inner\", \"*.example\"]", String::new()),
        ("keep_client_address = false", String::new()),
        ("split = \"always\"", String::new()),
        ("pace = \"slow\"", class.to_owned()),
        ("", format!("{class}[pace]\ndefault = \"slow\"\n")),
        ("", "[limits]\nconnections_per_client = 9\n".to_owned()),
        ("link = \"far\"", link.to_owned()),
        ("", route("to = \"original\"\nsplit = \"never\"")),
        ("", route("to = \"original\"\npace = \"slow\"") + class),
        (
            by_name,
            route("sni = \"a.example\"\nto = \"original\"\nsplit = \"never\""),
        ),
        (
            by_name,
            route("sni = \"a.example\"\nupstream = \"cache\"") + upstream,
        ),
    ] {
        assert!(!bypasses(lines, &behind), "{lines} {behind}");
    }
}
