//! `[cache]`, and what listeners and routes say about it.
use super::{HTTP, Header};
use crate::config::keys::{Form, NONE, REQUIRED};
use crate::config::kinds::{
    DAY, KIB, MIB, MS, Texts, lifetime, lifetime_or, milliseconds, number, one_of, one_text, other,
    required_disk_size, required_text, seconds, size, size_or, switch, switch_or, table,
    table_list, table_or, table_or_other, text, text_or, texts, time,
};
use crate::config::problem::Problems;
use crate::config::reader::{Section, wrong_kind};
use crate::config::section::{Keys, Written, section};
use crate::config::setting::Setting;
use crate::config::word::words;
use carrick_logic::embedded::Hosts;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// Objects when nothing says otherwise.
const OBJECTS_DEFAULT: u64 = 1_000_000;
/// Smallest `object_max`.
const OBJECT_BYTES_MIN: u64 = KIB;

section! {
    /// `[cache]`
    #[derive(Debug)]
    pub struct Cache = "[cache]", advice = ADVICE {
        /// Most memory for stored responses, including heads and bookkeeping. While slow clients hold as much of
        /// evicted ones, new responses are not stored
        memory: u64 = size(MIB..=MIB << 20, 256 * MIB),
        /// Most objects; `memory` may be full first
        objects: usize = number(1..=1_000_000_000, OBJECTS_DEFAULT),
        /// Largest body that is stored
        object_max: Setting<u64> = size_or(OBJECT_BYTES_MIN..=u64::MAX, "an eighth of `memory`, which is the most"),
        /// A second, larger level that is kept across restarts; changes require a restart
        disk: Setting<Written<Disk>> = table_or(NONE),
        /// Lifetime of successes and redirects that state none; `"0s"`: as in RFC 9111
        default_ttl: u32 = lifetime(Duration::ZERO),
        /// Lifetime of errors (404, 405, 410, 500, 502 to 504) that state none; `"0s"`: as in RFC 9111. Not of 400,
        /// 403, 414 and 501, which one client's headers can provoke for all
        negative_ttl: u32 = lifetime(Duration::ZERO),
        /// Lifetime of responses that state none but have `Last-Modified`, in percent of the time since then; 0: none
        heuristic_percent: u32 = number(0..=100, 10),
        /// Longest lifetime by `heuristic_percent`
        heuristic_max: u32 = lifetime(DAY),
        /// How long after its lifetime a response may be sent while it is fetched again, if the server does not say
        stale_while_revalidate: u32 = lifetime(Duration::ZERO),
        /// How long after its lifetime a response may be sent when the server fails, if the server does not say
        stale_if_error: u32 = lifetime(Duration::ZERO),
        /// Store responses with `Set-Cookie` as they are: everybody gets the same cookie
        share_set_cookie: bool = switch(false),
        /// Headers that replace `Cache-Control` and `Expires` for this cache (RFC 9213); the first that is valid and
        /// not empty counts. The default does not apply to origins; `[]`: none
        targeted: Setting<Texts> = texts("names of headers", "`CDN-Cache-Control` on routes to upstreams"),
        /// Whether `no-cache`, `max-age` and `min-fresh` in requests, such as a browser's *reload*, make carrick ask
        /// the server
        respect_client_no_cache: bool = switch(true),
        /// Most ranges of a request that the cache answers; a request for more gets the whole body
        ranges_max: usize = number(1..=1000, 16),
        /// When carrick fetches the rest of a response for the cache although its clients have left
        quick_abort: Written<QuickAbort> = table(),
        /// Whether responses have `Cache-Status`, which says what the cache did (RFC 9211)
        status: bool = switch(true),
        /// Other caches: if a response is not stored here, the one that owns the URL is asked before the server
        cache_peers as "peers": Setting<Written<CachePeers>> = table_or(NONE),
        /// A cache in a Redis or Valkey that several carricks share. Only in a carrick that was built with it
        shared: Setting<Written<Shared>> = table_or(NONE),
    }
}

/// Keys of other programs and other versions, and what to write here.
const ADVICE: &[(&str, &str)] = &[
    ("path", "write `disk = { path = \"…\", size = \"…\" }`"),
    ("size", MEMORY_ADVICE),
    ("max_size", MEMORY_ADVICE),
];
const MEMORY_ADVICE: &str = "`memory` is how much is stored, `object_max` the largest body";

section! {
    /// `disk = { … }`
    #[derive(Debug)]
    pub struct Disk = "disk = { }" {
        /// The folder. It belongs to one carrick alone, whose user must be able to write to it; created if missing
        path: Setting<String> = required_text("an absolute path"),
        /// Most bytes of all files, in blocks of 4 KB, not counting what folders and the file system itself take
        size: Setting<u64> = required_disk_size(16 * MIB..=1 << 50),
        /// Most objects. Each takes some 200 bytes of memory and its key, beside `memory`
        objects: u64 = number(1..=1_000_000_000, OBJECTS_DEFAULT),
        /// Largest body that is stored
        object_max: Setting<u64> = size_or(OBJECT_BYTES_MIN..=u64::MAX, "an eighth of `size`, which is the most"),
    }
}

section! {
    /// `quick_abort = { … }`
    #[derive(Debug)]
    pub struct QuickAbort = "quick_abort = { }" {
        /// If at most this much is missing; of a body of unknown length, at most this much more is fetched
        left: u64 = size(0..=1024 * MIB, MIB),
        /// If this share of it has arrived; 0: always, 100: the share does not count
        percent: u8 = number(0..=100, 90),
    }
}

section! {
    /// `peers = { … }`
    #[derive(Debug)]
    pub struct CachePeers = "peers = { }" {
        /// The caches that share all URLs among them, in any order; written alike in the files of all of them
        members: Setting<Texts> = texts("`host:port`; port 3128 if left out", REQUIRED),
        /// Which of them this carrick is: it asks no peer for URLs that it owns
        own as "self": Setting<String> = text_or("one of `members`", "it is none of them"),
        /// Time to connect to a member
        connect: Duration = time(MS..=seconds(60), milliseconds(200)),
        /// Time until a member's answer begins; a slower member is skipped for a while
        answer: Duration = time(MS..=seconds(60), seconds(1)),
    }
}

section! {
    /// `shared = { … }`
    #[derive(Debug)]
    pub struct Shared = "shared = { }" {
        /// The server; for a cluster, some of its servers, which know the others
        servers: Setting<Texts> = texts("`host:port`; port 6379 if left out", REQUIRED),
        /// Whether they are a cluster
        cluster: bool = switch(false),
        /// What the names of all keys there begin with. Carricks with the same prefix share what they store
        prefix: Spanned<String> = text("a word", "carrick"),
        /// How long a request waits for it; a slower server is skipped for a while
        timeout: Duration = time(MS..=seconds(10), milliseconds(100)),
        /// Largest body that is written there
        object_max: u64 = size(OBJECT_BYTES_MIN..=512 * MIB, MIB),
        /// The user to log in as; requires `password_file`
        user: Setting<String> = text_or("a name", "the server's default user"),
        /// A file whose first line is the password
        password_file: Setting<String> = text_or("a path", NONE),
    }
}

section! {
    /// What a listener or a route says about the cache.
    #[derive(Debug)]
    pub struct CacheUse = "[[listener]]" {
        /// Whether responses are stored and reused. Requires `[cache]`. Not for `tunnel`, nor where the packet engine
        /// leaves responses unread
        cache in HTTP: Setting<bool> = switch_or("forward: `true`, if there is `[cache]`; switch: `false`"),
        /// Overrides `[cache]`
        default_ttl in HTTP: Setting<u32> = lifetime_or("that of `[cache]`"),
        /// What distinguishes stored responses, besides scheme, host, port, path, and `Vary`
        cache_key in HTTP: Setting<Written<CacheKey>> = table_or("the whole URL"),
        /// Requests that bypass the cache: they get no stored response, and their responses are not stored
        cache_bypass in HTTP: Setting<Vec<Written<Bypass>>> = table_list("a list of conditions, or one of them"),
        /// Whether objects embedded in HTML pages are fetched into the cache while the page goes to its client
        prefetch in HTTP: Setting<Option<Prefetch>> =
            table_or_other::<Prefetch, _>("`true`, `false`, or `{ objects, … }`", "`false`", prefetch),
    }
}

section! {
    /// `cache_key = { … }`
    #[derive(Debug)]
    pub struct CacheKey = "cache_key = { }" {
        /// The part of the query: as it was sent, nothing, or these parameters in any order
        query: Setting<Query> = other("`\"all\"`, `\"none\"`, or names of parameters", "\"all\"", query),
        /// Request headers whose values distinguish responses
        headers: Setting<Texts> = texts("names of headers", NONE),
    }
}

/// `query` of `cache_key`
#[derive(Debug)]
pub enum Query {
    /// `"all"`
    All,
    /// `"none"`
    None,
    /// A list of names.
    These(Texts),
}

section! {
    /// One of `cache_bypass`
    #[derive(Debug)]
    pub struct Bypass = "cache_bypass = [{ }]" {
        /// As in a route
        host: Setting<String> = one_text("a name pattern"),
        /// As in a route
        path: Setting<String> = one_text("a path"),
        /// As in a route
        extension: Setting<Texts> = texts("words", "any"),
        /// As in a route
        cookie: Setting<String> = one_text("a name"),
        /// As in a route
        header: Setting<Written<Header>> = table_or("any"),
        /// As in a route
        cgi: Setting<bool> = switch_or("either"),
    }
}

section! {
    /// `prefetch = { … }`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Prefetch = "prefetch = { }" {
        /// `same`: objects of the page's own host and port; `any`: also those of other hosts, at port 80 (not where
        /// clients are intercepted on their way to an origin)
        hosts: Hosts = one_of("same"),
        /// Most objects that are requested for one page
        objects: usize = number(1..=1024, 64),
        /// Largest object; a larger one is given up when its head says so, or when this much of it has arrived
        object_bytes_max as "object_max": u64 = size(KIB..=1024 * MIB, MIB),
        /// Most bytes of all objects of one page
        page_bytes_max as "page_max": u64 = size(KIB..=16 * 1024 * MIB, 8 * MIB),
        /// Most bytes of a page that are searched, counted without content coding
        look_bytes as "look": usize = size(KIB..=16 * MIB, 256 * KIB),
        /// Most objects of one page that are fetched at the same time
        at_once: usize = number(1..=64, 6),
        /// Most objects that a worker fetches ahead at the same time, for all pages; further ones are not fetched
        worker_at_once: usize = number(1..=10_000, 128),
    }
}

words!(Hosts { "same" => Same, "any" => Any });

/// A word of yes or no, or a table.
fn prefetch(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<Option<Prefetch>> {
    match table.raw(key).map(|value| (value, value.get_ref())) {
        Some((value, DeValue::Boolean(is_on))) => {
            Setting::Given(Spanned::new(value.span(), is_on.then(Prefetch::defaults)))
        }
        None | Some((_, DeValue::Table(_))) => table
            .table(key, Prefetch::TABLE, problems)
            .map(|table| Some(Prefetch::read(&table, problems))),
        Some((value, _)) => wrong_kind(value, key, "`true`, `false` or a table", problems),
    }
}

fn query(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<Query> {
    let Some(value) = table.raw(key) else {
        return Setting::Absent;
    };
    let given = |query| Setting::Given(Spanned::new(value.span(), query));
    match value.get_ref() {
        DeValue::String(text) if text == "all" => given(Query::All),
        DeValue::String(text) if text == "none" => given(Query::None),
        DeValue::String(text) => {
            problems
                .error(value.span(), format!("`{key}` cannot be \"{text}\""))
                .help(format!(
                    "it can be \"all\", \"none\", or a list of parameters: [\"{text}\"]"
                ));
            Setting::Wrong
        }
        DeValue::Array(_) => table.texts(key, problems).map(Query::These),
        _ => wrong_kind(
            value,
            key,
            "\"all\", \"none\" or a list of parameters",
            problems,
        ),
    }
}
