//! The store that several processes share: what of it comes into this one's own.
use super::ask::CacheQuery;
use super::parts::stored_like;
use crate::cache::Cache;
use crate::cache::disk::fits_file;
use crate::cache::memory::{Object, Store};
use crate::cache::shared::{Names, Shared, Ticket};
use crate::context::request_context::RequestContext;
use crate::net::scratch::Scratch;
use crate::telemetry::metrics::CacheResult;
use carrick_logic::cache::{CacheStatus, Forward, Record, Request, UnixTime, Variant};
use carrick_logic::http1::{BodyLength, Method};
use std::sync::Arc;

/// What a request has to do with it.
#[derive(Default)]
pub(super) struct SharedLookup {
    is_asked: bool,
    is_found: bool,
    /// What is stored for the request may be written there.
    pub(super) ticket: Option<Ticket>,
}

impl SharedLookup {
    /// Asks it once, for a request that something like `status` would be said of. True: the store has something new.
    pub(super) async fn asks(
        &mut self,
        context: &RequestContext,
        scratch: &Scratch,
        wanted: &CacheQuery,
        stored: Option<&Arc<Object>>,
        status: CacheStatus<'static>,
    ) -> bool {
        let Some(shared) = wanted.cache.shared.load_full() else {
            return false;
        };
        let now = context.worker.clock.now();
        // What always has to be validated is not there.
        let is_there = stored.is_none_or(|stored| !stored.meta().always_validate);
        if std::mem::replace(&mut self.is_asked, true)
            || !is_there
            || !is_for_all(scratch, wanted, now)
        {
            return false;
        }
        let names = names(context, &shared, &wanted.key);
        let asked = wanted.cache.purges.now();
        // Boxed: most requests are answered without it.
        let Some(mut found) = Box::pin(shared.find(names)).await else {
            return false;
        };
        // A reload has to get it from the origin; what comes from there may be written.
        let wants_stored = matches!(
            status.forward,
            Some(Forward::UriMiss | Forward::VaryMiss | Forward::Stale)
        );
        if wants_stored {
            let fields = Request::of_head(&scratch.request_head, &scratch.request).fields;
            let asked_for = |names: &[u8]| Variant::asked_for(names, fields);
            let store = &wanted.cache.store;
            let took = found.record(asked_for, |record| {
                // What is stored now: it may have come since it was asked for.
                let is_of_use = stored_like(&wanted.cache, &wanted.key, &record.variant)
                    .is_none_or(|stored| stored.meta().gives_way_to(&record.meta, now));
                let is_ours = record.variant.matches(fields);
                (is_of_use && is_ours)
                    .then(|| take(store, &wanted.key, &record))
                    .flatten()
                    .filter(|object| !wanted.cache.catch_up(asked, object))
            });
            self.is_found = Box::pin(took).await.is_some();
        }
        self.ticket = Some(found.ticket);
        self.is_found
    }

    /// Says in `status` where a hit has come from.
    pub(super) fn tell(&self, status: &mut CacheStatus<'static>) {
        if self.is_found && status.hit {
            status.detail = status.detail.or(Some("shared"));
        }
    }

    /// How a request was answered that would else be said to be answered so.
    pub(super) fn result(&self, result: CacheResult) -> CacheResult {
        match result {
            CacheResult::Hit if self.is_found => CacheResult::Shared,
            result => result,
        }
    }
}

/// What is stored for this key here is not right any more, and not there either.
pub(super) fn forget(context: &RequestContext, cache: &Cache, key: &[u8]) {
    if let Some(shared) = cache.shared.load_full() {
        shared.forget(&names(context, &shared, key));
    }
}

/// Whether the request in `scratch` may be answered with what others were sent, and its answer be kept for others.
fn is_for_all(scratch: &Scratch, wanted: &CacheQuery, now: UnixTime) -> bool {
    let head = &scratch.request_head;
    let request = Request::of_head(head, &scratch.request);
    let hash = wanted.cache.store.key(&wanted.key).hash();
    matches!(head.method, Method::Get | Method::Head)
        && head.body == BodyLength::None
        && wanted.not_filled.is_none()
        && !request.has_origin_condition
        && !request.has_authorization
        && !request.directives.no_store
        && !wanted.cache.passes.has(hash, now)
}

/// Processes that share have listeners with the same ports. One whose port another listener has, too, is known by its whole
/// address: they may have other rules.
fn names(context: &RequestContext, shared: &Shared, key: &[u8]) -> Names {
    let port = context.listener.address.port();
    let listeners = &context.live.plan().listeners;
    let with_port = listeners
        .iter()
        .filter(|listener| listener.address.port() == port);
    let port = (with_port.count() == 1).then_some(port);
    Names::new(&shared.plan().prefix, key, port)
}

/// Puts a record into the store; `None`: it does not fit.
fn take(store: &Arc<Store>, key: &[u8], record: &Record<'_>) -> Option<Arc<Object>> {
    // All of it is here: no length is announced, as responses under way may have the share of memory for that.
    let key = store.key(key);
    let fits_file = fits_file(key, &record.variant, record.head);
    let mut writer = store.fill_for(None, fits_file).ok()?;
    writer.append(record.body).ok()?;
    writer.announce_end();
    let body = Arc::clone(writer.body());
    if !writer.finish() {
        return None;
    }
    store
        .put(
            key,
            &record.variant,
            record.meta.clone(),
            record.head,
            &body,
        )
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::ledger::Limits;
    use carrick_logic::cache::{Fields, Meta, Policy, Response, Times};

    #[test]
    fn a_record_is_taken_though_announced_lengths_have_their_share() {
        let store = Arc::new(Store::new(Limits {
            bytes: 1 << 20,
            objects: 100,
            object_bytes_max: 1 << 20,
        }));
        let body = vec![7; 1 << 17];
        let length = body.len() as u64;
        let slow: Vec<_> = std::iter::from_fn(|| store.fill(Some(length)).ok()).collect();
        assert_eq!(slow.len(), 3);
        let (now, policy) = (UnixTime(1_800_000_000), Policy::default());
        let times = Times {
            request: now,
            response: now,
        };
        let response = Response::read(200, Fields::of_text(b""), now, &policy);
        let record = Record {
            variant: Variant::default(),
            meta: Meta::of(&response, times, &policy),
            head: b"",
            body: &body,
        };
        let object = take(&store, b"key", &record).expect("there is room");
        assert!(object.is_whole() && object.total_bytes() == Some(length));
    }
}
