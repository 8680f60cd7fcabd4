//! Looking up a stored answer to a request, and waiting for one that another request is fetching.
use super::ask::{Asking, CacheQuery, realm};
use super::parts::{Completion, answers};
use super::send::Source;
use crate::cache::flights::{Flight, Follow};
use crate::cache::memory;
use crate::cache::memory::Object;
use crate::config::plan::RouteCache;
use crate::context::client::Client;
use crate::context::destination::{Destination, NextHop};
use crate::context::request_context::RequestContext;
use crate::context::request_log::{CLIENT_CLOSED_REQUEST, RequestLog};
use crate::http::cached::shared::SharedLookup;
use crate::http::own_fields::{is_known, is_own_field};
use crate::http::prefetch::Fetch;
use crate::net::deadline::{Deadline, Timer};
use crate::net::io::poll_reset;
use crate::net::scratch::Scratch;
use crate::reply::Reply;
use crate::telemetry::metrics::{CacheResult, PrefetchResult, WorkerMetrics};
use carrick_logic::access::Access;
use carrick_logic::cache::{
    CacheStatus, Fields, Forward, Found, Lookup, Miss, NotFilled, Request, Reuse, UnixTime,
    look_up, may_fill, target_uri, write_key,
};
use carrick_logic::http1::{BodyLength, Method};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// The longest that a request waits for another one's answer. Then it asks, too.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// What the cache has done with a request.
pub enum CacheDecision {
    /// Nothing: it is none of its business.
    PassBy,
    /// The origin has to be asked.
    Ask(Box<Asking>),
    /// It is answered from the store.
    Stored {
        /// The answer.
        source: Source,
        /// What the origin is to be asked meanwhile, in the background (RFC 5861 section 3).
        revalidation: Option<Box<Asking>>,
    },
    /// Its client has gone.
    ClientGone,
    /// carrick answers itself.
    Reply(Reply),
}

/// Answers the request in `scratch` from the store, if it can be, or says what the origin is to be asked.
pub async fn begin(
    client: &mut Client,
    scratch: &mut Scratch,
    destination: &Destination,
    fetch: Fetch,
    log: &mut RequestLog,
) -> CacheDecision {
    let (Some(cache), Some(route)) = (
        client.context.worker.store.cache.clone(),
        destination.cache.clone(),
    ) else {
        return CacheDecision::PassBy;
    };
    if scratch.request_head.wants_upgrade && is_answerable(scratch.request_head.method) {
        return match accepts_only_stored(scratch) {
            true => nothing_stored(log),
            false => CacheDecision::PassBy,
        };
    }
    let named = name(&client.context, destination, scratch, &route);
    let is_bypassed = named.is_none();
    let (key, not_filled) = named.unwrap_or_default();
    let plan = client.context.live.plan().cache.as_ref();
    let wanted = CacheQuery {
        cache,
        route,
        key,
        not_filled,
        says_status: plan.is_some_and(|plan| plan.status),
        fetch,
    };
    if is_bypassed {
        if accepts_only_stored(scratch) {
            return nothing_stored(log);
        }
        log.cache = Some(CacheResult::Bypass);
        let status = CacheStatus {
            forward: Some(Forward::Bypass),
            ..CacheStatus::default()
        };
        let mut asking = wanted.ask(None, status, client.context.worker.clock.now());
        asking.is_bypassed = true;
        return CacheDecision::Ask(Box::new(asking));
    }
    let (mut waits, mut asks_disk, mut is_from_disk) = (true, true, false);
    // For all its waits together.
    let mut deadline = Deadline::after(WAIT_MAX.min(client.context.live.plan().timeouts.idle));
    let mut shared = SharedLookup::default();
    loop {
        let now = client.context.worker.clock.now();
        let begun = Instant::now();
        let (stored, lookup) = wanted.find(&client.context, scratch, destination, now);
        let took = begun.elapsed();
        client.context.metrics().cache.find_seconds.observe(took);
        if stored.is_none() || reuse(lookup).is_none() {
            client.downstream.push_held();
        }
        if stored.is_none() && asks_disk {
            asks_disk = false;
            let timer = &mut client.downstream.timer;
            is_from_disk = wanted.bring(&client.context, timer, scratch).await;
            if is_from_disk {
                continue;
            }
        }
        let mut status = CacheStatus::of(lookup);
        status.collapsed = !waits;
        shared.tell(&mut status);
        if let Some((object, reuse)) = stored.clone().zip(reuse(lookup)) {
            let idle = client.context.live.plan().timeouts.idle;
            let timer = &mut client.downstream.timer;
            if scratch.request_head.method == Method::Get
                && object.is_file()
                && !object.is_whole()
                && object.body().reader().breaks_at_once(timer, idle).await
            {
                let mut asking = wanted.ask(None, status, now);
                asking.give_up_storing();
                return CacheDecision::Ask(Box::new(asking));
            }
            let mut revalidation = None;
            if matches!(lookup, Lookup::StaleWhileRevalidate(_))
                && let Flight::Lead(lead) = wanted.cache.flights.board(&wanted.key)
            {
                let mut asking = wanted.ask(stored, status, now);
                asking.lead = Some(lead);
                revalidation = Some(Box::new(asking));
            }
            wanted.note_use(client.context.metrics(), now);
            let source = Source {
                route: wanted.route,
                object,
                reuse,
                status,
                own_lines: Vec::new(),
                is_aged: false,
                says_status: wanted.says_status,
                now,
                pace: destination.pace,
                fetch,
            };
            log.cache = Some(match shared.result(source.result()) {
                CacheResult::Hit if is_from_disk || source.object.is_file() => CacheResult::HitDisk,
                result => result,
            });
            return CacheDecision::Stored {
                source,
                revalidation,
            };
        }
        if lookup == Lookup::GatewayTimeout {
            return nothing_stored(log);
        }
        let mut lead = None;
        if waits && wanted.may_wait(scratch, now) {
            match wanted.cache.flights.board(&wanted.key) {
                Flight::Lead(mine) => lead = Some(mine),
                // Whatever the other request stores, this one has to ask.
                Flight::Follow(_) if wanted.validates_always(scratch, stored.as_deref()) => {}
                Flight::Follow(follow) => {
                    match wait(client, follow, &mut deadline).await {
                        Ok(Waited::Answered) => waits = false,
                        Ok(Waited::Abandoned) => {}
                        // It may take its client's time. Until it is stored, nobody waits as long for nothing.
                        Ok(Waited::InVain) => {
                            waits = false;
                            let hash = wanted.cache.store.key(&wanted.key).hash();
                            wanted.cache.passes.note(hash, now);
                        }
                        Err(ClientReset) => {
                            (log.ended, log.status) = ("client_reset", CLIENT_CLOSED_REQUEST);
                            return CacheDecision::ClientGone;
                        }
                    }
                    asks_disk = true;
                    continue;
                }
            }
        }
        if shared
            .asks(&client.context, scratch, &wanted, stored.as_ref(), status)
            .await
        {
            continue;
        }
        // Others are not for caches to answer.
        if is_answerable(scratch.request_head.method) {
            log.cache = Some(CacheResult::Miss);
        }
        let completion = stored
            .as_ref()
            .filter(|_| lookup == Lookup::Miss(Miss::Part) && wanted.not_filled.is_none())
            .and_then(|object| {
                let store = &wanted.cache.store;
                Completion::of(store, scratch, object, now, &wanted.route.policy)
            });
        let stored = stored.filter(|_| matches!(lookup, Lookup::Revalidate(_)));
        let mut asking = wanted.ask(stored, status, now);
        asking.completion = completion;
        (asking.lead, asking.ticket) = (lead, shared.ticket);
        return CacheDecision::Ask(Box::new(asking));
    }
}

/// What the origin is to be asked for the request in `scratch`, unless another request is asking already.
///
/// # Errors
/// Says why it is not to be asked.
pub async fn begin_prefetch(
    context: &RequestContext,
    timer: &mut Timer,
    scratch: &Scratch,
    destination: &Destination,
    fetch: Fetch,
) -> Result<Box<Asking>, PrefetchResult> {
    let cache = context
        .worker
        .store
        .cache
        .clone()
        .ok_or(PrefetchResult::Denied)?;
    let route = destination.cache.clone().ok_or(PrefetchResult::Denied)?;
    let (key, not_filled) =
        name(context, destination, scratch, &route).ok_or(PrefetchResult::Denied)?;
    let wanted = CacheQuery {
        cache,
        route,
        key,
        not_filled,
        says_status: false,
        fetch,
    };
    let (mut asks_disk, mut shared) = (true, SharedLookup::default());
    loop {
        let now = context.worker.clock.now();
        // With what was not stored lately there is nothing to wait for, and so nothing to fetch.
        if !wanted.may_wait(scratch, now) {
            return Err(PrefetchResult::NotStored);
        }
        let (stored, lookup) = wanted.find(context, scratch, destination, now);
        if reuse(lookup).is_some() {
            return Err(PrefetchResult::Fresh);
        }
        if stored.is_none() && asks_disk {
            asks_disk = false;
            if wanted.bring(context, timer, scratch).await {
                continue;
            }
        }
        let Flight::Lead(lead) = wanted.cache.flights.board(&wanted.key) else {
            return Err(PrefetchResult::InFlight);
        };
        let status = CacheStatus::of(lookup);
        if shared
            .asks(context, scratch, &wanted, stored.as_ref(), status)
            .await
        {
            return Err(PrefetchResult::Fresh);
        }
        let stored = stored.filter(|_| matches!(lookup, Lookup::Revalidate(_)));
        let mut asking = wanted.ask(stored, status, now);
        (asking.lead, asking.ticket) = (Some(lead), shared.ticket);
        return Ok(Box::new(asking));
    }
}

/// Whether the address that an object came from is one that the client may not have anything from.
fn is_denied(access: &Access, destination: &Destination, object: &Object) -> bool {
    let NextHop::Origin { parent: false, .. } = destination.next_hop else {
        return false;
    };
    (object.origin()).is_some_and(|address| access.check_address(address).is_err())
}

/// How what is stored is sent, if it is.
fn reuse(lookup: Lookup) -> Option<Reuse> {
    match lookup {
        Lookup::Fresh(reuse) | Lookup::Stale(reuse) | Lookup::StaleWhileRevalidate(reuse) => {
            Some(reuse)
        }
        Lookup::Revalidate(_) | Lookup::Miss(_) | Lookup::GatewayTimeout => None,
    }
}

/// Whether a cache can answer requests with this method at all. What answers to others do to it is another matter.
fn is_answerable(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head)
}

/// Whether the request in `scratch` is one that a cache can answer, and is for what is stored only (RFC 9111 section
/// 5.2.1.7).
fn accepts_only_stored(scratch: &Scratch) -> bool {
    let head = &scratch.request_head;
    is_answerable(head.method)
        && Request::of_head(head, &scratch.request)
            .directives
            .only_if_cached
}

/// The answer to a request that accepts only what is stored.
fn nothing_stored(log: &mut RequestLog) -> CacheDecision {
    log.cache = Some(CacheResult::Refused);
    CacheDecision::Reply(Reply::new(
        504,
        "only_if_cached",
        "The cache has nothing that may be sent, and the request accepts nothing else (only-if-cached).",
    ))
}

/// The name under which the answer to the request in `scratch` is stored, and whether it may not be; `None`: the cache is not for it.
fn name(
    context: &RequestContext,
    destination: &Destination,
    scratch: &Scratch,
    route: &RouteCache,
) -> Option<(Box<[u8]>, Option<NotFilled>)> {
    let (head, bytes) = (&scratch.request_head, scratch.request.as_slice());
    let is_bypassed =
        route.is_bypassed(bytes, head) || is_known(context, scratch, &route.key.headers);
    // An unsafe method changes the resource for all clients, whoever asks, and on whatever route.
    if is_bypassed && is_answerable(head.method) {
        return None;
    }
    let uri = target_uri(head, bytes).ok()?;
    let fields = Fields::of_request(head, bytes);
    let mut key = Vec::with_capacity(128);
    let upstream = match &destination.next_hop {
        NextHop::Group { group, .. } => Some(&*group.state.plan.name),
        NextHop::Origin { .. } => None,
    };
    let realm = realm(context, upstream);
    write_key(&mut key, realm, &uri, fields, &route.key);
    let not_filled = match is_bypassed {
        true => Some(NotFilled::Bypass),
        false => may_fill(&uri, head.host_and_port.of(bytes), fields, &route.key).err(),
    };
    Some((key.into(), not_filled))
}

impl CacheQuery {
    /// What is stored for the request in `scratch`, and what is to be done with it.
    fn find(
        &self,
        context: &RequestContext,
        scratch: &Scratch,
        destination: &Destination,
        now: UnixTime,
    ) -> (Option<Arc<Object>>, Lookup) {
        let request = Request::of_head(&scratch.request_head, &scratch.request);
        let found = if is_answerable(request.method) {
            let store = &self.cache.store;
            store.find(store.key(&self.key), request.fields)
        } else {
            memory::Found::Nothing
        };
        let meta;
        let (object, known) = match &found {
            memory::Found::Nothing => (None, Found::Nothing),
            memory::Found::OtherVariant => (None, Found::OtherVariant),
            // By rules that came later. The origin is asked, and that is refused.
            memory::Found::Object(object)
                if is_denied(&context.listener.access, destination, object) =>
            {
                (None, Found::Nothing)
            }
            // It was stored by a listener, or a configuration, that does not write this field.
            memory::Found::Object(object)
                if object
                    .variant()
                    .each_name()
                    .any(|name| is_own_field(context, &destination.next_hop, name)) =>
            {
                (None, Found::OtherVariant)
            }
            memory::Found::Object(object) if !self.cache.store.stands(object, now) => {
                (None, Found::Nothing)
            }
            memory::Found::Object(object) => {
                let is_enough = answers(&request, object, now, &self.route.policy);
                let known = if is_enough {
                    Found::Stored
                } else {
                    Found::PartOnly
                };
                meta = object.meta();
                (Some(Arc::clone(object)), known(&meta))
            }
        };
        (object, look_up(&request, known, now, &self.route.policy))
    }

    /// Brings what is on the disk into memory; `false`: there is nothing.
    async fn bring(&self, context: &RequestContext, timer: &mut Timer, scratch: &Scratch) -> bool {
        let (head, store) = (&scratch.request_head, &self.cache.store);
        if !is_answerable(head.method) || store.disk().is_none() {
            return false;
        }
        let fields = Fields::of_request(head, &scratch.request);
        let begun = Instant::now();
        let bringing = pin!(store.bring(store.key(&self.key), fields));
        let limit = WAIT_MAX.min(context.live.plan().timeouts.idle);
        match timer.within(limit, bringing).await {
            Ok(is_there) => {
                if is_there {
                    context
                        .metrics()
                        .cache
                        .disk_seconds
                        .observe(begun.elapsed());
                }
                is_there
            }
            // The disk is too slow: the origin is asked.
            Err(_) => false,
        }
    }

    /// A client gets what is stored, which may have been prefetched.
    fn note_use(&self, metrics: &WorkerMetrics, now: UnixTime) {
        let hash = self.cache.store.key(&self.key).hash();
        if self.cache.prefetched.has(hash, now) {
            self.cache.prefetched.forget(hash);
            metrics.cache.prefetches(PrefetchResult::Used).add(1);
        }
    }

    /// Whether nothing that another request has just stored answers the request in `scratch`, as it has to be validated.
    fn validates_always(&self, scratch: &Scratch, stored: Option<&Object>) -> bool {
        let request = Request::of_head(&scratch.request_head, &scratch.request);
        (request.directives.no_cache && self.route.policy.heed_client_reload)
            || stored.is_some_and(|object| object.meta().always_validate)
    }

    /// Whether the request in `scratch` is like those that others send, so that one answer may do for all.
    fn may_wait(&self, scratch: &Scratch, now: UnixTime) -> bool {
        let head = &scratch.request_head;
        if head.method != Method::Get || head.body != BodyLength::None || self.not_filled.is_some()
        {
            return false;
        }
        let request = Request::of_head(head, &scratch.request);
        let is_usual = request.range.is_none()
            && !request.has_if_none_match
            && request.if_modified_since.is_none()
            && !request.has_origin_condition
            && !request.has_authorization
            && !request.directives.no_store;
        let hash = self.cache.store.key(&self.key).hash();
        is_usual && !self.cache.passes.has(hash, now)
    }
}

/// The client has reset its connection.
struct ClientReset;

/// How the wait for another request's answer ended.
enum Waited {
    /// The answer is there, or there will be none.
    Answered,
    /// Its client left before that. One of the waiting requests takes its place.
    Abandoned,
    /// It took too long.
    InVain,
}

/// Waits for another request's answer, and for a reset of the client.
async fn wait(
    client: &mut Client,
    mut follow: Follow,
    deadline: &mut Deadline,
) -> Result<Waited, ClientReset> {
    let (context, downstream) = (&client.context, &mut client.downstream);
    context.metrics().cache.waited.add(1);
    let mut over = pin!(follow.over());
    let (stream, mut watches) = (&downstream.transport, true);
    let ended = poll_fn(|cx| {
        if let Poll::Ready(is_answered) = over.as_mut().poll(cx) {
            return Poll::Ready(Ok(match is_answered {
                true => Waited::Answered,
                false => Waited::Abandoned,
            }));
        }
        if watches && poll_reset(stream, &mut watches, cx) {
            return Poll::Ready(Err(ClientReset));
        }
        Poll::Pending
    });
    let waited = downstream.timer.until(deadline, ended).await;
    waited.unwrap_or(Ok(Waited::InVain))
}
