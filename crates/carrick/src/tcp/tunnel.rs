//! Tunnels: `CONNECT`, upgraded connections, TCP, and TLS by server name. Relays both directions, half-closes included,
//! until both have ended.
use super::copied::{self, Relayed};
use super::link;
use super::split::{self, Decided, Watched};
use crate::config::plan::{HashOn, RoutePlan};
use crate::connect::checkout::{CheckoutOptions, checkout};
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::destination::client_key;
use crate::context::destination::{Destination, NextHop};
use crate::context::log_line::target_text;
use crate::context::original;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::context::request_log::STALLED;
use crate::context::tunnels::Listed;
use crate::context::worker::Worker;
use crate::net::deadline::Deadline;
use crate::net::io::{Stream, read_some, write_all};
use crate::net::scratch::Lent;
use crate::net::transport::Transport;
use crate::reply;
use crate::reply::{Asked, unreachable_reply};
use crate::tcp::notes;
use crate::telemetry::job::Job;
use crate::telemetry::metrics::Limit;
use crate::upstream::Unreachable;
use crate::upstream::checkout::Checkout;
use carrick_logic::balance;
use carrick_logic::client_hello::{self, CLIENT_HELLO_BYTES_MAX, Hello};
use carrick_logic::http1::{RequestHead, TargetForm};
use carrick_splice::{Choice, ExchangeEnd, ExchangeOrder, Joining, Leg, Side};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
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
    let wanted = CheckoutOptions {
        key: None,
        reuse: false,
        segment_bytes: segment_bytes(client, destination.engine),
    };
    let checkout = match checkout(
        &client.context,
        Some(&client.downstream),
        &destination.next_hop,
        wanted,
        &mut Vec::new(),
        &mut log,
    )
    .await
    {
        Ok(checkout) => checkout,
        Err(unreachable) => {
            let reply = unreachable_reply(&unreachable);
            let head = &scratch.request_head;
            // Further bytes belong to the tunnel: no other request is read from this connection.
            let asked = Asked {
                method: head.method,
                version: head.version,
                keep_alive: false,
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
async fn exchange(
    client: &mut Client,
    checkout: &mut Checkout,
    ((engine, class), decided): ((Choice, Option<usize>), Option<Decided>),
    target: Box<[u8]>,
    (from_client, from_upstream): (Vec<u8>, Vec<u8>),
    log: &mut RequestLog,
) -> Next {
    let unread = [
        client.downstream.limit_unread(),
        checkout.upstream.limit_unread(),
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
        log.ended = if is_left { "left" } else { "client_reset" };
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
            Next::Close
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
    let bytes = [exchange.a_to_b_bytes(), exchange.b_to_a_bytes()];
    let engine = if bytes[1] >= bytes[0] {
        exchange.engines().1
    } else {
        exchange.engines().0
    };
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

/// Serves a connection to a tunnel listener or a splitter; `first` has already been read.
pub async fn run_listener(mut client: Client, mut first: Vec<u8>) {
    let mut log = RequestLog::begin();
    let listener = std::sync::Arc::clone(&client.context.listener);
    let routes = listener.mode.routes();
    let (sni, version) = if routes.iter().any(|route| route.conditions.sni.is_some()) {
        match read_server_name(&mut client, &mut first).await {
            Ok(name) => name,
            Err(ended) => {
                log.ended = ended;
                return log.finish_tunnel(&client.context, b"-", "TCP");
            }
        }
    } else {
        (None, "TCP")
    };
    let target = sni.clone().unwrap_or_else(|| {
        let place = client.context.original.unwrap_or(listener.address);
        place.to_string().into_bytes()
    });
    let Some(route) = routes
        .iter()
        .find(|route| route.conditions.match_tunnel(sni.as_deref()))
    else {
        client.context.metrics().refusals.count("no_route");
        (log.status, log.ended) = (404, "no_route");
        return log.finish_tunnel(&client.context, &target, version);
    };
    let next = tunnel_to(&mut client, route, sni.as_deref(), &target, first, &mut log).await;
    log.finish_tunnel(&client.context, &target, version);
    if matches!(next, Next::Reset) {
        client.downstream.transport.reset_on_close();
    }
}

async fn tunnel_to(
    client: &mut Client,
    route: &RoutePlan,
    sni: Option<&[u8]>,
    target: &[u8],
    first: Vec<u8>,
    log: &mut RequestLog,
) -> Next {
    let next_hop = match next_hop(&client.context, route, sni) {
        Ok(next_hop) => next_hop,
        Err(unreachable) => {
            return notes::not_reached(client.context.metrics(), None, &unreachable, log);
        }
    };
    let mut address = [0; 16];
    let plan = match &next_hop {
        NextHop::Group { group, .. } => Some(Arc::clone(&group.state.plan)),
        NextHop::Origin { .. } => None,
    };
    let hashed = plan
        .as_ref()
        .filter(|plan| plan.balance == balance::Algorithm::Hash);
    let key = hashed.map(|plan| match plan.hash_on {
        HashOn::Host => sni.unwrap_or_default(),
        HashOn::Client | HashOn::Path | HashOn::Header(_) | HashOn::Cookie(_) => {
            client_key(client.context.address, &mut address)
        }
    });
    let destination = Destination {
        next_hop,
        engine: split::engine(&client.context.listener.mode, route),
        responses: route.responses,
        cache: None,
        pace: route.pace,
        form: TargetForm::Origin,
    };
    if let Some(link) = route.link {
        let wish = link::Wish {
            link,
            next_hop: &destination.next_hop,
            key,
            target,
            first: &first,
            way: (destination.engine, destination.pace),
        };
        if let Some(next) = Box::pin(link::relay(client, wish, log)).await {
            return next;
        }
    }
    let wanted = CheckoutOptions {
        key,
        reuse: false,
        segment_bytes: segment_bytes(client, destination.engine),
    };
    let mut checkout = match checkout(
        &client.context,
        Some(&client.downstream),
        &destination.next_hop,
        wanted,
        &mut Vec::new(),
        log,
    )
    .await
    {
        Ok(checkout) => checkout,
        Err(unreachable) => {
            let name = plan.as_ref().map(|plan| plan.name.as_str());
            return notes::not_reached(client.context.metrics(), name, &unreachable, log);
        }
    };
    checkout.answered(&destination.next_hop);
    log.status = 200;
    let mut preamble = checkout.preamble.clone();
    preamble.extend_from_slice(&first);
    log.received += first.len() as u64;
    let decided = split::decide(client, route, &checkout);
    let engine = decided.map_or(route.engine, |decided| decided.engine(route));
    exchange(
        client,
        &mut checkout,
        ((engine, destination.pace), decided),
        notes::kept_target(target),
        (preamble, Vec::new()),
        log,
    )
    .await
}

/// The largest segments for a server whose packets the kernel is to forward: what the client and the path accept.
fn segment_bytes(client: &Client, engine: Choice) -> Option<u32> {
    if engine != Choice::Packet || !client.context.worker.splicer.has_packet_engine() {
        return None;
    }
    carrick_splice::tcp::segment_bytes(client.downstream.transport.tcp()?).ok()
}

/// A route's next hop.
fn next_hop(
    context: &RequestContext,
    route: &RoutePlan,
    sni: Option<&[u8]>,
) -> Result<NextHop, Unreachable> {
    if let Some(index) = route.upstream {
        let group = context.live.groups.get(index);
        let group = group.ok_or(Unreachable::NoServer)?;
        if !original::is_one_of(context, group.state.servers.iter().map(|one| &one.address)) {
            return Ok(NextHop::Group {
                group: Rc::clone(group),
                index,
            });
        }
    }
    let destination = context.original.ok_or(Unreachable::NoServer)?;
    Ok(original::next_hop(context, destination, sni)?)
}

/// Reads the ClientHello; returns its server name, and the protocol. The bytes read stay in `buffer`.
async fn read_server_name(
    client: &mut Client,
    buffer: &mut Vec<u8>,
) -> Result<(Option<Vec<u8>>, &'static str), &'static str> {
    let (context, downstream) = (&client.context, &mut client.downstream);
    let mut deadline = Deadline::after(context.live.plan().timeouts.head);
    buffer.reserve(4096);
    loop {
        match client_hello::read(buffer) {
            Hello::Complete(name) => return Ok((name, "TLS")),
            Hello::NotTls => return Ok((None, "TCP")),
            Hello::Partial if buffer.len() >= CLIENT_HELLO_BYTES_MAX => return Ok((None, "TLS")),
            Hello::Partial => {}
        }
        if buffer.len() == buffer.capacity() {
            buffer.reserve(buffer.len());
        }
        match downstream
            .timer
            .until(&mut deadline, read_some(&downstream.transport, buffer))
            .await
        {
            Ok(Ok(0) | Err(_)) => return Err("client_closed"),
            Ok(Ok(_)) => {}
            Err(_) => {
                // Where the server speaks first, the client sends nothing, so there is no name.
                if buffer.is_empty() {
                    return Ok((None, "TCP"));
                }
                context.metrics().limits.reached(Limit::HeadTimeout);
                return Err("head_timeout");
            }
        }
    }
}
