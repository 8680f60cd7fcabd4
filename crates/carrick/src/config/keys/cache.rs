//! The keys of `[cache]`, and those of listeners and routes about it.
use super::{DAY, Form, KIB, Key, MIB, MS, NONE, REQUIRED, Table, seconds};
use crate::config::plan::{MEMORY_BYTES_DEFAULT, OBJECTS_DEFAULT};
use std::time::Duration;

/// Longest lifetime that a configuration can give: a year of 365.25 days.
pub const LIFETIME_MAX: Duration = Duration::from_secs(31_557_600);

/// What `targeted` is for routes to upstreams: who works for a server is what RFC 9213, 3.1, calls a CDN.
pub const TARGETED: &str = "cdn-cache-control";

/// Smallest `size` of `disk`.
pub const DISK_BYTES_MIN: u64 = 16 * MIB;
/// The largest.
pub const DISK_BYTES_MAX: u64 = 1 << 50;

/// Smallest `object_max`.
pub const OBJECT_BYTES_MIN: u64 = KIB;

const fn lifetime(default: Duration) -> Form {
    Form::Time {
        min: Duration::ZERO,
        max: LIFETIME_MAX,
        default,
    }
}

/// `[cache]`
pub static CACHE: Table = Table {
    title: "[cache]",
    keys: &[
        Key {
            name: "memory",
            form: Form::Size {
                min: MIB,
                max: MIB << 20,
                default: MEMORY_BYTES_DEFAULT,
            },
            about: "Most memory for all that is stored, with heads and what is noted about them",
        },
        Key {
            name: "objects",
            form: Form::Number {
                min: 1,
                max: 1_000_000_000,
                default: OBJECTS_DEFAULT,
            },
            about: "Most objects; `memory` may be full before",
        },
        Key {
            name: "object_max",
            form: Form::Other {
                what: "size, `\"1 KB\"` to an eighth of `memory`",
                default: "an eighth of `memory`",
            },
            about: "Largest body that is stored",
        },
        Key {
            name: "disk",
            form: Form::Other {
                what: "`{ path, size, objects, object_max }`",
                default: NONE,
            },
            about: "A second level that is larger and outlasts carrick; changes only with a restart",
        },
        Key {
            name: "default_ttl",
            form: lifetime(Duration::ZERO),
            about: "Lifetime of a success or redirect that says nothing of one; `\"0s\"`: as RFC 9111 has it",
        },
        Key {
            name: "negative_ttl",
            form: lifetime(Duration::ZERO),
            about: "Lifetime of an error (400, 403, 404, 405, 410, 414, 500 to 504) that says nothing of one; `\"0s\"`: as RFC 9111 has it",
        },
        Key {
            name: "heuristic_percent",
            form: Form::Number {
                min: 0,
                max: 100,
                default: 10,
            },
            about: "Lifetime of what says nothing of one but has `Last-Modified`, in percent of the time since then; 0: none",
        },
        Key {
            name: "heuristic_max",
            form: lifetime(DAY),
            about: "Longest lifetime by `heuristic_percent`",
        },
        Key {
            name: "stale_while_revalidate",
            form: lifetime(Duration::ZERO),
            about: "How long after its lifetime a response may be sent while it is fetched anew, where the server says nothing",
        },
        Key {
            name: "stale_if_error",
            form: lifetime(Duration::ZERO),
            about: "How long after its lifetime a response may be sent when the server fails, where the server says nothing",
        },
        Key {
            name: "share_set_cookie",
            form: Form::Switch { default: false },
            about: "Store responses with `Set-Cookie` as they are: everybody gets the same cookie",
        },
        Key {
            name: "targeted",
            form: Form::Texts {
                what: "names of headers",
                default: "`CDN-Cache-Control` on routes to upstreams",
            },
            about: "Headers that replace `Cache-Control` and `Expires` for this cache (RFC 9213); the first that is right and not empty counts. The default does not hold for what goes to origins, for which carrick does not work; `[]` is none",
        },
        Key {
            name: "respect_client_no_cache",
            form: Form::Switch { default: true },
            about: "Whether `no-cache`, `max-age` and `min-fresh` of requests make carrick ask the server, so that a browser's *reload* does",
        },
        Key {
            name: "ranges_max",
            form: Form::Number {
                min: 1,
                max: 1000,
                default: 16,
            },
            about: "Most ranges of a request that are answered from the cache; one with more gets the whole",
        },
        Key {
            name: "quick_abort",
            form: Form::Other {
                what: "`{ left, percent }`",
                default: "see there",
            },
            about: "When a response that is being stored is fetched to its end, though its clients have gone",
        },
        Key {
            name: "status",
            form: Form::Switch { default: true },
            about: "Whether responses say in `Cache-Status` what the cache did (RFC 9211)",
        },
        Key {
            name: "peers",
            form: Form::Other {
                what: "`{ members, self, connect, answer }`",
                default: NONE,
            },
            about: "Other caches, of which the one that owns the URL is asked for what is not stored here, before the server is",
        },
        Key {
            name: "shared",
            form: Form::Other {
                what: "`{ servers, cluster, prefix, timeout, object_max, user, password_file }`",
                default: NONE,
            },
            about: "A second level in a Redis or Valkey that several carricks share. Only in a carrick that was built with it",
        },
    ],
};

/// `shared = { … }`
pub static SHARED: Table = Table {
    title: "shared = { }",
    keys: &[
        Key {
            name: "servers",
            form: Form::Texts {
                what: "`host:port`; port 6379 if left out",
                default: REQUIRED,
            },
            about: "The server; of a cluster some of its servers, which know the others",
        },
        Key {
            name: "cluster",
            form: Form::Switch { default: false },
            about: "Whether they are a cluster",
        },
        Key {
            name: "prefix",
            form: Form::Text {
                what: "a word",
                default: "\"carrick\"",
            },
            about: "What the names of all keys there begin with. Carricks with the same prefix share what they store",
        },
        Key {
            name: "timeout",
            form: Form::Time {
                min: MS,
                max: seconds(10),
                default: Duration::from_millis(100),
            },
            about: "How long a request waits for it; one that takes longer is left out for a while",
        },
        Key {
            name: "object_max",
            form: Form::Size {
                min: OBJECT_BYTES_MIN,
                max: 512 * MIB,
                default: MIB,
            },
            about: "Largest body that is written there",
        },
        Key {
            name: "user",
            form: Form::Text {
                what: "a name",
                default: "the server's default user",
            },
            about: "As whom to log in; needs `password_file`",
        },
        Key {
            name: "password_file",
            form: Form::Text {
                what: "a path",
                default: NONE,
            },
            about: "A file whose first line is the password",
        },
    ],
};

/// `peers = { … }`
pub static CACHE_PEERS: Table = Table {
    title: "peers = { }",
    keys: &[
        Key {
            name: "members",
            form: Form::Texts {
                what: "`host:port`; port 3128 if left out",
                default: REQUIRED,
            },
            about: "The caches that share all URLs among them, in any order; written alike in the files of all of them",
        },
        Key {
            name: "self",
            form: Form::Text {
                what: "one of `members`",
                default: "it is none of them",
            },
            about: "Which of them this carrick is: for URLs that it owns nobody is asked",
        },
        Key {
            name: "connect",
            form: Form::Time {
                min: MS,
                max: seconds(60),
                default: Duration::from_millis(200),
            },
            about: "To connect to a member",
        },
        Key {
            name: "answer",
            form: Form::Time {
                min: MS,
                max: seconds(60),
                default: seconds(1),
            },
            about: "Until a member's answer begins; one that takes longer is left out for a while",
        },
    ],
};

/// `disk = { … }`
pub static DISK: Table = Table {
    title: "disk = { }",
    keys: &[
        Key {
            name: "path",
            form: Form::Text {
                what: "an absolute path",
                default: super::REQUIRED,
            },
            about: "The folder. It belongs to one carrick alone, and can be written by its user; made if it is not there",
        },
        Key {
            name: "size",
            form: Form::Other {
                what: "size, `\"16 MB\"` to `\"1 PB\"`",
                default: super::REQUIRED,
            },
            about: "Most bytes of all files, in blocks of 4 KB. What folders and the file system itself take comes besides",
        },
        Key {
            name: "objects",
            form: Form::Number {
                min: 1,
                max: 1_000_000_000,
                default: OBJECTS_DEFAULT,
            },
            about: "Most objects. Each takes some 300 bytes of memory and its key, beside `memory`",
        },
        Key {
            name: "object_max",
            form: Form::Other {
                what: "size, `\"1 KB\"` to an eighth of `size`",
                default: "an eighth of `size`",
            },
            about: "Largest body that is stored",
        },
    ],
};

/// `quick_abort = { … }`
pub static QUICK_ABORT: Table = Table {
    title: "quick_abort = { }",
    keys: &[
        Key {
            name: "left",
            form: Form::Size {
                min: 0,
                max: 1024 * MIB,
                default: MIB,
            },
            about: "If no more bytes are missing; of a body of unknown length so many are fetched at most",
        },
        Key {
            name: "percent",
            form: Form::Number {
                min: 0,
                max: 100,
                default: 90,
            },
            about: "If this share of it has come; 0: always, 100: the share does not count",
        },
    ],
};

/// Of listeners and routes: whether there is a cache for their requests.
pub(super) const USE: Key = Key {
    name: "cache",
    form: Form::Other {
        what: "`true` or `false`",
        default: "forward: `true`, if there is `[cache]`; switch: `false`",
    },
    about: "Whether responses are stored and sent again. Wants `[cache]`. Not for `tunnel`, nor where the packet engine leaves responses unread",
};

/// Of listeners and routes: the lifetime of what says nothing of one.
pub(super) const DEFAULT_TTL: Key = Key {
    name: "default_ttl",
    form: Form::Other {
        what: "time, `\"0s\"` to `\"1year\"`",
        default: "that of `[cache]`",
    },
    about: "Overrides `[cache]`",
};

/// Of listeners and routes: what is in the key.
pub(super) const KEY: Key = Key {
    name: "cache_key",
    form: Form::Other {
        what: "`{ query, headers }`",
        default: "the whole URL",
    },
    about: "What tells stored responses apart, besides scheme, host, port, path, and `Vary`",
};

/// Of listeners and routes: what passes by.
pub(super) const BYPASS: Key = Key {
    name: "cache_bypass",
    form: Form::Other {
        what: "a list of conditions, or one of them",
        default: NONE,
    },
    about: "Requests that pass the cache by: nothing stored answers them, and their responses are not stored",
};

/// Of listeners and routes: what pages embed, fetched before it is asked for.
pub(super) const PREFETCH: Key = Key {
    name: "prefetch",
    form: Form::Other {
        what: "`true`, `false`, or `{ objects, … }`",
        default: "`false`",
    },
    about: "Whether what HTML pages embed is fetched into the cache while the page goes to its client",
};

/// `prefetch = { … }`
pub static PREFETCH_TABLE: Table = Table {
    title: "prefetch = { }",
    keys: &[
        Key {
            name: "hosts",
            form: Form::OneOf {
                words: HOSTS,
                default: "same",
            },
            about: "`same`: objects of the page's own host and port; `any`: also those of other hosts, at port 80 (not where clients are intercepted on their way to an origin)",
        },
        Key {
            name: "objects",
            form: Form::Number {
                min: 1,
                max: 1024,
                default: 64,
            },
            about: "Most objects that are asked for because of one page",
        },
        Key {
            name: "object_max",
            form: Form::Size {
                min: KIB,
                max: 1024 * MIB,
                default: MIB,
            },
            about: "Largest object; what is larger is given up when its head says so, or when so much of it has come",
        },
        Key {
            name: "page_max",
            form: Form::Size {
                min: KIB,
                max: 16 * 1024 * MIB,
                default: 8 * MIB,
            },
            about: "Most bytes of all objects of one page",
        },
        Key {
            name: "look",
            form: Form::Size {
                min: KIB,
                max: 16 * MIB,
                default: 256 * KIB,
            },
            about: "So much of a page is looked at, without its content coding",
        },
        Key {
            name: "at_once",
            form: Form::Number {
                min: 1,
                max: 64,
                default: 6,
            },
            about: "Most objects of one page that are fetched at the same time",
        },
        Key {
            name: "worker_at_once",
            form: Form::Number {
                min: 1,
                max: 10_000,
                default: 128,
            },
            about: "Most objects that a worker fetches ahead at the same time, for all pages; what is more is not fetched",
        },
    ],
};

/// `hosts` of `prefetch`
const HOSTS: &[&str] = &["same", "any"];

/// `cache_key = { … }`
pub static CACHE_KEY: Table = Table {
    title: "cache_key = { }",
    keys: &[
        Key {
            name: "query",
            form: Form::Other {
                what: "`\"all\"`, `\"none\"`, or names of parameters",
                default: "\"all\"",
            },
            about: "The part of the query: as it was sent, nothing, or these parameters in any order",
        },
        Key {
            name: "headers",
            form: Form::Texts {
                what: "names of headers",
                default: NONE,
            },
            about: "Headers of the request whose values tell responses apart",
        },
    ],
};

/// `cache_bypass = [{ … }]`
pub static CACHE_BYPASS: Table = Table {
    title: "cache_bypass = [{ }]",
    keys: &[
        Key {
            name: "host",
            form: Form::Text {
                what: "a name pattern",
                default: "any",
            },
            about: "As in a route",
        },
        Key {
            name: "path",
            form: Form::Text {
                what: "a path",
                default: "any",
            },
            about: "As in a route",
        },
        Key {
            name: "extension",
            form: Form::Texts {
                what: "words",
                default: "any",
            },
            about: "As in a route",
        },
        Key {
            name: "cookie",
            form: Form::Text {
                what: "a name",
                default: "any",
            },
            about: "As in a route",
        },
        Key {
            name: "header",
            form: Form::Other {
                what: "`{ name, value }`",
                default: "any",
            },
            about: "As in a route",
        },
        Key {
            name: "cgi",
            form: Form::Other {
                what: "`true` or `false`",
                default: "either",
            },
            about: "As in a route",
        },
    ],
};

/// Keys of other programs and other versions, and what to write here.
pub(super) static ADVICE: &[(&str, &str)] = &[
    ("path", "write `disk = { path = \"…\", size = \"…\" }`"),
    (
        "size",
        "`memory` is how much is stored, `object_max` the largest body",
    ),
    (
        "max_size",
        "`memory` is how much is stored, `object_max` the largest body",
    ),
];
