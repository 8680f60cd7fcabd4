//! The configuration as it is written: every value has its place and its kind, nothing is put together yet.
mod cache;
mod intercept;
mod legs;
mod link;
mod pace;
mod upstream;

pub use cache::{
    Bypass, Cache, CacheKey, CachePeers, CacheUse, Disk, Prefetch, Query, QuickAbort, Shared,
};
pub use intercept::Intercept;
pub use legs::{Leg, LegRule};
pub use link::Link;
pub use pace::{Pace, PaceClass};
pub use upstream::{Health, Server, Upstream};

use super::keys;
use super::plan::ServerAddress;
use super::problem::Problems;
use super::reader::{Section, integer, wrong_kind};
use super::setting::Setting;
use super::values;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The whole file.
#[derive(Debug)]
pub struct File {
    /// `admin.listen`
    pub admin_listen: Setting<String>,
    /// `splice.engine`
    pub engine: Setting<&'static str>,
    /// `workers.count`
    pub workers: u64,
    /// Where it is written, if it is.
    pub workers_given: Option<Range<usize>>,
    /// `process.user`
    pub user: Setting<String>,
    /// `process.pins`
    pub pins: Setting<String>,
    /// `process.packet`
    pub packet: Setting<&'static str>,
    /// `process.sandbox`
    pub sandbox: Setting<&'static str>,
    /// `process.group`
    pub group: Setting<String>,
    /// `[limits]`
    pub limits: Limits,
    /// `[timeouts]`
    pub timeouts: Timeouts,
    /// `log.access`
    pub log_access: Setting<String>,
    /// `log.format`
    pub log_format: Setting<&'static str>,
    /// `[cache]`
    pub cache: Setting<Cache>,
    /// `[pace]`
    pub pace: Pace,
    /// `[leg.NAME]`, in the order of the file
    pub legs: Vec<Leg>,
    /// `[link.NAME]`, in the order of the file
    pub links: Vec<Link>,
    /// Whether there is a `listener` at all.
    pub has_listeners: bool,
    /// `[[listener]]`
    pub listeners: Vec<Listener>,
    /// `[upstream.NAME]`, in the order of the file
    pub upstreams: Vec<Upstream>,
}

/// `[limits]`, with defaults.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Limits {
    pub connections: u64,
    pub connections_per_client: u64,
    pub request_head: u64,
    pub headers: u64,
    pub rate_min: u64,
    pub attempts: u64,
    pub log_queue: u64,
    pub dns_cache: u64,
    pub pipes: u64,
    pub splices: u64,
    pub unsent: u64,
    pub unread: u64,
    pub stalled: u64,
}

/// `[timeouts]`, with defaults.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Timeouts {
    pub head: Duration,
    pub idle: Duration,
    pub connect: Duration,
    pub tunnel_idle: Duration,
    pub drain: Duration,
}

/// `[[listener]]`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Listener {
    /// Where its header is.
    pub span: Range<usize>,
    /// Where each key that is given has its name.
    pub keys_given: Vec<(&'static str, Range<usize>)>,
    pub listen: Setting<String>,
    pub mode: Setting<&'static str>,
    pub proxy_protocol: bool,
    pub transparent: bool,
    pub intercept: Setting<Intercept>,
    pub keep_client_address: bool,
    pub handshake: Setting<&'static str>,
    pub split: Setting<&'static str>,
    pub control_group: u64,
    pub engine: Setting<&'static str>,
    pub allow: Setting<Vec<Spanned<String>>>,
    pub forwarded: Setting<&'static str>,
    pub trusted_proxies: Setting<Vec<Spanned<String>>>,
    pub trusted_field: Setting<&'static str>,
    pub underscores: Setting<&'static str>,
    pub via: Setting<String>,
    pub routes: Vec<Route>,
    pub connect_ports: Setting<ConnectPorts>,
    pub deny_to: Setting<Vec<Spanned<String>>>,
    pub users: Setting<String>,
    pub parent: Setting<Parent>,
    pub pace: Setting<String>,
    pub link: Setting<String>,
    pub legs: Setting<Vec<LegRule>>,
    /// `cache`, `default_ttl`, `cache_key`, `cache_bypass`, `prefetch`
    pub cache: CacheUse,
}

/// `connect_ports`
#[derive(Debug, Clone)]
pub enum ConnectPorts {
    /// `"all"`
    All,
    /// `"none"`, or an empty list.
    None,
    /// These.
    These(Vec<u16>),
}

/// `parent = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Parent {
    pub proxy: Setting<String>,
    pub destinations: Setting<Vec<Spanned<String>>>,
}

/// `[[listener.route]]`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Route {
    /// Where its header is.
    pub span: Range<usize>,
    /// Where each key that is given has its name.
    pub keys_given: Vec<(&'static str, Range<usize>)>,
    pub upstream: Setting<String>,
    pub to: Setting<&'static str>,
    pub host: Setting<String>,
    pub path: Setting<String>,
    pub extension: Setting<Vec<Spanned<String>>>,
    pub cookie: Setting<String>,
    pub header: Setting<Header>,
    pub method: Setting<Vec<Spanned<String>>>,
    pub cgi: Setting<bool>,
    pub sni: Setting<String>,
    pub engine: Setting<&'static str>,
    pub requests: Setting<&'static str>,
    pub responses: Setting<&'static str>,
    pub split: Setting<&'static str>,
    pub link: Setting<String>,
    pub pace: Setting<String>,
    /// `cache`, `default_ttl`, `cache_key`, `cache_bypass`, `prefetch`
    pub cache: CacheUse,
}

/// `header = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Header {
    pub name: Setting<String>,
    pub value: Setting<String>,
}

impl File {
    /// Reads the file's tables; whatever does not fit is reported.
    pub fn read(document: &DeTable<'_>, problems: &mut Problems) -> Self {
        let root = Section::root(document, &keys::ROOT, problems);
        let log = root.table_or_empty("log", &keys::LOG, problems);
        let process = root.table_or_empty("process", &keys::PROCESS, problems);
        let workers = root.table_or_empty("workers", &keys::WORKERS, problems);
        Self {
            admin_listen: root
                .table_or_empty("admin", &keys::ADMIN, problems)
                .text("listen", problems),
            engine: root
                .table_or_empty("splice", &keys::SPLICE, problems)
                .word("engine", problems),
            workers: workers.number("count", problems),
            workers_given: workers.raw("count").map(Spanned::span),
            user: process.text("user", problems),
            group: process.text("group", problems),
            pins: process.text("pins", problems),
            packet: process.word("packet", problems),
            sandbox: process.word("sandbox", problems),
            limits: Limits::read(
                &root.table_or_empty("limits", &keys::LIMITS, problems),
                problems,
            ),
            timeouts: Timeouts::read(
                &root.table_or_empty("timeouts", &keys::TIMEOUTS, problems),
                problems,
            ),
            log_access: log.text("access", problems),
            log_format: log.word("format", problems),
            cache: inline(&root, "cache", &keys::CACHE, problems, Cache::read),
            pace: Pace::read(
                &root.table_or_empty("pace", &keys::PACE, problems),
                problems,
            ),
            legs: root
                .named_tables("leg", &keys::LEG, problems)
                .into_iter()
                .map(|(name, table)| Leg::read(name, &table, problems))
                .collect(),
            links: root
                .named_tables("link", &keys::LINK, problems)
                .into_iter()
                .map(|(name, table)| Link::read(name, &table, problems))
                .collect(),
            has_listeners: root.key_span("listener").is_some(),
            listeners: root
                .tables("listener", &keys::LISTENER, problems)
                .iter()
                .map(|table| Listener::read(table, problems))
                .collect(),
            upstreams: root
                .named_tables("upstream", &keys::UPSTREAM, problems)
                .into_iter()
                .map(|(name, table)| Upstream::read(name, &table, problems))
                .collect(),
        }
    }
}

impl Limits {
    fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        Self {
            connections: table.number("connections", problems),
            connections_per_client: table.number("connections_per_client", problems),
            request_head: table.size("request_head", problems),
            headers: table.number("headers", problems),
            rate_min: table.size("rate_min", problems),
            attempts: table.number("attempts", problems),
            log_queue: table.number("log_queue", problems),
            dns_cache: table.number("dns_cache", problems),
            pipes: table.number("pipes", problems),
            splices: table.number("splices", problems),
            unsent: table.size("unsent", problems),
            unread: table.size("unread", problems),
            stalled: table.size("stalled", problems),
        }
    }
}

impl Timeouts {
    fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        Self {
            head: table.time("head", problems),
            idle: table.time("idle", problems),
            connect: table.time("connect", problems),
            tunnel_idle: table.time("tunnel_idle", problems),
            drain: table.time("drain", problems),
        }
    }
}

impl Listener {
    fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        let mode = table.word("mode", problems);
        let is_split = matches!(mode.given(), Some(word) if *word.get_ref() == "split");
        let transparent = table.boolean("transparent", problems).or(is_split);
        Self {
            span: table.span(),
            keys_given: keys_given(table, &keys::LISTENER),
            listen: table.text("listen", problems),
            mode,
            proxy_protocol: table.switch("proxy_protocol", problems),
            transparent,
            intercept: inline(
                table,
                "intercept",
                &keys::INTERCEPT,
                problems,
                Intercept::read,
            ),
            keep_client_address: table
                .boolean("keep_client_address", problems)
                .or(is_split && transparent),
            handshake: table.word("handshake", problems),
            split: table.word("split", problems),
            control_group: table.number("control_group", problems),
            engine: table.word("engine", problems),
            allow: table.texts("allow", problems),
            forwarded: table.word("forwarded", problems),
            trusted_proxies: table.texts("trusted_proxies", problems),
            trusted_field: table.word("trusted_field", problems),
            underscores: table.word("underscores", problems),
            via: table.text("via", problems),
            routes: table
                .tables("route", &keys::ROUTE, problems)
                .iter()
                .map(|table| Route::read(table, problems))
                .collect(),
            connect_ports: connect_ports(table, problems),
            deny_to: table.texts("deny_to", problems),
            users: table.text("users", problems),
            parent: inline(
                table,
                "parent",
                &keys::PARENT,
                problems,
                |table, problems| Parent {
                    proxy: required_text(table, "proxy", problems),
                    destinations: table.texts("for", problems),
                },
            ),
            link: table.text("link", problems),
            legs: LegRule::read_all(table, problems),
            pace: table.text("pace", problems),
            cache: CacheUse::read(table, problems),
        }
    }
}

impl Route {
    fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        Self {
            span: table.span(),
            keys_given: keys_given(table, &keys::ROUTE),
            upstream: table.text("upstream", problems),
            to: table.word("to", problems),
            host: one_text(table, "host", problems),
            path: one_text(table, "path", problems),
            extension: table.texts("extension", problems),
            cookie: one_text(table, "cookie", problems),
            header: header(table, problems),
            method: table.texts("method", problems),
            cgi: table.boolean("cgi", problems),
            sni: one_text(table, "sni", problems),
            engine: table.word("engine", problems),
            requests: table.word("requests", problems),
            responses: table.word("responses", problems),
            split: table.word("split", problems),
            link: table.text("link", problems),
            pace: table.text("pace", problems),
            cache: CacheUse::read(table, problems),
        }
    }
}

/// Host and port of a server, with what the file's author most likely wanted in the message.
pub fn server_address(
    setting: &Setting<String>,
    default_port: Option<u16>,
    problems: &mut Problems,
) -> Setting<ServerAddress> {
    setting.refine("a server's address", problems, |text| {
        values::server_address(text, default_port)
    })
}

fn keys_given(
    table: &Section<'_>,
    declared: &'static keys::Table,
) -> Vec<(&'static str, Range<usize>)> {
    declared
        .keys
        .iter()
        .filter_map(|key| Some((key.name, table.key_span(key.name)?)))
        .collect()
}

fn inline<'t, T>(
    table: &Section<'t>,
    key: &str,
    declared: &'static keys::Table,
    problems: &mut Problems,
    read: impl FnOnce(&Section<'t>, &mut Problems) -> T,
) -> Setting<T> {
    match table.table(key, declared, problems) {
        Setting::Absent => Setting::Absent,
        Setting::Wrong => Setting::Wrong,
        Setting::Given(section) => Setting::Given(Spanned::new(
            section.span(),
            read(section.get_ref(), problems),
        )),
    }
}

fn required_text(table: &Section<'_>, key: &str, problems: &mut Problems) -> Setting<String> {
    let text = table.text(key, problems);
    if text.is_absent() {
        problems.error(table.span(), format!("`{key}` is missing here"), "");
        return Setting::Wrong;
    }
    text
}

/// A condition that takes one string. A list is an understandable wish, so the message says what to do instead.
fn one_text(table: &Section<'_>, key: &str, problems: &mut Problems) -> Setting<String> {
    match table.raw(key).map(|value| (value, value.get_ref())) {
        Some((value, DeValue::Array(_))) => {
            problems
                .error(
                    value.span(),
                    format!("`{key}` is one string, not a list"),
                    "",
                )
                .help("write one route for each; they may name the same upstream");
            Setting::Wrong
        }
        _ => table.text(key, problems),
    }
}

fn header(table: &Section<'_>, problems: &mut Problems) -> Setting<Header> {
    inline(
        table,
        "header",
        &keys::HEADER,
        problems,
        |table, problems| Header {
            name: required_text(table, "name", problems),
            value: required_text(table, "value", problems),
        },
    )
}

fn connect_ports(table: &Section<'_>, problems: &mut Problems) -> Setting<ConnectPorts> {
    const KEY: &str = "connect_ports";
    const WHAT: &str = "a list of ports, \"all\" or \"none\"";
    let Some(value) = table.raw(KEY) else {
        return Setting::Absent;
    };
    let given = |ports| Setting::Given(Spanned::new(value.span(), ports));
    match value.get_ref() {
        DeValue::String(text) if text == "all" => given(ConnectPorts::All),
        DeValue::String(text) if text == "none" => given(ConnectPorts::None),
        DeValue::Array(items) if items.is_empty() => given(ConnectPorts::None),
        DeValue::Array(items) => match ports(items.iter(), problems) {
            Some(ports) => given(ConnectPorts::These(ports)),
            None => Setting::Wrong,
        },
        _ => wrong_kind(value, KEY, WHAT, problems),
    }
}

/// A list of ports; `None` if one of them is none.
fn ports<'v>(
    items: impl ExactSizeIterator<Item = &'v Spanned<DeValue<'v>>>,
    problems: &mut Problems,
) -> Option<Vec<u16>> {
    let count = items.len();
    let mut ports = Vec::with_capacity(count);
    for item in items {
        match integer(item.get_ref()).and_then(|port| u16::try_from(port).ok()) {
            Some(port) if port > 0 => ports.push(port),
            _ => {
                problems.error(
                    item.span(),
                    "this is not a port",
                    "a number from 1 to 65535",
                );
            }
        }
    }
    (ports.len() == count).then_some(ports)
}
