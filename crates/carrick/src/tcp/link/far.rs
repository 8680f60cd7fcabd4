//! The far end of a link: connects to the servers that the near end names, one after the other on each connection.
use super::GIVEN_UP_MAX;
use super::near::is_lost;
use super::relay::{Outcome, Relay, RelayOptions};
use crate::config::plan::{Mode, ServerAddress};
use crate::connect::dial::{Terms, dial};
use crate::connect::tcp_profile::ServerProfiles;
use crate::context::client::Client;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::context::tunnels::Listed;
use crate::net::deadline::{Deadline, Timer};
use crate::net::io::try_peek;
use crate::reply::unreachable_label;
use crate::resolver::NamedBy;
use crate::tcp::notes;
use crate::telemetry::job::Job;
use crate::telemetry::metrics::Limit;
use crate::telemetry::tunnels::About;
use crate::upstream::link_connection::{Connection, Lost};
use crate::upstream::{Unreachable, Upstream};
use carrick_logic::link::connection_state::Event;
use carrick_logic::link::{Destination, ErrorCode, Frame, VERSION};
use carrick_splice::Choice;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Instant;

/// Serves a connection from the near end of a link, until one end closes it.
pub async fn serve(mut client: Client) {
    let peer = client.context.address;
    let Some(stream) = client.downstream.transport.shared_tcp() else {
        return;
    };
    let connection = Connection::accepted(stream, peer);
    if let Err(lost) = greet(&client.context, &mut client.downstream.timer, &connection).await {
        report(&client.context, &connection, &lost);
        return;
    }
    loop {
        if !is_wanted(&mut client, &connection).await {
            return;
        }
        client.context.address = peer;
        let asked = match next(&client.context, &mut client.downstream.timer, &connection).await {
            Ok(asked) => asked,
            Err(lost) => return report(&client.context, &connection, &lost),
        };
        let Frame::Open {
            client: address,
            destination,
            ..
        } = asked
        else {
            continue;
        };
        client.context.address = address;
        let carried = carry(&mut client, &connection, destination).await;
        // The next client is another one.
        client.downstream.pace.forget();
        if let Err(lost) = carried {
            return is_lost(client.context.metrics(), &connection, &lost);
        }
        connection.has_carried.set(true);
        if client.downstream.is_last || client.context.worker.sessions.is_draining() {
            return;
        }
    }
}

/// Waits for HELLO, and answers with a version that both ends support.
async fn greet(
    context: &RequestContext,
    timer: &mut Timer,
    connection: &Connection,
) -> Result<(), Lost> {
    let mut deadline = Deadline::after(context.live.plan().timeouts.head);
    let mut hello = pin!(connection.expect_hello());
    let expected = poll_fn(|cx| hello.as_mut().poll(cx));
    let Ok(version) = timer.until(&mut deadline, expected).await else {
        context.metrics().limits.reached(Limit::HeadTimeout);
        return Err(Lost::Malformed("HELLO did not arrive in time"));
    };
    let version = version?.min(VERSION);
    Ok(connection.send(&Frame::Hello { version }).await?)
}

/// Waits without a buffer and without a limit for a frame. False: close the connection.
async fn is_wanted(client: &mut Client, connection: &Connection) -> bool {
    let worker = Rc::clone(&client.context.worker);
    let stream = Rc::clone(&connection.stream);
    let something = poll_fn(|cx| {
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match try_peek(&*stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                came => return Poll::Ready(came),
            }
        }
    });
    let came = worker.sessions.wait_idle(something).await;
    matches!(came, Some(Ok(true))) && follow_configuration(client, connection)
}

/// Applies a reload, which may have changed the listener's mode or access. False: this connection is no longer allowed.
fn follow_configuration(client: &mut Client, connection: &Connection) -> bool {
    let live = client.context.worker.live();
    if Rc::ptr_eq(&live, &client.context.live) {
        return true;
    }
    client.downstream.pace.forget();
    match live.listener(client.context.listener.address) {
        Some(listener) if matches!(listener.mode, Mode::Link(_)) => {
            let peer = connection.stream.peer_addr();
            let is_allowed =
                peer.is_ok_and(|peer| listener.access.allows_client(peer.ip().to_canonical()));
            client.context.listener = listener;
            client.context.live = live;
            is_allowed
        }
        _ => {
            client.downstream.is_last = true;
            false
        }
    }
}

/// The next frame between two relayed connections: OPEN, or one without effect.
async fn next(
    context: &RequestContext,
    timer: &mut Timer,
    connection: &Connection,
) -> Result<Frame, Lost> {
    let mut deadline = Deadline::after(context.live.plan().timeouts.head);
    let mut event = pin!(connection.event());
    let coming = poll_fn(|cx| event.as_mut().poll(cx));
    match timer.until(&mut deadline, coming).await {
        Ok(result) => match result? {
            (Event::Open | Event::Nothing, frame) => Ok(frame),
            _ => Err(Lost::Malformed("expected OPEN, got another frame")),
        },
        Err(_) => {
            context.metrics().limits.reached(Limit::HeadTimeout);
            Err(Lost::Malformed("a frame did not arrive completely in time"))
        }
    }
}

/// Connects to the server, and relays.
async fn carry(
    client: &mut Client,
    connection: &Connection,
    destination: Destination,
) -> Result<(), Lost> {
    let mut log = RequestLog::begin();
    let server = match destination {
        Destination::Address(address) => {
            client.context.original = Some(address);
            ServerAddress::Ip(address)
        }
        Destination::Name { host, port } => {
            client.context.original = None;
            ServerAddress::Name { host, port }
        }
    };
    let target = server.to_string().into_bytes();
    let result = match connect(&client.context, &server, &mut log).await {
        Ok(upstream) => relay(client, connection, upstream, &target, &mut log).await,
        Err(unreachable) => refuse(&client.context, connection, &unreachable, &mut log).await,
    };
    if result.is_err() {
        log.ended = "link_lost";
    }
    log.finish_tunnel(&client.context, &target, "TCP");
    result
}

async fn connect(
    context: &RequestContext,
    server: &ServerAddress,
    log: &mut RequestLog,
) -> Result<Upstream, Unreachable> {
    let access = &context.listener.access;
    if let ServerAddress::Name { host, port } = server {
        access.check_name(host.as_bytes(), *port, false)?;
    }
    let terms = Terms {
        source: context.source(),
        source_port: context.source_port(),
        mark: context.source_mark(),
        profiles: ServerProfiles::of(&context.worker.connector.tcp_tuning, &context.listener),
        named_by: NamedBy::client(context.who().ip()),
        ..Terms::default()
    };
    let limit = context.live.plan().timeouts.connect;
    let begun = Instant::now();
    let result = Box::pin(dial(
        &context.worker.connector,
        server,
        Some(access),
        terms,
        limit,
    ))
    .await;
    if matches!(result, Err(Unreachable::TimedOut(_))) {
        context.metrics().limits.reached(Limit::ConnectTimeout);
    }
    log.connect = result.is_ok().then(|| begun.elapsed());
    result
}

/// Tells the near end that there is no connection, and waits until it has given up, too.
async fn refuse(
    context: &RequestContext,
    connection: &Connection,
    unreachable: &Unreachable,
    log: &mut RequestLog,
) -> Result<(), Lost> {
    let label = unreachable_label(unreachable);
    context.metrics().refusals.count(label);
    tracing::debug!("for {}, over a link: {unreachable}", context.address);
    (log.status, log.ended) = (unreachable.status(), label);
    let why = match unreachable {
        Unreachable::Denied(_) => ErrorCode::Denied,
        Unreachable::TimedOut(_) => ErrorCode::TimedOut,
        Unreachable::Shortage(_) => ErrorCode::Failed,
        Unreachable::Connect { error, .. } if error.kind() == io::ErrorKind::ConnectionRefused => {
            ErrorCode::Refused
        }
        _ => ErrorCode::Unreachable,
    };
    let refused = connection.with_state(|state| state.refused(why));
    connection.send(&refused).await?;
    let until_rest = connection.discard_until_rest();
    match tokio::time::timeout(GIVEN_UP_MAX, until_rest).await {
        Ok(result) => result,
        Err(_) => Err(Lost::Stuck),
    }
}

async fn relay(
    client: &mut Client,
    connection: &Connection,
    mut upstream: Upstream,
    target: &[u8],
    log: &mut RequestLog,
) -> Result<(), Lost> {
    upstream.limit_unread_if_near();
    log.took(&upstream);
    log.status = 200;
    let Some(far) = upstream.transport.shared_tcp().map(Rc::clone) else {
        return Err(Lost::Ended);
    };
    let opened = connection.with_state(|state| state.opened(upstream.address));
    connection.send(&opened).await?;
    let Mode::Link(plan) = &client.context.listener.mode else {
        return Err(Lost::Malformed(
            "the listener is no longer the far end of a link",
        ));
    };
    let (engine, class): (Choice, _) = (plan.engine, plan.pace);
    let [to_server, to_client] = client.paced(class);
    let metrics = Arc::clone(client.context.metrics());
    let counters = metrics.job(Job::Link);
    let begun = Instant::now();
    counters.tunnels_opened.add(1);
    let listed = list(client, &upstream, target, begun);
    let options = RelayOptions {
        engine,
        pace: [to_client, to_server],
        idle: client.context.live.plan().timeouts.tunnel_idle,
        answer: None,
        on: None,
    };
    // Towards the link means from the server.
    let note = |[from, to]: [u64; 2], [of_from, of_to]: [_; 2]| {
        listed.tunnel().note_bytes([to, from], [of_to, of_from]);
    };
    let relay = Relay::new(&client.context.worker, connection, &far, options);
    relay.noting(&note);
    let result = relay.run(&[]).await;
    let [sent, received] = relay.moved();
    let [of_sent, of_received] = relay.engines();
    (log.received, log.sent) = (received, sent);
    log.engine = Some(if sent >= received {
        of_sent
    } else {
        of_received
    });
    notes::note_paths(&metrics, &client.downstream.transport, &far, log);
    counters.tunnels_closed.add(1);
    counters.tunnel_seconds.observe(begun.elapsed());
    metrics.upstream_bytes_sent.add(received);
    metrics.upstream_bytes_received.add(sent);
    let outcome = match &result {
        Ok(outcome) => Some(*outcome),
        Err(_) => None,
    };
    log.ended = match outcome {
        Some(Outcome::Complete) => return Ok(()),
        Some(Outcome::Reset) => "upstream_reset",
        Some(Outcome::Idle | Outcome::ByPeer(ErrorCode::Idle)) => "tunnel_idle_timeout",
        Some(Outcome::ByPeer(_) | Outcome::Refused(_)) => "client_reset",
        None => "link_lost",
    };
    if outcome == Some(Outcome::Idle) {
        metrics.limits.reached(Limit::TunnelIdleTimeout);
    }
    // The surviving side must see that the other end was lost, not closed.
    upstream.transport.reset_on_close();
    let has_lost_client = match &result {
        Ok(outcome) => matches!(outcome, Outcome::ByPeer(why) if *why != ErrorCode::Idle),
        Err(lost) => matches!(lost, Lost::Ended | Lost::Io(_)),
    };
    if has_lost_client {
        let worker = Rc::clone(&client.context.worker);
        // The near end need not wait: it may have sent the next OPEN.
        tokio::task::spawn_local(async move {
            worker.deliver(&far).await;
            drop(upstream);
        });
    }
    result.map(|_| ())
}

fn list(client: &Client, upstream: &Upstream, target: &[u8], begun: Instant) -> Listed {
    let (context, downstream) = (&client.context, &client.downstream);
    let worker = &context.worker;
    let about = About {
        label: worker.tunnels.label(worker.number),
        begun,
        job: Job::Link,
        listener: context.listener.address,
        client: context.address,
        target: notes::kept_target(target),
        upstream: None,
        server: upstream.address,
        class: downstream.pace.class(&context.live).map(Into::into),
        bytes_before: [0; 2],
    };
    Listed::new(&worker.tunnels, worker.metrics(), about)
}

/// Logs the end of a connection that relays nothing.
fn report(context: &RequestContext, connection: &Connection, lost: &Lost) {
    if let Lost::Malformed(reason) = lost {
        context.metrics().link.malformed.add(1);
        context.metrics().refusals.count("link_protocol");
        tracing::debug!(
            "{}: from {}: {reason}",
            context.listener.address,
            connection.peer
        );
        let _ = carrick_splice::tcp::reset_on_close(&connection.stream);
    }
}
