//! `/cache`: lists and removes stored objects.
use super::{JSON, TEXT, answer, text};
use crate::cache::Cache;
use crate::cache::disk::Disk;
use crate::cache::peers::{CachePeer, PeerAnswer};
use crate::cache::purge::{InvalidPattern, Pattern, Purge};
use crate::cache::shared::{Shared, SharedCacheEvent};
use crate::control::ControlState;
use crate::net::clock::Clock;
use crate::telemetry::metrics::{CacheResult, PrefetchResult};
use carrick_logic::cache::KeyQuery;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Most objects in a list, unless `limit` says otherwise.
const LISTED_MAX: usize = 1000;

/// How long a purge waits for the disk.
const DISK_WAIT: Duration = Duration::from_secs(30);
/// Most objects that are sampled for the ages in `/status`.
const AGES_MAX: usize = 10_000;

/// The cache as a part of `/status`.
#[derive(Debug, Serialize)]
pub(super) struct CacheStatus {
    objects: u64,
    bytes: u64,
    bytes_max: u64,
    bytes_held_by_readers: u64,
    fills: u64,
    evictions: u64,
    /// Requests answered without the body from the origin, and requests for which the origin sent it.
    hits: u64,
    misses: u64,
    /// The share of all cacheable requests that the cache answered; `null` before the first.
    hit_ratio: Option<f64>,
    bytes_saved: u64,
    /// Results of prefetching embedded objects.
    prefetches: BTreeMap<&'static str, u64>,
    /// Seconds since origins made or validated the stored objects: mean and maximum; `null` if there are none. A sample
    /// if the store is large.
    age_mean_s: Option<u64>,
    age_max_s: Option<u32>,
    disk: Option<DiskStatus>,
    peers: Vec<CachePeerStatus>,
    shared: Option<SharedStatus>,
}

/// The store on disk.
#[derive(Debug, Serialize)]
struct DiskStatus {
    path: String,
    objects: u64,
    objects_max: u64,
    bytes: u64,
    bytes_max: u64,
    /// Whether everything found at start is in the index.
    indexed: bool,
    loads: u64,
    writes: u64,
    write_queue_bytes: u64,
    refused: u64,
    evictions: u64,
    read_errors: u64,
    write_errors: u64,
    damaged: u64,
    foreign_files: u64,
    /// Why nothing is written at present.
    fault: Option<String>,
}

impl DiskStatus {
    fn of(disk: &Disk) -> Self {
        let (stats, limits) = (disk.stats(), disk.limits());
        Self {
            path: disk.path().display().to_string(),
            objects: stats.objects,
            objects_max: limits.objects,
            bytes: stats.bytes,
            bytes_max: limits.bytes,
            indexed: stats.is_indexed,
            loads: stats.loads,
            writes: stats.writes,
            write_queue_bytes: stats.write_queue_bytes,
            refused: stats.refused,
            evictions: stats.evicted_small + stats.evicted_main,
            read_errors: stats.read_errors,
            write_errors: stats.write_errors,
            damaged: stats.damaged,
            foreign_files: stats.foreign,
            fault: disk.fault(),
        }
    }
}

#[derive(Debug, Serialize)]
struct SharedStatus {
    servers: Vec<String>,
    state: &'static str,
    #[serde(flatten)]
    counted: BTreeMap<&'static str, u64>,
}

impl SharedStatus {
    fn of(shared: &Shared) -> Self {
        let state = shared.state();
        let servers = &shared.plan().servers;
        Self {
            servers: servers.iter().map(ToString::to_string).collect(),
            state: up_or_not(!state.is_left_out()),
            counted: (SharedCacheEvent::ALL.into_iter())
                .map(|did| (did.name(), state.counted(did)))
                .collect(),
        }
    }
}

fn up_or_not(is_up: bool) -> &'static str {
    if is_up { "up" } else { "left out" }
}

#[derive(Debug, Serialize)]
struct CachePeerStatus {
    address: String,
    state: &'static str,
    hits: u64,
    misses: u64,
    refused: u64,
    failed: u64,
}

impl CachePeerStatus {
    fn of(cache_peer: &CachePeer) -> Self {
        Self {
            address: cache_peer.label.to_string(),
            state: up_or_not(!cache_peer.is_left_out()),
            hits: cache_peer.answers(PeerAnswer::Hit),
            misses: cache_peer.answers(PeerAnswer::Miss),
            refused: cache_peer.answers(PeerAnswer::Refused),
            failed: cache_peer.answers(PeerAnswer::Failed),
        }
    }
}

impl CacheStatus {
    pub(super) fn of(state: &ControlState) -> Option<Self> {
        let cache = state.cache.as_ref()?;
        let stats = cache.store.stats();
        let count = |result| state.sum(|worker| worker.cache.requests(result).get());
        let answered: u64 = CacheResult::ALL
            .into_iter()
            .filter(|result| result.spares_origin())
            .map(count)
            .sum();
        let misses = count(CacheResult::Miss);
        let asked = answered + misses;
        let (age_mean_s, age_max_s) = ages(cache).unzip();
        Some(Self {
            objects: stats.objects,
            bytes: stats.bytes,
            bytes_max: cache.bytes_max,
            bytes_held_by_readers: stats.bytes_held_by_readers,
            fills: stats.fills,
            evictions: stats.evicted_small + stats.evicted_main,
            hits: answered,
            misses,
            hit_ratio: (asked > 0).then(|| answered as f64 / asked as f64),
            bytes_saved: state.sum(|worker| worker.cache.bytes_saved.get()),
            prefetches: PrefetchResult::ALL
                .map(|what| {
                    let sum = state.sum(|worker| worker.cache.prefetches(what).get());
                    (what.name(), sum)
                })
                .into(),
            disk: cache.store.disk().map(|disk| DiskStatus::of(disk)),
            age_mean_s,
            age_max_s,
            peers: (cache.cache_peers.load().iter())
                .flat_map(|cache_peers| cache_peers.others())
                .map(|cache_peer| CachePeerStatus::of(cache_peer))
                .collect(),
            shared: (cache.shared.load().as_deref()).map(SharedStatus::of),
        })
    }
}

/// Mean and highest age of stored objects.
fn ages(cache: &Cache) -> Option<(u64, u32)> {
    let now = Clock::default().now();
    let (mut count, mut sum, mut max) = (0, 0, 0);
    for object in cache.store.objects().take(AGES_MAX) {
        let age_s = object.meta().age_s(now);
        count += 1;
        sum += u64::from(age_s);
        max = max.max(age_s);
    }
    (count > 0).then(|| (sum / count, max))
}

/// One object of `GET /cache`.
#[derive(Debug, Serialize)]
struct ListedObject {
    key: String,
    /// `null`, like the times, for objects that are on disk only and not requested since start: the values are in their
    /// files.
    status: Option<u16>,
    bytes: u64,
    state: &'static str,
    /// `memory`, `disk`, or `both`.
    place: &'static str,
    age_s: Option<u32>,
    ttl_s: Option<i64>,
    hits: u32,
}

/// `GET /cache`: the first objects in arbitrary order, selected by `prefix` and `limit`.
pub(super) fn list(request: &Request<Incoming>, state: &ControlState) -> Response<Full<Bytes>> {
    let Some(cache) = &state.cache else {
        return none();
    };
    let parameters = Parameters::of(request);
    let limit = parameters
        .first("limit")
        .map_or(Ok(LISTED_MAX), |limit| limit.parse());
    let (Ok(limit), Ok(which)) = (limit, parameters.chosen(true)) else {
        return text(StatusCode::BAD_REQUEST, USAGE);
    };
    let now = Clock::default().now();
    let in_memory = (cache.store.objects())
        .filter(|object| object.matches(&which))
        .map(|object| ListedObject {
            key: String::from_utf8_lossy(object.key().bytes()).into_owned(),
            status: Some(object.meta().status),
            bytes: object.stored_bytes(),
            state: match object.part() {
                Some(_) => "part",
                None if object.is_whole() => "whole",
                None => "filling",
            },
            place: if object.is_file() {
                "disk"
            } else if object.is_on_disk() {
                "both"
            } else {
                "memory"
            },
            age_s: Some(object.meta().age_s(now)),
            ttl_s: Some(object.meta().ttl_s(now)),
            hits: object.hits(),
        });
    let only_there = (cache.store.only_on_disk())
        .filter(|entry| entry.matches(&which))
        .map(|entry| ListedObject {
            key: String::from_utf8_lossy(entry.key_bytes()).into_owned(),
            status: None,
            bytes: entry.file_bytes_taken(),
            state: "whole",
            place: "disk",
            age_s: None,
            ttl_s: None,
            hits: 0,
        });
    let objects: Vec<ListedObject> = in_memory.chain(only_there).take(limit).collect();
    match serde_json::to_string_pretty(&objects) {
        Ok(json) => answer(StatusCode::OK, JSON, json + "\n"),
        Err(error) => super::failure(&error),
    }
}

/// `DELETE /cache`: removes the chosen objects, or marks them as stale. A web page cannot make a browser send this:
/// methods other than GET, HEAD and POST need a permission that admin never grants (Fetch, CORS-preflight).
pub(super) async fn purge(
    request: &Request<Incoming>,
    state: &ControlState,
) -> Response<Full<Bytes>> {
    let Some(cache) = &state.cache else {
        return none();
    };
    let parameters = Parameters::of(request);
    let how = match parameters.first("how") {
        None | Some("remove") => Purge::Remove,
        Some("outdate") => Purge::Outdate,
        Some(_) => return text(StatusCode::BAD_REQUEST, USAGE),
    };
    let Ok(which) = parameters.chosen(false) else {
        return text(StatusCode::BAD_REQUEST, USAGE);
    };
    // The shared cache first, so that purged objects do not come back from there.
    let shared = cache.shared.load_full();
    let told = match &shared {
        Some(shared) => {
            // A URL has many names there if the query is not in all keys as it was sent.
            let has_one_name =
                (state.running.load().plan.cached()).all(|route| route.key.query == KeyQuery::All);
            let url = which.one_url().filter(|_| has_one_name);
            // What is under way is not written there from now on. `cache.purge` notes it again, for what was read there before.
            cache.purges.note(&which, how);
            shared.purge(url).await
        }
        None => Ok(()),
    };
    let (count, over) = cache.purge(&which, how);
    match how {
        Purge::Remove => tracing::info!("admin purged {count} objects from the cache"),
        Purge::Outdate => tracing::info!("admin marked {count} objects in the cache as stale"),
    }
    if let Err(why) = told {
        return answer(
            StatusCode::BAD_GATEWAY,
            TEXT,
            format!(
                "{count} objects were purged here. The shared cache may still have them: {why}. Purge again when it answers.\n"
            ),
        );
    }
    // The purge is complete when the disk has it.
    if let Some(over) = over
        && tokio::time::timeout(DISK_WAIT, over).await.is_err()
    {
        return text(
            StatusCode::ACCEPTED,
            "Purged for all requests from now on. The disk has not confirmed it yet, so objects may reappear after a restart.\n",
        );
    }
    answer(StatusCode::OK, TEXT, format!("{count}\n"))
}

const USAGE: &str = "Choose one of ?url=http://host/path?query, ?prefix=http://host/path (or https), ?tag=name, or ?all=yes; \
    with &how=outdate, objects stay but are validated before they are sent again. Values are percent-encoded.\n";

fn none() -> Response<Full<Bytes>> {
    text(
        StatusCode::NOT_FOUND,
        "There is no cache: the configuration has no [cache].\n",
    )
}

/// The parameters of a query.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        Self(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    fn first(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    fn chosen(&self, without_is_all: bool) -> Result<Pattern, InvalidPattern> {
        let mut chosen = Vec::new();
        for (name, value) in &self.0 {
            match name.as_str() {
                "url" => chosen.push(Pattern::url(value)?),
                "prefix" => chosen.push(Pattern::url_prefix(value)?),
                "tag" => chosen.push(Pattern::tag(value)),
                "all" if value == "yes" => chosen.push(Pattern::All),
                "how" | "limit" => {}
                _ => return Err(InvalidPattern),
            }
        }
        match (chosen.pop(), chosen.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) if without_is_all => Ok(Pattern::All),
            _ => Err(InvalidPattern),
        }
    }
}
