//! `[cache]` as it is written, and what listeners and routes say about it.
use super::{Header, header, inline, one_text, required_text};
use crate::config::keys::cache::{DISK_BYTES_MAX, DISK_BYTES_MIN, LIFETIME_MAX, OBJECT_BYTES_MIN};
use crate::config::keys::{self, Form};
use crate::config::problem::Problems;
use crate::config::reader::{Section, wrong_kind};
use crate::config::setting::Setting;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// `[cache]`, with defaults where they do not depend on another key.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Cache {
    /// Where its header is.
    pub span: Range<usize>,
    pub memory: u64,
    /// Where it is written, if it is.
    pub memory_given: Option<Range<usize>>,
    pub objects: u64,
    pub object_max: Setting<u64>,
    pub disk: Setting<Disk>,
    pub default_ttl: u32,
    pub negative_ttl: u32,
    pub heuristic_percent: u64,
    pub heuristic_max: u32,
    pub stale_while_revalidate: u32,
    pub stale_if_error: u32,
    pub share_set_cookie: bool,
    pub targeted: Setting<Vec<Spanned<String>>>,
    pub respect_client_no_cache: bool,
    pub ranges_max: u64,
    pub quick_abort: Setting<QuickAbort>,
    pub status: bool,
    pub cache_peers: Setting<CachePeers>,
    pub shared: Setting<Shared>,
}

/// `disk = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Disk {
    pub path: Setting<String>,
    pub size: Setting<u64>,
    pub objects: u64,
    pub object_max: Setting<u64>,
}

/// `quick_abort = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct QuickAbort {
    pub left: u64,
    pub percent: u64,
}

/// `peers = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct CachePeers {
    /// Where it is.
    pub span: Range<usize>,
    pub members: Setting<Vec<Spanned<String>>>,
    pub own: Setting<String>,
    pub connect: Duration,
    pub answer: Duration,
}

/// `shared = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Shared {
    /// Where it is.
    pub span: Range<usize>,
    pub servers: Setting<Vec<Spanned<String>>>,
    pub cluster: bool,
    pub prefix: Setting<String>,
    pub timeout: Duration,
    pub object_max: u64,
    pub user: Setting<String>,
    pub password_file: Setting<String>,
}

/// What a listener or a route says about the cache.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct CacheUse {
    pub cache: Setting<bool>,
    pub default_ttl: Setting<u32>,
    pub cache_key: Setting<CacheKey>,
    pub cache_bypass: Setting<Vec<Bypass>>,
    pub prefetch: Setting<Prefetch>,
    /// Where the first of these that only means something with a cache has its name.
    pub detail: Option<(&'static str, Range<usize>)>,
}

/// `cache_key = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct CacheKey {
    pub query: Setting<Query>,
    pub headers: Setting<Vec<Spanned<String>>>,
}

/// `prefetch = true`, `prefetch = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Prefetch {
    /// Whether it is not `false`.
    pub is_on: bool,
    pub hosts: Setting<&'static str>,
    pub objects: u64,
    pub object_max: u64,
    pub page_max: u64,
    pub look: u64,
    pub at_once: u64,
    pub worker_at_once: u64,
}

/// `query` of `cache_key`
#[derive(Debug)]
pub enum Query {
    /// `"all"`
    All,
    /// `"none"`
    None,
    /// A list of names.
    These(Vec<Spanned<String>>),
}

/// One of `cache_bypass`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Bypass {
    /// Where it is.
    pub span: Range<usize>,
    /// Whether it says nothing.
    pub is_empty: bool,
    pub host: Setting<String>,
    pub path: Setting<String>,
    pub extension: Setting<Vec<Spanned<String>>>,
    pub cookie: Setting<String>,
    pub header: Setting<Header>,
    pub cgi: Setting<bool>,
}

impl Cache {
    pub(super) fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        let mut lifetime = |key| {
            let default = match keys::CACHE.key(key).map(|key| &key.form) {
                Some(Form::Time { default, .. }) => *default,
                _ => Duration::ZERO,
            };
            self::lifetime(table, key, problems).or(whole_seconds(default))
        };
        Self {
            default_ttl: lifetime("default_ttl"),
            negative_ttl: lifetime("negative_ttl"),
            heuristic_max: lifetime("heuristic_max"),
            stale_while_revalidate: lifetime("stale_while_revalidate"),
            stale_if_error: lifetime("stale_if_error"),
            span: table.span(),
            memory: table.size("memory", problems),
            memory_given: table.raw("memory").map(Spanned::span),
            objects: table.number("objects", problems),
            object_max: table.size_within("object_max", OBJECT_BYTES_MIN, u64::MAX, problems),
            disk: inline(table, "disk", &keys::DISK, problems, disk),
            heuristic_percent: table.number("heuristic_percent", problems),
            share_set_cookie: table.switch("share_set_cookie", problems),
            targeted: table.texts("targeted", problems),
            respect_client_no_cache: table.switch("respect_client_no_cache", problems),
            ranges_max: table.number("ranges_max", problems),
            quick_abort: inline(
                table,
                "quick_abort",
                &keys::QUICK_ABORT,
                problems,
                |table, problems| QuickAbort {
                    left: table.size("left", problems),
                    percent: table.number("percent", problems),
                },
            ),
            status: table.switch("status", problems),
            cache_peers: inline(
                table,
                "peers",
                &keys::CACHE_PEERS,
                problems,
                |table, problems| CachePeers {
                    span: table.span(),
                    members: table.texts("members", problems),
                    own: table.text("self", problems),
                    connect: table.time("connect", problems),
                    answer: table.time("answer", problems),
                },
            ),
            shared: inline(
                table,
                "shared",
                &keys::SHARED,
                problems,
                |table, problems| Shared {
                    span: table.span(),
                    servers: table.texts("servers", problems),
                    cluster: table.switch("cluster", problems),
                    prefix: table.text("prefix", problems),
                    timeout: table.time("timeout", problems),
                    object_max: table.size("object_max", problems),
                    user: table.text("user", problems),
                    password_file: table.text("password_file", problems),
                },
            ),
        }
    }
}

impl CacheUse {
    pub(super) fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        let details = ["default_ttl", "cache_key", "cache_bypass", "prefetch"];
        Self {
            cache: table.boolean("cache", problems),
            default_ttl: lifetime(table, "default_ttl", problems),
            cache_key: inline(
                table,
                "cache_key",
                &keys::CACHE_KEY,
                problems,
                |table, problems| CacheKey {
                    query: query(table, problems),
                    headers: table.texts("headers", problems),
                },
            ),
            cache_bypass: bypass(table, problems),
            prefetch: prefetch(table, problems),
            detail: details
                .into_iter()
                .find_map(|key| Some((key, table.key_span(key)?))),
        }
    }
}

/// A word of yes or no, or a table.
fn prefetch(table: &Section<'_>, problems: &mut Problems) -> Setting<Prefetch> {
    const KEY: &str = "prefetch";
    let read = |table: &Section<'_>, problems: &mut Problems| Prefetch {
        is_on: true,
        hosts: table.word("hosts", problems),
        objects: table.number("objects", problems),
        object_max: table.size("object_max", problems),
        page_max: table.size("page_max", problems),
        look: table.size("look", problems),
        at_once: table.number("at_once", problems),
        worker_at_once: table.number("worker_at_once", problems),
    };
    match table.raw(KEY).map(|value| (value, value.get_ref())) {
        Some((value, DeValue::Boolean(is_on))) => {
            let defaults = Section::empty(&keys::PREFETCH_TABLE, value.span());
            let prefetch = Prefetch {
                is_on: *is_on,
                ..read(&defaults, problems)
            };
            Setting::Given(Spanned::new(value.span(), prefetch))
        }
        None | Some((_, DeValue::Table(_))) => {
            inline(table, KEY, &keys::PREFETCH_TABLE, problems, read)
        }
        Some((value, _)) => wrong_kind(value, KEY, "`true`, `false` or a table", problems),
    }
}

fn disk(table: &Section<'_>, problems: &mut Problems) -> Disk {
    let size = table.size_within("size", DISK_BYTES_MIN, DISK_BYTES_MAX, problems);
    if size.is_absent() {
        problems
            .error(table.span(), "`size` is missing here", "")
            .help("say how much of the disk may be used, such as `size = \"100 GB\"`");
    }
    Disk {
        path: required_text(table, "path", problems),
        size,
        objects: table.number("objects", problems),
        object_max: table.size_within("object_max", OBJECT_BYTES_MIN, u64::MAX, problems),
    }
}

/// A lifetime, of which caches count whole seconds (RFC 9111 section 1.2.2).
fn lifetime(table: &Section<'_>, key: &str, problems: &mut Problems) -> Setting<u32> {
    let time = table.time_within(key, Duration::ZERO, LIFETIME_MAX, problems);
    time.refine("a lifetime", problems, |time| {
        if time.subsec_nanos() == 0 {
            Ok(whole_seconds(*time))
        } else {
            Err("lifetimes are whole seconds, such as \"1s\"".to_owned())
        }
    })
}

fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

fn query(table: &Section<'_>, problems: &mut Problems) -> Setting<Query> {
    const KEY: &str = "query";
    let Some(value) = table.raw(KEY) else {
        return Setting::Absent;
    };
    let given = |query| Setting::Given(Spanned::new(value.span(), query));
    match value.get_ref() {
        DeValue::String(text) if text == "all" => given(Query::All),
        DeValue::String(text) if text == "none" => given(Query::None),
        DeValue::String(text) => {
            problems
                .error(value.span(), format!("`{KEY}` cannot be \"{text}\""), "")
                .help(format!(
                    "it can be \"all\", \"none\", or a list of parameters: [\"{text}\"]"
                ));
            Setting::Wrong
        }
        DeValue::Array(_) => match table.texts(KEY, problems) {
            Setting::Given(names) => given(Query::These(names.into_inner())),
            _ => Setting::Wrong,
        },
        _ => wrong_kind(
            value,
            KEY,
            "\"all\", \"none\" or a list of parameters",
            problems,
        ),
    }
}

fn bypass(table: &Section<'_>, problems: &mut Problems) -> Setting<Vec<Bypass>> {
    let sections = table.table_list("cache_bypass", &keys::CACHE_BYPASS, problems);
    let Setting::Given(sections) = sections else {
        return match sections {
            Setting::Wrong => Setting::Wrong,
            _ => Setting::Absent,
        };
    };
    let span = sections.span();
    let read = |table: Section<'_>| Bypass {
        span: table.span(),
        is_empty: table.is_empty(),
        host: one_text(&table, "host", problems),
        path: one_text(&table, "path", problems),
        extension: table.texts("extension", problems),
        cookie: one_text(&table, "cookie", problems),
        header: header(&table, problems),
        cgi: table.boolean("cgi", problems),
    };
    let list = sections.into_inner().into_iter().map(read).collect();
    Setting::Given(Spanned::new(span, list))
}
