//! Asking another cache before the origin: for what it has stored, and for nothing else (`only-if-cached`, RFC 9111 section
//! 5.2.1.7). Whatever goes wrong before its answer's head is there costs one time-out, and the origin is asked.
use super::wait::{Asked, HeadWait, Interim, NoResponseHead};
use super::{Attempt, Outcome, Requester, relay};
use crate::cache::peers::{CachePeer, CachePeers, PeerAnswer};
use crate::config::plan::{CachePeersPlan, Responses, ServerAddress};
use crate::connect::dial::{Terms, dial};
use crate::context::destination::{Destination, NextHop};
use crate::context::request_log::RequestLog;
use crate::context::worker::Connector;
use crate::http::cached::{Asking, meaning};
use crate::http::outcome::{Failure, Passed};
use crate::http::request_out::write_request;
use crate::net::deadline::Deadline;
use crate::net::io::{read_some, write_all};
use crate::net::scratch::Scratch;
use crate::resolver::ResolveError;
use crate::telemetry::metrics::CacheResult;
use crate::upstream::checkout::Checkout;
use crate::upstream::{Unreachable, Upstream};
use carrick_logic::http1::{ResponseBody, TargetForm};
use carrick_splice::PaceHandle;
use std::sync::Arc;
use std::time::Instant;

/// How much of an unwanted answer is read, so that its connection can be used again.
const UNWANTED_BYTES_MAX: u64 = 64 * 1024;

/// Why the request goes on to the origin.
enum PeerFallback {
    /// The cache peer said so, or failed.
    Away(PeerAnswer, String),
    /// It has nothing to do with the cache peer: this process has no descriptor left.
    Short,
    /// Nowhere: the client is gone.
    ClientGone,
}

/// As [`relay`], for a request whose answer the cache may store: the cache peer that owns its URL is asked first.
pub async fn relay_for_cache(
    requester: &mut Requester<'_>,
    scratch: &mut Scratch,
    destination: &Destination,
    log: &mut RequestLog,
    at_hand: Option<Box<Checkout>>,
    may_forward: bool,
    asking: &mut Option<Box<Asking>>,
) -> Outcome {
    match ask_cache_peer(requester, scratch, destination, log, asking).await {
        Some(outcome) => {
            if let Some(checkout) = at_hand {
                checkout.give_back(requester.context().pool(), &destination.next_hop);
            }
            outcome
        }
        None => {
            relay(
                requester,
                scratch,
                destination,
                log,
                at_hand,
                may_forward,
                asking,
            )
            .await
        }
    }
}

/// Asks a cache peer; `None`: the origin has to be asked.
async fn ask_cache_peer(
    requester: &mut Requester<'_>,
    scratch: &mut Scratch,
    destination: &Destination,
    log: &mut RequestLog,
    asking: &mut Option<Box<Asking>>,
) -> Option<Outcome> {
    let next_hop = (requester.context(), &destination.next_hop);
    let asked = asking.as_deref()?;
    let (cache_peers, cache_peer) = asked.cache_peer(next_hop, scratch, Instant::now())?;
    let there = to(&cache_peer, destination);
    asking.as_deref_mut()?.wants_only_stored(true);
    write_request(requester.context(), scratch, &there, asking.as_deref_mut());
    let turned = match head(requester, scratch, &cache_peers, &there, log).await {
        Ok(checkout) => match meaning(&scratch.response_head) {
            PeerAnswer::Hit => {
                let attempt = Attempt {
                    requester,
                    scratch,
                    destination: &there,
                    log,
                    asking,
                    pace: PaceHandle::default(),
                    is_acknowledged: false,
                };
                match attempt.answer(checkout, true).await {
                    // It is about nothing that is stored here.
                    Outcome::AskAgain => {
                        asking.as_deref_mut()?.forget_stored();
                        PeerFallback::Away(PeerAnswer::Miss, String::new())
                    }
                    Outcome::Failed(Failure::BadResponse(refusal)) => {
                        PeerFallback::Away(PeerAnswer::Failed, refusal.reason.to_owned())
                    }
                    outcome => {
                        log.cache = Some(CacheResult::CachePeer);
                        let (said, why) = match &outcome {
                            Outcome::Answered {
                                passed: Passed::UpstreamBroke(how),
                                ..
                            } => (PeerAnswer::Failed, *how),
                            _ => (PeerAnswer::Hit, ""),
                        };
                        cache_peer.told(said, why, Instant::now());
                        return Some(outcome);
                    }
                }
            }
            said => {
                let status = scratch.response_head.status;
                read_away(requester, scratch, checkout, &there, &cache_peers.plan).await;
                PeerFallback::Away(said, format!("it answered {status}"))
            }
        },
        Err(turned) => turned,
    };
    // Nothing of this is part of the request's story.
    (log.first_byte, log.server, log.reused) = (None, None, false);
    let asking = asking.as_deref_mut()?;
    match turned {
        PeerFallback::Away(said, why) => {
            if said == PeerAnswer::Refused {
                tracing::debug!("the cache peer {}: {why}", cache_peer.label);
            }
            cache_peer.told(said, &why, Instant::now());
            asking.ask_origin(said);
        }
        PeerFallback::Short => asking.wants_only_stored(false),
        PeerFallback::ClientGone => {
            return Some(Outcome::Failed(Failure::ClientGone("client_reset")));
        }
    }
    None
}

/// The cache peer as a destination, with idle connections of its own.
fn to(cache_peer: &CachePeer, destination: &Destination) -> Destination {
    Destination {
        next_hop: NextHop::Origin {
            server: cache_peer.address.clone(),
            key: format!("cache_peer {}", cache_peer.label)
                .into_bytes()
                .into(),
            // A parent would get the client's `Proxy-Authorization`.
            parent: false,
            tls: None,
        },
        engine: destination.engine,
        responses: Responses::Read,
        cache: destination.cache.clone(),
        pace: destination.pace,
        form: TargetForm::Absolute,
    }
}

/// Sends the request in `scratch.out`, and waits for the answer's head. A connection that was idle may have just died: then a
/// new one is tried, once.
async fn head(
    requester: &mut Requester<'_>,
    scratch: &mut Scratch,
    cache_peers: &Arc<CachePeers>,
    there: &Destination,
    log: &mut RequestLog,
) -> Result<Checkout, PeerFallback> {
    let NextHop::Origin { server, key, .. } = &there.next_hop else {
        return Err(PeerFallback::Short);
    };
    let connector = &requester.context().worker.connector;
    let next_hop = &there.next_hop;
    let idle = (connector.origins).take(key, |transport| next_hop.is_current(transport));
    let idle = idle.map(Checkout::alone);
    if let Some(checkout) = idle.filter(Checkout::is_silent) {
        let metrics = requester.context().metrics();
        metrics.upstream_connections_reused.add(1);
        match one_head(requester, scratch, &checkout, &cache_peers.plan, log).await {
            Ok(()) => return Ok(checkout),
            Err(NoResponseHead::Closed { started: false }) => {}
            Err(no_head) => return Err(turned(no_head)),
        }
    }
    let connector = &requester.context().worker.connector;
    let checkout = Checkout::alone(connect(connector, server, &cache_peers.plan).await?);
    match one_head(requester, scratch, &checkout, &cache_peers.plan, log).await {
        Ok(()) => Ok(checkout),
        Err(no_head) => Err(turned(no_head)),
    }
}

async fn connect(
    connector: &Connector,
    server: &ServerAddress,
    plan: &CachePeersPlan,
) -> Result<Upstream, PeerFallback> {
    // By this machine's own address, whatever the listener keeps of its clients.
    let terms = Terms::default();
    Box::pin(dial(connector, server, None, terms, plan.connect))
        .await
        .map_err(|unreachable| match unreachable {
            Unreachable::Shortage(_) | Unreachable::Resolve(ResolveError::Busy) => {
                PeerFallback::Short
            }
            Unreachable::TimedOut(_) => {
                PeerFallback::Away(PeerAnswer::Failed, "connecting took too long".to_owned())
            }
            unreachable => PeerFallback::Away(PeerAnswer::Failed, unreachable.to_string()),
        })
}

/// One attempt on this connection.
async fn one_head(
    requester: &mut Requester<'_>,
    scratch: &mut Scratch,
    checkout: &Checkout,
    plan: &CachePeersPlan,
    log: &mut RequestLog,
) -> Result<(), NoResponseHead> {
    log.took(&checkout.upstream);
    let mut deadline = Deadline::after(plan.answer);
    let sending = write_all(&checkout.upstream.transport, &scratch.out);
    match requester.timer().until(&mut deadline, sending).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => return Err(NoResponseHead::Closed { started: false }),
        Err(_) => return Err(NoResponseHead::TimedOut),
    }
    scratch.expect_response();
    let (context, timer, client) = requester.waiting();
    let mut wait = HeadWait {
        upstream: &checkout.upstream.transport,
        client,
        limits: context.live.plan().limits.head(),
        via: context.listener.via.of_responses(),
        idle: plan.answer,
        leave: None,
        watches_client: true,
        asked: Asked::without_body(checkout.upstream.reused, scratch.out.len()),
        is_acknowledged: false,
        interim: Interim::default(),
        prolongs: false,
        first_read_bytes: checkout.upstream.first_read_bytes,
    };
    wait.final_head(timer, &mut deadline, scratch, log).await
}

fn turned(no_head: NoResponseHead) -> PeerFallback {
    let why = match no_head {
        NoResponseHead::ClientGone => return PeerFallback::ClientGone,
        NoResponseHead::Closed { .. } => "it closed the connection without an answer",
        NoResponseHead::TimedOut => "it did not answer in time",
        NoResponseHead::Refused(refusal) => refusal.reason,
    };
    PeerFallback::Away(PeerAnswer::Failed, why.to_owned())
}

/// Reads an answer that is not wanted to its end, if that is near, and keeps the connection.
async fn read_away(
    requester: &mut Requester<'_>,
    scratch: &mut Scratch,
    checkout: Checkout,
    there: &Destination,
    plan: &CachePeersPlan,
) {
    let head = &scratch.response_head;
    let length = match head.body {
        ResponseBody::None => 0,
        ResponseBody::Bytes(length) if length <= UNWANTED_BYTES_MAX => length,
        _ => return,
    };
    let Ok(length) = usize::try_from(length) else {
        return;
    };
    let whole = head.head_bytes + length;
    let buffer = &mut scratch.response;
    buffer.reserve(whole.saturating_sub(buffer.len()));
    let mut deadline = Deadline::after(plan.answer);
    while head.keep_alive && buffer.len() < whole {
        let reading = read_some(&checkout.upstream.transport, buffer);
        match requester.timer().until(&mut deadline, reading).await {
            Ok(Ok(count)) if count > 0 => {}
            _ => return,
        }
    }
    if head.keep_alive && buffer.len() == whole {
        checkout.give_back(requester.context().pool(), &there.next_hop);
    }
}
