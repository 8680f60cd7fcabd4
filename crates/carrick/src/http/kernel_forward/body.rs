//! The rest of a response whose head the process has read and written (`responses = "read"`, or long ones by `auto`): the kernel forwards it
//! once nothing of it is in flight to the process; until then the process relays what comes.
use super::attach::{ask_kernel, is_plain, may_be_kept, refused};
use super::note_path_statistics;
use crate::context::client::Client;
use crate::context::destination::Destination;
use crate::context::kernel_forward::{KernelForward, KnownHead, Pair, Pending};
use crate::context::request_log::IDLE_TIMEOUT;
use crate::context::request_log::RequestLog;
use crate::net::io::{read_at_most, write_all, write_both};
use crate::net::scratch::{Scratch, response_room};
use crate::net::transport::Transport;
use crate::upstream::checkout::Checkout;
use carrick_logic::http1::ResponseBody;
use carrick_splice::tcp::UnreadWindow;
use carrick_splice::{Arming, Choice, Engine, Reason, ResponseProgress, ResponseSplice};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// The process relays shorter rests: about this much reaches it before the kernel can begin.
const REST_BYTES_MIN: u64 = 128 << 10;

/// With `auto`, bodies of at least this size are long: their rest goes to the kernel. From 64 KB on, `packet` costs no more than `pipe`
/// between connections that the kernel knows (docs/benchmarks.md, "What the engine `packet` costs"). Making them known costs some system
/// calls, and most of a shorter body has come before the kernel can begin; from 256 KB on there is a gain anyway.
const AUTO_BYTES_MIN: u64 = 256 << 10;

/// The same for rests over a reused connection whose server was not held back ([`hold`]). Its window may be megabytes by then: Linux lets a
/// receive buffer grow to 6, later versions to 32 (`tcp_rmem`). They would come to the process, which copies them here; `pipe` moves them
/// for a third of that. So the rest has to be much longer.
const AUTO_UNHELD_BYTES_MIN: u64 = 64 << 20;

/// How much is read at once.
const BURST_BYTES: usize = 64 << 10;

/// What came of relaying what the server's socket had.
pub(super) enum PassedOn {
    /// It went to the client.
    Some,
    /// There was nothing.
    Nothing,
    /// The server has ended its stream, or has broken off.
    ServerGone { is_reset: bool },
    /// The client takes nothing, or has broken off: the reason in one word.
    ClientGone(&'static str),
}

/// Asks the kernel to forward the rest of the response in `scratch`. Its head for the client is in `scratch.out`, and what came with it in
/// `scratch.response`; neither is sent yet. If the kernel refuses, nothing has happened.
pub fn arm(
    client: &mut Client,
    scratch: &Scratch,
    checkout: &mut Checkout,
    destination: &Destination,
) -> bool {
    let is_auto = destination.engine == Choice::Auto;
    let response = &scratch.response_head;
    let rest = Rest::of(
        response.body,
        scratch.response.len().checked_sub(response.head_bytes),
        scratch.out.len(),
    );
    let rest = rest.filter(|rest| {
        rest.is_for_kernel(destination.engine) && may_take_body(client, scratch, destination)
    });
    let Some(Rest {
        held_bytes,
        rest_bytes,
        ..
    }) = rest
    else {
        if is_auto {
            detach_short(&client.downstream.transport, checkout);
        }
        return false;
    };
    if is_auto && !may_arm_by_auto(client, checkout, rest_bytes) {
        return false;
    }
    let [_, pace] = client.paced(destination.pace);
    let is_armed = ask_kernel(client, checkout, |splice| {
        splice.arm_body(held_bytes, rest_bytes, pace)
    });
    if is_armed && is_auto {
        let counters = client.context.worker.splicer.counters();
        counters.reason(Reason::PacketPays).add(1);
    }
    is_armed
}

/// Whether a long response by `auto` is one for the kernel right away. If not, the next one over the same connections may be.
fn may_arm_by_auto(client: &Client, checkout: &mut Checkout, rest_bytes: u64) -> bool {
    if let Err(reason) = client.context.worker.splicer.may_choose_packets() {
        refused(client, checkout, reason);
        detach_short(&client.downstream.transport, checkout);
        return false;
    }
    let is_unheld = checkout.upstream.reused && !checkout.expects_long;
    let are_together = checkout.splice.is_some();
    // Connections that are a pair for another route stay one, by its rules.
    checkout.expects_long |= !are_together;
    match ByAuto::of(
        is_unheld,
        rest_bytes,
        client.downstream.kernel_forward.is_persistent,
        are_together,
    ) {
        ByAuto::Arm => return true,
        ByAuto::Introduce => {
            let _ = ask_kernel(client, checkout, |_| Arming::NotYet);
        }
        ByAuto::Relay => {}
    }
    false
}

/// What is done about a long response by `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByAuto {
    /// The kernel gets the rest of it.
    Arm,
    /// The process relays it; both connections are made known to the kernel, for the next one.
    Introduce,
    /// The process relays it.
    Relay,
}

impl ByAuto {
    /// See [`AUTO_UNHELD_BYTES_MIN`].
    fn of(is_unheld: bool, rest_bytes: u64, is_persistent: bool, are_together: bool) -> Self {
        if !is_unheld || rest_bytes >= AUTO_UNHELD_BYTES_MIN {
            Self::Arm
        } else if is_persistent && !are_together {
            // From the second one on: many clients ask once.
            Self::Introduce
        } else {
            Self::Relay
        }
    }
}

/// With `auto`, connections stay a pair only while responses are long: other clients may need the server's.
fn detach_short(client: &Transport, checkout: &mut Checkout) {
    if !std::mem::take(&mut checkout.expects_long) {
        return;
    }
    if let Some(mut splice) = checkout.splice.take() {
        note_path_statistics(&mut splice, client, checkout);
    }
}

/// Before the request in `scratch` is sent: if the kernel may forward the rest of the response, limits the server to what the client takes,
/// so that not all of it reaches the process before its head is read.
pub fn hold(
    client: &Client,
    scratch: &Scratch,
    checkout: &mut Checkout,
    destination: &Destination,
) {
    if !may_hold(client, scratch, checkout, destination) {
        return;
    }
    // A new connection has a small window, and many clients ask once.
    if !checkout.upstream.reused && checkout.splice.is_none() {
        return;
    }
    // Otherwise more of the body comes to the process.
    let _ = ask_kernel(client, checkout, ResponseSplice::hold);
}

/// How much of a response with a length the kernel could forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rest {
    /// The whole body.
    body_bytes: u64,
    /// Those of the response that are written but not sent, head included.
    held_bytes: u32,
    /// Those that were not read yet.
    rest_bytes: u64,
}

impl Rest {
    /// `here`: bytes of the body that were read; `out`: those of the head as it is written.
    fn of(body: ResponseBody, here: Option<usize>, out: usize) -> Option<Self> {
        let (ResponseBody::Bytes(body_bytes), Some(here)) = (body, here) else {
            return None;
        };
        Some(Self {
            body_bytes,
            held_bytes: u32::try_from(out + here).ok()?,
            rest_bytes: body_bytes.checked_sub(here as u64)?,
        })
    }

    fn is_for_kernel(&self, engine: Choice) -> bool {
        let is_long = engine != Choice::Auto || self.body_bytes >= AUTO_BYTES_MIN;
        is_long && self.rest_bytes >= REST_BYTES_MIN
    }
}

/// Whether the server may be held back for the request in `scratch`: with `auto` only after a long response over the same connections.
pub(super) fn may_hold(
    client: &Client,
    scratch: &Scratch,
    checkout: &Checkout,
    destination: &Destination,
) -> bool {
    (destination.engine == Choice::Packet || checkout.expects_long)
        && may_take_body(client, scratch, destination)
}

/// Whether the kernel may have the rest of the response to the request in `scratch`, if it is long.
fn may_take_body(client: &Client, scratch: &Scratch, destination: &Destination) -> bool {
    takes_bodies(destination.engine, || client.context.worker.splicer.has_packet_engine())
        && !client.downstream.kernel_forward.is_hopeless()
        // The connection serves this client until it has everything, and asks again.
        && may_be_kept(&destination.next_hop, true)
        && is_plain(&scratch.request_head, &scratch.request)
}

fn takes_bodies(engine: Choice, has_packet_engine: impl FnOnce() -> bool) -> bool {
    match engine {
        Choice::Packet => true,
        Choice::Auto => has_packet_engine(),
        Choice::Copy | Choice::Pipe | Choice::Socket => false,
    }
}

/// Sends the head, and what came with it. The kernel forwards the rest, or the process does while it waits for the client's next request.
///
/// # Errors
/// The client is gone: the connection to the server, and the reason in one word.
pub async fn begin(
    client: &mut Client,
    scratch: &mut Scratch,
    mut checkout: Checkout,
    destination: &Destination,
    log: &mut RequestLog,
) -> Result<(), (Checkout, &'static str)> {
    let (context, downstream) = (&client.context, &mut client.downstream);
    let response = &scratch.response_head;
    let body = scratch.response.get(response.head_bytes..);
    let body = body.unwrap_or_default();
    let idle = context.live.plan().timeouts.idle;
    let written = downstream
        .timer
        .within(
            idle,
            write_both(&downstream.transport, &scratch.out, body, &mut 0),
        )
        .await;
    match written {
        Ok(Ok(())) => {}
        Ok(Err(_)) => return Err((checkout, "client_reset")),
        Err(_) => return Err((checkout, IDLE_TIMEOUT)),
    }
    let Some(splice) = checkout.splice.take() else {
        return Err((checkout, "internal"));
    };
    let known = KnownHead {
        head_bytes: scratch.out.len() as u64,
        status: response.status,
        body: response.body,
        // The head for the client speaks of the client's connection, not of the server's.
        keep_alive: true,
        is_interim: false,
    };
    let method = scratch.request_head.method;
    let pending = Pending {
        known: Some(known),
        relayed_bytes: (scratch.out.len() + body.len()) as u64,
        ..Pending::new(log.hand_over(), method, response.keep_alive)
    };
    checkout.preamble.clear();
    let mut pair = Box::new(Pair::new(checkout, splice, destination.next_hop.clone()));
    pair.request.extend_from_slice(
        scratch
            .request
            .get(..scratch.request_head.head_bytes)
            .unwrap_or_default(),
    );
    pair.pending = Some(pending);
    downstream.kernel_forward.pair = Some(pair);
    Ok(())
}

impl Pair {
    /// How far the response has come, by the process and by the kernel.
    pub(super) fn progress(&self) -> ResponseProgress {
        let progress = self.splice.progress();
        let relayed_bytes = (self.pending.as_ref()).map_or(0, |pending| pending.relayed_bytes);
        ResponseProgress {
            sent_bytes: progress.sent_bytes + relayed_bytes,
            acked_bytes: progress.acked_bytes + relayed_bytes,
        }
    }

    /// Bytes of a response that may still come to the server's socket, for the process to relay.
    pub(super) fn left_bytes(&self) -> u64 {
        match &self.pending {
            Some(pending) if self.splice.is_body() => {
                pending.left_bytes(self.progress().sent_bytes)
            }
            _ => 0,
        }
    }

    /// Relays what the server's socket has.
    pub(super) async fn pass_on(&mut self, client: &mut Client) -> PassedOn {
        let (context, downstream) = (&client.context, &mut client.downstream);
        let Some(bytes_max) = burst_bytes(self.left_bytes()) else {
            return PassedOn::Nothing;
        };
        let mut scratch = context.worker.scratch.take();
        response_room(&mut scratch.response);
        scratch.response.reserve(BURST_BYTES);
        let server = &self.checkout.upstream.transport;
        let mut reading = read_at_most(server, &mut scratch.response, bytes_max);
        let read = poll_fn(|cx| Poll::Ready(Pin::new(&mut reading).poll(cx))).await;
        drop(reading);
        match read {
            Poll::Pending => return PassedOn::Nothing,
            Poll::Ready(Ok(0)) => return PassedOn::ServerGone { is_reset: false },
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(_)) => return PassedOn::ServerGone { is_reset: true },
        }
        let bytes = scratch.response.len() as u64;
        if let Some(unread) = &mut self.unread {
            self.checkout.upstream.transport.took(unread, bytes);
        }
        let idle = context.live.plan().timeouts.idle;
        let written = {
            let mut writing = write_all(&downstream.transport, &scratch.response);
            let at_once = poll_fn(|cx| Poll::Ready(Pin::new(&mut writing).poll(cx))).await;
            match at_once {
                Poll::Ready(written) => Ok(written),
                // It may take nothing for long; then the rest must not fill the process's socket.
                Poll::Pending => {
                    let upstream = &mut self.checkout.upstream;
                    self.unread
                        .get_or_insert_with(|| UnreadWindow::new(upstream.limit_unread()));
                    Box::pin(downstream.timer.within(idle, writing)).await
                }
            }
        };
        match written {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return PassedOn::ClientGone("client_reset"),
            Err(_) => return PassedOn::ClientGone(IDLE_TIMEOUT),
        }
        context.worker.splicer.counters().copy_bytes.add(bytes);
        if let Some(pending) = &mut self.pending {
            pending.relayed_bytes += bytes;
        }
        PassedOn::Some
    }

    /// Of a whole response whose rest the kernel was to forward: notes whether it did.
    pub(super) fn note_body(&self, client: &KernelForward) {
        if !self.splice.is_body() || self.pending.is_none() {
            return;
        }
        if self.splice.has_begun() {
            client.start_afresh();
        } else if self.splice.why_not_begun().is_some() || self.checkout.expects_long {
            // The process has copied what `pipe` would have moved for less.
            client.refused();
        }
    }

    /// The engine that has moved most of the response.
    pub(super) fn engine(&self) -> Engine {
        let relayed_bytes = (self.pending.as_ref()).map_or(0, |pending| pending.relayed_bytes);
        engine(self.splice.progress().sent_bytes, relayed_bytes)
    }
}

/// How much of a response is read at once, if `left_bytes` are left. `None`: the kernel has forwarded the last of them meanwhile, and a read
/// of nothing would look like the server's end.
fn burst_bytes(left_bytes: u64) -> Option<usize> {
    let left_bytes = usize::try_from(left_bytes).unwrap_or(usize::MAX);
    (left_bytes > 0).then_some(left_bytes.min(BURST_BYTES))
}

fn engine(forwarded_bytes: u64, relayed_bytes: u64) -> Engine {
    if forwarded_bytes >= relayed_bytes {
        Engine::Packet
    } else {
        Engine::Copy
    }
}

impl Pending {
    /// How much is left of a response with a length, of which `sent_bytes` have come.
    fn left_bytes(&self, sent_bytes: u64) -> u64 {
        match self.known {
            Some(KnownHead {
                head_bytes,
                body: ResponseBody::Bytes(length),
                ..
            }) => (head_bytes + length).saturating_sub(sent_bytes),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
