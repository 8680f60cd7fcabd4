//! Requests that no client waits for: validation in the background (RFC 5861 section 3), and objects that pages embed.
//!
//! They go the way of any request, by the listener's rules and routes, once for all who ask; into the store if RFC 9111 lets the answer.
use super::cached::{self, Asking};
use super::decide::{Decision, decide_for};
use super::head;
use super::outcome::Failure;
use super::prefetch::Prefetch;
use super::relay::{Background, Outcome, Requester, relay, relay_for_cache};
use crate::context::destination::Destination;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::net::scratch::Scratch;
use crate::telemetry::metrics::PrefetchResult;
use crate::upstream::Unreachable;
use carrick_logic::embedded::Object;

/// Asks the origin for what the request in `scratch` asks for, while its client gets what is stored.
pub fn revalidate(
    context: &RequestContext,
    scratch: &Scratch,
    destination: &Destination,
    asking: Box<Asking>,
) {
    let mut own = context.worker.scratch.take();
    let head_bytes = scratch.request_head.head_bytes;
    own.request
        .extend_from_slice(scratch.request.get(..head_bytes).unwrap_or_default());
    if !head::read_again(context, &mut own) {
        return;
    }
    let (mut background, destination) = (Background::new(context.clone()), destination.clone());
    context.metrics().cache.refreshes.add(1);
    tokio::task::spawn_local(async move {
        let mut asking = Some(asking);
        let log = &mut RequestLog::begin();
        // If it fails, the next one who gets an old answer tries again.
        let _ = relay(
            &mut Requester::Store(&mut background),
            &mut own,
            &destination,
            log,
            None,
            false,
            &mut asking,
        )
        .await;
    });
}

/// Fetches an object that a page embeds into the store, if it may be fetched. Nothing of the client's own goes with the request.
pub fn fetch(prefetch: Prefetch, object: Object) {
    tokio::task::spawn_local(fetch_object(prefetch, object));
}

async fn fetch_object(prefetch: Prefetch, object: Object) {
    let mut background = Background::new(prefetch.context().clone());
    let mut scratch = background.context.worker.scratch.take();
    prefetch.write_request(&mut scratch.request, &object);
    if !head::read_again(&background.context, &mut scratch) {
        return prefetch.ends(PrefetchResult::Denied);
    }
    let Decision::Relay(destination) = decide_for(&background.context, &scratch) else {
        return prefetch.ends(PrefetchResult::Denied);
    };
    let Background { context, timer, .. } = &mut background;
    let begun = cached::begin_prefetch(context, timer, &scratch, &destination, fetch).await;
    let mut asking = match begun {
        Ok(asking) => asking,
        Err(why) => return prefetch.ends(why),
    };
    prefetch.begins();
    asking.set_prefetch(prefetch);
    let mut asking = Some(asking);
    let outcome = relay_for_cache(
        &mut Requester::Store(&mut background),
        &mut scratch,
        &destination,
        &mut RequestLog::begin(),
        None,
        false,
        &mut asking,
    )
    .await;
    let is_denied = matches!(
        outcome,
        Outcome::Failed(Failure::Unreachable(Unreachable::Denied(_)))
    );
    if let Some(prefetch) = asking.as_mut().and_then(|asking| asking.take_prefetch())
        && is_denied
    {
        prefetch.ends(PrefetchResult::Denied);
    }
}
