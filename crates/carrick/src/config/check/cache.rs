//! Checks `[cache]`, and what listeners and routes say about it.
use super::{cache_peers, shared};
use crate::config::file::{self, CacheKey, CacheUse, File, Query};
use crate::config::plan::{
    CachePlan, DiskPlan, ListenerPlan, Mode, OBJECT_SHARE, PrefetchPlan, Requests, Responses,
    RouteCache,
};
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::values;
use carrick_logic::cache::{KeyQuery, KeyRules, Policy};
use carrick_logic::route::Conditions;
use carrick_splice::Choice;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;

/// Fields of a request that a cache answers by rules of their own, or that are in every key, or for one hop only.
const NOT_FOR_KEYS: [&str; 17] = [
    "cache-control",
    "connection",
    "content-length",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "pragma",
    "proxy-authorization",
    "range",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// `[cache]`, for those who may use it.
pub struct Caching {
    is_there: bool,
    policy: Policy,
    /// `targeted` is not given.
    targets_by_default: bool,
}

/// What a listener says, for its routes.
pub struct OfListener<'f> {
    caching: &'f Caching,
    written: &'f Written<CacheUse>,
    settings: CacheSettings,
}

/// What a listener or a route says; what is wrong counts as not said.
#[derive(Default, Clone)]
struct CacheSettings {
    is_on: Option<bool>,
    default_ttl_s: Option<u32>,
    key: Option<KeyRules>,
    bypass: Option<Vec<Conditions>>,
    /// What is fetched ahead; or that nothing is.
    prefetch: Option<Option<PrefetchPlan>>,
}

/// Checks `[cache]`.
pub fn check(
    file: &File,
    directory: &Path,
    problems: &mut Problems,
) -> (Caching, Option<CachePlan>) {
    let plan = file
        .cache
        .given()
        .map(|written| plan(written.get_ref(), directory, problems));
    let caching = Caching {
        is_there: !file.cache.is_absent(),
        policy: plan
            .as_ref()
            .map(|plan| plan.policy.clone())
            .unwrap_or_default(),
        targets_by_default: (file.cache.given())
            .is_none_or(|written| written.get_ref().targeted.is_absent()),
    };
    (caching, plan)
}

/// Warns of a cache that is for nothing.
pub fn report_unused(file: &File, listeners: &[Arc<ListenerPlan>], problems: &mut Problems) {
    let is_used = listeners.iter().any(|listener| match &listener.mode {
        Mode::Forward(forward) => forward.cache.is_some(),
        Mode::Switch(routes) => routes.iter().any(|route| route.cache.is_some()),
        Mode::Tunnel(_) | Mode::Split(_) | Mode::Link(_) => false,
    });
    if let Some(written) = file.cache.given().filter(|_| !is_used) {
        problems
            .warning(written.get_ref().span.clone(), "nothing uses the cache")
            .help("add `cache = true` to a route of a switch, or remove [cache]; forward proxies use it by themselves");
    }
}

fn plan(written: &file::Cache, directory: &Path, problems: &mut Problems) -> CachePlan {
    let object_bytes_most = written.memory / OBJECT_SHARE;
    if let Some(size) = written.object_max.given()
        && *size.get_ref() > object_bytes_most
    {
        problems
            .error(size.span(), "one object could evict all others")
            .label(format!("at most {}", values::show_size(object_bytes_most)))
            .help(
                "`object_max` is at most an eighth of `memory`; make this smaller, or that larger",
            );
    }
    for name in (written.targeted.given().into_iter()).flat_map(Spanned::get_ref) {
        let lower = name.get_ref().to_ascii_lowercase();
        if !values::is_token(&lower) {
            report_header_name(name.span(), problems);
        } else if lower == "cache-control" || lower == "expires" {
            problems
                .error(name.span(), "this is what a targeted header replaces")
                .help("leave it out: it counts where no targeted header is there");
        }
    }
    let disk = written.disk.given().map(Spanned::get_ref);
    let cache_peers = written.cache_peers.given().map(Spanned::get_ref);
    let shared = written.shared.given().map(Spanned::get_ref);
    CachePlan {
        disk: disk.and_then(|disk| self::disk(disk, problems)),
        cache_peers: cache_peers.and_then(|peers| cache_peers::check(peers, problems)),
        shared: shared.and_then(|shared| shared::check(shared, directory, problems)),
        ..CachePlan::from(written)
    }
}

/// Whether it can be used is seen at the start, as the user that carrick becomes then.
fn disk(written: &file::Disk, problems: &mut Problems) -> Option<DiskPlan> {
    let path = written.path.given()?;
    if !path.get_ref().starts_with('/') {
        problems
            .error(path.span(), "this is no absolute path")
            .help("write where the folder is, such as \"/var/cache/carrick\"");
    }
    let bytes = *written.size.given()?.get_ref();
    let object_bytes_most = bytes / OBJECT_SHARE;
    let object_max = written.object_max.given();
    if let Some(size) = object_max
        && *size.get_ref() > object_bytes_most
    {
        problems
            .error(size.span(), "one object could evict all others")
            .label(format!("at most {}", values::show_size(object_bytes_most)))
            .help("`object_max` is at most an eighth of `size`; make this smaller, or that larger");
    }
    Some(DiskPlan {
        path: path.get_ref().into(),
        bytes,
        objects: written.objects,
        object_bytes_max: object_max.map_or(object_bytes_most, |size| *size.get_ref()),
    })
}

impl Caching {
    /// Checks what a listener says.
    pub fn of_listener<'f>(
        &'f self,
        written: &'f Written<CacheUse>,
        problems: &mut Problems,
    ) -> OfListener<'f> {
        OfListener {
            caching: self,
            written,
            settings: self.read(written, problems),
        }
    }

    fn read(&self, written: &Written<CacheUse>, problems: &mut Problems) -> CacheSettings {
        if let Some(word) = written.cache.given()
            && *word.get_ref()
            && !self.is_there
        {
            problems
                .error(word.span(), "there is no cache")
                .help("add [cache] to the file; it needs no keys");
        }
        let key = written.cache_key.given();
        let bypass = written.cache_bypass.given();
        CacheSettings {
            is_on: written.cache.given().map(|word| *word.get_ref()),
            default_ttl_s: written.default_ttl.given().map(|time| *time.get_ref()),
            key: key.map(|key| self::key(key.get_ref(), problems)),
            bypass: bypass.map(|list| self::bypass(list.get_ref(), problems)),
            prefetch: (written.prefetch.given()).map(|prefetch| prefetch.get_ref().clone()),
        }
    }

    /// Warns of keys that need a cache where there is none.
    fn report_idle(&self, written: &Written<CacheUse>, help: &str, problems: &mut Problems) {
        // Of a cache that is wanted and is not there more is said already.
        if !written.cache.is_absent() && !self.is_there {
            return;
        }
        let detail = written.keys_given.iter().find(|(key, _)| *key != "cache");
        if let Some((key, span)) = detail {
            let (what, help) = match self.is_there {
                true => ("`cache = true`", help),
                false => ("[cache]", "add [cache] to the file, or remove it"),
            };
            let message = format!("`{key}` has no effect without {what}");
            problems.warning(span.clone(), message).help(help);
        }
    }
}

impl OfListener<'_> {
    /// Of a forward proxy; it has a cache unless it says otherwise.
    pub fn forward(&self, problems: &mut Problems) -> Option<Arc<RouteCache>> {
        if self.caching.is_there && self.settings.is_on != Some(false) {
            return Some(self.cache(self.settings.clone(), false));
        }
        self.caching
            .report_idle(self.written, "remove `cache = false`, or it", problems);
        None
    }

    /// Of a route; it has a cache if it or its listener says so.
    pub fn route(
        &self,
        route: &Written<file::Route>,
        way: (Choice, Requests, Responses),
        problems: &mut Problems,
    ) -> Option<Arc<RouteCache>> {
        let settings = self.caching.read(&route.cache, problems);
        let settings = CacheSettings {
            is_on: settings.is_on.or(self.settings.is_on),
            default_ttl_s: settings.default_ttl_s.or(self.settings.default_ttl_s),
            key: settings.key.or_else(|| self.settings.key.clone()),
            bypass: settings.bypass.or_else(|| self.settings.bypass.clone()),
            prefetch: settings.prefetch.or_else(|| self.settings.prefetch.clone()),
        };
        if !self.caching.is_there || settings.is_on != Some(true) {
            self.caching.report_idle(
                &route.cache,
                "add `cache = true` to the route, or remove it",
                problems,
            );
            return None;
        }
        let own = route.cache.cache.given().map(Spanned::span);
        let off = if own.is_some() {
            "remove `cache`"
        } else {
            "add `cache = false`"
        };
        check_way(way, own.unwrap_or(route.span.clone()), off, problems);
        Some(self.cache(settings, !route.upstream.is_absent()))
    }

    /// Of what meets none of a transparent listener's routes.
    pub fn rest(
        &self,
        way: (Choice, Requests, Responses),
        problems: &mut Problems,
    ) -> Option<Arc<RouteCache>> {
        let word = self.written.cache.given().filter(|word| *word.get_ref())?;
        if !self.caching.is_there {
            return None;
        }
        let off = "add a last route with `to = \"original\"` that says so";
        check_way(way, word.span(), off, problems);
        Some(self.cache(self.settings.clone(), false))
    }

    /// Warns if none of the routes takes up what the listener says.
    pub fn report_idle(&self, is_used: bool, problems: &mut Problems) {
        if !is_used {
            self.caching.report_idle(
                self.written,
                "add `cache = true` to the listener or a route, or remove it",
                problems,
            );
        }
    }

    /// `is_own`: for servers of the configuration's, in whose place carrick answers.
    fn cache(&self, settings: CacheSettings, is_own: bool) -> Arc<RouteCache> {
        let mut policy = self.caching.policy.clone();
        if self.caching.targets_by_default && !is_own {
            policy.targeted.clear();
        }
        if let Some(seconds) = settings.default_ttl_s {
            policy.default_ttl_s = seconds;
        }
        let mut cache = RouteCache::new(policy);
        cache.key = settings.key.unwrap_or_default();
        cache.bypass = settings.bypass.unwrap_or_default();
        cache.prefetch = settings.prefetch.flatten();
        Arc::new(cache)
    }
}

/// What is not read cannot be stored.
fn check_way(
    (engine, requests, responses): (Choice, Requests, Responses),
    span: Range<usize>,
    off: &str,
    problems: &mut Problems,
) {
    if engine != Choice::Packet || responses == Responses::Read {
        return;
    }
    let (message, help) = match requests {
        Requests::Kernel => (
            "requests that the kernel classifies do not reach the cache",
            "put `responses = \"read\"` in place of `requests`",
        ),
        Requests::Process => (
            "the packet engine leaves these responses unread, and what is not read cannot be stored",
            "add `responses = \"read\"` to the route",
        ),
    };
    problems
        .error(span, message)
        .help(format!("{help}, or {off}"));
}

fn key(written: &CacheKey, problems: &mut Problems) -> KeyRules {
    let query = match written.query.given().map(|query| (query, query.get_ref())) {
        None | Some((_, Query::All)) => KeyQuery::All,
        Some((_, Query::None)) => KeyQuery::None,
        Some((list, Query::These(names))) => {
            if names.is_empty() {
                problems
                    .error(list.span(), "an empty `query` list could mean all or none")
                    .help("write \"all\" or \"none\"");
            }
            KeyQuery::These(names.iter().map(|name| parameter(name, problems)).collect())
        }
    };
    let mut headers = Vec::new();
    for name in written
        .headers
        .given()
        .into_iter()
        .flat_map(Spanned::get_ref)
    {
        let lower = name.get_ref().to_ascii_lowercase();
        if !values::is_token(&lower) {
            report_header_name(name.span(), problems);
        } else if NOT_FOR_KEYS.contains(&lower.as_str()) {
            problems
                .error(name.span(), "this header cannot be part of a key")
                .help("the host is in every key; conditions, ranges and `Cache-Control` are answered from what is stored");
        } else if lower == "cookie" {
            problems
                .note(name.span(), "nearly every client has other cookies, so that few share what is stored")
                .help("`cache_bypass = { cookie = \"session\" }` keeps those with a certain cookie out");
        }
        if !headers
            .iter()
            .any(|other: &Vec<u8>| other == lower.as_bytes())
        {
            headers.push(lower.into_bytes());
        }
    }
    KeyRules { query, headers }
}

/// A parameter's name is compared as it stands in the URL, where these bytes mean something else.
fn parameter(name: &Spanned<String>, problems: &mut Problems) -> Vec<u8> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"&=;#%+?".contains(&byte);
    let text = name.get_ref();
    if text.is_empty() || !text.bytes().all(is_plain) {
        problems
            .error(name.span(), "this is not a parameter's name")
            .help("write what stands before \"=\", such as \"page\"");
    }
    text.clone().into_bytes()
}

fn bypass(list: &[Written<file::Bypass>], problems: &mut Problems) -> Vec<Conditions> {
    list.iter()
        .filter_map(|written| {
            let conditions = super::conditions::bypass(written, problems)?;
            if written.is_empty {
                problems
                    .error(
                        written.span.clone(),
                        "without a condition every request would bypass the cache",
                    )
                    .help(
                        "add a condition, such as `path = \"/admin/\"`; or write `cache = false`",
                    );
            } else if let Some(reason) = conditions.never_matches() {
                problems
                    .warning(written.span.clone(), "no request can meet this")
                    .help(reason);
            }
            Some(conditions)
        })
        .collect()
}

fn report_header_name(span: Range<usize>, problems: &mut Problems) {
    problems
        .error(span, "this is not a header's name")
        .help("write it without the colon, such as \"x-beta\"");
}
