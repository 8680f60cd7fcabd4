//! Tunnels: `CONNECT`, upgraded connections, and what [`by_name`](super::by_name) passes on. Relays both directions,
//! half-closes included, until both have ended.
use super::copied::{self, Relayed};
use super::split::{self, Decided, Watched};
use crate::connect::open::CheckoutRequest;
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::destination::Destination;
use crate::context::log_line::target_text;
use crate::context::request_log::{LEFT, RequestLog, STALLED};
use crate::context::tunnels::Listed;
use crate::context::worker::Worker;
use crate::net::io::{Stream, write_all};
use crate::net::scratch::Lent;
use crate::net::transport::Transport;
use crate::reply;
use crate::reply::{Asked, unreachable_reply};
use crate::tcp::notes;
use crate::telemetry::job::Job;
use crate::telemetry::metrics::Limit;
use crate::upstream::checkout::Checkout;
use carrick_logic::http1::RequestHead;
use carrick_splice::{Choice, ExchangeEnd, ExchangeOrder, Joining, Leg, Side};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;
use tokio::net::TcpStream;

/// The answer to a successful CONNECT (RFC 9110 section 9.3.6).
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Connects to the target of a CONNECT, answers the client, and relays.
pub async fn run_connect(
    client: &mut Client,
    scratch: Lent,
    destination: Destination,
    mut log: RequestLog,
) -> Next {
    let wanted = CheckoutRequest {
        context: &client.context,
        downstream: Some(&client.downstream),
        log: &mut log,
        key: None,
        reuse: false,
        segment_bytes: segment_bytes(client, destination.engine),
        websocket: false,
        content_bytes: 0,
    };
    let (next_hop, tried) = (&destination.next_hop, &mut Vec::new());
    let checkout = match wanted.checkout(next_hop, tried).await {
        Ok(checkout) => checkout,
        Err(unreachable) => {
            let reply = unreachable_reply(&unreachable, &client.context.listener.mode);
            let head = &scratch.request_head;
            // Further bytes belong to the tunnel: no other request is read from this connection.
            let asked = Asked {
                method: head.method,
                version: head.version,
                keep_alive: false,
                is_late_call: None,
            };
            reply::send(client, &reply, asked, &mut log).await;
            log.finish(&client.context, &scratch.request, Some(head));
            return Next::CloseGently;
        }
    };
    log.status = 200;
    let idle = client.context.live.plan().timeouts.idle;
    if !matches!(
        client
            .downstream
            .timer
            .within(idle, write_all(&client.downstream.transport, ESTABLISHED))
            .await,
        Ok(Ok(()))
    ) {
        log.ended = "client_reset";
        log.finish(
            &client.context,
            &scratch.request,
            Some(&scratch.request_head),
        );
        return Next::Close;
    }
    let way = (destination.engine, destination.pace);
    relay(client, scratch, checkout, way, log).await
}

/// Relays after the upstream accepted an upgrade, or a parent proxy a CONNECT, with this engine and pacing class.
pub async fn run_upgraded(
    client: &mut Client,
    scratch: Lent,
    checkout: Checkout,
    way: (Choice, Option<usize>),
    log: RequestLog,
) -> Next {
    relay(client, scratch, checkout, way, log).await
}

/// Relays after an HTTP head, and writes the log line at the end.
async fn relay(
    client: &mut Client,
    scratch: Lent,
    mut checkout: Checkout,
    way: (Choice, Option<usize>),
    mut log: RequestLog,
) -> Next {
    // The exchange makes a splice of its own.
    checkout.splice = None;
    let head_bytes = scratch.request_head.head_bytes;
    let from_client = scratch
        .request
        .get(head_bytes..)
        .unwrap_or_default()
        .to_vec();
    let response_bytes = if log.first_byte.is_some() {
        scratch.response_head.head_bytes
    } else {
        scratch.response.len()
    };
    let from_upstream = scratch
        .response
        .get(response_bytes..)
        .unwrap_or_default()
        .to_vec();
    // An idle tunnel keeps the fields of the log line, not the buffers.
    let story: Option<(Box<[u8]>, RequestHead)> =
        client.context.worker.telemetry.log.is_on().then(|| {
            (
                scratch.request.get(..head_bytes).unwrap_or_default().into(),
                scratch.request_head.clone(),
            )
        });
    let head = scratch.request.get(..head_bytes).unwrap_or_default();
    let target = notes::kept_target(target_text(head, &scratch.request_head));
    drop(scratch);
    log.received += from_client.len() as u64;
    log.sent += from_upstream.len() as u64;
    let next = exchange(
        client,
        &mut checkout,
        (way, None),
        target,
        (from_client, from_upstream),
        &mut log,
    )
    .await;
    let (bytes, head) = story
        .as_ref()
        .map_or((&[][..], None), |(bytes, head)| (bytes, Some(head)));
    log.finish(&client.context, bytes, head);
    next
}

/// Relays both directions until both have ended.
pub async fn exchange(
    client: &mut Client,
    checkout: &mut Checkout,
    ((engine, class), decided): ((Choice, Option<usize>), Option<Decided>),
    target: Box<[u8]>,
    (from_client, from_upstream): (Vec<u8>, Vec<u8>),
    log: &mut RequestLog,
) -> Next {
    let unread = [
        client.downstream.limit_unread_late(),
        checkout.upstream.limit_unread_late(),
    ];
    let pace = client.paced(class);
    let counters = client
        .context
        .worker
        .metrics()
        .job(Job::from(&client.context.listener.mode));
    let begun = Instant::now();
    counters.tunnels_opened.add(1);
    let listed = notes::list(client, checkout.upstream.address, target, begun, log);
    let order = ExchangeOrder {
        choice: engine,
        a_prefix: &from_client,
        b_prefix: &from_upstream,
        idle: client.context.live.plan().timeouts.tunnel_idle,
        label: listed.tunnel().about.label,
        pace,
        joining: decided.map_or(Joining::IfGood, |decided| decided.joining()),
        unread,
    };
    let has_begun = !from_client.is_empty();
    let mut watched = decided.map(|decided| Watched::new(decided, has_begun));
    let legs = (
        client.downstream.transport.take(),
        checkout.upstream.transport.take(),
    );
    let Relayed {
        bytes,
        engine,
        end,
        is_quiet,
        is_left,
    } = match legs {
        (Transport::Tcp(near), Transport::Tcp(far)) => {
            let legs = [
                (near, &mut client.downstream.transport),
                (far, &mut checkout.upstream.transport),
            ];
            spliced(&client.context.worker, legs, order, (&listed, &mut watched)).await
        }
        (near, far) => {
            (client.downstream.transport, checkout.upstream.transport) = (near, far);
            let legs = [&client.downstream.transport, &checkout.upstream.transport];
            // Boxed: few tunnels need it.
            Box::pin(copied::both_ways(
                &client.context.worker,
                legs,
                order,
                &listed,
            ))
            .await
        }
    };
    log.received += bytes[0];
    log.sent += bytes[1];
    log.engine = Some(engine);
    drop(listed);
    if let Some(far) = checkout.upstream.transport.tcp() {
        notes::note_paths(
            client.context.metrics(),
            &client.downstream.transport,
            far,
            log,
        );
    }
    let bytes = [log.received, log.sent];
    let ended_well = matches!(end, Some(ExchangeEnd::Closed));
    let (worker, near) = (&client.context.worker, &client.downstream.transport);
    split::settle(worker, near, checkout, watched, bytes, ended_well);
    checkout.count(client.context.metrics(), log.received, log.sent);
    counters.tunnels_closed.add(1);
    counters.tunnel_seconds.observe(begun.elapsed());
    let Some(end) = end else {
        log.ended = if is_left { LEFT } else { "client_reset" };
        checkout.upstream.transport.reset_on_close();
        return Next::Reset;
    };
    match end {
        ExchangeEnd::Closed => Next::Close,
        ExchangeEnd::Idle => {
            log.ended = "tunnel_idle_timeout";
            client
                .context
                .metrics()
                .limits
                .reached(Limit::TunnelIdleTimeout);
            if is_quiet {
                return Next::Close;
            }
            // Otherwise what did not get through would seem not to exist.
            checkout.upstream.transport.reset_on_close();
            Next::Reset
        }
        ExchangeEnd::Stalled => {
            log.ended = STALLED;
            checkout.upstream.transport.reset_on_close();
            Next::Reset
        }
        ExchangeEnd::Fault { a_to_b, fault } => {
            // Reset the surviving side: the other end was lost, not closed.
            let client_failed = a_to_b == (fault.side == Side::From);
            log.ended = if client_failed {
                "client_reset"
            } else {
                "upstream_reset"
            };
            checkout.upstream.transport.reset_on_close();
            Next::Reset
        }
    }
}

/// Relays both directions with the splice service; the connections are returned to their owners.
async fn spliced(
    worker: &Worker,
    [(near, near_place), (far, far_place)]: [(Rc<TcpStream>, &mut Transport); 2],
    order: ExchangeOrder<'_>,
    (listed, watched): (&Listed, &mut Option<Watched>),
) -> Relayed {
    // Permanently, if possible, so that the worker does not wake while the kernel relays.
    let (near, far) = (Rc::try_unwrap(near), Rc::try_unwrap(far));
    let (mut shared_near, mut shared_far) = (None, None);
    let mut exchange = worker.splicer.exchange(
        leg(near, &mut shared_near),
        leg(far, &mut shared_far),
        order,
    );
    let mut cut_off = pin!(worker.sessions.wait_for_cut_off());
    let end = poll_fn(|cx| {
        // First, so that everything is counted even if the tunnel is cut off.
        let end = exchange.poll_run(cx).map(Some);
        listed.tunnel().note(&exchange);
        if let Some(watched) = watched.as_mut() {
            watched.note(&exchange);
        }
        if let Some(reason) = exchange.take_packets_refused() {
            let about = &listed.tunnel().about;
            tracing::debug!(
                client = %about.client,
                server = %about.server,
                "the kernel does not forward the packets of a tunnel: {}",
                reason.name()
            );
            if watched.is_some() {
                worker.metrics().split.refused.add(1);
            }
        }
        if end.is_pending() && cut_off.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        end
    })
    .await;
    if let Some(survivor) = exchange.survivor() {
        Box::pin(worker.deliver(survivor)).await;
    }
    let bytes = [exchange.a_to_b_bytes(), exchange.b_to_a_bytes()];
    let engine = if bytes[1] >= bytes[0] {
        exchange.engines().1
    } else {
        exchange.engines().0
    };
    let is_quiet = matches!(end, Some(ExchangeEnd::Idle)) && exchange.is_quiet();
    // When carrick exits, tunnels in the kernel continue.
    let is_left = end.is_none() && exchange.leave();
    let [near, far] = exchange.into_connections();
    for (place, connection) in [
        (near_place, near.map(Rc::new).or(shared_near)),
        (far_place, far.map(Rc::new).or(shared_far)),
    ] {
        // A connection that the runtime did not take back is closed.
        if let Some(connection) = connection {
            *place = Transport::Tcp(connection);
        }
    }
    Relayed {
        bytes,
        engine,
        end,
        is_quiet,
        is_left,
    }
}

/// A connection for an exchange: owned, or, if it is shared, borrowed from `shared`.
fn leg<'a>(
    connection: Result<TcpStream, Rc<TcpStream>>,
    shared: &'a mut Option<Rc<TcpStream>>,
) -> Leg<'a> {
    match connection {
        Ok(stream) => Leg::from(stream),
        Err(stream) => Leg::from(&**shared.insert(stream)),
    }
}

/// The largest segments for a server whose packets the kernel is to forward: what the client and the path accept.
pub fn segment_bytes(client: &Client, engine: Choice) -> Option<u32> {
    if engine != Choice::Packet || !client.context.worker.splicer.has_packet_engine() {
        return None;
    }
    carrick_splice::tcp::segment_bytes(client.downstream.transport.tcp()?).ok()
}
