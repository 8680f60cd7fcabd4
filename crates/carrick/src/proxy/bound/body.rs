//! The rest of a response whose head the process has read and written (`responses = "read"`): the kernel forwards it as soon as nothing
//! of it is under way to the process any more, and the process passes on what comes until then.
use super::response::Known;
use super::send::ask_kernel;
use super::{Bound, Pending};
use crate::proxy::arrival::Client;
use crate::proxy::decide::{Destination, Place};
use crate::proxy::response_body::IDLE_TIMEOUT;
use crate::proxy::trace::Trace;
use crate::proxy::upstream::checkout::Checkout;
use crate::worker::io::{read_at_most, write_all, write_both};
use crate::worker::scratch::Scratch;
use carrick_logic::http1::{BodyLength, ResponseBody, Version};
use carrick_splice::{Choice, Engine, ResponseProgress, ResponseSplice};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Shorter rests are passed on by the process: about so much comes to it before the kernel can begin.
const REST_BYTES_MIN: u64 = 128 << 10;

/// So much is read at once.
const BURST_BYTES: usize = 64 << 10;

/// What came of passing on what the server's socket had.
pub(super) enum PassedOn {
    /// It went to the client.
    Some,
    /// There was nothing.
    Nothing,
    /// The server has ended its stream, or has broken off.
    ServerGone { is_reset: bool },
    /// The client takes nothing, or has broken off; in one word.
    ClientGone(&'static str),
}

/// Asks the kernel to take the rest of the response in `scratch`, whose head for the client is in `scratch.out`, with what came with it
/// in `scratch.response`; none of both is sent yet. If it does not, nothing has happened.
pub fn arm(
    client: &mut Client,
    scratch: &Scratch,
    checkout: &mut Checkout,
    destination: &Destination,
) -> bool {
    let Some((held_bytes, rest_bytes)) = rest(client, scratch, destination) else {
        return false;
    };
    ask_kernel(client, checkout, |splice| {
        splice.arm_body(held_bytes, rest_bytes)
    })
}

/// Before the request in `scratch` is sent: lets the server send no more than the client takes, if the kernel may have the rest of the response, so
/// that not all of it has come to the process before its head is read.
pub fn hold(
    client: &mut Client,
    scratch: &Scratch,
    checkout: &mut Checkout,
    destination: &Destination,
) {
    if !may_take_body(client, scratch, destination) {
        return;
    }
    // A new connection has a small window by itself, and many a client asks once.
    if !checkout.upstream.reused && checkout.splice.is_none() {
        return;
    }
    // If it is not done, more of the body comes to the process.
    let _ = ask_kernel(client, checkout, ResponseSplice::hold);
}

/// The bytes of the response that are written but not sent, and those that were not read yet; if its rest is one for the kernel.
fn rest(client: &Client, scratch: &Scratch, destination: &Destination) -> Option<(u32, u64)> {
    let response = &scratch.response_head;
    let ResponseBody::Bytes(length) = response.body else {
        return None;
    };
    let here = scratch.response.len().checked_sub(response.head_bytes)?;
    let rest_bytes = length.checked_sub(here as u64)?;
    let held_bytes = u32::try_from(scratch.out.len() + here).ok()?;
    let is_for_kernel = rest_bytes >= REST_BYTES_MIN && may_take_body(client, scratch, destination);
    is_for_kernel.then_some((held_bytes, rest_bytes))
}

/// Whether the kernel may have the rest of the response to the request in `scratch`, if it is long.
pub(super) fn may_take_body(client: &Client, scratch: &Scratch, destination: &Destination) -> bool {
    let request = &scratch.request_head;
    destination.engine == Choice::Packet
        && !client.binding.is_hopeless()
        // It stays with the client until that has everything, and asks again.
        && !matches!(&destination.place, Place::Group { group, .. } if group.state.plan.keepalive == 0)
        && request.version == Version::Http11
        && request.keep_alive
        && request.body == BodyLength::None
        && !request.wants_upgrade
        && scratch.request.len() == request.head_bytes
}

/// Sends the head, and what came with it; the rest is the kernel's, or is passed on while the client's next request is waited for. `Err`: the
/// client is gone; the connection to the server and the reason, in one word.
pub async fn begin(
    client: &mut Client,
    scratch: &mut Scratch,
    mut checkout: Checkout,
    destination: &Destination,
    trace: &mut Trace,
) -> Result<(), (Checkout, &'static str)> {
    let response = &scratch.response_head;
    let body = scratch.response.get(response.head_bytes..);
    let body = body.unwrap_or_default();
    let idle = client.live.plan().timeouts.idle;
    let written = client
        .timer
        .within(idle, write_both(&client.stream, &scratch.out, body, &mut 0))
        .await;
    match written {
        Ok(Ok(())) => {}
        Ok(Err(_)) => return Err((checkout, "client_reset")),
        Err(_) => return Err((checkout, IDLE_TIMEOUT)),
    }
    let Some(splice) = checkout.splice.take() else {
        return Err((checkout, "internal"));
    };
    let known = Known {
        head_bytes: scratch.out.len() as u64,
        status: response.status,
        body: response.body,
        // The client was told what its connection does, not what the server's does.
        keep_alive: true,
        is_interim: false,
    };
    let pending = Pending {
        trace: trace.hand_over(),
        method: scratch.request_head.method,
        is_trusted: response.keep_alive,
        is_judged: false,
        known: Some(known),
        relayed_bytes: (scratch.out.len() + body.len()) as u64,
    };
    checkout.preamble.clear();
    let mut bound = Box::new(Bound::new(checkout, splice, destination.place.clone()));
    bound.request.extend_from_slice(
        scratch
            .request
            .get(..scratch.request_head.head_bytes)
            .unwrap_or_default(),
    );
    bound.pending = Some(pending);
    client.binding.bound = Some(bound);
    Ok(())
}

impl Bound {
    /// How far the response has come, by the process and by the kernel.
    pub(super) fn progress(&self) -> ResponseProgress {
        let progress = self.splice.progress();
        let relayed_bytes = (self.pending.as_ref()).map_or(0, |pending| pending.relayed_bytes);
        ResponseProgress {
            sent_bytes: progress.sent_bytes + relayed_bytes,
            acked_bytes: progress.acked_bytes + relayed_bytes,
        }
    }

    /// Bytes of a response that may come to the server's socket yet, for the process to pass on.
    pub(super) fn left_bytes(&self) -> u64 {
        if !self.splice.is_body() {
            return 0;
        }
        let Some(Known {
            head_bytes,
            body: ResponseBody::Bytes(length),
            ..
        }) = (self.pending.as_ref()).and_then(|pending| pending.known)
        else {
            return 0;
        };
        (head_bytes + length).saturating_sub(self.progress().sent_bytes)
    }

    /// Passes on what the server's socket has.
    pub(super) async fn pass_on(&mut self, client: &mut Client) -> PassedOn {
        let left_bytes = self.left_bytes();
        let mut scratch = client.worker.scratch.take();
        scratch.response.reserve(BURST_BYTES);
        let bytes_max = usize::try_from(left_bytes).unwrap_or(usize::MAX);
        let server = &self.checkout.upstream.stream;
        let mut reading = read_at_most(server, &mut scratch.response, bytes_max.min(BURST_BYTES));
        let read = poll_fn(|cx| Poll::Ready(Pin::new(&mut reading).poll(cx))).await;
        drop(reading);
        match read {
            Poll::Pending => return PassedOn::Nothing,
            Poll::Ready(Ok(0)) => return PassedOn::ServerGone { is_reset: false },
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(_)) => return PassedOn::ServerGone { is_reset: true },
        }
        let idle = client.live.plan().timeouts.idle;
        let written = client
            .timer
            .within(idle, write_all(&client.stream, &scratch.response))
            .await;
        match written {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return PassedOn::ClientGone("client_reset"),
            Err(_) => return PassedOn::ClientGone(IDLE_TIMEOUT),
        }
        let bytes = scratch.response.len() as u64;
        client.worker.splicer.counters().copy_bytes.add(bytes);
        if let Some(pending) = &mut self.pending {
            pending.relayed_bytes += bytes;
        }
        PassedOn::Some
    }

    /// The engine that has moved most of the response.
    pub(super) fn engine(&self) -> Engine {
        let relayed_bytes = (self.pending.as_ref()).map_or(0, |pending| pending.relayed_bytes);
        if self.splice.progress().sent_bytes >= relayed_bytes {
            Engine::Packet
        } else {
            Engine::Copy
        }
    }
}
