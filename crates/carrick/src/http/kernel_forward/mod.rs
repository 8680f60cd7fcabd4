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
pub mod classified;
mod response;
mod send;
mod settle;
mod wait;

pub use body::{arm as arm_body, begin as begin_body, hold as hold_body};
pub use send::{Offered, bind, is_eligible, keep, offer, start};
pub use settle::{Unsettled, leave, serve_to_end};
pub use wait::{Lost, Waited, wait};

use crate::context::client::Client;
use crate::context::kernel_forward::{Bound, Pending};
use crate::net::transport::Transport;
use crate::upstream::checkout::Checkout;
use crate::upstream::reuse::{AtRest, Disarmed};
use carrick_logic::http1::{Progress, RequestHead};
use carrick_splice::{DisarmError, ResponseSplice};
use response::Look;
use std::task::{Context, Waker};
use std::time::Duration;

/// The status of a response whose head is not known. Metrics count it as `other`.
const STATUS_UNKNOWN: u16 = 0;

/// A client's connection is parted from its server's when nothing was asked for so long: others may need that one.
const BOUND_IDLE_MAX: Duration = Duration::from_secs(10);

/// How often it is looked whether a response that nobody has told of is over, and whether it still moves.
const TICK: Duration = Duration::from_secs(1);

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
                &client.live.plan().limits.head(),
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
        let log = &mut pending.log;
        if sent_bytes > 0 {
            log.status = status;
            log.sent = sent_bytes - head_bytes.min(sent_bytes);
            log.engine = Some(engine);
        }
        log.ended = ended;
        self.checkout.count(&client.worker.metrics, 0, log.sent);
        self.checkout.rest();
        let mut head = RequestHead::new();
        let is_read = client.worker.log.is_on()
            && matches!(
                head.parse(&self.request, &client.live.plan().limits.head()),
                Ok(Progress::Complete)
            );
        log.finish(client, &self.request, is_read.then_some(&head));
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
        note_path_statistics(&mut self.splice, client, &self.checkout);
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
        self.checkout.upstream.transport.reset_on_close();
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

/// The engine hears how both connections have fared.
fn note_path_statistics(splice: &mut ResponseSplice, client: &Client, checkout: &Checkout) {
    let legs = Transport::both_tcp(&client.transport, &checkout.upstream.transport);
    if let Some([client, server]) = legs {
        splice.note_path_statistics(client, server);
    }
}

#[cfg(test)]
mod tests;
