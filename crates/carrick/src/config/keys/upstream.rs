//! The keys of `[upstream.NAME]` and what is in it.
use super::{DAY, Form, Key, REQUIRED, Table, seconds};
use std::time::Duration;

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
