//! Every key of the configuration file: its form, its limits, its default and what it is for. Read by the loader, by the
//! messages about unknown keys, and by the tables in the documentation.
mod markdown;

pub use markdown::markdown;

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

const ENGINES: &[&str] = &["auto", "copy", "pipe"];

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
        about: "Where `/metrics`, `/health` and `/status` are served, without authentication; `\"\"` turns them off",
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
        about: "How relayed bytes move: `copy` through the process, `pipe` by `splice(2)`; `auto` chooses for each transfer",
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

/// `[limits]`
pub static LIMITS: Table = Table {
    title: "[limits]",
    keys: &[
        Key {
            name: "connections",
            form: Form::Number {
                min: 1,
                max: 10_000_000,
                default: 100_000,
            },
            about: "Most client connections at one time, over all workers",
        },
        Key {
            name: "connections_per_client",
            form: Form::Number {
                min: 0,
                max: 10_000_000,
                default: 0,
            },
            about: "Most client connections at one time from one address; 0: no limit",
        },
        Key {
            name: "request_head",
            form: Form::Size {
                min: KIB,
                max: MIB,
                default: 64 * KIB,
            },
            about: "Most bytes of a message head, both ways",
        },
        Key {
            name: "headers",
            form: Form::Number {
                min: 8,
                max: 1000,
                default: 100,
            },
            about: "Most header lines of a message head, both ways",
        },
        Key {
            name: "rate_min",
            form: Form::Size {
                min: 0,
                max: 1024 * MIB,
                default: 0,
            },
            about: "Least bytes a second that a client must send of a body, or take of a response, after `timeouts.head`; 0: none",
        },
        Key {
            name: "attempts",
            form: Form::Number {
                min: 1,
                max: 10,
                default: 3,
            },
            about: "Most attempts to send one request, the first included; further ones only where a repetition is safe",
        },
        Key {
            name: "log_queue",
            form: Form::Number {
                min: 1,
                max: 1_000_000,
                default: 8192,
            },
            about: "Most access log lines that wait to be written; further lines are dropped and counted",
        },
        Key {
            name: "dns_cache",
            form: Form::Number {
                min: 1,
                max: 1_000_000,
                default: 10_000,
            },
            about: "Most names kept in the DNS cache",
        },
        Key {
            name: "pipes",
            form: Form::Number {
                min: 0,
                max: 1_000_000,
                default: 1024,
            },
            about: "Most pipes of the `pipe` engine per worker, two descriptors each; beyond, bytes are copied",
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

/// `[[listener]]`
pub static LISTENER: Table = Table {
    title: "[[listener]]",
    keys: &[
        Key {
            name: "listen",
            form: Form::Text {
                what: "an address and port",
                default: REQUIRED,
            },
            about: "What is bound, such as `\"0.0.0.0:8080\"`, `\"[::]:8080\"` (IPv4, too) or `\"127.0.0.1:3128\"`",
        },
        Key {
            name: "mode",
            form: Form::OneOf {
                words: &["forward", "switch", "tunnel"],
                default: REQUIRED,
            },
            about: "The job: forward proxy, layer-7 switch, or TCP relay",
        },
        Key {
            name: "proxy_protocol",
            form: Form::Switch { default: false },
            about: "Connections must begin with a PROXY v1 or v2 header, and the client's address is taken from it; whoever can connect can claim any address, so let only your balancers in",
        },
        Key {
            name: "engine",
            form: Form::OneOf {
                words: ENGINES,
                default: "that of [splice]",
            },
            about: "Overrides `[splice]` for this listener",
        },
        Key {
            name: "allow",
            form: Form::Texts {
                what: "networks or addresses",
                default: "all",
            },
            about: "Clients that may use the listener; a forward proxy beyond loopback needs this or `users`",
        },
        Key {
            name: "forwarded",
            form: Form::OneOf {
                words: &["x-forwarded", "forwarded", "off", "unchanged"],
                default: "switch: x-forwarded; forward: unchanged",
            },
            about: "What the upstream is told about the client: `X-Forwarded-For`, `-Proto` and `-Host`, or `Forwarded` (RFC 7239); `off` removes all of them, `unchanged` passes on what the client sent. Not for `tunnel`",
        },
        Key {
            name: "via",
            form: Form::Text {
                what: "a name",
                default: "\"carrick\"",
            },
            about: "The name in `Via` (RFC 9110 section 7.6.3); `\"\"`: no `Via`. Not for `tunnel`",
        },
        Key {
            name: "route",
            form: Form::Other {
                what: "`[[listener.route]]`",
                default: "required",
            },
            about: "Where requests go. Only for `switch` and `tunnel`",
        },
        Key {
            name: "connect_ports",
            form: Form::Other {
                what: "a list of ports, `\"all\"` or `\"none\"`",
                default: "[443]",
            },
            about: "Ports that `CONNECT` may name. Only for `forward`",
        },
        Key {
            name: "deny_to",
            form: Form::Texts {
                what: "networks, addresses, names or `*.suffix`",
                default: "on loopback none, else loopback and link-local networks",
            },
            about: "Destinations that are refused; addresses are checked after name resolution. Only for `forward`",
        },
        Key {
            name: "users",
            form: Form::Text {
                what: "a path",
                default: "no authentication",
            },
            about: "An htpasswd file: basic authentication against it. Only for `forward`",
        },
        Key {
            name: "parent",
            form: Form::Other {
                what: "`{ proxy, for }`",
                default: NONE,
            },
            about: "Another proxy that requests go through. Only for `forward`",
        },
    ],
};

/// `parent = { … }`
pub static PARENT: Table = Table {
    title: "parent = { }",
    keys: &[
        Key {
            name: "proxy",
            form: Form::Text {
                what: "`host:port`; port 3128 if left out",
                default: REQUIRED,
            },
            about: "The other proxy",
        },
        Key {
            name: "for",
            form: Form::Texts {
                what: "names or `*.suffix`",
                default: "all",
            },
            about: "Destinations that go through it; the others are connected to directly",
        },
    ],
};

/// `[[listener.route]]`
pub static ROUTE: Table = Table {
    title: "[[listener.route]]",
    keys: &[
        Key {
            name: "upstream",
            form: Form::Text {
                what: "a name",
                default: REQUIRED,
            },
            about: "The `[upstream.NAME]` that requests go to",
        },
        Key {
            name: "host",
            form: Form::Text {
                what: "a name or `*.suffix`",
                default: "any",
            },
            about: "Host name, without port; `*.example.org` is any depth below `example.org`, and not the name itself",
        },
        Key {
            name: "path",
            form: Form::Text {
                what: "a path",
                default: "any",
            },
            about: "Prefix of the path, compared exactly",
        },
        Key {
            name: "extension",
            form: Form::Texts {
                what: "words",
                default: "any",
            },
            about: "What follows the last dot of the last path segment: any of these, in small or capital letters",
        },
        Key {
            name: "cookie",
            form: Form::Text {
                what: "a name",
                default: "any",
            },
            about: "A cookie that must be there; with `!` before its name: that must not be there",
        },
        Key {
            name: "header",
            form: Form::Other {
                what: "`{ name, value }`",
                default: "any",
            },
            about: "A header line with this name (in small or capital letters) and exactly this value",
        },
        Key {
            name: "method",
            form: Form::Texts {
                what: "methods",
                default: "any",
            },
            about: "Any of these methods, in capital letters",
        },
        Key {
            name: "cgi",
            form: Form::Other {
                what: "`true` or `false`",
                default: "either",
            },
            about: "`true`: a path with `/cgi-bin/`, or a query string; `false`: neither",
        },
        Key {
            name: "sni",
            form: Form::Text {
                what: "a name or `*.suffix`",
                default: "any",
            },
            about: "The server name in the TLS ClientHello, which is read and not terminated. Only for `tunnel`, which has no other condition",
        },
        Key {
            name: "engine",
            form: Form::OneOf {
                words: ENGINES,
                default: "that of the listener",
            },
            about: "Overrides the listener's `engine` for this route",
        },
    ],
};

/// `header = { … }`
pub static HEADER: Table = Table {
    title: "header = { }",
    keys: &[
        Key {
            name: "name",
            form: Form::Text {
                what: "a header's name",
                default: REQUIRED,
            },
            about: "Compared without case",
        },
        Key {
            name: "value",
            form: Form::Text {
                what: "any text",
                default: REQUIRED,
            },
            about: "Compared exactly",
        },
    ],
};

/// `[upstream.NAME]`
pub static UPSTREAM: Table = Table {
    title: "[upstream.NAME]",
    keys: &[
        Key {
            name: "servers",
            form: Form::Other {
                what: "a list of `\"host:port\"` and `{ address, weight }`",
                default: REQUIRED,
            },
            about: "The servers, as names or addresses, IPv6 in brackets; port 80 if left out, except in a `tunnel`'s upstream, which must say it",
        },
        Key {
            name: "balance",
            form: Form::OneOf {
                words: &["round-robin", "least-connections", "two-choices", "hash"],
                default: "round-robin",
            },
            about: "How a server is chosen: in turn; the least busy; the less busy of two drawn at random; the same for the same key",
        },
        Key {
            name: "hash_on",
            form: Form::Text {
                what: "`path`, `host`, `client`, `header:NAME` or `cookie:NAME`",
                default: "\"path\"; in a `tunnel`'s upstream \"client\"",
            },
            about: "The key for `balance = \"hash\"`",
        },
        Key {
            name: "health",
            form: Form::Other {
                what: "`{ path, host, every, fall, rise }`",
                default: "no active checks",
            },
            about: "Active health checks, besides the passive marking by `failures_max`",
        },
        Key {
            name: "send_proxy_protocol",
            form: Form::Other {
                what: "`false`, `true`, `\"v1\"` or `\"v2\"`",
                default: "false",
            },
            about: "Begin connections to the servers with a PROXY header; `true` is `\"v1\"`. Such a connection belongs to one client and is not kept for others",
        },
        Key {
            name: "keepalive",
            form: Form::Number {
                min: 0,
                max: 100_000,
                default: 64,
            },
            about: "Idle connections kept per server and worker; 0: none",
        },
        Key {
            name: "failures_max",
            form: Form::Number {
                min: 0,
                max: 1_000_000,
                default: 3,
            },
            about: "Failures in a row after which a server is left alone for a while (1 s, doubled each time, up to 60 s); 0: never",
        },
    ],
};

/// `servers = [{ … }]`
pub static SERVER: Table = Table {
    title: "servers = [{ }]",
    keys: &[
        Key {
            name: "address",
            form: Form::Text {
                what: "`host:port`",
                default: REQUIRED,
            },
            about: "As in the short form",
        },
        Key {
            name: "weight",
            form: Form::Number {
                min: 1,
                max: 1000,
                default: 1,
            },
            about: "Its share, against the weights of the others",
        },
    ],
};

/// `health = { … }`
pub static HEALTH: Table = Table {
    title: "health = { }",
    keys: &[
        Key {
            name: "path",
            form: Form::Text {
                what: "a path",
                default: "a connection is enough",
            },
            about: "The path of a GET that must be answered with 2xx or 3xx",
        },
        Key {
            name: "host",
            form: Form::Text {
                what: "a host name",
                default: "the server's address",
            },
            about: "The `Host` of that GET",
        },
        Key {
            name: "every",
            form: Form::Time {
                min: Duration::from_millis(100),
                max: DAY,
                default: seconds(5),
            },
            about: "Time between two checks, and the limit on one",
        },
        Key {
            name: "fall",
            form: Form::Number {
                min: 1,
                max: 100,
                default: 3,
            },
            about: "Checks in a row that must fail before the server counts as down",
        },
        Key {
            name: "rise",
            form: Form::Number {
                min: 1,
                max: 100,
                default: 2,
            },
            about: "Checks in a row that must succeed before it counts as up again",
        },
    ],
};

/// All tables, in the order of the documentation.
pub static TABLES: &[&Table] = &[
    &ROOT, &ADMIN, &SPLICE, &WORKERS, &LIMITS, &TIMEOUTS, &LOG, &LISTENER, &PARENT, &ROUTE,
    &HEADER, &UPSTREAM, &SERVER, &HEALTH,
];

impl Table {
    /// The key of that name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}
