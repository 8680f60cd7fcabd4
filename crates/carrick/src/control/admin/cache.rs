//! `/cache`: what is stored, and taking it out.
use super::{JSON, TEXT, answer, text};
use crate::cache::disk::Disk;
use crate::cache::purge::{Chosen, Wrong};
use crate::cache::store::Purge;
use crate::control::ControlState;
use crate::telemetry::metrics::CacheResult;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use std::time::Duration;
use tokio::sync::oneshot;

/// Objects that are listed at most, unless `limit` says otherwise.
const LISTED_MAX: usize = 1000;

/// How long a purge waits for the disk.
const DISK_WAIT: Duration = Duration::from_secs(30);

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
    disk: Option<DiskStatus>,
}

/// The second level.
#[derive(Debug, Serialize)]
struct DiskStatus {
    path: String,
    objects: u64,
    objects_max: u64,
    bytes: u64,
    bytes_max: u64,
    /// Whether all that was there at the start is in the index.
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
    /// Why nothing is written at present, if that is so.
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
        Some(Self {
            objects: stats.objects,
            bytes: stats.bytes,
            bytes_max: cache.bytes_max,
            bytes_held_by_readers: stats.bytes_held_by_readers,
            fills: stats.fills,
            evictions: stats.evicted_small + stats.evicted_main,
            hit_ratio: (asked > 0).then(|| answered as f64 / asked as f64),
            bytes_saved: state.sum(|worker| worker.cache.bytes_saved.get()),
            disk: cache.store.disk().map(|disk| DiskStatus::of(disk)),
        })
    }
}

/// One object of `GET /cache`.
#[derive(Debug, Serialize)]
struct Listed {
    key: String,
    /// `null`, like the times, of what is on the disk and was not asked for since the start: they are in its file.
    status: Option<u16>,
    bytes: u64,
    state: &'static str,
    /// `memory`, `disk`, or `both`.
    place: &'static str,
    age_s: Option<u32>,
    ttl_s: Option<i64>,
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
    let now = crate::worker::clock::Clock::default().now();
    let in_memory = (cache.store.objects())
        .filter(|object| chosen.has(object))
        .map(|object| Listed {
            key: String::from_utf8_lossy(object.key().bytes()).into_owned(),
            status: Some(object.meta().status),
            bytes: object.stored_bytes(),
            state: if object.body().is_whole() {
                "whole"
            } else {
                "filling"
            },
            place: if object.body().is_file() {
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
        .filter(|entry| chosen.has_entry(entry))
        .map(|entry| Listed {
            key: String::from_utf8_lossy(entry.key_bytes()).into_owned(),
            status: None,
            bytes: entry.file_bytes_taken(),
            state: "whole",
            place: "disk",
            age_s: None,
            ttl_s: None,
            hits: 0,
        });
    let objects: Vec<Listed> = in_memory.chain(only_there).take(limit).collect();
    match serde_json::to_string_pretty(&objects) {
        Ok(json) => answer(StatusCode::OK, JSON, json + "\n"),
        Err(error) => super::failure(&error),
    }
}

/// `DELETE /cache`: takes out what is chosen, or says that it is out of date. A web page cannot make a browser send this: a method other than
/// GET, HEAD and POST needs a permission that is never given (Fetch, CORS-preflight).
/// With a disk, it is done when the second part has come.
pub(super) fn purge(
    request: &Request<Incoming>,
    state: &ControlState,
) -> (Response<Full<Bytes>>, Option<oneshot::Receiver<()>>) {
    let Some(cache) = &state.cache else {
        return (none(), None);
    };
    let parameters = Parameters::of(request);
    let how = match parameters.first("how") {
        None | Some("remove") => Purge::Remove,
        Some("outdate") => Purge::Outdate,
        Some(_) => return (text(StatusCode::BAD_REQUEST, USAGE), None),
    };
    match parameters.chosen(false) {
        Ok(chosen) => {
            let (count, over) = chosen.purge(&cache.store, how);
            tracing::info!("{count} objects of the cache were purged by admin");
            (answer(StatusCode::OK, TEXT, format!("{count}\n")), over)
        }
        Err(_) => (text(StatusCode::BAD_REQUEST, USAGE), None),
    }
}

/// The response, when what it tells of is on the disk.
pub(super) async fn finished(
    response: Response<Full<Bytes>>,
    over: Option<oneshot::Receiver<()>>,
) -> Response<Full<Bytes>> {
    let Some(over) = over else {
        return response;
    };
    match tokio::time::timeout(DISK_WAIT, over).await {
        Ok(_) => response,
        Err(_) => text(
            StatusCode::ACCEPTED,
            "It is purged for all requests from now on; but the disk is slow, and it is not certain that it stays so after a restart.\n",
        ),
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
                "tag" => chosen.push(Chosen::tag(value)),
                "all" if value == "yes" => chosen.push(Chosen::all()),
                "how" | "limit" => {}
                _ => return Err(Wrong),
            }
        }
        match (chosen.pop(), chosen.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) if without_is_all => Ok(Chosen::all()),
            _ => Err(Wrong),
        }
    }
}
