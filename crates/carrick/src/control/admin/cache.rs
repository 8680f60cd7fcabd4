//! `/cache`: what is stored, and taking it out.
use super::{JSON, TEXT, answer, text};
use crate::cache::Cache;
use crate::cache::purge::{Chosen, Wrong};
use crate::cache::shared::{Did, Shared};
use crate::cache::siblings::{Said, Sibling};
use crate::cache::store::Purge;
use crate::control::ControlState;
use crate::telemetry::metrics::CacheResult;
use crate::worker::clock::Clock;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use std::collections::BTreeMap;

/// Objects that are listed at most, unless `limit` says otherwise.
const LISTED_MAX: usize = 1000;

/// Objects whose ages are looked at for `/status`.
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
    /// Of all requests that the cache was asked for: the share that it answered; `null` before the first.
    hit_ratio: Option<f64>,
    bytes_saved: u64,
    /// Seconds since origins made or validated what is stored: the mean, and the most; `null` if there is nothing. Of a large store it
    /// is a sample.
    age_mean_s: Option<u64>,
    age_max_s: Option<u32>,
    /// Why bodies are not sent by `sendfile(2)`, if they are not.
    heap_only: Option<String>,
    siblings: Vec<SiblingStatus>,
    shared: Option<SharedStatus>,
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
            counted: (Did::ALL.into_iter())
                .map(|did| (did.name(), state.counted(did)))
                .collect(),
        }
    }
}

fn up_or_not(is_up: bool) -> &'static str {
    if is_up { "up" } else { "left out" }
}

#[derive(Debug, Serialize)]
struct SiblingStatus {
    address: String,
    state: &'static str,
    hits: u64,
    misses: u64,
    refused: u64,
    failed: u64,
}

impl SiblingStatus {
    fn of(sibling: &Sibling) -> Self {
        Self {
            address: sibling.label.to_string(),
            state: up_or_not(!sibling.is_left_out()),
            hits: sibling.answers(Said::Hit),
            misses: sibling.answers(Said::Miss),
            refused: sibling.answers(Said::Refused),
            failed: sibling.answers(Said::Failed),
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
        let asked = answered + count(CacheResult::Miss);
        let (age_mean_s, age_max_s) = ages(cache).unzip();
        Some(Self {
            objects: stats.objects,
            bytes: stats.bytes,
            bytes_max: cache.bytes_max,
            bytes_held_by_readers: stats.bytes_held_by_readers,
            fills: stats.fills,
            evictions: stats.evicted_small + stats.evicted_main,
            hit_ratio: (asked > 0).then(|| answered as f64 / asked as f64),
            bytes_saved: state.sum(|worker| worker.cache.bytes_saved.get()),
            age_mean_s,
            age_max_s,
            heap_only: cache.store.heap_only().map(str::to_owned),
            siblings: (cache.siblings.load().iter())
                .flat_map(|siblings| siblings.others())
                .map(|sibling| SiblingStatus::of(sibling))
                .collect(),
            shared: (cache.shared.load().as_deref()).map(SharedStatus::of),
        })
    }
}

/// The mean age and the highest of what is stored.
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
struct Listed {
    key: String,
    status: u16,
    bytes: u64,
    state: &'static str,
    age_s: u32,
    ttl_s: i64,
    hits: u32,
}

/// `GET /cache`: the first objects in no order; `prefix` and `limit` choose.
pub(super) fn list(request: &Request<Incoming>, state: &ControlState) -> Response<Full<Bytes>> {
    let Some(cache) = &state.cache else {
        return none();
    };
    let parameters = Parameters::of(request);
    let limit = parameters
        .first("limit")
        .map_or(Ok(LISTED_MAX), |limit| limit.parse());
    let (Ok(limit), Ok(chosen)) = (limit, parameters.chosen(true)) else {
        return text(StatusCode::BAD_REQUEST, USAGE);
    };
    let now = Clock::default().now();
    let objects: Vec<Listed> = (cache.store.objects())
        .filter(|object| chosen.has(object))
        .take(limit)
        .map(|object| Listed {
            key: String::from_utf8_lossy(object.key().bytes()).into_owned(),
            status: object.meta().status,
            bytes: object.stored_bytes(),
            state: match object.meta().part {
                Some(_) => "part",
                None if object.body().is_whole() => "whole",
                None => "filling",
            },
            age_s: object.meta().age_s(now),
            ttl_s: object.meta().ttl_s(now),
            hits: object.hits(),
        })
        .collect();
    match serde_json::to_string_pretty(&objects) {
        Ok(json) => answer(StatusCode::OK, JSON, json + "\n"),
        Err(error) => super::failure(&error),
    }
}

/// `DELETE /cache`: takes out what is chosen, or says that it is out of date. A web page cannot make a browser send this: a method other than
/// GET, HEAD and POST needs a permission that is never given (Fetch, CORS-preflight).
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
    match parameters.chosen(false) {
        Ok(chosen) => {
            // The second level first: what is taken out here must not come back from there.
            let shared = cache.shared.load_full();
            let told = match &shared {
                Some(shared) => shared.purge(chosen.one_url()).await,
                None => Ok(()),
            };
            let count = cache.purge(&chosen, how);
            tracing::info!("{count} objects of the cache were purged by admin");
            match told {
                Ok(()) => answer(StatusCode::OK, TEXT, format!("{count}\n")),
                Err(why) => answer(
                    StatusCode::BAD_GATEWAY,
                    TEXT,
                    format!(
                        "{count} objects were purged here. The shared second level may still have what was meant: {why}. Purge again when it answers.\n"
                    ),
                ),
            }
        }
        Err(_) => text(StatusCode::BAD_REQUEST, USAGE),
    }
}

const USAGE: &str = "Say which, and only once: ?url=http://host/path?query, ?prefix=http://host/path, ?tag=name, or ?all=yes; \
    with &how=outdate they are not taken out, but validated before they are sent again. Values are percent-encoded.\n";

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

    fn chosen(&self, without_is_all: bool) -> Result<Chosen, Wrong> {
        let mut chosen = Vec::new();
        for (name, value) in &self.0 {
            match name.as_str() {
                "url" => chosen.push(Chosen::url(value)?),
                "prefix" => chosen.push(Chosen::prefix(value)?),
                "tag" => chosen.push(Chosen::Tag(value.as_bytes().into())),
                "all" if value == "yes" => chosen.push(Chosen::All),
                "how" | "limit" => {}
                _ => return Err(Wrong),
            }
        }
        match (chosen.pop(), chosen.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) if without_is_all => Ok(Chosen::All),
            _ => Err(Wrong),
        }
    }
}
