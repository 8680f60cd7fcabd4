//! What an origin's answer does to the store, and what becomes of it.
use super::ask::{Asking, realm};
use super::parts::{answers, reuse_of, stored_of};
use super::store::{Exchange, Verdict, try_store};
use crate::cache::memory::{NotTaken, Object};
use crate::context::destination::{Destination, NextHop};
use crate::context::request_context::RequestContext;
use crate::http::cached::shared;
use crate::http::own_fields::is_own_field;
use crate::net::scratch::Scratch;
use crate::telemetry::metrics::WorkerMetrics;
use carrick_logic::cache::{
    Fields, HeadEffect, NotStored, Request, Response, Times, Uri, Validated, after_validation,
    changed_uri, head_effect, invalidated, invalidates, target_uri, withheld_fields, write_key,
};
use carrick_logic::http1::Method;
use std::sync::Arc;

/// Judges the answer whose head is in `scratch`, and does to the store what follows from it.
pub fn judge(
    context: &RequestContext,
    scratch: &Scratch,
    destination: &Destination,
    asking: &mut Asking,
) -> Verdict {
    if asking.is_bypassed {
        // A request without a key can change what has one: its path may have dot segments.
        invalidate(context, &changed(context, scratch, destination));
        return Verdict::PassOn;
    }
    let now = context.worker.clock.now();
    let (head, bytes) = (&scratch.request_head, scratch.request.as_slice());
    // Without one there would be no key.
    let Ok(uri) = target_uri(head, bytes) else {
        return Verdict::PassOn;
    };
    let route = Arc::clone(&asking.route);
    let response = Response::of_head(
        &scratch.response_head,
        &scratch.response,
        now,
        &route.policy,
    );
    let mut varying = response.fields.elements(b"vary");
    let exchange = Exchange {
        request: Request::of_head(head, bytes),
        uri,
        varies_with_own: varying
            .any(|name| is_own_field(context, &destination.next_hop, &name.to_ascii_lowercase())),
        response,
        times: Times {
            request: asking.asked_at,
            response: now,
        },
    };
    asking.is_aged = exchange.response.age_s.is_some();
    if !matches!(head.method, Method::Get | Method::Head) {
        let begun = asking.cache.purges.now();
        let changed = changed(context, scratch, destination);
        invalidate(context, &changed);
        if head.method == Method::Post && !head.wants_upgrade && begun == asking.asked {
            // What this answer has purged was there before it.
            asking.asked = begun.after(changed.len());
            return keep_answer_to_post(context.metrics(), scratch, &exchange, asking);
        }
        return Verdict::PassOn;
    }
    if asking.completion.is_some() && matches!(exchange.response.status, 304 | 412 | 416) {
        // Whatever it means, it is no answer to what the client has asked.
        return Verdict::AskAgain;
    }
    let Some(stored) = asking.stored.clone() else {
        return replace(context.metrics(), scratch, &exchange, asking);
    };
    let meaning = after_validation(
        &exchange.request,
        &[stored_of(&stored)],
        asking.conditions,
        &exchange.response,
        now,
        &route.policy,
    );
    match meaning {
        Validated::Freshen(_) => refreshed(&exchange, asking, &stored),
        Validated::PassOn => Verdict::PassOn,
        Validated::Stale(reuse) => {
            asking.status.forward_status = Some(exchange.response.status);
            Verdict::Use(stored, reuse)
        }
        Validated::AskAgain => Verdict::AskAgain,
        Validated::Replace => replace(context.metrics(), scratch, &exchange, asking),
    }
}

/// The answer to POST may say that it is what GET would get (RFC 9110 section 9.3.3). Where others have purged something meanwhile it is not
/// stored: which of both was first cannot be known.
fn keep_answer_to_post(
    metrics: &WorkerMetrics,
    scratch: &Scratch,
    exchange: &Exchange<'_>,
    asking: &mut Asking,
) -> Verdict {
    if asking.cache.purges.now() != asking.asked {
        return Verdict::PassOn;
    }
    match try_store(scratch, exchange, asking) {
        Ok(verdict) => {
            asking.status.stored = true;
            metrics.cache.stored.add(1);
            verdict
        }
        Err(_) => Verdict::PassOn,
    }
}

/// The answer does not validate what is stored: it replaces it.
fn replace(
    metrics: &WorkerMetrics,
    scratch: &Scratch,
    exchange: &Exchange<'_>,
    asking: &mut Asking,
) -> Verdict {
    if exchange.request.method == Method::Head {
        note_head(exchange, asking);
        return Verdict::PassOn;
    }
    store(metrics, scratch, exchange, asking)
}

/// A 304: what is stored is fresh again.
fn refreshed(exchange: &Exchange<'_>, asking: &mut Asking, stored: &Arc<Object>) -> Verdict {
    asking.status.forward_status = Some(304);
    asking.own_lines = withheld_fields(&exchange.response, &asking.route.policy);
    let object = match exchange.freshen(asking, stored) {
        Ok(object) => {
            if let Some(ticket) = asking.ticket.take()
                && asking.cache.purges.since(asking.asked, &object).is_none()
            {
                ticket.keep(&object, exchange.times.response);
            }
            object
        }
        // Its client gets it nevertheless: the origin has just said that it is right.
        Err(why) => {
            asking.status.detail = Some(why);
            Arc::clone(stored)
        }
    };
    if !answers(
        &exchange.request,
        &object,
        exchange.times.response,
        &asking.route.policy,
    ) {
        return Verdict::AskAgain;
    }
    let reuse = reuse_of(&object, exchange.times.response);
    Verdict::Use(object, reuse)
}

/// The answer to HEAD may say that what is stored is right, or that it is not.
fn note_head(exchange: &Exchange<'_>, asking: &mut Asking) {
    // Servers may have answered what the key does not say.
    if asking.not_filled.is_some() || exchange.request.has_body {
        return;
    }
    let store = Arc::clone(&asking.cache.store);
    for object in store.variants(store.key(&asking.key)) {
        if !object.variant().matches(exchange.request.fields) {
            continue;
        }
        let total_bytes = object.total_bytes();
        match head_effect(&stored_of(&object), total_bytes, &exchange.response) {
            // What cannot be brought up to date is taken out.
            HeadEffect::Freshen => drop(exchange.freshen(asking, &object)),
            HeadEffect::Outdated => {
                if store
                    .replace(&object, object.meta().outdated(), object.head())
                    .is_err()
                {
                    store.remove(&object);
                }
            }
            HeadEffect::Nothing => {}
        }
    }
}

/// The keys of what an unsafe method has changed (RFC 9111 section 4.4), to whatever servers the listener sends requests for it, and
/// whatever the rules by which routes there store it. Empty if the answer in `scratch` does not say so.
pub fn changed(
    context: &RequestContext,
    scratch: &Scratch,
    destination: &Destination,
) -> Vec<Vec<u8>> {
    let (head, bytes) = (&scratch.request_head, scratch.request.as_slice());
    let status = scratch.response_head.status;
    if context.worker.store.cache.is_none()
        || !invalidates(head.method, head.method_text.of(bytes), status)
    {
        return Vec::new();
    }
    let Ok(uri) = changed_uri(head, bytes) else {
        return Vec::new();
    };
    let response = Fields::of_response(&scratch.response_head, &scratch.response);
    let upstream = match destination.next_hop {
        NextHop::Group { index, .. } => Some(index),
        NextHop::Origin { .. } => None,
    };
    let plan = context.live.plan();
    let mut upstreams = context.listener.cached_upstreams();
    upstreams.insert(upstream);
    let places = upstreams.into_iter().flat_map(|upstream| {
        let named = upstream.and_then(|index| plan.upstreams.get(index));
        let realm = realm(context, named.map(|upstream| upstream.name.as_str()));
        let rules = plan.key_rules(upstream).into_iter();
        rules.map(move |rules| (realm, rules))
    });
    let places: Vec<_> = places.collect();
    let fields = Fields::of_request(head, bytes);
    let mut keys = Vec::new();
    for path in invalidated(&uri, response) {
        let uri = Uri {
            path_and_query: &path,
            ..uri
        };
        for (realm, rules) in &places {
            let mut key = Vec::with_capacity(128);
            write_key(&mut key, *realm, &uri, fields, rules);
            keys.push(key);
        }
    }
    keys
}

/// Takes out what has been changed.
pub fn invalidate(context: &RequestContext, changed: &[Vec<u8>]) {
    let Some(cache) = &context.worker.store.cache else {
        return;
    };
    for key in changed {
        // First: who asks the shared cache before it has forgotten has begun before what follows.
        shared::forget(context, cache, key);
        context
            .metrics()
            .cache
            .invalidated
            .add(cache.invalidate(key));
    }
}

/// A whole answer: it is stored, if it may be.
fn store(
    metrics: &WorkerMetrics,
    scratch: &Scratch,
    exchange: &Exchange<'_>,
    asking: &mut Asking,
) -> Verdict {
    match try_store(scratch, exchange, asking) {
        Ok(verdict) => {
            asking.status.stored = true;
            metrics.cache.stored.add(1);
            verdict
        }
        Err(why) => {
            metrics.cache.not_stored.add(1);
            let completion = asking.completion.take().map(|completion| completion.object);
            if completion.is_some() && exchange.response.status == 206 {
                return Verdict::AskAgain;
            }
            asking.status.detail = Some(why);
            // What is about one request only says nothing about others.
            if asking.not_filled.is_some() || !is_usual(&exchange.request) {
                return Verdict::PassOn;
            }
            // What is stored is not what the origin has now.
            if let Some(stored) = (asking.stored.take())
                .or(completion)
                .filter(|_| exchange.response.status < 400)
            {
                asking.cache.store.remove(&stored);
            }
            // Nor does a moment without room, or an error that leaves what is stored alone.
            let is_over_soon =
                [NotTaken::Full.label(), NotStored::StoredIsFresh.label()].contains(&why);
            if !is_over_soon && !matches!(exchange.response.status, 206 | 304 | 412 | 416) {
                let hash = asking.store_key().hash();
                asking.cache.passes.note(hash, exchange.times.response);
            }
            Verdict::PassOn
        }
    }
}

/// Whether the request does not forbid storing what others could be answered with.
fn is_usual(request: &Request<'_>) -> bool {
    !(request.has_body || request.has_authorization || request.directives.no_store)
}
