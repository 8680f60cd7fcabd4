//! Which connections are made known to the kernel, and asking it to forward.
use super::classified::arm;
use crate::context::client::Client;
use crate::context::destination::{Destination, NextHop};
use crate::context::kernel_forward::{KernelForward, Pair, PastResponses};
use crate::net::scratch::Scratch;
use crate::net::transport::Transport;
use crate::upstream::checkout::Checkout;
use carrick_logic::http1::{BodyLength, RequestHead, Version};
use carrick_splice::{Arming, Reason, ResponseSplice};

/// Whether connections to this next hop may be kept at all. `is_led`: the client was intercepted on its way there.
pub(super) fn may_be_kept(next_hop: &NextHop, is_led: bool) -> bool {
    match next_hop {
        NextHop::Group { group, .. } => group.state.plan.keepalive > 0,
        NextHop::Origin { .. } => is_led,
    }
}

/// Whether a request has no body, is all that has come from its client, and leaves the connection open.
pub(super) fn is_plain(head: &RequestHead, bytes: &[u8]) -> bool {
    head.version == Version::Http11
        && head.keep_alive
        && head.body == BodyLength::None
        && !head.wants_upgrade
        && bytes.len() == head.head_bytes
        && !head.authenticates_connection(bytes)
}

/// Makes the client's connection and a server's known to the kernel, before the request in hand is sent. True: the kernel forwards
/// what the server sends from now on. Otherwise the process relays this response; the kernel may forward the next one.
pub fn attach(
    client: &mut Client,
    scratch: &Scratch,
    checkout: &mut Checkout,
    destination: &Destination,
) -> bool {
    let may_be_armed = checkout.preamble.is_empty();
    let [_, pace] = client.paced(destination.pace);
    let server = checkout.server;
    ask_kernel(client, checkout, |splice| {
        if may_be_armed {
            arm(splice, &client.context, scratch, destination, server, pace)
        } else {
            Arming::NotYet
        }
    })
}

/// Makes both connections known to the kernel, if they are not yet, and asks it to forward. Whether it does. Connections that it refuses
/// for good are forgotten.
pub(super) fn ask_kernel(
    client: &Client,
    checkout: &mut Checkout,
    ask: impl FnOnce(&mut ResponseSplice) -> Arming,
) -> bool {
    let worker = &client.context.worker;
    let legs = Transport::both_tcp(&client.downstream.transport, &checkout.upstream.transport);
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
pub(super) fn refused(client: &Client, checkout: &Checkout, reason: Reason) {
    tracing::debug!(
        client = %client.context.address,
        server = %checkout.upstream.address,
        "responses are not forwarded packet by packet: {}",
        reason.name()
    );
    client.downstream.kernel_forward.refused();
}

/// Keeps a connection that is at rest after a response that the process has relayed, if the kernel knows it; otherwise returns it.
pub fn keep(
    client: &mut KernelForward,
    mut checkout: Checkout,
    next_hop: &NextHop,
) -> Option<Checkout> {
    let Some(splice) = checkout.splice.take() else {
        return Some(checkout);
    };
    checkout.rest();
    client.pair = Some(Box::new(Pair::new(checkout, splice, next_hop.clone())));
    None
}

impl Pair {
    pub(super) fn new(
        checkout: Checkout,
        splice: Box<carrick_splice::ResponseSplice>,
        next_hop: NextHop,
    ) -> Self {
        Self {
            checkout,
            splice,
            next_hop,
            named: None,
            pending: None,
            request: Vec::new(),
            past: PastResponses::CLEAN,
            unread: None,
        }
    }
}
