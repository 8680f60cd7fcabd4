//! `[cache]` as it is used: how much is kept, and for which requests of which listener or route.
pub use crate::config::file::Prefetch as PrefetchPlan;

use super::{ListenerPlan, Mode, Plan, ServerAddress};
use crate::config::file;
use crate::config::section::Keys;
use carrick_logic::cache::{KeyRules, Policy, QuickAbort};
use carrick_logic::http1::RequestHead;
use carrick_logic::route::Conditions;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;

/// The largest object is at most this part of the memory, so that one does not drive out all others.
pub const OBJECT_SHARE: u64 = 8;

/// `[cache]`; the default is what the empty table gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePlan {
    /// Most bytes of all that is stored: bodies, heads, keys, and what is noted about them.
    pub memory_bytes: u64,
    /// Most objects.
    pub objects: usize,
    /// Most bytes of an object's body, at most an eighth of `memory_bytes`.
    pub object_bytes_max: u64,
    /// The second level, on disk.
    pub disk: Option<DiskPlan>,
    /// For listeners and routes that say nothing of their own.
    pub policy: Policy,
    /// When a response is fetched to its end that no client waits for any more.
    pub quick_abort: QuickAbort,
    /// Whether responses say in `Cache-Status` what the cache did (RFC 9211).
    pub status: bool,
    /// Other caches that are asked before the origin is.
    pub cache_peers: Option<CachePeersPlan>,
    /// The cache that other processes share.
    pub shared: Option<SharedPlan>,
}

/// `shared = { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedPlan {
    /// The server, or some of the cluster's.
    pub servers: Vec<ServerAddress>,
    /// Whether they are a cluster.
    pub cluster: bool,
    /// What the names of keys begin with.
    pub prefix: String,
    /// How long a request waits for an answer.
    pub timeout: Duration,
    /// Largest body that is written.
    pub object_bytes_max: u64,
    /// As whom to log in.
    pub user: Option<String>,
    /// With which password.
    pub password: Option<Password>,
}

/// A password, which is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    /// The file that it was read from.
    pub file: PathBuf,
    /// What to log in with.
    pub text: String,
}

impl std::fmt::Debug for Password {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Password(..)")
    }
}

/// `peers = { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePeersPlan {
    /// All caches that own URLs, this one included if it is one of them.
    pub members: Vec<ServerAddress>,
    /// Its place among them.
    pub own: Option<usize>,
    /// To connect to one.
    pub connect: Duration,
    /// From then on until its answer's head is there.
    pub answer: Duration,
}

/// `disk = { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskPlan {
    /// The folder; an absolute path.
    pub path: PathBuf,
    /// Most bytes of all files, in pages of 4 KB.
    pub bytes: u64,
    /// Most objects.
    pub objects: u64,
    /// Most bytes of an object's body, at most an eighth of `bytes`.
    pub object_bytes_max: u64,
}

/// What `targeted` is for routes to upstreams: who works for a server is what RFC 9213, 3.1, calls a CDN.
const TARGETED: &str = "cdn-cache-control";

impl Default for CachePlan {
    fn default() -> Self {
        Self::from(&file::Cache::defaults())
    }
}

impl From<&file::Cache> for CachePlan {
    /// Without what is not there unless it is said: further levels, and other caches.
    fn from(written: &file::Cache) -> Self {
        let largest = written.object_max.given().map(|size| *size.get_ref());
        let targeted = match written.targeted.is_absent() {
            true => vec![TARGETED.into()],
            false => (written.targeted.given().into_iter())
                .flat_map(Spanned::get_ref)
                .map(|name| name.get_ref().to_ascii_lowercase().into_bytes())
                .collect(),
        };
        Self {
            memory_bytes: written.memory,
            objects: written.objects,
            object_bytes_max: largest.unwrap_or(written.memory / OBJECT_SHARE),
            disk: None,
            policy: Policy {
                targeted,
                heuristic_percent: written.heuristic_percent,
                heuristic_max_s: written.heuristic_max,
                default_ttl_s: written.default_ttl,
                negative_ttl_s: written.negative_ttl,
                stale_while_revalidate_s: written.stale_while_revalidate,
                stale_if_error_s: written.stale_if_error,
                share_set_cookie: written.share_set_cookie,
                heed_client_reload: written.respect_client_no_cache,
                ranges_max: written.ranges_max,
            },
            quick_abort: QuickAbort {
                left_bytes_max: written.quick_abort.left,
                percent_min: written.quick_abort.percent,
            },
            status: written.status,
            cache_peers: None,
            shared: None,
        }
    }
}

impl CachePlan {
    /// What the store is made with; it is the same as long as carrick runs.
    fn store(&self) -> (u64, usize, u64, &Option<DiskPlan>) {
        (
            self.memory_bytes,
            self.objects,
            self.object_bytes_max,
            &self.disk,
        )
    }
}

/// What a listener of a forward proxy or a route of a switch has cached, and how.
#[derive(Debug, Clone)]
pub struct RouteCache {
    /// What may be stored, and for how long.
    pub policy: Policy,
    /// What is in the keys.
    pub key: KeyRules,
    /// Requests that meet one of these pass the cache by: nothing stored answers them, and their answers are not stored.
    pub bypass: Vec<Conditions>,
    /// Whether what pages embed is fetched before it is asked for, and how much of it.
    pub prefetch: Option<PrefetchPlan>,
}

impl RouteCache {
    /// With whole URLs as keys, and nothing that passes by.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            key: KeyRules::default(),
            bypass: Vec::new(),
            prefetch: None,
        }
    }

    /// Whether the cache is not for this request, by `cache_bypass`.
    #[must_use]
    pub fn is_bypassed(&self, bytes: &[u8], head: &RequestHead) -> bool {
        self.bypass
            .iter()
            .any(|conditions| conditions.match_request(bytes, head))
    }
}

impl ListenerPlan {
    /// The upstreams of which something is cached for its clients; `None`: of servers that are in none.
    pub fn cached_upstreams(&self) -> BTreeSet<Option<usize>> {
        let is_forward = matches!(&self.mode, Mode::Forward(forward) if forward.cache.is_some());
        let routes = self.mode.routes().iter();
        let routes = routes.filter(|route| route.cache.is_some());
        (routes.map(|route| route.upstream))
            .chain(is_forward.then_some(None))
            .collect()
    }
}

impl Plan {
    /// What each listener and route that is cached has cached.
    pub fn cached(&self) -> impl Iterator<Item = &Arc<RouteCache>> {
        self.listeners.iter().flat_map(|listener| {
            let forward = match &listener.mode {
                Mode::Forward(forward) => forward.cache.as_ref(),
                _ => None,
            };
            let routes = listener.mode.routes().iter();
            (routes.filter_map(|route| route.cache.as_ref())).chain(forward)
        })
    }

    /// The rules for the keys of what is stored of this upstream, each once; `None`: of servers that are in no upstream.
    pub fn key_rules(&self, upstream: Option<usize>) -> Vec<&KeyRules> {
        let mut rules: Vec<&KeyRules> = Vec::new();
        for listener in &self.listeners {
            let forward = match &listener.mode {
                Mode::Forward(forward) if upstream.is_none() => forward.cache.as_ref(),
                _ => None,
            };
            let routes = listener.mode.routes().iter();
            let routes = routes.filter(|route| upstream.is_none() || route.upstream == upstream);
            for cache in routes
                .filter_map(|route| route.cache.as_ref())
                .chain(forward)
            {
                if !rules.contains(&&cache.key) {
                    rules.push(&cache.key);
                }
            }
        }
        rules
    }

    /// The rules by which something is stored, with the upstream's name; `None`: of servers that are in no upstream.
    fn stored(&self) -> impl Iterator<Item = (Option<&str>, &KeyRules)> {
        let named = self.upstreams.iter().enumerate();
        let named = named.map(|(index, upstream)| Some((index, upstream.name.as_str())));
        named.chain([None]).flat_map(|upstream| {
            let rules = self.key_rules(upstream.map(|(index, _)| index));
            rules
                .into_iter()
                .map(move |rules| (upstream.map(|(_, name)| name), rules))
        })
    }

    /// Whether unsafe requests invalidate what was stored by the plan before: by each of its rules something is stored still.
    pub fn keeps_rules_of(&self, before: &Self) -> bool {
        let mut all = before.stored();
        before.cache.is_some()
            && self.cache.is_some()
            && all.all(|stored| self.stored().any(|own| own == stored))
    }

    /// Takes over from the plan before what of the cache only a start can change: whether there is one, and how much it
    /// holds. Says whether that is something else than this plan had. A cache that goes is not missed; none comes.
    pub fn keep_store(&mut self, before: &Self) -> bool {
        let Some(cache) = &mut self.cache else {
            return false;
        };
        let Some(before) = &before.cache else {
            self.cache = None;
            return true;
        };
        let is_other = cache.store() != before.store();
        cache.memory_bytes = before.memory_bytes;
        cache.objects = before.objects;
        cache.object_bytes_max = before.object_bytes_max;
        cache.disk.clone_from(&before.disk);
        is_other
    }
}

#[cfg(test)]
mod tests {
    use super::{CachePlan, Plan};
    use carrick_logic::cache::Policy;

    fn with(cache: Option<CachePlan>) -> Plan {
        Plan {
            cache,
            ..Plan::built_in()
        }
    }

    #[test]
    fn a_reload_changes_the_policy_and_not_the_store() {
        let policy = Policy {
            default_ttl_s: 7,
            ..Policy::default()
        };
        let mut plan = with(Some(CachePlan {
            memory_bytes: 1 << 30,
            policy: policy.clone(),
            status: false,
            ..CachePlan::default()
        }));
        assert!(plan.keep_store(&with(Some(CachePlan::default()))));
        let expected = CachePlan {
            policy,
            status: false,
            ..CachePlan::default()
        };
        assert_eq!(plan.cache.as_ref(), Some(&expected));
        assert!(!plan.keep_store(&with(Some(CachePlan::default()))));
    }

    #[test]
    fn a_reload_can_end_a_cache_and_not_begin_one() {
        let mut plan = with(Some(CachePlan::default()));
        assert!(plan.keep_store(&with(None)));
        assert_eq!(plan.cache, None);
        let mut plan = with(None);
        assert!(!plan.keep_store(&with(Some(CachePlan::default()))));
        assert_eq!(plan.cache, None);
    }
}
