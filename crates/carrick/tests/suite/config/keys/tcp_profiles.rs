//! Rows for the keys of TCP profiles, and of the rules that choose them.

const PROFILE: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\ntcp_profiles = [{ profile = \"p\" }]\n[tcp_profile.p]\n";
const KEEPALIVE: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\ntcp_profiles = [{ profile = \"p\" }]\n[tcp_profile.p.keepalive]\n";
const RULE: &str = "[tcp_profile.p]\nquick_ack = true\n[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n[[listener.tcp_profiles]]\n";

/// A table, one of its keys, the text before it, and the line with the key.
pub const KEYS: &[(&str, &str, &str, &str)] = &[
    (
        "[[listener]]",
        "tcp_profiles",
        "[tcp_profile.p]\nquick_ack = true\n[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n",
        "tcp_profiles = { profile = \"p\" }",
    ),
    ("tcp_profiles = [{ }]", "profile", RULE, "profile = \"p\""),
    (
        "tcp_profiles = [{ }]",
        "side",
        RULE,
        "profile = \"p\"\nside = \"client\"",
    ),
    (
        "tcp_profiles = [{ }]",
        "interface",
        RULE,
        "profile = \"p\"\ninterface = \"sat0\"",
    ),
    (
        "tcp_profiles = [{ }]",
        "subnet",
        RULE,
        "profile = \"p\"\nsubnet = \"10.0.0.0/8\"",
    ),
    (
        "tcp_profiles = [{ }]",
        "rtt_above",
        RULE,
        "profile = \"p\"\nrtt_above = \"200ms\"",
    ),
    (
        "tcp_profiles = [{ }]",
        "rtt_below",
        RULE,
        "profile = \"p\"\nrtt_below = \"20ms\"",
    ),
    (
        "[tcp_profile.NAME]",
        "initial_window",
        PROFILE,
        "initial_window = \"64 KB\"",
    ),
    (
        "[tcp_profile.NAME]",
        "congestion",
        PROFILE,
        "congestion = \"bbr\"",
    ),
    (
        "[tcp_profile.NAME]",
        "pacing_rate",
        PROFILE,
        "pacing_rate = \"2 MB/s\"",
    ),
    (
        "[tcp_profile.NAME]",
        "bandwidth",
        PROFILE,
        "round_trip = \"600ms\"\nbandwidth = \"2 MB/s\"",
    ),
    (
        "[tcp_profile.NAME]",
        "round_trip",
        PROFILE,
        "bandwidth = \"2 MB/s\"\nround_trip = \"600ms\"",
    ),
    (
        "[tcp_profile.NAME]",
        "send_buffer",
        PROFILE,
        "send_buffer = \"2 MB\"",
    ),
    (
        "[tcp_profile.NAME]",
        "receive_buffer",
        PROFILE,
        "receive_buffer = \"2 MB\"",
    ),
    (
        "[tcp_profile.NAME]",
        "window_clamp",
        PROFILE,
        "window_clamp = \"2 MB\"",
    ),
    (
        "[tcp_profile.NAME]",
        "initial_receive_window",
        PROFILE,
        "initial_receive_window = 20",
    ),
    (
        "[tcp_profile.NAME]",
        "user_timeout",
        PROFILE,
        "user_timeout = \"1m\"",
    ),
    (
        "[tcp_profile.NAME]",
        "keepalive",
        PROFILE,
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
    (
        "[tcp_profile.NAME]",
        "rto_min",
        PROFILE,
        "rto_min = \"50ms\"",
    ),
    (
        "[tcp_profile.NAME]",
        "rto_initial",
        PROFILE,
        "rto_initial = \"3s\"",
    ),
    (
        "[tcp_profile.NAME]",
        "rto_max",
        PROFILE,
        "rto_max = \"10s\"",
    ),
    (
        "[tcp_profile.NAME]",
        "delayed_ack_max",
        PROFILE,
        "delayed_ack_max = \"40ms\"",
    ),
    (
        "[tcp_profile.NAME]",
        "quick_ack",
        PROFILE,
        "quick_ack = true",
    ),
    (
        "[tcp_profile.NAME]",
        "unsent_low_water",
        PROFILE,
        "unsent_low_water = \"16 KB\"",
    ),
    (
        "[tcp_profile.NAME]",
        "segment_max",
        PROFILE,
        "segment_max = 1200",
    ),
];
