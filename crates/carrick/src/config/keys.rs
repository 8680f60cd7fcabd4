//! Every key of the configuration file: its form, its limits, its default and what it is for. Read by the loader, by the
//! messages about unknown keys, and by the tables in the documentation.
mod advice;
pub mod cache;
mod legs;
mod limits;
mod link;
mod listener;
mod markdown;
pub mod pace;
pub mod split;
mod upstream;

pub use cache::{
    CACHE, CACHE_BYPASS, CACHE_KEY, CACHE_PEERS, DISK, PREFETCH_TABLE, QUICK_ABORT, SHARED,
};
pub use legs::{KEEPALIVE, LEG, LEGS};
pub use limits::LIMITS;
pub use link::LINK;
pub use listener::{HEADER, INTERCEPT, LISTENER, PARENT, ROUTE};
pub use markdown::markdown;
pub use pace::{PACE, PACE_CLASS};
pub use upstream::{HEALTH, SERVER, UPSTREAM};

use std::time::Duration;

/// A table of the file and the keys that it may have.
#[derive(Debug)]
pub struct Table {
    /// How the file writes it, such as `[limits]`.
    pub title: &'static str,
    /// Its keys, in the order of the documentation.
    pub keys: &'static [Key],
}

/// A key.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value looks like, with limits and default.
    pub form: Form,
    /// What it is for: a sentence in Markdown, without a final dot.
    pub about: &'static str,
}

/// The form of a value.
#[derive(Debug)]
#[expect(
    missing_docs,
    reason = "limits and defaults, in the unit that the form names"
)]
pub enum Form {
    /// A string of a kind that `what` names.
    Text {
        what: &'static str,
        default: &'static str,
    },
    /// One of these words.
    OneOf {
        words: &'static [&'static str],
        default: &'static str,
    },
    /// `true` or `false`.
    Switch { default: bool },
    /// A whole number.
    Number { min: u64, max: u64, default: u64 },
    /// Bytes: a number, or a string such as "64 KB".
    Size { min: u64, max: u64, default: u64 },
    /// A string such as "10s".
    Time {
        min: Duration,
        max: Duration,
        default: Duration,
    },
    /// A list of strings; a single string stands for a list of one.
    Texts {
        what: &'static str,
        default: &'static str,
    },
    /// Anything else, in words.
    Other {
        what: &'static str,
        default: &'static str,
    },
}

/// "None": the key may be left out, and then nothing of the kind happens.
const NONE: &str = "none";
/// The key must be given.
pub const REQUIRED: &str = "required";

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MS: Duration = Duration::from_millis(1);
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const ENGINES: &[&str] = &["auto", "copy", "pipe", "socket", "packet"];

/// The file itself.
pub static ROOT: Table = Table {
    title: "the file",
    keys: &[
        Key {
            name: "admin",
            form: Form::Other {
                what: "`[admin]`",
                default: "see there",
            },
            about: "Metrics, health and status",
        },
        Key {
            name: "splice",
            form: Form::Other {
                what: "`[splice]`",
                default: "see there",
            },
            about: "How bytes are relayed",
        },
        Key {
            name: "workers",
            form: Form::Other {
                what: "`[workers]`",
                default: "see there",
            },
            about: "Threads",
        },
        Key {
            name: "process",
            form: Form::Other {
                what: "`[process]`",
                default: "see there",
            },
            about: "Who carrick is once it has started",
        },
        Key {
            name: "limits",
            form: Form::Other {
                what: "`[limits]`",
                default: "see there",
            },
            about: "Bounds on what clients can make carrick hold",
        },
        Key {
            name: "timeouts",
            form: Form::Other {
                what: "`[timeouts]`",
                default: "see there",
            },
            about: "How long things may take",
        },
        Key {
            name: "log",
            form: Form::Other {
                what: "`[log]`",
                default: "see there",
            },
            about: "The access log",
        },
        Key {
            name: "cache",
            form: Form::Other {
                what: "`[cache]`",
                default: NONE,
            },
            about: "What is kept of responses",
        },
        Key {
            name: "pace",
            form: Form::Other {
                what: "`[pace]`",
                default: NONE,
            },
            about: "When what is relayed waits, and how fast it may be",
        },
        Key {
            name: "leg",
            form: Form::Other {
                what: "`[leg.NAME]`",
                default: NONE,
            },
            about: "How the TCP of some connections is to be",
        },
        Key {
            name: "link",
            form: Form::Other {
                what: "`[link.NAME]`",
                default: NONE,
            },
            about: "Connections that are kept to carricks at the other ends of long links",
        },
        Key {
            name: "listener",
            form: Form::Other {
                what: "`[[listener]]`, at least one",
                default: REQUIRED,
            },
            about: "What is listened on, and to do what",
        },
        Key {
            name: "upstream",
            form: Form::Other {
                what: "`[upstream.NAME]`",
                default: NONE,
            },
            about: "Groups of servers, by the name that routes use",
        },
    ],
};

/// `[admin]`
pub static ADMIN: Table = Table {
    title: "[admin]",
    keys: &[Key {
        name: "listen",
        form: Form::Text {
            what: "an address and port",
            default: "\"127.0.0.1:3129\"",
        },
        about: "Where `/metrics`, `/health`, `/status` and `/splices` are served, without authentication; `\"\"` turns them off",
    }],
};

/// `[splice]`
pub static SPLICE: Table = Table {
    title: "[splice]",
    keys: &[Key {
        name: "engine",
        form: Form::OneOf {
            words: ENGINES,
            default: "auto",
        },
        about: "How relayed bytes move: `copy` through the process, `pipe` by `splice(2)`, `socket` in the kernel (tunnels, and responses of known length), `packet` in the kernel, packet by packet (tunnels, responses of a switch to requests without a body, and the rest of long bodies; others as `auto`); `auto` chooses for each transfer: `copy` or `pipe`; for tunnels that go on for long, and for what is left of bodies of 256 KB or more, `packet`, if it is loaded (`[process] packet`); and for tunnels in which small messages go back and forth `socket`",
    }],
};

/// `[workers]`
pub static WORKERS: Table = Table {
    title: "[workers]",
    keys: &[Key {
        name: "count",
        form: Form::Number {
            min: 0,
            max: 1024,
            default: 0,
        },
        about: "Worker threads; 0: one for each core that carrick may run on",
    }],
};

/// Where most systems have a BPF file system.
pub const PINS_DEFAULT: &str = "/sys/fs/bpf/carrick";

/// `[process]`
pub static PROCESS: Table = Table {
    title: "[process]",
    keys: &[
        Key {
            name: "user",
            form: Form::Text {
                what: "a user's name or number",
                default: "who started it",
            },
            about: "Whom carrick becomes, once it listens and has loaded what needs privileges; only root can",
        },
        Key {
            name: "group",
            form: Form::Text {
                what: "a group's name or number",
                default: "that of `user`",
            },
            about: "Its group, instead of the user's own; needs `user`",
        },
        Key {
            name: "pins",
            form: Form::Text {
                what: "a folder on a BPF file system, or `\"\"` for none",
                default: "\"/sys/fs/bpf/carrick\"",
            },
            about: "Where programs and maps of the engine `packet` are kept (*pinned*), so that its tunnels outlive carrick; the folder is made if its parent exists",
        },
        Key {
            name: "packet",
            form: Form::OneOf {
                words: &["named", "auto", "off"],
                default: "named",
            },
            about: "When the engine `packet` is loaded, whose programs are on all network interfaces: `named`, if a listener or a route names it; `auto`, also if one has the engine `auto`, for its tunnels and long bodies; `off`, never. Where it is loaded, `auto` uses it",
        },
        Key {
            name: "sandbox",
            form: Form::OneOf {
                words: &["auto", "off", "required"],
                default: "auto",
            },
            about: "Whether carrick keeps itself from files and system calls that it does not need once it serves ([which](operations.md#the-sandbox)): `auto`, as far as the kernel can; `off`, no; `required`, or it does not start",
        },
    ],
};

/// `[timeouts]`
pub static TIMEOUTS: Table = Table {
    title: "[timeouts]",
    keys: &[
        Key {
            name: "head",
            form: Form::Time {
                min: MS,
                max: YEAR,
                default: seconds(10),
            },
            about: "For a whole request head, and for the TLS ClientHello of a tunnel",
        },
        Key {
            name: "idle",
            form: Form::Time {
                min: MS,
                max: YEAR,
                default: seconds(60),
            },
            about: "Between two requests of a client, between two bytes of a body, and until the first byte of a response",
        },
        Key {
            name: "connect",
            form: Form::Time {
                min: MS,
                max: YEAR,
                default: seconds(5),
            },
            about: "To connect to a server, all its addresses together",
        },
        Key {
            name: "tunnel_idle",
            form: Form::Time {
                min: MS,
                max: YEAR,
                default: seconds(3600),
            },
            about: "Without a byte either way in a tunnel",
        },
        Key {
            name: "drain",
            form: Form::Time {
                min: Duration::ZERO,
                max: DAY,
                default: seconds(30),
            },
            about: "After SIGTERM, for what is still under way; `\"0s\"` ends it at once",
        },
    ],
};

/// `[log]`
pub static LOG: Table = Table {
    title: "[log]",
    keys: &[
        Key {
            name: "access",
            form: Form::Text {
                what: "`\"stdout\"`, `\"stderr\"`, a path, or `\"\"` for none",
                default: "\"stdout\"",
            },
            about: "Where a line for each request goes; reopened on SIGUSR1",
        },
        Key {
            name: "format",
            form: Form::OneOf {
                words: &["combined", "json"],
                default: "combined",
            },
            about: "How such a line looks",
        },
    ],
};

/// All tables, in the order of the documentation.
pub static TABLES: &[&Table] = &[
    &ROOT,
    &ADMIN,
    &SPLICE,
    &WORKERS,
    &PROCESS,
    &LIMITS,
    &TIMEOUTS,
    &LOG,
    &CACHE,
    &DISK,
    &QUICK_ABORT,
    &CACHE_PEERS,
    &SHARED,
    &PACE,
    &PACE_CLASS,
    &LEG,
    &KEEPALIVE,
    &LINK,
    &LISTENER,
    &INTERCEPT,
    &PARENT,
    &LEGS,
    &ROUTE,
    &HEADER,
    &CACHE_KEY,
    &CACHE_BYPASS,
    &PREFETCH_TABLE,
    &UPSTREAM,
    &SERVER,
    &HEALTH,
];

impl Table {
    /// The key of that name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}
