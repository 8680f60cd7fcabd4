//! Looking for a stored answer to a request, and waiting for one that somebody else is getting.
use super::ask::{Asking, NO_CONDITIONS, realm};
use super::refresh;
use super::send::{Source, send};
use crate::cache::Cache;
use crate::cache::flights::{Flight, Follow};
use crate::cache::store::{self, Key, Object};
use crate::config::plan::RouteCache;
use crate::proxy::arrival::Client;
use crate::proxy::decide::Destination;
use crate::proxy::reply::Reply;
use crate::proxy::response_body::Passed;
use crate::proxy::trace::Trace;
use crate::telemetry::metrics::CacheResult;
use crate::worker::scratch::Scratch;
use carrick_logic::cache::{
    CacheStatus, Fields, Found, Lookup, NotFilled, Request, UnixTime, look_up, may_fill,
    target_uri, write_key,
};
use carrick_logic::http1::{BodyLength, Method};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// So long a request waits for another one's answer at most. Then it asks, too.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// What the cache has done with a request.
pub enum Begun {
    /// Nothing: it is none of its business.
    PassBy,
    /// The origin has to be asked.
    Ask(Box<Asking>),
    /// It was answered from the store.
    Answered {
        /// How far the answer came.
        passed: Passed,
        /// Whether the client was told that its connection stays open.
        keep_alive: bool,
    },
    /// carrick answers itself.
    Reply(Reply),
}

/// Answers the request in `scratch` from the store, if it can be, or says what the origin is to be asked.
pub async fn begin(
    client: &mut Client,
    scratch: &mut Scratch,
    destination: &Destination,
    trace: &mut Trace,
) -> Begun {
    let (Some(cache), Some(route)) = (client.worker.cache.clone(), destination.cache.clone())
    else {
        return Begun::PassBy;
    };
    if scratch.request_head.wants_upgrade {
        return Begun::PassBy;
    }
    let Some((key, not_filled)) = name(client, scratch, destination, &route) else {
        trace.cache = Some(CacheResult::Bypass);
        return Begun::PassBy;
    };
    let says_status = (client.live.plan().cache.as_ref()).is_some_and(|cache| cache.status);
    let mut waits = true;
    loop {
        let now = client.worker.clock.now();
        let stored_key = cache.store.key(&key);
        let hash = stored_key.hash();
        let (found, lookup) = find(&cache, &route, stored_key, scratch, now);
        let mut status = CacheStatus::of(lookup);
        status.collapsed = !waits;
        match (lookup, found) {
            (Lookup::Fresh(reuse) | Lookup::Stale(reuse), Some(object)) => {
                let source = Source {
                    route: &route,
                    object: &object,
                    reuse,
                    status,
                    is_aged: false,
                    says_status,
                    now,
                };
                trace.cache = Some(source.result());
                let (passed, keep_alive) = send(client, scratch, &source, trace).await;
                return Begun::Answered { passed, keep_alive };
            }
            (Lookup::StaleWhileRevalidate(reuse), Some(object)) => {
                if let Flight::Lead(lead) = cache.flights.board(&key) {
                    let asking = Asking {
                        cache: Arc::clone(&cache),
                        route: Arc::clone(&route),
                        key,
                        not_filled,
                        stored: Some(Arc::clone(&object)),
                        conditions: NO_CONDITIONS,
                        asked_at: now,
                        status,
                        is_aged: false,
                        says_status,
                        lead: Some(lead),
                        is_errand: true,
                    };
                    refresh::begin(client, scratch, destination, asking);
                }
                let source = Source {
                    route: &route,
                    object: &object,
                    reuse,
                    status,
                    is_aged: false,
                    says_status,
                    now,
                };
                trace.cache = Some(CacheResult::Stale);
                let (passed, keep_alive) = send(client, scratch, &source, trace).await;
                return Begun::Answered { passed, keep_alive };
            }
            (Lookup::GatewayTimeout, _) => {
                trace.cache = Some(CacheResult::Refused);
                return Begun::Reply(Reply::new(
                    504,
                    "only_if_cached",
                    "Nothing that may be sent is stored, and the request wants nothing else (only-if-cached).",
                ));
            }
            (_, stored) => {
                let may_wait = waits && not_filled.is_none() && may_wait(scratch);
                let lead = if may_wait && !cache.passes.has(hash, now) {
                    match cache.flights.board(&key) {
                        Flight::Lead(lead) => Some(lead),
                        Flight::Follow(follow) => {
                            waits = false;
                            wait(client, follow).await;
                            continue;
                        }
                    }
                } else {
                    None
                };
                // Others are not for caches to answer.
                if matches!(scratch.request_head.method, Method::Get | Method::Head) {
                    trace.cache = Some(CacheResult::Miss);
                }
                let stored = stored.filter(|_| matches!(lookup, Lookup::Revalidate(_)));
                return Begun::Ask(Box::new(Asking {
                    cache,
                    route,
                    key,
                    not_filled,
                    stored,
                    conditions: NO_CONDITIONS,
                    asked_at: now,
                    status,
                    is_aged: false,
                    says_status,
                    lead,
                    is_errand: false,
                }));
            }
        }
    }
}

/// The name under which the answer to the request in `scratch` is stored, and whether it may not be; `None`: the cache is not for it.
fn name(
    client: &Client,
    scratch: &Scratch,
    destination: &Destination,
    route: &RouteCache,
) -> Option<(Box<[u8]>, Option<NotFilled>)> {
    let (head, bytes) = (&scratch.request_head, scratch.request.as_slice());
    if route.is_bypassed(bytes, head) {
        return None;
    }
    let uri = target_uri(head, bytes).ok()?;
    let fields = Fields::of_request(head, bytes);
    let mut key = Vec::with_capacity(128);
    write_key(
        &mut key,
        realm(client, &destination.place),
        &uri,
        fields,
        &route.key,
    );
    let not_filled = may_fill(&uri, fields, &route.key).err();
    Some((key.into(), not_filled))
}

/// What is stored for the request in `scratch`, and what is to be done with it.
fn find(
    cache: &Cache,
    route: &RouteCache,
    key: Key<'_>,
    scratch: &Scratch,
    now: UnixTime,
) -> (Option<Arc<Object>>, Lookup) {
    let request = Request::of_head(&scratch.request_head, &scratch.request);
    let found = match request.method {
        Method::Get | Method::Head => cache.store.find(key, request.fields),
        _ => store::Found::Nothing,
    };
    let (object, known) = match &found {
        store::Found::Nothing => (None, Found::Nothing),
        store::Found::OtherVariant => (None, Found::OtherVariant),
        store::Found::Object(object) => (Some(Arc::clone(object)), Found::Stored(object.meta())),
    };
    (object, look_up(&request, known, now, &route.policy))
}

/// Whether the request is like those that others send: then one answer may do for all.
fn may_wait(scratch: &Scratch) -> bool {
    let head = &scratch.request_head;
    if head.method != Method::Get || head.body != BodyLength::None {
        return false;
    }
    let request = Request::of_head(head, &scratch.request);
    request.range.is_none()
        && !request.has_if_none_match
        && request.if_modified_since.is_none()
        && !request.has_origin_condition
        && !request.has_authorization
        && !request.directives.no_store
}

async fn wait(client: &mut Client, mut follow: Follow) {
    client.worker.metrics.cache.waited.add(1);
    let limit = WAIT_MAX.min(client.live.plan().timeouts.idle);
    let over = pin!(follow.over());
    // Whether it was over or took too long: both are seen in the store.
    let _ = client.timer.within(limit, over).await;
}
