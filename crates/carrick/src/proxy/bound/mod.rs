//! Clients whose responses the kernel forwards (engine `packet`, switch): each is bound to one connection to a server.
//!
//! The process reads a request, judges it, and writes it to the bound connection; the response goes from server to client,
//! packet by packet, and the process does nothing for it. What it has to know afterwards it learns from the kernel's notes.
//!
//! | module | what it does |
//! |---|---|
//! | `body` | the rest of responses whose heads the process has read |
//! | `judged` | requests that the kernel judges and forwards, too |
//! | `response` | what is known of the response under way: whether it is whole |
//! | `send` | which requests go this way, and sending them |
//! | `wait` | between two requests: for the client, for the server's end, for time |
//! | `settle` | waiting for a response's end, and parting the two connections |
mod body;
mod judged;
mod response;
mod send;
mod settle;
mod wait;

pub use body::{arm as arm_body, begin as begin_body, hold as hold_body};
pub use send::{Offered, bind, is_eligible, keep, offer, start};
pub use settle::{Unsettled, leave, serve_to_end};
pub use wait::{Lost, Waited, wait};

use super::arrival::Client;
use super::decide::Place;
use super::trace::Trace;
use super::upstream::checkout::Checkout;
use super::upstream::reuse::{AtRest, Disarmed};
use crate::telemetry::forwarded::Named;
use carrick_logic::http1::{Method, Progress, RequestHead};
use carrick_splice::tcp::UnreadWindow;
use carrick_splice::{DisarmError, ResponseSplice};
use response::{Known, Look, Past};
use std::cell::Cell;
use std::task::{Context, Waker};
use std::time::Duration;

/// The status of a response whose head is not known. Metrics count it as `other`.
const STATUS_UNKNOWN: u16 = 0;

/// A client's connection is parted from its server's when nothing was asked for so long: others may need that one.
const BOUND_IDLE_MAX: Duration = Duration::from_secs(10);

/// After so many refusals in a row a client is left to the process: each costs some system calls.
const REFUSALS_MAX: u32 = 3;

/// How often it is looked whether a response that nobody has told of is over, and whether it still moves.
const TICK: Duration = Duration::from_secs(1);

/// A server's connection that belongs to one client for a while.
pub struct Bound {
    /// Under whose name requests are told that the kernel forwards. In this order: it goes before the splice.
    named: Option<Named>,
    checkout: Checkout,
    splice: Box<ResponseSplice>,
    place: Place,
    /// The response under way.
    pending: Option<Pending>,
    /// The latest request's head as the client has written it: for the log, and to ask somebody else.
    request: Vec<u8>,
    past: Past,
    /// What of the server may wait to be read, once a client has not taken at once what the process passes on.
    unread: Option<UnreadWindow>,
}

/// What a client's connection has to do with servers' connections.
#[derive(Default)]
pub struct Binding {
    /// The one that it is bound to.
    pub bound: Option<Box<Bound>>,
    /// Whether a request of it was answered: clients that have only one are not worth being bound.
    pub is_persistent: bool,
    /// How often the engine has refused it since it took it last.
    refusals: Cell<u32>,
    /// Whether it has sent a request before it had the response to the one before.
    pub has_pipelined: bool,
    /// Whether a server has said that a request of it went in a circle: without the mark of a process, it would go round once more.
    is_in_circle: Cell<bool>,
}

/// What says that a request has come back (RFC 5842 section 7.2).
const LOOP_DETECTED: u16 = 508;

impl Binding {
    /// The engine has refused it, and another server's connection: it may have ended just then, or be unlike this one.
    fn refused(&self) {
        self.refusals.set(self.refusals.get() + 1);
    }

    /// Whether it is not worth trying again.
    fn is_hopeless(&self) -> bool {
        self.refusals.get() >= REFUSALS_MAX || self.is_in_circle.get()
    }

    /// A server has answered a request of it so.
    pub fn note_status(&self, status: u16) {
        if status == LOOP_DETECTED {
            self.is_in_circle.set(true);
        }
    }

    /// Whether the kernel may have the client's next response.
    fn is_worth_it(&self) -> bool {
        self.is_persistent && !self.is_hopeless()
    }

    /// It has taken it, or the configuration has changed: what was refused may be taken now.
    pub fn start_afresh(&self) {
        self.refusals.set(0);
        self.is_in_circle.set(false);
    }
}

/// A request whose response the kernel forwards.
struct Pending {
    trace: Trace,
    method: Method,
    /// Whether the connection was exactly at rest when the request was sent: what comes is its response.
    is_trusted: bool,
    /// Whether the kernel has forwarded the request, and tells of it.
    is_judged: bool,
    /// The response's head, as soon as it is known.
    known: Option<Known>,
    /// Bytes of the response that went through the process.
    relayed_bytes: u64,
}

impl Bound {
    /// What is known of the response under way.
    fn look(&mut self, client: &Client) -> Look {
        self.catch_up(client);
        let progress = self.progress();
        match &mut self.pending {
            None => Look::Whole {
                is_exact: self.past.is_exact,
            },
            Some(pending) => pending.look(
                progress,
                &client.live.plan().limits.head,
                || self.splice.head(),
                || self.splice.tail(),
            ),
        }
    }

    /// The response under way is over: writes the log line and counts.
    fn conclude(&mut self, client: &Client, ended: &'static str) {
        let sent_bytes = self.progress().sent_bytes;
        let Some(pending) = &mut self.pending else {
            return;
        };
        let known = pending.final_head();
        let (status, head_bytes) = known.map_or((STATUS_UNKNOWN, 0), |known| {
            (known.status, known.head_bytes)
        });
        if self.splice.progress().sent_bytes > 0 && ended == "complete" {
            pending.trace.over_for = self.splice.since_acknowledged();
        }
        self.conclude_as(client, ended, (sent_bytes, status, head_bytes));
    }

    /// [`Bound::conclude`] with what is known: bytes, status, and how many bytes of them are the head.
    fn conclude_as(
        &mut self,
        client: &Client,
        ended: &'static str,
        (sent_bytes, status, head_bytes): (u64, u16, u64),
    ) {
        let engine = self.engine();
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        self.splice.count();
        if sent_bytes > 0 {
            self.checkout.answered(&self.place);
        }
        if pending.is_judged {
            self.checkout.rest();
            // Its line is written by whoever reads what the kernel tells.
            if let Some(named) = self.named.as_mut().filter(|_| ended != "complete") {
                named.ended = Some(ended);
            }
            return;
        }
        let trace = &mut pending.trace;
        if sent_bytes > 0 {
            trace.status = status;
            trace.sent = sent_bytes - head_bytes.min(sent_bytes);
            trace.engine = Some(engine);
        }
        trace.ended = ended;
        self.checkout.count(&client.worker.metrics, 0, trace.sent);
        self.checkout.rest();
        let mut head = RequestHead::new();
        let is_read = client.worker.log.is_on()
            && matches!(
                head.parse(&self.request, &client.live.plan().limits.head),
                Ok(Progress::Complete)
            );
        trace.finish(client, &self.request, is_read.then_some(&head));
    }

    /// The response under way is over, or as good as: see [`Look`].
    fn is_over(&mut self, client: &Client, is_exact: bool) {
        self.note_body(client);
        let head = self.pending.as_ref().and_then(Pending::final_head);
        if let Some(known) = head {
            client.binding.note_status(known.status);
        }
        self.past.add(self.pending.as_ref(), is_exact);
        self.conclude(client, "complete");
    }

    /// [`Bound::disarm`] for good: the engine hears how both connections have fared.
    fn disarm_to_part(&mut self, client: &Client) -> Disarmed {
        self.note_path_statistics(client);
        self.disarm()
    }

    fn note_path_statistics(&mut self, client: &Client) {
        let server = &self.checkout.upstream.stream;
        self.splice.note_path_statistics(&client.stream, server);
    }

    /// Gives the packets back to the process.
    fn disarm(&mut self) -> Disarmed {
        let result = self.splice.disarm();
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
        let _ = carrick_splice::tcp::reset_on_close(&self.checkout.upstream.stream);
    }

    /// Keeps the server's connection for others, if it is exactly at rest.
    fn give_back(self: Box<Self>, client: &Client, disarmed: Disarmed) {
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
            place,
            ..
        } = *self;
        // It tells what the record says, which is another one's once the splice is gone.
        drop(named);
        drop(splice);
        checkout.put_back(client, &place);
    }
}

#[cfg(test)]
mod tests;
