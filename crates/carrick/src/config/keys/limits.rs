//! The keys of `[limits]`.
use super::{Form, KIB, Key, MIB, Table};

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
        Key {
            name: "splices",
            form: Form::Number {
                min: 1,
                max: 1_000_000,
                default: 16_384,
            },
            about: "Most splices that the `socket` engine has at a time, half a kilobyte of the kernel's memory each, and as many of the `packet` engine, about a kilobyte each, those included that have ended within the last minute; further ones go through the process",
        },
        Key {
            name: "unsent",
            form: Form::Size {
                min: 0,
                max: 1024 * MIB,
                default: 128 * KIB,
            },
            about: "What may wait in the kernel, for each connection, without having been sent (`TCP_NOTSENT_LOWAT`); what is on its way is not limited by it, nor is a connection whose leg profile has `unsent_low_water`; 0: as the system has it",
        },
        Key {
            name: "unread",
            form: Form::Size {
                min: 0,
                max: 1024 * MIB,
                default: 1536 * KIB,
            },
            about: "Most memory of the kernel's for what a client or server has sent and carrick has not read; for one that is 2 ms away or farther, it grows while more than a quarter of it is read within a round trip, as far as the system allows (`net.ipv4.tcp_rmem`); 0: as the system has it",
        },
        Key {
            name: "stalled",
            form: Form::Size {
                min: 0,
                max: 1024 * 1024 * MIB,
                default: 0,
            },
            about: "Most memory of the kernel's that all transfers and tunnels hold together whose receivers take nothing; beyond, those that have stood still for the longest time are ended; 0: a 64th of the machine's memory, which is a quarter of what Linux gives TCP before it is short",
        },
    ],
};
