//! Which requests go to the server of a client's pair, and sending them.
use super::Disarmed;
use super::attach::{is_plain, may_be_kept, refused};
use super::body::may_hold;
use super::classified::{arm, classifying};
use super::detach::{Detached, Following, await_end, detach, may_follow};
use super::end::may_be_asked_again;
use super::response::ResponseState;
use crate::config::plan::{Mode, Responses};
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::destination::{Destination, NextHop};
use crate::context::kernel_forward::{Pair, Pending};
use crate::context::request_log::RequestLog;
use crate::http::decide::hash_key;
use crate::http::request_out::write_request;
use crate::net::io::write_all;
use crate::net::scratch::Scratch;
use crate::upstream::checkout::Checkout;
use crate::upstream::group::Group;
use carrick_logic::balance;
use carrick_logic::http1::{Method, RequestHead};
use carrick_splice::{Arming, Choice};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

/// What becomes of a request.
pub enum Offered {
    /// It was sent; the kernel forwards the response.
    Sent,
    /// The process has to relay it, over this connection if there is one.
    Relay(Option<Box<Checkout>>),
    /// It cannot be answered any more.
    End(Next),
}

/// Whether the kernel may forward the response to this request unread: nothing may have to be done to it.
pub fn is_eligible(client: &Client, scratch: &Scratch, destination: &Destination) -> bool {
    goes_unread(destination)
        && client.downstream.kernel_forward.is_worth_it()
        && matches!(client.context.listener.mode, Mode::Switch(_))
        && (destination.engine == Choice::Packet || may_be_chosen(client, destination))
        && may_be_kept(&destination.next_hop, client.context.original.is_some())
        && may_be_sent(&scratch.request_head, &scratch.request)
        && invalidates_nothing(client, scratch.request_head.method)
        && !client.downstream.is_last
        && !client.context.worker.sessions.is_draining()
}

/// Whether the answer changes nothing that may be stored (RFC 9111 section 4.4).
fn invalidates_nothing(client: &Client, method: Method) -> bool {
    let is_safe = matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Trace
    );
    is_safe || client.context.worker.store.cache.is_none()
}

/// Whether nothing has to be done to responses from there.
fn goes_unread(destination: &Destination) -> bool {
    matches!(destination.engine, Choice::Packet | Choice::Auto)
        && destination.responses == Responses::Unread
        && destination.cache.is_none()
}

/// Whether `auto` may have the kernel forward: that pays if it takes the client's requests, too.
fn may_be_chosen(client: &Client, destination: &Destination) -> bool {
    let splicer = &client.context.worker.splicer;
    splicer.has_packet_engine()
        && classifying(&client.context, &destination.next_hop).is_some()
        && match splicer.may_choose_packets() {
            Ok(()) => true,
            Err(_) => {
                client.downstream.kernel_forward.refused();
                false
            }
        }
}

/// Whether the response to this request may stay unread, and the request may be sent again.
fn may_be_sent(head: &RequestHead, bytes: &[u8]) -> bool {
    is_plain(head, bytes)
        && head.method.is_idempotent()
        // A server may answer 100, whether or not there is a body.
        && head.field(bytes, "expect").is_none()
}

/// Sends the request in `scratch` to the server of the client's pair, if it is to go there and the kernel forwards the response.
pub async fn offer(
    client: &mut Client,
    scratch: &mut Scratch,
    destination: &Destination,
    is_eligible: bool,
    log: &mut RequestLog,
) -> Offered {
    let Some(mut pair) = client.downstream.kernel_forward.pair.take() else {
        return Offered::Relay(None);
    };
    let next_hop = &destination.next_hop;
    let goes_there = leads_to(&pair.next_hop, pair.checkout.place(), next_hop, |group| {
        let mut address = [0; 16];
        let (bytes, head) = (&scratch.request, &scratch.request_head);
        let key = hash_key(client.context.who(), group, bytes, head, &mut address);
        group.pick(key, &[], Instant::now())
    }) && client.downstream.pace.is_by(destination.pace)
        && !pair.splice.is_spent()
        && (!pair.checkout.upstream.is_pinned || client.context.may_pin());
    let following = if goes_there && is_eligible {
        Following::NextResponse
    } else {
        Following::Anything
    };
    let state = pair.state(&client.context);
    let is_certain = pair.past.is_certain(pair.pending.as_ref());
    pair = match state {
        state if may_follow(state, following, is_certain) => {
            pair.is_over(
                client,
                matches!(state, ResponseState::Whole { is_exact: true }),
            );
            pair
        }
        state => {
            client.downstream.kernel_forward.has_pipelined |=
                matches!(state, ResponseState::NotBegun | ResponseState::Partial);
            match Box::pin(await_end(client, pair, following)).await {
                Ok(Some(pair)) => pair,
                Ok(None) => return Offered::Relay(None),
                Err(interrupted) => return Offered::End(interrupted.give_up(&client.context)),
            }
        }
    };
    // Unrequested bytes end the server's connection, not the client's. A server may have been marked down while a response was waited for.
    let is_usable = goes_there
        && next_hop.is_up(pair.checkout.server)
        && pair.is_server_quiet()
        && !pair.past.is_closing;
    match Way::of(is_usable, is_eligible, pair.past.is_exact) {
        Way::Elsewhere => {
            return match detach(client, pair) {
                Detached::Done => Offered::Relay(None),
                // The kernel forwards nothing while this process has a request in hand.
                Detached::NotYet(_) => Offered::End(Next::Reset),
                Detached::End(next) => Offered::End(next),
            };
        }
        Way::Relayed => {
            // If the kernel is to forward this response's body, too, it keeps the connections.
            let stays =
                pair.splice.is_body() && may_hold(client, scratch, &pair.checkout, destination);
            if !stays && pair.disarm() != Disarmed::Done {
                return Offered::End(Next::Reset);
            }
            return Offered::Relay(Some(pair.into_checkout(true)));
        }
        Way::Forwarded => {}
    }
    let [_, pace] = client.paced(destination.pace);
    let (splice, server) = (&mut pair.splice, pair.checkout.server);
    match arm(splice, &client.context, scratch, destination, server, pace) {
        Arming::Armed => client.downstream.kernel_forward.start_afresh(),
        // What may be left of an earlier response would be taken for this one.
        Arming::NotYet | Arming::Never(_) if !pair.past.is_exact => return Offered::Relay(None),
        Arming::NotYet => return Offered::Relay(Some(pair.into_checkout(true))),
        Arming::Never(reason) => {
            refused(client, &pair.checkout, reason);
            return Offered::Relay(Some(pair.into_checkout(false)));
        }
    }
    write_request(&client.context, scratch, destination, None);
    match send(client, scratch, pair, log).await {
        Ok(()) => Offered::Sent,
        Err(None) => Offered::Relay(None),
        Err(Some(next)) => Offered::End(next),
    }
}

/// Which way a request goes, once the response before it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To the pair's server; the kernel forwards the response.
    Forwarded,
    /// To that server, over that connection; the process relays, which has to know where the response begins.
    Relayed,
    /// By another connection.
    Elsewhere,
}

impl Way {
    fn of(is_usable: bool, is_eligible: bool, is_exact: bool) -> Self {
        match (is_usable, is_eligible, is_exact) {
            (true, true, _) => Self::Forwarded,
            (true, false, true) => Self::Relayed,
            (true, false, false) | (false, _, _) => Self::Elsewhere,
        }
    }
}

/// Whether a request that goes to `wanted` may go by a connection to this server of `next_hop`, at this address. A balancer's choice stays
/// as it was, unless it hashes the request.
pub fn leads_to(
    next_hop: &NextHop,
    (server, address): (Option<usize>, IpAddr),
    wanted: &NextHop,
    pick: impl FnOnce(&Group) -> Option<usize>,
) -> bool {
    match (next_hop, wanted) {
        (NextHop::Group { group, .. }, NextHop::Group { group: wanted, .. }) => {
            Rc::ptr_eq(group, wanted)
                && server.is_some_and(|server| group.may_stay(server, address, Instant::now()))
                && (group.state.plan.balance != balance::Algorithm::Hash || pick(group) == server)
        }
        (NextHop::Origin { key, .. }, NextHop::Origin { key: wanted, .. }) => key == wanted,
        _ => false,
    }
}

/// Sends the request that is written in `scratch.out` over a connection whose responses the kernel forwards.
pub async fn start(
    client: &mut Client,
    scratch: &mut Scratch,
    mut checkout: Checkout,
    next_hop: &NextHop,
    log: &mut RequestLog,
) -> Offered {
    let Some(splice) = checkout.splice.take() else {
        return Offered::Relay(Some(Box::new(checkout)));
    };
    let pair = Box::new(Pair::new(checkout, splice, next_hop.clone()));
    match send(client, scratch, pair, log).await {
        Ok(()) => Offered::Sent,
        Err(None) => Offered::Relay(None),
        Err(Some(next)) => Offered::End(next),
    }
}

/// `Err`: the server does not take it. Another one may, unless the client's connection has to end as given.
async fn send(
    client: &mut Client,
    scratch: &Scratch,
    mut pair: Box<Pair>,
    log: &mut RequestLog,
) -> Result<(), Option<Next>> {
    let is_head = scratch.request_head.method == Method::Head;
    pair.splice.expect_response(pair.past.is_exact, is_head);
    let idle = client.context.live.plan().timeouts.idle;
    let sent = client
        .downstream
        .timer
        .within(
            idle,
            write_all(&pair.checkout.upstream.transport, &scratch.out),
        )
        .await;
    if !matches!(sent, Ok(Ok(()))) {
        let why = match sent {
            Ok(Err(error)) => error.to_string(),
            _ => "it takes nothing".to_owned(),
        };
        tracing::debug!("send to {}: {why}", pair.checkout.upstream.address);
        pair.reset_server();
        let disarmed = pair.take_client(&client.downstream.transport);
        let is_clean = may_be_asked_again(disarmed, pair.past.is_exact, pair.has_sent_nothing());
        client.context.metrics().retries.add(1);
        return Err((!is_clean).then_some(Next::Reset));
    }
    pair.request.clear();
    let head_bytes = scratch.request_head.head_bytes;
    pair.request
        .extend_from_slice(scratch.request.get(..head_bytes).unwrap_or_default());
    log.took(&pair.checkout.upstream);
    log.upstream = match pair.next_hop {
        NextHop::Group { index, .. } => Some(index),
        NextHop::Origin { .. } => None,
    };
    pair.checkout.resume(&pair.next_hop);
    client.context.metrics().upstream_connections_reused.add(1);
    let method = scratch.request_head.method;
    pair.pending = Some(Pending::new(log.hand_over(), method, pair.past.is_exact));
    pair.note_request(&client.context, head_bytes);
    client.downstream.kernel_forward.pair = Some(pair);
    Ok(())
}

impl Pair {
    /// For the process, which has both connections now. `may_follow`: the kernel may forward later responses.
    fn into_checkout(self: Box<Self>, may_follow: bool) -> Box<Checkout> {
        debug_assert!(self.past.is_exact && self.pending.is_none());
        let Self {
            named,
            mut checkout,
            splice,
            next_hop,
            ..
        } = *self;
        drop(named);
        if may_follow {
            checkout.splice = Some(splice);
        }
        checkout.resume(&next_hop);
        Box::new(checkout)
    }
}

#[cfg(test)]
mod tests;
