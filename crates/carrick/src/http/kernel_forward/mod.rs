//! Clients whose responses the kernel forwards (engine `packet`, switch), each from one connection to a server: a [`Pair`].
//!
//! The process reads a request, routes it, and writes it to the pair's connection; the response goes from server to client,
//! packet by packet, and the process does nothing for it. What it has to know afterwards it learns from the kernel's notes.
//!
//! | module | what it does |
//! |---|---|
//! | `attach` | which connections are made known to the kernel, and asking it to forward |
//! | `body` | the rest of responses whose heads the process has read |
//! | `classified` | requests that the kernel classifies and forwards, too |
//! | `response` | what is known of the response under way: whether it is whole |
//! | `events`, `end` | what can happen meanwhile; how responses end |
//! | `detach` | waiting for a response's end, and separating the two connections |
//! | `send` | which requests go this way, and sending them |
//! | `wait` | between two requests: for the client, for the server's end, for time |
mod attach;
mod body;
pub mod classified;
mod detach;
mod end;
mod events;
mod response;
mod send;
mod wait;

pub use attach::{attach, keep};
pub use body::{arm as arm_body, begin as begin_body, hold as hold_body};
pub use detach::{Interrupted, leave, serve_to_end};
pub use end::Unanswered;
pub use send::{Offered, is_eligible, leads_to, offer, start};
pub use wait::{Waited, wait};

use crate::context::client::Client;
use crate::context::kernel_forward::{Pair, Pending};
use crate::context::request_context::{Pool, RequestContext};
use crate::net::transport::Transport;
use crate::telemetry::forwarded::ASKED_AGAIN;
use crate::upstream::checkout::Checkout;
use crate::upstream::reuse::{AtRest, Disarmed};
use carrick_logic::http1::{Progress, RequestHead};
use carrick_splice::{DisarmError, ResponseSplice};
use response::ResponseState;
use std::task::{Context, Waker};
use std::time::Duration;

/// The status of a response whose head is not known. Metrics count it as `other`.
const STATUS_UNKNOWN: u16 = 0;

/// A pair without a request is detached after this time: other clients may need the server's connection.
const PAIR_IDLE_MAX: Duration = Duration::from_secs(10);

/// How often a response is checked for its end and for progress, for lack of an event.
const TICK: Duration = Duration::from_secs(1);

impl Pair {
    /// What is known of the response under way.
    fn state(&mut self, context: &RequestContext) -> ResponseState {
        self.catch_up(context);
        let progress = self.progress();
        match &mut self.pending {
            None => ResponseState::Whole {
                is_exact: self.past.is_exact,
            },
            Some(pending) => pending.state(
                progress,
                &context.live.plan().limits.head(),
                || self.splice.head(),
                || self.splice.tail(),
                self.splice.has_whole(),
            ),
        }
    }

    /// The response under way is over: writes the log line and counts.
    fn conclude(&mut self, context: &RequestContext, ended: &'static str) {
        let sent_bytes = self.progress().sent_bytes;
        let Some(pending) = &mut self.pending else {
            return;
        };
        let (status, head_bytes) = match pending.final_head() {
            Some(known) => (known.status, known.head_bytes),
            // The kernel keeps no more of a long head than its beginning.
            None => (
                response::read_status(&self.splice.head()).unwrap_or(STATUS_UNKNOWN),
                0,
            ),
        };
        if self.splice.progress().sent_bytes > 0 && ended == "complete" {
            pending.log.over_for = self.splice.since_acknowledged();
        }
        self.conclude_as(context, ended, (sent_bytes, status, head_bytes));
    }

    /// [`Pair::conclude`] with what is known: bytes, status, and how many bytes of them are the head.
    fn conclude_as(
        &mut self,
        context: &RequestContext,
        ended: &'static str,
        (sent_bytes, status, head_bytes): (u64, u16, u64),
    ) {
        let engine = self.engine();
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        self.splice.count();
        if sent_bytes > 0 {
            self.checkout.answered(&self.next_hop);
        }
        if pending.is_classified {
            self.checkout.rest();
            // Its line is written from the kernel's record (`telemetry::forwarded`).
            if let Some(named) = self.named.as_mut().filter(|_| ended != "complete") {
                let is_cut_off = context.worker.sessions.has_cut_off() && ended != ASKED_AGAIN;
                named.ended = Some(if is_cut_off { "drain" } else { ended });
            }
            return;
        }
        let log = &mut pending.log;
        if sent_bytes > 0 {
            log.status = status;
            log.sent = sent_bytes - head_bytes.min(sent_bytes);
            log.engine = Some(engine);
        }
        log.ended = ended;
        self.checkout.count(context.metrics(), 0, log.sent);
        self.checkout.rest();
        let mut head = RequestHead::new();
        let is_read = context.worker.telemetry.log.is_on()
            && matches!(
                head.parse(&self.request, &context.live.plan().limits.head()),
                Ok(Progress::Complete)
            );
        log.finish(context, &self.request, is_read.then_some(&head));
    }

    /// The response under way is over, or may be taken for it: see [`ResponseState`].
    fn is_over(&mut self, client: &Client, is_exact: bool) {
        self.note_body(&client.downstream.kernel_forward);
        let head = self.pending.as_ref().and_then(Pending::final_head);
        if let Some(known) = head {
            client.downstream.kernel_forward.note_status(known.status);
        }
        // Its end is known, but as the kernel sees it; other clients get no such connection.
        let is_classified = (self.pending.as_ref()).is_some_and(|pending| pending.is_classified);
        self.past
            .add(self.pending.as_ref(), is_exact && !is_classified);
        self.conclude(&client.context, "complete");
    }

    /// Returns both connections to the process for good. The server's is of no further use.
    fn take_client(&mut self, client: &Transport) -> Disarmed {
        self.note_path_statistics(client);
        let result = self.splice.take_client();
        self.disarmed(result)
    }

    fn note_path_statistics(&mut self, client: &Transport) {
        note_path_statistics(&mut self.splice, client, &self.checkout);
    }

    /// Returns both connections to the process.
    fn disarm(&mut self) -> Disarmed {
        let result = self.splice.disarm();
        self.disarmed(result)
    }

    fn disarmed(&self, result: Result<(), DisarmError>) -> Disarmed {
        if let Err(error @ DisarmError::Lost(_)) = &result {
            tracing::debug!(
                "taking {} back from the kernel: {error}",
                self.checkout.upstream.address
            );
        }
        result.into()
    }

    /// Whether neither bytes nor an end have come on the server's connection, as far as this process knows.
    fn is_server_quiet(&self) -> bool {
        if self.splice.is_armed() && self.splice.has_server_ended() {
            return false;
        }
        self.poll_server(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    }

    /// The server's connection is of no further use.
    fn reset_server(&self) {
        self.checkout.upstream.transport.reset_on_close();
    }

    /// Keeps the server's connection for others, if it is exactly at rest.
    fn give_back(self: Box<Self>, pool: Pool<'_>, disarmed: Disarmed) {
        let at_rest = AtRest {
            is_over: self.pending.is_none(),
            is_exact: self.past.is_exact,
            has_server_ended: self.splice.has_server_ended(),
            ..self.checkout.at_rest(disarmed)
        };
        if !at_rest.may_be_reused() {
            return;
        }
        let Self {
            named,
            checkout,
            splice,
            next_hop,
            ..
        } = *self;
        // First: its drop reads the splice's record, which gets another owner once the splice is dropped.
        drop(named);
        drop(splice);
        checkout.put_back(pool, &next_hop);
    }
}

/// Gives the engine both connections' path statistics.
fn note_path_statistics(splice: &mut ResponseSplice, client: &Transport, checkout: &Checkout) {
    let legs = Transport::both_tcp(client, &checkout.upstream.transport);
    if let Some([client, server]) = legs {
        splice.note_path_statistics(client, server);
    }
}

#[cfg(test)]
mod tests;
