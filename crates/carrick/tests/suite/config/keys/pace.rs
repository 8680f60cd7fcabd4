//! Rows for the keys of pacing.
use super::{FORWARD, SWITCH};

pub const KEYS: &[(&str, &str, &str, &str)] = &[
    ("[pace]", "interval", FORWARD, "[pace]\ninterval = \"1s\""),
    (
        "[pace]",
        "default",
        FORWARD,
        "[pace.classes.c]\n[pace]\ndefault = \"c\"",
    ),
    (
        "[pace]",
        "classes",
        FORWARD,
        "[pace]\nclasses = { c = { priority = 1 } }",
    ),
    (
        "[pace.classes.NAME]",
        "policy",
        CLASS,
        "policy = \"conservative\"",
    ),
    (
        "[pace.classes.NAME]",
        "target",
        CLASS,
        "policy = \"deadline\"\ntarget = \"2ms\"",
    ),
    (
        "[pace.classes.NAME]",
        "rate",
        CLASS,
        "ceiling = \"2 MB\"\n[pace.classes.d]\nparent = \"c\"\nrate = \"1 MB\"",
    ),
    (
        "[pace.classes.NAME]",
        "ceiling",
        CLASS,
        "ceiling = \"1 MB\"",
    ),
    (
        "[pace.classes.NAME]",
        "network_ceiling",
        CLASS,
        "network_ceiling = \"1 MB\"",
    ),
    (
        "[pace.classes.NAME]",
        "network_prefix_v4",
        CLASS,
        "network_ceiling = \"1 MB\"\nnetwork_prefix_v4 = 24",
    ),
    (
        "[pace.classes.NAME]",
        "network_prefix_v6",
        CLASS,
        "network_ceiling = \"1 MB\"\nnetwork_prefix_v6 = 48",
    ),
    (
        "[pace.classes.NAME]",
        "splice_ceiling",
        CLASS,
        "splice_ceiling = \"1 MB\"",
    ),
    (
        "[pace.classes.NAME]",
        "parent",
        "[pace.classes.all]\n",
        "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\npace = \"c\"\n[pace.classes.c]\nparent = \"all\"",
    ),
    ("[pace.classes.NAME]", "priority", CLASS, "priority = 1"),
    ("[pace.classes.NAME]", "weight", CLASS, "weight = \"rtt\""),
    (
        "[pace.classes.NAME]",
        "hold_max",
        CLASS,
        "hold_max = \"1s\"",
    ),
    (
        "[[listener]]",
        "pace",
        "[pace.classes.c]\n",
        "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\npace = \"c\"",
    ),
    (
        "[[listener.route]]",
        "pace",
        SWITCH,
        "upstream = \"u\"\n[pace.classes.c]\n[[listener.route]]\nupstream = \"u\"\npace = \"c\"",
    ),
];

const CLASS: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n[pace]\ndefault = \"c\"\n[pace.classes.c]\n";
