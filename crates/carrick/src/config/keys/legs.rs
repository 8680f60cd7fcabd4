//! The keys of leg profiles, and of the rules by which connections have them.
use super::{Form, Key, NONE, REQUIRED, Table};

/// `legs` of a listener.
pub(super) const OF_LISTENER: Key = Key {
    name: "legs",
    form: Form::Other {
        what: "a list of rules, or one of them",
        default: NONE,
    },
    about: "Which `[leg.NAME]` the connections of clients, and those to servers, have: that of the first rule whose conditions hold",
};

/// A time that an administrator may give, of which there is no default.
const fn time(what: &'static str) -> Form {
    Form::Other {
        what,
        default: UNTOUCHED,
    }
}

const UNTOUCHED: &str = "the system's";
const SIZE: Form = Form::Other {
    what: "size, to `\"1 GB\"`",
    default: "bandwidth × round trip, if they are given; else the system's",
};
/// As `SO_MAX_PACING_RATE` counts.
const RATE: Form = Form::Other {
    what: "rate, such as `\"2 MB/s\"`",
    default: NONE,
};

/// `legs = [{ … }]`
pub static LEGS: Table = Table {
    title: "legs = [{ }]",
    keys: &[
        Key {
            name: "profile",
            form: Form::Text {
                what: "a name",
                default: REQUIRED,
            },
            about: "The `[leg.NAME]`",
        },
        Key {
            name: "side",
            form: Form::OneOf {
                words: &["client", "server"],
                default: "either side",
            },
            about: "`client`: connections of clients; `server`: those to servers",
        },
        Key {
            name: "interface",
            form: Form::Text {
                what: "a name",
                default: "any",
            },
            about: "Where packets to the other end leave",
        },
        Key {
            name: "subnet",
            form: Form::Text {
                what: "a network or an address",
                default: "any",
            },
            about: "Where the other end is",
        },
        Key {
            name: "rtt_above",
            form: time("time"),
            about: "The handshake took at least this long, as this machine saw it",
        },
        Key {
            name: "rtt_below",
            form: time("time"),
            about: "It took less",
        },
    ],
};

/// `[leg.NAME]`
pub static LEG: Table = Table {
    title: "[leg.NAME]",
    keys: &[
        Key {
            name: "initial_window",
            form: Form::Other {
                what: "size, to `\"16 MB\"`",
                default: UNTOUCHED,
            },
            about: "What leaves before the first acknowledgement comes; the other end's first receive window, mostly 64 KB, is a limit as well. The send buffer has room for it, up to `net.core.wmem_max` where `send_buffer`, or `bandwidth` and `round_trip`, do not ask for more. Wants to be started with CAP_BPF",
        },
        Key {
            name: "congestion",
            form: Form::Text {
                what: "a name",
                default: UNTOUCHED,
            },
            about: "The congestion control, one of `net.ipv4.tcp_available_congestion_control`",
        },
        Key {
            name: "pacing_rate",
            form: RATE,
            about: "What leaves at most, headers included; packets are spread evenly",
        },
        Key {
            name: "bandwidth",
            form: RATE,
            about: "What the link carries, of which `send_buffer` and `receive_buffer` are computed; needs `round_trip`",
        },
        Key {
            name: "round_trip",
            form: Form::Other {
                what: "time, to `\"10s\"`",
                default: NONE,
            },
            about: "How long the way there and back takes; needs `bandwidth`",
        },
        Key {
            name: "send_buffer",
            form: SIZE,
            about: "What is kept until it is acknowledged; without CAP_NET_ADMIN at most `net.core.wmem_max`",
        },
        Key {
            name: "receive_buffer",
            form: SIZE,
            about: "What is kept of what comes, until it is sent on; without CAP_NET_ADMIN at most `net.core.rmem_max`",
        },
        Key {
            name: "window_clamp",
            form: Form::Other {
                what: "size, to `\"1 GB\"`",
                default: NONE,
            },
            about: "The largest receive window",
        },
        Key {
            name: "initial_receive_window",
            form: Form::Other {
                what: "number of segments, 1 to 1024",
                default: UNTOUCHED,
            },
            about: "The receive window of the handshake",
        },
        Key {
            name: "user_timeout",
            form: time("time, `\"1ms\"` to `\"24d\"`"),
            about: "What is not acknowledged for so long ends the connection",
        },
        Key {
            name: "keepalive",
            form: Form::Other {
                what: "`{ idle, interval, probes }`",
                default: NONE,
            },
            about: "Whether the other end is still there is asked where nothing is said",
        },
        Key {
            name: "rto_min",
            form: time("time, `\"20ms\"` to `\"200ms\"`"),
            about: "The shortest wait before what was not acknowledged is sent again, on top of the round trip",
        },
        Key {
            name: "rto_initial",
            form: time("time, `\"1ms\"` to `\"2m\"`"),
            about: "The same for SYN and SYN-ACK, for which no round trip is known",
        },
        Key {
            name: "rto_max",
            form: time("time, `\"1s\"` to `\"2m\"`"),
            about: "The longest such wait; Linux 6.15 and later",
        },
        Key {
            name: "delayed_ack_max",
            form: time("time, `\"20ms\"` to `\"200ms\"`"),
            about: "How long an acknowledgement waits for company",
        },
        Key {
            name: "quick_ack",
            form: Form::Switch { default: false },
            about: "What comes first is acknowledged at once",
        },
        Key {
            name: "unsent_low_water",
            form: Form::Other {
                what: "size, to `\"1 GB\"`",
                default: UNTOUCHED,
            },
            about: "Of what has not been sent yet, not much more than this is in the kernel (`TCP_NOTSENT_LOWAT`)",
        },
        Key {
            name: "segment_max",
            form: Form::Other {
                what: "number of bytes, 88 to 32767",
                default: "what the interface carries",
            },
            about: "The longest segment, both ways, as TCP's option MSS counts",
        },
    ],
};

/// `keepalive = { … }`
pub static KEEPALIVE: Table = Table {
    title: "keepalive = { }",
    keys: &[
        Key {
            name: "idle",
            form: Form::Other {
                what: "time, `\"1s\"` to `\"9h\"`",
                default: REQUIRED,
            },
            about: "Silence before the first probe, in whole seconds",
        },
        Key {
            name: "interval",
            form: Form::Other {
                what: "time, `\"1s\"` to `\"9h\"`",
                default: REQUIRED,
            },
            about: "Between two probes, in whole seconds",
        },
        Key {
            name: "probes",
            form: Form::Other {
                what: "number, 1 to 127",
                default: REQUIRED,
            },
            about: "As many in a row without an answer end the connection",
        },
    ],
};
