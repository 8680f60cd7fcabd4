//! Decides about deferred SYNs: whether the client is admitted, whether its server accepts, and what the client is told.
use crate::config::plan::ServerAddress;
use crate::connect::dial::{Terms, try_dial};
use crate::connect::tcp_profile::ServerProfiles;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::context::worker::Worker;
use crate::net::admission::{Admitted, UpstreamPlace};
use crate::reply::unreachable_label;
use crate::syn_defer::{DeferredOutcome, DeferredSyns, KEPT_MAX, Kept, Place};
use crate::tcp::split;
use crate::telemetry::metrics::Limit;
use crate::upstream::{Unreachable, Upstream};
use carrick_splice::Choice;
use carrick_splice::syn_defer::{DeferredSyn, Reader, Unreachable as Told};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often expired server connections are removed.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);

/// Decides about deferred SYNs while the worker accepts clients. Without it, SYNs pass.
pub async fn run(worker: Rc<Worker>, mut reader: Reader) {
    let mut ticks = tokio::time::interval(EXPIRE_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        // In a flood the connections have their turn, too: the ring fills, and the kernel lets the other SYNs pass.
        tokio::task::coop::consume_budget().await;
        tokio::select! {
            held = reader.next() => match held {
                Ok(held) => receive(&worker, held),
                Err(error) => {
                    tracing::error!(worker = worker.number, "SYNs are no longer deferred: {error}");
                    return;
                }
            },
            now = ticks.tick() => worker.connector.deferred_syns.expire(now.into_std(), KEPT_MAX),
        }
    }
}

/// Admits a client within the limits, and connects to its server.
fn receive(worker: &Rc<Worker>, held: DeferredSyn) {
    let (live, deferred_syns) = (worker.live(), &worker.connector.deferred_syns);
    let Some(listener) = live.listener_of(held.mark()) else {
        // The mark is none of this configuration's listeners.
        return pass(deferred_syns, held);
    };
    // A connection of carrick's own for this client may return here by a routing loop: like any packet, it makes fewer hops each time.
    if held.hop_limit() <= 1 {
        deferred_syns.count(DeferredOutcome::Unanswered);
        return drop(held);
    }
    let client = held.client().ip();
    if !listener.access.allows_client(client) {
        worker.metrics().refusals.count("client_not_allowed");
        return refuse(deferred_syns, held);
    }
    let admission = &worker.connector.admission;
    let Some(place) = deferred_syns.place(admission.limit(), held.server().ip()) else {
        return pass(deferred_syns, held);
    };
    if admission.is_full_for(client) {
        worker.metrics().limits.reached(Limit::ConnectionsPerClient);
        return refuse(deferred_syns, held);
    }
    let admitted = admission.admit(None);
    let admitted = admitted.and_then(|admitted| {
        admitted.count_syn_for(client)?;
        Ok(admitted)
    });
    // Otherwise it waits in the accept queue like all others, if it is there at all.
    let Ok(admitted) = admitted else {
        return pass(deferred_syns, held);
    };
    let context = RequestContext {
        original: Some(held.server()),
        ..RequestContext::new(Rc::clone(worker), live, listener, held.client())
    };
    tokio::task::spawn_local(async move { ask(context, held, admitted, place).await });
}

/// Connects to the server; then answers the client, or lets the listener answer it. So it does when a drain begins: a
/// connection that is kept for the client would be in its way until the drain's end.
async fn ask(context: RequestContext, held: DeferredSyn, admitted: Admitted, place: Place) {
    let worker = &context.worker;
    let deferred_syns = &worker.connector.deferred_syns;
    let mut log = RequestLog::begin();
    let terms = Terms {
        source: context.source(),
        source_port: context.source_port(),
        mark: context.source_mark(),
        segment_bytes: segment_bytes(&context, &held),
        hop_limit: Some(held.hop_limit().saturating_sub(1)),
        profiles: ServerProfiles::of(&worker.connector.tcp_tuning, &context.listener),
        ..Terms::default()
    };
    let server = ServerAddress::Ip(held.server());
    let begun = Instant::now();
    let limit = context.live.plan().timeouts.connect;
    let access = Some(&context.listener.access);
    // Boxed, so that the wait drops it: until it is closed, a connection with the client's address gets what the server
    // answers.
    let dialling = Box::pin(try_dial(&worker.connector, &server, access, terms, limit));
    let Some(dialled) = worker.sessions.wait_while_serving(dialling, false).await else {
        return pass(deferred_syns, held);
    };
    let connection = match dialled.map(alone) {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            tracing::debug!("{}: {error}", held.server());
            return pass(deferred_syns, held);
        }
        Err(Unreachable::Shortage(_)) => return pass(deferred_syns, held),
        Err(why) => {
            if matches!(why, Unreachable::TimedOut(_)) {
                worker.metrics().limits.reached(Limit::ConnectTimeout);
            }
            let label = unreachable_label(&why);
            worker.metrics().refusals.count(label);
            (log.status, log.ended) = (why.status(), label);
            log.finish_tunnel(&context, held.server().to_string().as_bytes(), "TCP");
            return tell(deferred_syns, held, &why);
        }
    };
    let kept = Kept::new(connection, begun.elapsed(), admitted, place);
    if worker.sessions.is_draining() {
        drop(kept);
        return pass(deferred_syns, held);
    }
    // Before the release: a nearby client may connect at once.
    deferred_syns.keep(held.client(), held.server(), kept);
    match held.release() {
        Ok(_) => deferred_syns.count(DeferredOutcome::Released),
        // No client will arrive, so the connection expires.
        Err(error) => tracing::debug!("a deferred SYN cannot be sent again: {error}"),
    }
}

/// The connection in a form that any thread can use, and its slot within the process's descriptors.
fn alone(mut upstream: Upstream) -> io::Result<(std::net::TcpStream, Option<UpstreamPlace>)> {
    match upstream.transport.take().into_tcp() {
        Some(stream) => Ok((stream.into_std()?, upstream.place.take())),
        None => Err(io::Error::other("the connection is in use elsewhere")),
    }
}

/// The client's maximum segment size, if the kernel is to forward the server's packets.
fn segment_bytes(context: &RequestContext, held: &DeferredSyn) -> Option<u32> {
    let route = context.listener.mode.routes().first()?;
    let is_forwarded = split::engine(&context.listener.mode, route) == Choice::Packet;
    if !is_forwarded || !context.worker.splicer.has_packet_engine() {
        return None;
    }
    held.segment_bytes().map(u32::from)
}

/// Gives the client the same answer that carrick got from the server or the network.
fn tell(deferred_syns: &DeferredSyns, held: DeferredSyn, why: &Unreachable) {
    tracing::debug!(client = %held.client(), "not let in: {why}");
    let number = match why {
        Unreachable::Connect { error, .. } => error.raw_os_error(),
        Unreachable::TimedOut(_) => Some(libc::ETIMEDOUT),
        _ => None,
    };
    let told = match number {
        // No answer came, so none is sent. If the client retries, carrick does, too.
        Some(libc::ETIMEDOUT) => {
            deferred_syns.count(DeferredOutcome::Unanswered);
            return drop(held);
        }
        Some(libc::EHOSTUNREACH) => Told::Host,
        Some(libc::ENETUNREACH) => Told::Network,
        Some(libc::EACCES | libc::EPERM) => Told::Prohibited,
        _ => return refuse(deferred_syns, held),
    };
    deferred_syns.count(DeferredOutcome::Unreachable);
    note(held.unreachable(told));
}

/// Lets the listener answer at once.
fn pass(deferred_syns: &DeferredSyns, held: DeferredSyn) {
    deferred_syns.count(DeferredOutcome::Crowded);
    note(held.release());
}

fn refuse(deferred_syns: &DeferredSyns, held: DeferredSyn) {
    deferred_syns.count(DeferredOutcome::Refused);
    note(held.refuse());
}

fn note(sent: io::Result<bool>) {
    if let Err(error) = sent {
        tracing::debug!("a deferred SYN cannot be answered: {error}");
    }
}
