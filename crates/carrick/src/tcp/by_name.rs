//! Connections that are passed on by the server name of a TLS ClientHello, or by nothing: to tunnel listeners and
//! splitters, and to routes of a switch with `sni`.
use super::link;
use super::notes;
use super::split;
use super::tunnel::{exchange, segment_bytes};
use crate::config::plan::{HashOn, RoutePlan};
use crate::connect::open::CheckoutRequest;
use crate::context::client::{Client, Next};
use crate::context::destination::{Destination, NextHop, client_key};
use crate::context::original;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::net::deadline::Deadline;
use crate::net::io::read_some;
use crate::telemetry::metrics::{Handshake, Limit};
use crate::upstream::Unreachable;
use carrick_logic::balance;
use carrick_logic::client_hello::{self, Hello};
use carrick_logic::http1::TargetForm;
use std::rc::Rc;
use std::sync::Arc;

/// Why there is no ClientHello, or anything else.
#[derive(Debug, Clone, Copy)]
enum NoHello {
    Closed,
    Late,
}

/// Serves a connection to a tunnel listener or a splitter; `first` has already been read. The ClientHello must have
/// come by `deadline`.
pub async fn run_listener(mut client: Client, mut first: Vec<u8>, mut deadline: Deadline) {
    let mut log = RequestLog::begin();
    let listener = Arc::clone(&client.context.listener);
    // A name counts where a route, or what is denied to intercepted clients, says one.
    let denies_names = client.context.original.is_some() && !listener.access.deny_names.is_empty();
    let (sni, version) = if denies_names || listener.routes_by_name().next().is_some() {
        match read_server_name(&mut client, &mut first, &mut deadline).await {
            Ok(name) => name,
            Err(no_hello) => {
                match no_hello {
                    NoHello::Closed => log.ended = "client_closed",
                    NoHello::Late => (log.status, log.ended) = (408, "head_timeout"),
                }
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
    let mut routes = listener.mode.routes().iter();
    let Some(route) = routes.find(|route| route.conditions.match_tunnel(sni.as_deref())) else {
        client.context.metrics().refusals.count("no_route");
        (log.status, log.ended) = (404, "no_route");
        return log.finish_tunnel(&client.context, &target, version);
    };
    let next = tunnel_to(&mut client, route, sni.as_deref(), &target, first, &mut log).await;
    end(client, (&target, version), next, &log);
}

/// Passes a connection to a listener with TLS on undecrypted, if a route has its server name. Returns any other, with
/// what has been read of it. The ClientHello must have come by `deadline`.
pub async fn pass_on(
    mut client: Client,
    mut first: Vec<u8>,
    deadline: &mut Deadline,
) -> Option<(Client, Vec<u8>)> {
    let mut log = RequestLog::begin();
    let listener = Arc::clone(&client.context.listener);
    let sni = match read_server_name(&mut client, &mut first, deadline).await {
        Ok((sni, _)) => sni,
        Err(no_hello) => {
            let handshakes = &client.context.metrics().tls_handshakes;
            handshakes.count(match no_hello {
                NoHello::Closed => Handshake::Closed,
                NoHello::Late => Handshake::Timeout,
            });
            return None;
        }
    };
    let mut routes = listener.routes_by_name();
    let Some((sni, route)) = sni.as_deref().and_then(|name| {
        let route = routes.find(|route| route.conditions.match_tunnel(Some(name)))?;
        Some((name, route))
    }) else {
        return Some((client, first));
    };
    // There is no request to name another client.
    let address = client.context.address.ip();
    let next = if listener.access.allows_client(address) {
        tunnel_to(&mut client, route, Some(sni), sni, first, &mut log).await
    } else {
        client
            .context
            .metrics()
            .refusals
            .count("client_not_allowed");
        (log.status, log.ended) = (403, "client_not_allowed");
        Next::Reset
    };
    end(client, (sni, "TLS"), next, &log);
    None
}

/// Writes the log line, and closes the connection as it is to be closed.
fn end(client: Client, (target, version): (&[u8], &'static str), next: Next, log: &RequestLog) {
    log.finish_tunnel(&client.context, target, version);
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
    let key = hashed.and_then(|plan| match plan.hash_on {
        HashOn::Host => sni,
        HashOn::Client | HashOn::Path | HashOn::Header(_) | HashOn::Cookie(_) => {
            Some(client_key(client.context.address, &mut address))
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
    let wanted = CheckoutRequest {
        context: &client.context,
        downstream: Some(&client.downstream),
        log,
        key,
        reuse: false,
        segment_bytes: segment_bytes(client, destination.engine),
        websocket: false,
        content_bytes: 0,
    };
    let (next_hop, tried) = (&destination.next_hop, &mut Vec::new());
    let mut checkout = match wanted.checkout(next_hop, tried).await {
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
    // Not for as long as the tunnel is open.
    drop(first);
    preamble.shrink_to_fit();
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
    deadline: &mut Deadline,
) -> Result<(Option<Vec<u8>>, &'static str), NoHello> {
    let (context, downstream) = (&client.context, &mut client.downstream);
    buffer.reserve(4096);
    loop {
        match client_hello::read(buffer) {
            Hello::Complete(name) => return Ok((name, "TLS")),
            Hello::NotTls => return Ok((None, "TCP")),
            Hello::Partial => {}
        }
        if buffer.len() == buffer.capacity() {
            buffer.reserve(buffer.len());
        }
        match downstream
            .timer
            .until(deadline, read_some(&downstream.transport, buffer))
            .await
        {
            // It only listens: its end is passed on.
            Ok(Ok(0)) if buffer.is_empty() && context.listener.tls.is_none() => {
                return Ok((None, "TCP"));
            }
            Ok(Ok(0) | Err(_)) => return Err(NoHello::Closed),
            Ok(Ok(_)) => {}
            Err(_) => {
                // Where the server speaks first, the client sends nothing, so there is no name.
                if buffer.is_empty() && context.listener.tls.is_none() {
                    return Ok((None, "TCP"));
                }
                context.metrics().limits.reached(Limit::HeadTimeout);
                return Err(NoHello::Late);
            }
        }
    }
}
