//! Which requests go to the server that a client is bound to, and sending them.
use super::Disarmed;
use super::body::may_hold;
use super::settle::{Parting, Unclear, is_settled, part, settle};
use super::wait::may_be_asked_again;
use crate::config::plan::{Mode, Responses};
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::destination::{Destination, NextHop};
use crate::context::kernel_forward::{Bound, Pending};
use crate::context::request_log::RequestLog;
use crate::http::decide::hash_key;
use crate::http::kernel_forward::classified::judging;
use crate::http::request_out::write_request;
use crate::net::io::write_all;
use crate::net::scratch::Scratch;
use crate::net::transport::Transport;
use crate::upstream::checkout::Checkout;
use crate::upstream::group::Group;
use carrick_logic::balance;
use carrick_logic::http1::{BodyLength, Method, RequestHead, Version};
use carrick_splice::{Arming, Choice, Reason, ResponseSplice};
use std::rc::Rc;
use std::time::Instant;

use super::response::Look;
use crate::context::kernel_forward::Past;

/// What becomes of a request.
pub enum Offered {
    /// It was sent; the response needs nobody.
    Sent,
    /// The process has to relay it, over this connection if there is one.
    Relay(Option<Box<Checkout>>),
    /// It cannot be answered any more.
    End(Next),
}

/// Whether the kernel may forward the response to this request. It is not looked at: nothing may have to be done to it.
pub fn is_eligible(client: &Client, scratch: &Scratch, destination: &Destination) -> bool {
    goes_unread(destination)
        && client.binding.is_worth_it()
        && matches!(client.listener.mode, Mode::Switch(_))
        && may_be_kept(&destination.place, client.original.is_some())
        && may_be_sent(&scratch.request_head, &scratch.request)
        && !client.is_last
        && !client.worker.is_draining()
}

/// Whether nothing has to be done to responses from there.
fn goes_unread(destination: &Destination) -> bool {
    destination.engine == Choice::Packet
        && destination.responses == Responses::Unread
        && destination.cache.is_none()
}

/// Whether connections to this place may be kept at all. `is_led`: the client was led here on its way there.
pub(super) fn may_be_kept(place: &NextHop, is_led: bool) -> bool {
    match place {
        NextHop::Group { group, .. } => group.state.plan.keepalive > 0,
        NextHop::Origin { .. } => is_led,
    }
}

/// Whether a request is all that has come from its client, which stays to hear the response and nothing else.
pub(super) fn is_plain(head: &RequestHead, bytes: &[u8]) -> bool {
    head.version == Version::Http11
        && head.keep_alive
        && head.body == BodyLength::None
        && !head.wants_upgrade
        && bytes.len() == head.head_bytes
}

/// Whether nothing has to be seen of the response to this request, which may have to be sent again.
fn may_be_sent(head: &RequestHead, bytes: &[u8]) -> bool {
    is_plain(head, bytes)
        && head.method.is_idempotent()
        // A server may answer 100, whether or not there is a body.
        && head.field(bytes, "expect").is_none()
}

/// Makes the client's connection and a server's known to the kernel, before the request in hand is sent. True: the kernel forwards
/// what the server sends from now on. Otherwise the process relays this response; the next one may go.
pub fn bind(client: &mut Client, checkout: &mut Checkout, destination: &Destination) -> bool {
    let may_be_armed = checkout.preamble.is_empty();
    let judging = judging(client, &destination.place);
    let [_, pace] = client.paced(destination.pace);
    ask_kernel(client, checkout, |splice| {
        if may_be_armed {
            splice.arm(judging, pace)
        } else {
            Arming::NotYet
        }
    })
}

/// Makes both connections known to the kernel, if they are not yet, and asks something of it. Whether it does that. Connections that it
/// refuses are forgotten.
pub(super) fn ask_kernel(
    client: &mut Client,
    checkout: &mut Checkout,
    ask: impl FnOnce(&mut ResponseSplice) -> Arming,
) -> bool {
    let worker = &client.worker;
    let legs = Transport::both_tcp(&client.transport, &checkout.upstream.transport);
    let splice = match (checkout.splice.take(), legs) {
        (Some(splice), _) => Ok(splice),
        (None, Some([near, far])) => worker
            .splicer
            .responses(near, far, worker.tunnels.label(worker.number))
            .map(Box::new),
        (None, None) => return false,
    };
    let mut splice = match splice {
        Ok(splice) => splice,
        Err(reason) => {
            refused(client, checkout, reason);
            return false;
        }
    };
    let arming = ask(&mut splice);
    match arming {
        Arming::Never(reason) => refused(client, checkout, reason),
        Arming::Armed | Arming::NotYet => checkout.splice = Some(splice),
    }
    arming == Arming::Armed
}

/// The kernel does not forward what this server sends to this client.
pub(super) fn refused(client: &mut Client, checkout: &Checkout, reason: Reason) {
    tracing::debug!(
        client = %client.address,
        server = %checkout.upstream.address,
        "responses are not forwarded packet by packet: {}",
        reason.name()
    );
    client.binding.refused();
}

/// Keeps a connection that is at rest after a response that the process has relayed. The connection, if it is not bound.
pub fn keep(client: &mut Client, mut checkout: Checkout, place: &NextHop) -> Option<Checkout> {
    let Some(splice) = checkout.splice.take() else {
        return Some(checkout);
    };
    checkout.rest();
    checkout.upstream.reused = true;
    checkout.preamble.clear();
    client.binding.bound = Some(Box::new(Bound::new(checkout, splice, place.clone())));
    None
}

/// Sends the request in `scratch` to the server that the client is bound to, if it is to go there, and the kernel forwards.
pub async fn offer(
    client: &mut Client,
    scratch: &mut Scratch,
    destination: &Destination,
    is_eligible: bool,
    log: &mut RequestLog,
) -> Offered {
    let Some(mut bound) = client.binding.bound.take() else {
        return Offered::Relay(None);
    };
    let place = &destination.place;
    let goes_there = leads_to(&bound.place, bound.checkout.server, place, |group| {
        let mut address = [0; 16];
        let (bytes, head) = (&scratch.request, &scratch.request_head);
        let key = hash_key(client, group, bytes, head, &mut address);
        group.pick(key, &[], Instant::now())
    }) && client.is_paced_by(destination.pace);
    let unclear = if goes_there && is_eligible {
        Unclear::Goes
    } else {
        Unclear::MustEnd
    };
    let look = bound.look(client);
    let is_certain = bound.past.is_certain(bound.pending.as_ref());
    bound = match look {
        look if is_settled(look, unclear, is_certain) => {
            bound.is_over(client, matches!(look, Look::Whole { is_exact: true }));
            bound
        }
        look => {
            client.binding.has_pipelined |= matches!(look, Look::Nothing | Look::Partial);
            match Box::pin(settle(client, bound, unclear)).await {
                Ok(Some(bound)) => bound,
                Ok(None) => return Offered::Relay(None),
                Err(unsettled) => return Offered::End(unsettled.give_up(client)),
            }
        }
    };
    // What has come without being asked for ends the server's connection, not the client's.
    let is_usable = goes_there && bound.is_server_quiet() && !bound.past.is_closing;
    match Way::of(is_usable, is_eligible, bound.past.is_exact) {
        Way::Elsewhere => {
            return match part(client, bound) {
                Parting::Parted => Offered::Relay(None),
                // The kernel forwards nothing while this process has a request in hand.
                Parting::NotYet(_) => Offered::End(Next::Reset),
                Parting::End(next) => Offered::End(next),
            };
        }
        Way::Relayed => {
            // Where the kernel is to get this response's body, too, the connections stay in its hands.
            let stays =
                bound.splice.is_body() && may_hold(client, scratch, &bound.checkout, destination);
            if !stays && bound.disarm() != Disarmed::Done {
                return Offered::End(Next::Reset);
            }
            return Offered::Relay(Some(bound.into_checkout(true)));
        }
        Way::Forwarded => {}
    }
    let [_, pace] = client.paced(destination.pace);
    match bound.splice.arm(judging(client, &bound.place), pace) {
        Arming::Armed => client.binding.start_afresh(),
        // What may be left of an earlier response would be taken for this one.
        Arming::NotYet | Arming::Never(_) if !bound.past.is_exact => return Offered::Relay(None),
        Arming::NotYet => return Offered::Relay(Some(bound.into_checkout(true))),
        Arming::Never(reason) => {
            refused(client, &bound.checkout, reason);
            return Offered::Relay(Some(bound.into_checkout(false)));
        }
    }
    write_request(client, scratch, destination, None);
    match send(client, scratch, bound, log).await {
        Ok(()) => Offered::Sent,
        Err(None) => Offered::Relay(None),
        Err(Some(next)) => Offered::End(next),
    }
}

/// Which way a request goes, once the response before it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To the server that the client is bound to; the kernel forwards the response.
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

/// Whether a request that goes to `wanted` may go to this server of `place`. A choice among several stays as it was, but where
/// the request says which one it is to be: that is picked.
fn leads_to(
    place: &NextHop,
    server: Option<usize>,
    wanted: &NextHop,
    pick: impl FnOnce(&Group) -> Option<usize>,
) -> bool {
    match (place, wanted) {
        (NextHop::Group { group, .. }, NextHop::Group { group: wanted, .. }) => {
            let state = server.and_then(|server| group.state.servers.get(server));
            Rc::ptr_eq(group, wanted)
                && state.is_some_and(|state| state.is_healthy())
                && (group.state.plan.balance != balance::Method::Hash || pick(group) == server)
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
    place: &NextHop,
    log: &mut RequestLog,
) -> Offered {
    let Some(splice) = checkout.splice.take() else {
        return Offered::Relay(Some(Box::new(checkout)));
    };
    let bound = Box::new(Bound::new(checkout, splice, place.clone()));
    match send(client, scratch, bound, log).await {
        Ok(()) => Offered::Sent,
        Err(None) => Offered::Relay(None),
        Err(Some(next)) => Offered::End(next),
    }
}

/// `Err`: the server does not take it. Somebody else may, but where the client's connection has to end.
async fn send(
    client: &mut Client,
    scratch: &Scratch,
    mut bound: Box<Bound>,
    log: &mut RequestLog,
) -> Result<(), Option<Next>> {
    let is_head = scratch.request_head.method == Method::Head;
    bound.splice.expect_response(bound.past.is_exact, is_head);
    let idle = client.live.plan().timeouts.idle;
    let sent = client
        .timer
        .within(
            idle,
            write_all(&bound.checkout.upstream.transport, &scratch.out),
        )
        .await;
    if !matches!(sent, Ok(Ok(()))) {
        let why = match sent {
            Ok(Err(error)) => error.to_string(),
            _ => "it takes nothing".to_owned(),
        };
        tracing::debug!("send to {}: {why}", bound.checkout.upstream.address);
        bound.reset_server();
        let disarmed = bound.disarm_to_part(client);
        let is_clean = may_be_asked_again(disarmed, bound.past.is_exact, bound.has_sent_nothing());
        client.worker.metrics.retries.add(1);
        return Err((!is_clean).then_some(Next::Reset));
    }
    bound.request.clear();
    let head_bytes = scratch.request_head.head_bytes;
    bound
        .request
        .extend_from_slice(scratch.request.get(..head_bytes).unwrap_or_default());
    log.took(&bound.checkout.upstream);
    log.upstream = match bound.place {
        NextHop::Group { index, .. } => Some(index),
        NextHop::Origin { .. } => None,
    };
    bound.checkout.resume(&bound.place);
    client.worker.metrics.upstream_connections_reused.add(1);
    let method = scratch.request_head.method;
    bound.pending = Some(Pending::new(log.hand_over(), method, bound.past.is_exact));
    bound.settle_request(client, head_bytes);
    client.binding.bound = Some(bound);
    Ok(())
}

impl Bound {
    pub(super) fn new(
        checkout: Checkout,
        splice: Box<carrick_splice::ResponseSplice>,
        place: NextHop,
    ) -> Self {
        Self {
            checkout,
            splice,
            place,
            named: None,
            pending: None,
            request: Vec::new(),
            past: Past::CLEAN,
            unread: None,
        }
    }

    /// For the process, which has both connections now. `may_follow`: the kernel may have later ones.
    fn into_checkout(self: Box<Self>, may_follow: bool) -> Box<Checkout> {
        debug_assert!(self.past.is_exact && self.pending.is_none());
        let Self {
            named,
            mut checkout,
            splice,
            place,
            ..
        } = *self;
        drop(named);
        if may_follow {
            checkout.splice = Some(splice);
        }
        checkout.resume(&place);
        Box::new(checkout)
    }

    /// Whether nothing has been forwarded since the latest request was about to be sent.
    pub(super) fn has_sent_nothing(&self) -> bool {
        self.splice.progress().sent_bytes == 0
    }
}

#[cfg(test)]
mod tests;
