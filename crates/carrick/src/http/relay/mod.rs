//! One request's way to an upstream and its response's way back; sent again where that is safe.
//!
//! Safe means (RFC 9110 section 9.2.2): not a byte of the request was sent; or its method is idempotent, it has no body,
//! and not a byte of a response came.
mod answer;
pub mod peer;
mod requester;
mod send;
mod stored;
mod wait;

pub use peer::relay_for_cache;
pub use requester::{Background, Requester};

use super::cached::Asking;
use super::decide::hash_key;
use super::request_body::Means;
use crate::connect::open::CheckoutRequest;
use crate::context::client::Client;
use crate::context::destination::{Destination, NextHop};
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::http::kernel_forward;
use crate::http::outcome::{Failure, Passed, REFUSED};
use crate::http::request_out::write_request;
use crate::net::deadline::now;
use crate::net::scratch::Scratch;
use crate::telemetry::metrics::{Limit, WorkerMetrics};
use crate::upstream::Unreachable;
use crate::upstream::checkout::Checkout;
use carrick_logic::http1::BodyLength;
use carrick_splice::tcp::UnreadLimit;
use carrick_splice::{PaceHandle, Policy, RateMin, Splicer};
use std::rc::Rc;

/// How a request ended.
pub enum Outcome {
    /// The response was passed on, wholly or in part.
    Answered {
        /// How far it came.
        passed: Passed,
        /// Whether the client was told that the connection stays open.
        keep_alive: bool,
    },
    /// Nothing was sent yet: the request is in `scratch.out`, and the kernel forwards what comes back over this connection.
    Forward(Checkout),
    /// The head was sent, and the kernel has the rest of the response, or will have: the client has a pair.
    LeftToKernel,
    /// The connections are a tunnel from here on; the head was sent to the client.
    Tunnel(Checkout),
    /// The answer was for the store alone.
    Kept,
    /// The answer is of no use: it is to be asked again, without the cache's conditions.
    AskAgain,
    /// The client has not been sent anything of a final response.
    Failed(Failure),
}

/// A request under way, with everything that belongs to it.
struct Attempt<'a, 'c> {
    requester: &'a mut Requester<'c>,
    scratch: &'a mut Scratch,
    destination: &'a Destination,
    log: &'a mut RequestLog,
    /// What the cache makes of the answer.
    asking: &'a mut Option<Box<Asking>>,
    /// How its response waits for the worker.
    pace: PaceHandle,
    /// Whether the server is known to have acknowledged all of the request.
    is_acknowledged: bool,
}

/// An attempt that failed before a byte of a response came, or that is to be made otherwise.
struct FailedAttempt {
    /// Whether the server cannot have got the request: not a byte of it went out or, where TLS stalled, not its whole head.
    nothing_sent: bool,
    failure: Failure,
    /// The server, unless the connection had been idle: one of those that died says nothing about its server.
    server: Option<usize>,
    /// The whole request, body included, that went out and was not begun with: the next attempt sends it as it is.
    kept: bool,
}

/// Passes the request in `scratch` on, and its response back. `at_hand` is a connection to use first; `may_forward`: the kernel may
/// forward the response, or those to come; `asking`: what the cache asks.
pub async fn relay(
    requester: &mut Requester<'_>,
    scratch: &mut Scratch,
    destination: &Destination,
    log: &mut RequestLog,
    mut at_hand: Option<Box<Checkout>>,
    may_forward: bool,
    asking: &mut Option<Box<Asking>>,
) -> Outcome {
    let pace = wait_for_leave(requester, destination).await;
    write_request(
        requester.context(),
        scratch,
        destination,
        asking.as_deref_mut(),
    );
    let replayable = is_replayable(scratch);
    let attempts = requester.context().live.plan().limits.attempts;
    let mut tried = Vec::new();
    let mut attempt = 1;
    let mut last = None;
    let mut is_kept = false;
    let mut is_asked_again = false;
    loop {
        // The last attempt goes over a fresh connection: several idle ones may have died together.
        let reuse = attempt < attempts.max(2);
        let mut address = [0; 16];
        let key = match &destination.next_hop {
            NextHop::Group { group, .. } => hash_key(
                requester.context().who(),
                group,
                &scratch.request,
                &scratch.request_head,
                &mut address,
            ),
            NextHop::Origin { .. } => None,
        };
        let at_hand = at_hand
            .take()
            .or_else(|| take_pinned(requester.context(), &destination.next_hop, key));
        let at_hand = at_hand.filter(|checkout| {
            let is_current = destination
                .next_hop
                .is_current(&checkout.upstream.transport);
            is_current && checkout.is_silent()
        });
        let found = match at_hand {
            Some(checkout) => {
                let metrics = requester.context().metrics();
                Ok(note_use(metrics, destination, log, *checkout))
            }
            None => {
                let wanted = CheckoutRequest {
                    context: requester.context(),
                    downstream: requester.downstream(),
                    log,
                    key,
                    reuse,
                    segment_bytes: None,
                    websocket: (scratch.request_head)
                        .websocket_key(&scratch.request)
                        .is_some(),
                    content_bytes: match scratch.request_head.body {
                        BodyLength::None => 0,
                        BodyLength::Bytes(length) => u32::try_from(length).unwrap_or(u32::MAX),
                        BodyLength::Chunked => u32::MAX,
                    },
                };
                wanted.checkout(&destination.next_hop, &mut tried).await
            }
        };
        let found = match found {
            Ok(found) => found,
            Err(unreachable) => {
                // Without another server, the last one's failure says more.
                return Outcome::Failed(match (last, unreachable) {
                    (Some(failure), Unreachable::NoServer) => failure,
                    (_, unreachable) => Failure::Unreachable(unreachable),
                });
            }
        };
        if last.take().is_some() {
            requester.context().metrics().retries.add(1);
        }
        let (checkout, is_attached) =
            attach(requester.client(), scratch, found, destination, may_forward);
        if is_attached {
            return Outcome::Forward(checkout);
        }
        let has_body = scratch.request_head.body != BodyLength::None && !is_kept;
        let under_way = Attempt {
            requester,
            scratch,
            destination,
            log,
            asking,
            pace,
            is_acknowledged: false,
        };
        let result = if has_body {
            // Boxed: what few requests need should not make every session larger.
            Box::pin(under_way.with_body(checkout)).await
        } else {
            under_way.without_body(checkout).await
        };
        let again = match result {
            Ok(Outcome::AskAgain) if !is_asked_again => {
                is_asked_again = true;
                if let Some(asking) = asking.as_deref_mut() {
                    asking.forget_stored();
                }
                write_request(
                    requester.context(),
                    scratch,
                    destination,
                    asking.as_deref_mut(),
                );
                continue;
            }
            Ok(outcome) => return outcome,
            Err(again) => again,
        };
        let may = again.nothing_sent || replayable;
        if !may || attempt >= attempts {
            if may {
                let metrics = requester.context().metrics();
                metrics.limits.reached(Limit::Attempts);
            }
            return Outcome::Failed(again.failure);
        }
        is_kept |= again.kept;
        tried.extend(again.server);
        last = Some(again.failure);
        attempt += 1;
    }
}

/// The connection that the client has authenticated, if the request may go there.
fn take_pinned(
    context: &RequestContext,
    next_hop: &NextHop,
    key: Option<&[u8]>,
) -> Option<Box<Checkout>> {
    let pinned = &context.pinned;
    pinned.take_if(next_hop, |checkout, its_hop| {
        let address = checkout.upstream.address.ip();
        let is_parent = matches!(next_hop, NextHop::Origin { parent: true, .. });
        kernel_forward::leads_to(its_hop, checkout.place(), next_hop, |group| {
            group.pick(key, &[], now())
        }) && (matches!(next_hop, NextHop::Group { .. })
            || is_parent
            || context.listener.access.check_address(address).is_ok())
    })
}

/// Where what is spliced waits for the worker, so does what is done for it before. How the response waits.
async fn wait_for_leave(requester: &mut Requester<'_>, destination: &Destination) -> PaceHandle {
    let Some(class) = destination.pace else {
        return PaceHandle::default();
    };
    let (context, kept) = requester.pace();
    let plan = context.live.plan().pace.classes.get(class);
    let is_held = plan.is_some_and(|class| class.policy != Policy::Immediate);
    // A policy may have been changed since it was configured: what the client has of its class knows.
    if is_held || kept.is_by(destination.pace) {
        let [_, pace] = kept.of(context, destination.pace);
        let worker = Rc::clone(&context.worker);
        // Boxed: few wait.
        Box::pin(worker.pacer.admit(pace)).await;
        return pace;
    }
    PaceHandle::default()
}

/// Pins the server's connection if the request authenticates it, and has the kernel forward between the two, if the route allows it and
/// the engine can. The connection goes in and out by value: what an async function has lent keeps
/// its room in every session's future, even when it has been given away.
fn attach(
    client: Option<&mut Client>,
    scratch: &Scratch,
    mut checkout: Checkout,
    destination: &Destination,
    may_forward: bool,
) -> (Checkout, bool) {
    checkout.upstream.is_pinned |= scratch
        .request_head
        .authenticates_connection(&scratch.request);
    let is_attached = client.is_some_and(|client| {
        may_forward && kernel_forward::attach(client, scratch, &mut checkout, destination)
    });
    (checkout, is_attached)
}

/// A connection that the client had already is used once more.
fn note_use(
    metrics: &WorkerMetrics,
    destination: &Destination,
    log: &mut RequestLog,
    checkout: Checkout,
) -> Checkout {
    if let NextHop::Group { index, .. } = destination.next_hop {
        log.upstream = Some(index);
    }
    log.took(&checkout.upstream);
    metrics.upstream_connections_reused.add(1);
    checkout
}

/// Whether the request may be sent again although it may have been acted on.
fn is_replayable(scratch: &Scratch) -> bool {
    let head = &scratch.request_head;
    head.method.is_idempotent() && head.body == BodyLength::None && !head.wants_upgrade
}

impl FailedAttempt {
    /// The server has not begun with the request, and says so: that says nothing against it.
    fn refused() -> Self {
        Self {
            nothing_sent: true,
            failure: Failure::NoResponse(REFUSED),
            server: None,
            kept: true,
        }
    }

    fn new(checkout: &Checkout, next_hop: &NextHop, nothing_sent: bool, failure: Failure) -> Self {
        checkout.failed(next_hop);
        let server = match checkout.may_be_stale() {
            true => None,
            false => checkout.server,
        };
        Self {
            nothing_sent,
            failure,
            server,
            kept: false,
        }
    }
}

/// How the bodies of a request and its response are moved.
fn means<'a>(
    context: &RequestContext,
    splicer: &'a Splicer,
    destination: &Destination,
    pace: [PaceHandle; 2],
) -> Means<'a> {
    let plan = context.live.plan();
    let (bytes_per_second, grace) = (plan.limits.rate_min, plan.timeouts.head);
    let rate_min = (bytes_per_second > 0).then_some(RateMin {
        bytes_per_second,
        grace,
    });
    Means {
        splicer,
        engine: destination.engine,
        idle: plan.timeouts.idle,
        rate_min,
        pace,
        unread: UnreadLimit::default(),
        odd_names: context.listener.odd_names,
        trailers_bytes_max: plan.limits.head().head_bytes_max,
        moved: None,
    }
}
