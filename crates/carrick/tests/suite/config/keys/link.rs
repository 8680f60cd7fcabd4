//! Rows for the keys of links.

const LINK: &str = "[[listener]]\nlisten = \"[::]:3130\"\nmode = \"split\"\nintercept = { ports = [80], from = \"10.0.0.0/8\" }\nlink = \"l\"\n[tcp_profile.p]\nquick_ack = true\n[link.m]\npeer = \"a:1\"\nprofile = \"p\"\n[link.l]\n";
const LISTENER: &str = "[link.l]\npeer = \"192.0.2.7:4140\"\n[[listener]]\nlisten = \"[::]:3130\"\nmode = \"split\"\nintercept = { ports = [80], from = \"10.0.0.0/8\" }\n";
const ROUTE: &str = "[link.l]\npeer = \"192.0.2.7:4140\"\n[[listener]]\nlisten = \"[::]:3130\"\nmode = \"tunnel\"\n[upstream.u]\nservers = \"10.0.0.1:80\"\n[[listener.route]]\nupstream = \"u\"\n";

/// A table, one of its keys, the text before it, and the line with the key.
pub const KEYS: &[(&str, &str, &str, &str)] = &[
    ("[link.NAME]", "peer", LINK, "peer = \"192.0.2.7:4140\""),
    (
        "[link.NAME]",
        "connections",
        LINK,
        "peer = \"192.0.2.7:4140\"\nconnections = 7",
    ),
    (
        "[link.NAME]",
        "preconnect",
        LINK,
        "peer = \"192.0.2.7:4140\"\npreconnect = 7",
    ),
    (
        "[link.NAME]",
        "profile",
        LINK,
        "peer = \"192.0.2.7:4140\"\nprofile = \"p\"",
    ),
    (
        "[link.NAME]",
        "fallback",
        LINK,
        "peer = \"192.0.2.7:4140\"\nfallback = \"direct\"",
    ),
    ("[[listener]]", "link", LISTENER, "link = \"l\""),
    ("[[listener.route]]", "link", ROUTE, "link = \"l\""),
];
