//! The near end of a link: sends a tunnel's or splitter's connection to the far end, which connects to the server.
use super::relay::{Outcome, Relay, RelayOptions};
use crate::config::plan::{Fallback, ServerAddress};
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::destination::NextHop;
use crate::context::request_log::RequestLog;
use crate::context::worker::Worker;
use crate::tcp::notes;
use crate::telemetry::job::Job;
use crate::telemetry::metrics::{Limit, WorkerMetrics};
use crate::upstream::Unreachable;
use crate::upstream::group::Active;
use crate::upstream::link::Link;
use crate::upstream::link_connection::{Connection, Lost};
use carrick_logic::access::Access;
use carrick_logic::link::{Destination, ErrorCode, Frame};
use carrick_splice::Choice;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// A connection to relay over a link.
pub struct Wish<'a> {
    /// The link's index in the plan.
    pub link: usize,
    /// The next hop.
    pub next_hop: &'a NextHop,
    /// The bytes that are hashed to choose a server.
    pub key: Option<&'a [u8]>,
    /// The requested target, for the list of tunnels.
    pub target: &'a [u8],
    /// Bytes that the client has already sent.
    pub first: &'a [u8],
    /// The engine, and the pacing class.
    pub way: (Choice, Option<usize>),
}

/// Relays a client's connection over a link. `None`: there is no connection to the far end, so the caller must connect
/// to the server directly.
pub async fn relay(client: &mut Client, wish: Wish<'_>, log: &mut RequestLog) -> Option<Next> {
    let link = Rc::clone(client.context.live.links.get(wish.link)?);
    let chosen = match choose(&client.context.listener.access, &wish, log) {
        Ok(chosen) => chosen,
        Err(unreachable) => {
            return Some(notes::not_reached(
                client.context.metrics(),
                None,
                &unreachable,
                log,
            ));
        }
    };
    let mut may_repeat = true;
    loop {
        let connection = match take(&client.context.worker, &link, log).await {
            Ok(connection) => connection,
            Err(unreachable) if link.plan.fallback == Fallback::Direct => {
                tracing::debug!("link \"{}\": {unreachable}", link.plan.name);
                client.context.metrics().link.direct.add(1);
                return None;
            }
            Err(unreachable) => {
                return Some(notes::not_reached(
                    client.context.metrics(),
                    None,
                    &unreachable,
                    log,
                ));
            }
        };
        let carried = carry(client, (&connection, &chosen), &wish, log).await;
        match carried {
            Ok((outcome, is_whole)) => {
                connection.has_carried.set(true);
                link.put(&client.context.worker.sessions, connection);
                if matches!(outcome, Outcome::ByPeer(why) if why != ErrorCode::Idle) {
                    deliver(client).await;
                }
                return Some(ended(
                    client.context.metrics(),
                    &wish,
                    &chosen,
                    (outcome, is_whole),
                    log,
                ));
            }
            // The far end closed it while OPEN was in flight.
            Err((Lost::Ended | Lost::Io(_), true)) if may_repeat => may_repeat = false,
            Err((lost, is_untouched)) => {
                let metrics = client.context.metrics();
                is_lost(metrics, &connection, &lost);
                let is_broken = matches!(lost, Lost::Ended | Lost::Io(_) | Lost::Malformed(_));
                if is_broken && !connection.has_greeted() {
                    link.failed(metrics, &lost);
                }
                let is_no_way = is_broken || matches!(lost, Lost::Silent);
                if is_no_way && is_untouched && link.plan.fallback == Fallback::Direct {
                    metrics.link.direct.add(1);
                    return None;
                }
                if is_broken {
                    deliver(client).await;
                }
                match log.status {
                    200 => link.has_answered(),
                    _ => log.status = 502,
                }
                log.ended = "link_lost";
                return Some(Next::Reset);
            }
        }
    }
}

/// Waits until the client, which is to be reset, has what the server sent before.
async fn deliver(client: &Client) {
    if let Some(near) = client.downstream.transport.shared_tcp() {
        client.context.worker.deliver(near).await;
    }
}

/// A connection to the far end: an idle one, else a new one.
async fn take(
    worker: &Rc<Worker>,
    link: &Rc<Link>,
    log: &mut RequestLog,
) -> Result<Connection, Unreachable> {
    let result = match link.take() {
        Some(connection) => Ok(connection),
        None if link.plan.fallback == Fallback::Direct && link.is_tried_ahead(worker) => {
            Err(Unreachable::NoServer)
        }
        None => {
            let begun = Instant::now();
            let result = link.connect(&worker.connector).await;
            if matches!(result, Err(Unreachable::TimedOut(_))) {
                worker.metrics().limits.reached(Limit::ConnectTimeout);
            }
            log.connect = result.is_ok().then(|| begun.elapsed());
            result
        }
    };
    link.fill(worker);
    result
}

/// The requested server.
struct Chosen {
    address: ServerAddress,
    /// Its index in its group, where it counts as active.
    in_group: Option<(usize, Active)>,
}

fn choose(access: &Access, wish: &Wish<'_>, log: &mut RequestLog) -> Result<Chosen, Unreachable> {
    match wish.next_hop {
        NextHop::Origin { server, .. } => {
            if let ServerAddress::Ip(address) = server {
                access.check_address(address.ip())?;
            }
            Ok(Chosen {
                address: server.clone(),
                in_group: None,
            })
        }
        NextHop::Group { group, index } => {
            log.upstream = Some(*index);
            let picked = group.pick(wish.key, &[], Instant::now());
            let picked = picked.and_then(|picked| Some((picked, group.state.servers.get(picked)?)));
            let (picked, state) = picked.ok_or(Unreachable::NoServer)?;
            Ok(Chosen {
                address: state.address.clone(),
                in_group: Some((picked, Active::counted_on(state))),
            })
        }
    }
}

/// Requests the server, and relays. Returns the outcome, and whether the client was sent all of the server's bytes. `Err`: the connection to the far end is lost; and whether another way may be tried, since no byte of the client's was sent.
async fn carry(
    client: &mut Client,
    (connection, chosen): (&Connection, &Chosen),
    wish: &Wish<'_>,
    log: &mut RequestLog,
) -> Result<(Outcome, bool), (Lost, bool)> {
    let metrics = Arc::clone(client.context.metrics());
    let near = client.downstream.transport.shared_tcp().map(Rc::clone);
    let (Some(near), Some(number)) = (near, connection.with_state(|state| state.open())) else {
        return Err((Lost::Ended, true));
    };
    let open = Frame::Open {
        number,
        client: client.context.address,
        destination: match &chosen.address {
            ServerAddress::Ip(address) => Destination::Address(*address),
            ServerAddress::Name { host, port } => Destination::Name {
                host: host.clone(),
                port: *port,
            },
        },
    };
    let header = match wish.next_hop {
        NextHop::Group { group, .. } => group.state.plan.send_proxy_protocol,
        NextHop::Origin { .. } => None,
    };
    let header = header.map_or_else(Vec::new, |version| {
        let own = client.downstream.transport.local_addr();
        client.context.proxy_header(version, own)
    });
    if let Err(error) = connection.send_with(&open, &header).await {
        return Err((error.into(), true));
    }
    metrics.link.relayed.add(1);
    if connection.has_carried.get() {
        metrics.link.reused.add(1);
    }
    (log.reused, log.server) = (connection.has_carried.get(), Some(connection.peer));
    let (engine, class) = wish.way;
    let pace = client.paced(class);
    let counters = metrics.job(Job::from(&client.context.listener.mode));
    let begun = Instant::now();
    let listed = notes::list(
        client,
        connection.peer,
        notes::kept_target(wish.target),
        begun,
        log,
    );
    counters.tunnels_opened.add(1);
    let timeouts = &client.context.live.plan().timeouts;
    let options = RelayOptions {
        engine,
        pace,
        idle: timeouts.tunnel_idle,
        // The far end has its own limit for connecting, and the answer has a way to go.
        answer: Some(timeouts.connect * 2),
        on: chosen.in_group.as_ref().map(|(_, active)| active),
    };
    let note = |moved, engines| listed.tunnel().note_bytes(moved, engines);
    let relay = Relay::new(&client.context.worker, connection, &near, options);
    relay.noting(&note);
    let result = relay.run(wish.first).await;
    let [sent, received] = relay.moved();
    let engines = relay.engines();
    log.received += sent;
    log.sent += received;
    log.engine = Some(if received >= sent {
        engines[1]
    } else {
        engines[0]
    });
    let server = relay.server();
    if let Some(server) = server {
        (log.status, log.server) = (200, Some(server));
    }
    notes::note_paths(
        &metrics,
        &client.downstream.transport,
        &connection.stream,
        log,
    );
    counters.tunnels_closed.add(1);
    counters.tunnel_seconds.observe(begun.elapsed());
    metrics.upstream_bytes_sent.add(sent);
    metrics.upstream_bytes_received.add(received);
    if let Some((_, active)) = &chosen.in_group {
        active.count_bytes(sent, received);
    }
    let is_whole = relay.has_passed_end();
    let is_untouched = !relay.has_taken() && server.is_none();
    result
        .map(|outcome| (outcome, is_whole))
        .map_err(|lost| (lost, is_untouched))
}

/// Applies the outcome to the client, the log, and the server's state.
fn ended(
    metrics: &WorkerMetrics,
    wish: &Wish<'_>,
    chosen: &Chosen,
    (outcome, is_whole): (Outcome, bool),
    log: &mut RequestLog,
) -> Next {
    if let (NextHop::Group { group, .. }, Some((server, _))) = (wish.next_hop, &chosen.in_group) {
        match outcome {
            Outcome::Refused(ErrorCode::Denied | ErrorCode::Failed) => {}
            Outcome::Refused(_) => group.failed(*server, Instant::now()),
            // The far end has said that it is connected.
            _ if log.status == 200 => group.succeeded(*server),
            _ => {}
        }
    }
    match outcome {
        Outcome::Complete => Next::Close,
        Outcome::Reset => {
            log.ended = "client_reset";
            Next::Reset
        }
        Outcome::Idle | Outcome::ByPeer(ErrorCode::Idle) => {
            if outcome == Outcome::Idle {
                metrics.limits.reached(Limit::TunnelIdleTimeout);
            }
            log.ended = "tunnel_idle_timeout";
            // Before the server's end, only the far end knows whether all of its bytes are here.
            match is_whole {
                true => Next::Close,
                false => Next::Reset,
            }
        }
        Outcome::ByPeer(_) => {
            log.ended = "upstream_reset";
            Next::Reset
        }
        Outcome::Refused(why) => {
            metrics.link.refused.add(1);
            (log.status, log.ended) = match why {
                ErrorCode::Denied => (403, "denied_address"),
                ErrorCode::TimedOut => (504, "connect_timeout"),
                ErrorCode::Failed => (503, "link_refused"),
                _ => (502, "connect"),
            };
            metrics.refusals.count(log.ended);
            Next::Reset
        }
    }
}

/// Logs that a link connection failed, and the relayed connection with it.
pub(super) fn is_lost(metrics: &WorkerMetrics, connection: &Connection, lost: &Lost) {
    let metrics = &metrics.link;
    metrics.lost.add(1);
    if matches!(lost, Lost::Malformed(_)) {
        metrics.malformed.add(1);
    }
    tracing::debug!(
        "the connection over a link with {}: {lost}",
        connection.peer
    );
    let _ = carrick_splice::tcp::reset_on_close(&connection.stream);
}
