//! Rows for the keys of TCP profiles, and of the rules that choose them.

const LEG: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\nlegs = [{ profile = \"p\" }]\n[leg.p]\n";
const KEEPALIVE: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\nlegs = [{ profile = \"p\" }]\n[leg.p.keepalive]\n";
const RULE: &str = "[leg.p]\nquick_ack = true\n[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n[[listener.legs]]\n";

/// A table, one of its keys, the text before it, and the line with the key.
pub const KEYS: &[(&str, &str, &str, &str)] = &[
    (
        "[[listener]]",
        "legs",
        "[leg.p]\nquick_ack = true\n[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n",
        "legs = { profile = \"p\" }",
    ),
    ("legs = [{ }]", "profile", RULE, "profile = \"p\""),
    (
        "legs = [{ }]",
        "side",
        RULE,
        "profile = \"p\"\nside = \"client\"",
    ),
    (
        "legs = [{ }]",
        "interface",
        RULE,
        "profile = \"p\"\ninterface = \"sat0\"",
    ),
    (
        "legs = [{ }]",
        "subnet",
        RULE,
        "profile = \"p\"\nsubnet = \"10.0.0.0/8\"",
    ),
    (
        "legs = [{ }]",
        "rtt_above",
        RULE,
        "profile = \"p\"\nrtt_above = \"200ms\"",
    ),
    (
        "legs = [{ }]",
        "rtt_below",
        RULE,
        "profile = \"p\"\nrtt_below = \"20ms\"",
    ),
    (
        "[leg.NAME]",
        "initial_window",
        LEG,
        "initial_window = \"64 KB\"",
    ),
    ("[leg.NAME]", "congestion", LEG, "congestion = \"bbr\""),
    ("[leg.NAME]", "pacing_rate", LEG, "pacing_rate = \"2 MB/s\""),
    (
        "[leg.NAME]",
        "bandwidth",
        LEG,
        "round_trip = \"600ms\"\nbandwidth = \"2 MB/s\"",
    ),
    (
        "[leg.NAME]",
        "round_trip",
        LEG,
        "bandwidth = \"2 MB/s\"\nround_trip = \"600ms\"",
    ),
    ("[leg.NAME]", "send_buffer", LEG, "send_buffer = \"2 MB\""),
    (
        "[leg.NAME]",
        "receive_buffer",
        LEG,
        "receive_buffer = \"2 MB\"",
    ),
    ("[leg.NAME]", "window_clamp", LEG, "window_clamp = \"2 MB\""),
    (
        "[leg.NAME]",
        "initial_receive_window",
        LEG,
        "initial_receive_window = 20",
    ),
    ("[leg.NAME]", "user_timeout", LEG, "user_timeout = \"1m\""),
    (
        "[leg.NAME]",
        "keepalive",
        LEG,
        "keepalive = { idle = \"1m\", interval = \"10s\", probes = 3 }",
    ),
    (
        "keepalive = { }",
        "idle",
        KEEPALIVE,
        "interval = \"10s\"\nprobes = 3\nidle = \"1m\"",
    ),
    (
        "keepalive = { }",
        "interval",
        KEEPALIVE,
        "idle = \"1m\"\nprobes = 3\ninterval = \"10s\"",
    ),
    (
        "keepalive = { }",
        "probes",
        KEEPALIVE,
        "idle = \"1m\"\ninterval = \"10s\"\nprobes = 3",
    ),
    ("[leg.NAME]", "rto_min", LEG, "rto_min = \"50ms\""),
    ("[leg.NAME]", "rto_initial", LEG, "rto_initial = \"3s\""),
    ("[leg.NAME]", "rto_max", LEG, "rto_max = \"10s\""),
    (
        "[leg.NAME]",
        "delayed_ack_max",
        LEG,
        "delayed_ack_max = \"40ms\"",
    ),
    ("[leg.NAME]", "quick_ack", LEG, "quick_ack = true"),
    (
        "[leg.NAME]",
        "unsent_low_water",
        LEG,
        "unsent_low_water = \"16 KB\"",
    ),
    ("[leg.NAME]", "segment_max", LEG, "segment_max = 1200"),
];
