//! Splitters: defaults, and impossible settings.
use super::{parse, parse_right};
use carrick::config::plan::{Handshake, ListenerPlan, Mode, SplitPlan, Splitting};
use carrick::config::problem::render;
use carrick_splice::Choice;
use std::sync::Arc;

const INTERCEPT: &str = "intercept = { ports = [80], from = \"10.0.0.0/8\" }\n";
const ROUTE: &str =
    "[[listener.route]]\nupstream = \"u\"\n[upstream.u]\nservers = \"10.0.0.1:80\"\n";

fn splitter(keys: &str) -> String {
    format!("[[listener]]\nlisten = \"[::]:3130\"\nmode = \"split\"\n{keys}")
}

fn listener(keys: &str) -> Arc<ListenerPlan> {
    let loaded = parse_right(&splitter(keys));
    assert!(
        loaded.problems.is_empty(),
        "{}",
        render(&loaded.problems, false)
    );
    Arc::clone(&loaded.plan.listeners[0])
}

fn split(listener: &ListenerPlan) -> &SplitPlan {
    match &listener.mode {
        Mode::Split(split) => split,
        _ => panic!("not a splitter"),
    }
}

#[test]
fn a_splitter_is_transparent_and_keeps_the_clients_address_unless_told_otherwise() {
    let plain = listener(INTERCEPT);
    let interception = plain.interception.as_ref().expect("it is transparent");
    assert!(interception.keeps_client);
    let [rest] = &split(&plain).routes[..] else {
        panic!("one route, to original destinations")
    };
    assert_eq!((rest.upstream, rest.split), (None, Splitting::Adaptive));
    assert_eq!(split(&plain).control_group, 0);

    let without = listener(&format!("{INTERCEPT}keep_client_address = false\n"));
    assert!(!without.interception.as_ref().unwrap().keeps_client);

    let explicit = listener(&format!("transparent = false\n{ROUTE}"));
    assert!(explicit.interception.is_none());
    assert_eq!(explicit.handshake, Handshake::AtOnce);
}

#[test]
fn the_server_is_asked_first_where_it_is_known_before_the_client_speaks() {
    let handshake = |keys: &str| listener(&format!("{INTERCEPT}{keys}")).handshake;
    let by_default = Handshake::ServerFirst { is_named: false };
    assert_eq!(handshake(""), by_default);
    assert_eq!(handshake("handshake = \"at-once\""), Handshake::AtOnce);
    assert_eq!(
        handshake("handshake = \"server-first\""),
        Handshake::ServerFirst { is_named: true }
    );
    assert_eq!(
        handshake("[[listener.route]]\nsni = \"a.example\"\nto = \"original\""),
        Handshake::AtOnce
    );
    assert_eq!(
        parse_right(&splitter(INTERCEPT).replace("\"split\"", "\"tunnel\"\ntransparent = true"))
            .plan
            .listeners[0]
            .handshake,
        Handshake::AtOnce
    );
}

#[test]
fn what_is_never_split_is_joined_by_the_packet_engine() {
    let never = "[[listener.route]]\nsni = \"a.example\"\nto = \"original\"\nsplit = \"never\"\n";
    let some = listener(&format!("{INTERCEPT}{never}"));
    let ways: Vec<_> = (split(&some).routes.iter())
        .map(|route| (route.split, route.engine))
        .collect();
    assert_eq!(
        ways,
        [
            (Splitting::Never, Choice::Packet),
            (Splitting::Adaptive, Choice::Auto)
        ]
    );
    for (keys, is_wanted) in [
        ("", true),
        ("split = \"always\"", false),
        ("split = \"never\"", true),
        ("split = \"always\"\ncontrol_group = 1", true),
    ] {
        let plan = parse_right(&splitter(&format!("{INTERCEPT}{keys}"))).plan;
        assert_eq!(plan.wants_packet_engine(), is_wanted, "{keys}");
    }
}

#[test]
fn buffers_are_what_is_under_way_unless_they_are_named() {
    let text = format!(
        "{}tcp_profiles = [{{ side = \"server\", profile = \"a\" }}, {{ profile = \"b\" }}]\n[tcp_profile.a]\nbandwidth = \"2 MB/s\"\nround_trip = \"500ms\"\nsend_buffer = \"1 KB\"\n[tcp_profile.b]\nquick_ack = true\n",
        splitter(INTERCEPT)
    );
    let plan = parse_right(&text).plan;
    let profile = &plan.tcp_profiles[0].profile;
    assert_eq!(
        (profile.send_buffer_bytes, profile.receive_buffer_bytes),
        (Some(1024), Some(1 << 20))
    );
    let rules = plan.listeners[0].tcp_profiles.as_ref().expect("rules");
    let of_all = rules.of_all_clients.as_ref().expect("a profile");
    assert_eq!(of_all.name, "b");
    // The first one that matches clients has a condition.
    let some = text.replace("side = \"server\"", "subnet = \"10.0.0.0/8\"");
    let plan = parse_right(&some).plan;
    let rules = plan.listeners[0].tcp_profiles.as_ref().expect("rules");
    assert!(rules.of_all_clients.is_none());
}

#[test]
fn impossible_settings_are_reported() {
    let forward = "[[listener]]\nlisten = \"127.0.0.1:1\"\nmode = \"forward\"\n";
    for (text, message, help) in [
        (
            splitter(""),
            "nothing says what is intercepted",
            "intercept = { ports = [80]",
        ),
        (
            splitter("transparent = false\n"),
            "the listener has no routes",
            "`upstream = \"NAME\"`",
        ),
        (
            splitter(&format!(
                "transparent = false\nhandshake = \"at-once\"\n{ROUTE}"
            )),
            "`handshake` means nothing without `transparent`",
            "transparent = true",
        ),
        (
            splitter(&format!("{INTERCEPT}handshake = \"server-first\"\n{ROUTE}")),
            "the server is not known before the client has been answered",
            "\"at-once\"",
        ),
        (
            splitter(&format!("{INTERCEPT}split = \"sometimes\"\n")),
            "`split` cannot be \"sometimes\"",
            "\"never\"",
        ),
        (
            splitter(&format!("{INTERCEPT}control_group = 101\n")),
            "control_group",
            "",
        ),
        (
            splitter(&format!("{INTERCEPT}via = \"x\"\n")),
            "`via` means nothing in a \"split\" listener",
            "\"forward\" and \"switch\" listeners",
        ),
        (
            splitter(&format!(
                "{INTERCEPT}[[listener.route]]\npath = \"/a\"\nto = \"original\"\n"
            )),
            "a splitter does not read requests, so `path` is not possible",
            "\"switch\"",
        ),
        (
            format!(
                "{forward}tcp_profiles = {{ profile = \"farr\" }}\n[tcp_profile.far]\nquick_ack = true\n"
            ),
            "there is no TCP profile \"farr\"",
            "did you mean \"far\"",
        ),
        (
            format!("{forward}tcp_profiles = []\n"),
            "nothing is chosen here",
            "leave `tcp_profiles` out",
        ),
        (
            format!("{forward}[tcp_profile.far]\nquick_ack = true\n"),
            "no connection has the TCP profile \"far\"",
            "remove it",
        ),
        (
            format!("{forward}tcp_profiles = {{ profile = \"p\" }}\n[tcp_profile.p]\n"),
            "sets nothing",
            "initial_window",
        ),
        (
            format!(
                "{forward}tcp_profiles = {{ profile = \"p\" }}\n[tcp_profile.p]\nbandwidth = \"1 MB/s\"\n"
            ),
            "`bandwidth` needs `round_trip`",
            "bandwidth × round trip",
        ),
        (
            format!(
                "{forward}tcp_profiles = {{ profile = \"p\", rtt_above = \"2s\", rtt_below = \"1s\" }}\n[tcp_profile.p]\nquick_ack = true\n"
            ),
            "no round trip can be both",
            "",
        ),
        (
            format!(
                "{forward}tcp_profiles = {{ profile = \"p\" }}\n[tcp_profile.p]\nrto_min = \"1s\"\n"
            ),
            "rto_min",
            "",
        ),
        (
            format!(
                "{forward}tcp_profiles = {{ profile = \"p\" }}\n[tcp_profile.p]\ncongestion = \"a b\"\n"
            ),
            "congestion control",
            "",
        ),
        (
            format!(
                "{forward}tcp_profiles = {{ profile = \"p\" }}\n[tcp_profile.p]\nkeepalive = {{ idle = \"1m\", probes = 3 }}\n"
            ),
            "`interval` is missing here",
            "",
        ),
        (
            format!("{forward}split = \"always\"\n"),
            "`split` means nothing in a \"forward\" listener",
            "\"split\" listeners",
        ),
        (
            format!("{forward}handshake = \"at-once\"\n"),
            "`handshake` means nothing in a \"forward\" listener",
            "\"tunnel\" and \"split\" listeners",
        ),
        (
            splitter(&format!("{INTERCEPT}{ROUTE}split = \"never\"\n"))
                .replace("mode = \"split\"", "mode = \"tunnel\"\ntransparent = true")
                .replace(
                    "upstream = \"u\"\n",
                    "upstream = \"u\"\nsplit = \"never\"\n",
                )
                .replace("80\"\nsplit = \"never\"", "80\""),
            "only a splitter splits",
            "mode = \"split\"",
        ),
    ] {
        let problems = match parse(&text) {
            Ok(loaded) => loaded.problems,
            Err(rejected) => rejected.problems,
        };
        let found: Vec<_> = (problems.iter())
            .filter(|problem| problem.message.contains(message))
            .collect();
        let [problem] = &found[..] else {
            panic!("{message}: {text}\n{}", render(&problems, false))
        };
        let said = problem.help.as_deref().unwrap_or_default();
        assert!(said.contains(help), "{help}: {}", render(&problems, false));
    }
}
