//! Answers that the client gets from the store: those that are just being put there, and those that were there before.
use super::{Attempt, Outcome};
use crate::cache::memory::{BodyWriter, Object};
use crate::http::cached::{self, Asking, Fill, PendingBody, Tee, UnreadBody, reuse_of};
use crate::net::io::read_some;
use crate::telemetry::metrics::PrefetchResult;
use crate::upstream::checkout::Checkout;
use carrick_logic::cache::Reuse;
use carrick_logic::http1::{Chunked, Followed, ResponseBody};
use std::rc::Rc;
use std::sync::Arc;

/// Room that a read needs in its buffer.
const READ_BYTES_MIN: usize = 16 * 1024;

impl Attempt<'_, '_> {
    /// The body goes into the store, and the client reads it from there.
    pub(super) async fn fill(
        mut self,
        mut checkout: Checkout,
        may_reuse: bool,
        (writer, object, mut keep): (BodyWriter, Arc<Object>, Box<PendingBody>),
    ) -> Outcome {
        checkout.upstream.limit_unread_if_near();
        if let Some(asking) = self.asking.as_deref_mut() {
            asking.leave_lead_to(&mut keep);
        }
        checkout.count(self.requester.context().metrics(), self.log.received, 0);
        let response = &self.scratch.response_head;
        let length = match response.body {
            ResponseBody::Bytes(length) => length,
            _ => 0,
        };
        let fill = Fill {
            writer,
            object: Arc::clone(&object),
            keep,
            checkout,
            next_hop: self.destination.next_hop.clone(),
            length,
            is_kept: response.keep_alive && may_reuse,
            ticket: self.asking.as_deref_mut().and_then(Asking::take_ticket),
            prefetch: self.asking.as_deref_mut().and_then(Asking::take_prefetch),
            is_for_store: self.requester.client().is_none(),
            server_failed: Rc::default(),
        };
        let server_failed = Rc::clone(&fill.server_failed);
        // First the reader: a body without readers may be given up.
        let mut reader = object.body().reader();
        fill.begin(self.requester.context(), self.scratch);
        let idle = self.requester.context().live.plan().timeouts.idle;
        if let Some(client) = self.requester.client()
            && object.is_file()
            // Nothing has gone to the client yet.
            && (reader.breaks_at_once(&mut client.downstream.timer, idle)).await
            && !server_failed.get()
            && let Some(asking) = self.asking.as_deref_mut()
        {
            asking.give_up_storing();
            return Outcome::AskAgain;
        }
        let now = self.requester.context().worker.clock.now();
        let reuse = reuse_of(&object, now);
        let outcome = self.send_stored(object, reuse).await;
        drop(reader);
        outcome
    }

    /// Fetches a body of unknown length for the store alone.
    pub(super) async fn fetch(self, mut checkout: Checkout, mut tee: Box<Tee>) -> Outcome {
        checkout.upstream.limit_unread_if_near();
        let idle = self.requester.context().live.plan().timeouts.idle;
        let response = &self.scratch.response_head;
        let is_chunked = response.body == ResponseBody::Chunked;
        let buffer = &mut self.scratch.response;
        buffer.drain(..response.head_bytes);
        let mut chunked = Chunked::lenient();
        let (mut bytes, mut received, mut unread) = (0, 0, UnreadBody::default());
        loop {
            let (used, is_over) = if is_chunked {
                match chunked.tidy(buffer, 0, &mut bytes) {
                    Ok(Followed { bytes, is_over }) => (bytes, is_over),
                    Err(_) => return Outcome::Kept,
                }
            } else {
                (buffer.len(), false)
            };
            let piece = buffer.get(..used).unwrap_or_default();
            let asking = self.asking.as_deref_mut();
            if let Some(prefetch) = asking.and_then(Asking::prefetch)
                && !prefetch.takes(used as u64)
            {
                return Outcome::Kept;
            }
            if is_chunked {
                tee.keep_chunks(piece);
            } else {
                tee.keep(piece);
            }
            if is_over {
                tee.end();
                return self.fetched();
            }
            received += used as u64;
            let is_slow = unread.is_too_slow(received, idle);
            if is_slow {
                let metrics = self.requester.context().metrics();
                metrics.cache.fills_given_up.add(1);
            }
            if is_slow || !tee.is_kept() {
                return Outcome::Kept;
            }
            buffer.drain(..used);
            buffer.reserve(READ_BYTES_MIN);
            let reading = read_some(&checkout.upstream.transport, buffer);
            match self.requester.timer().within(idle, reading).await {
                Ok(Ok(0)) if !is_chunked => {
                    tee.end();
                    return self.fetched();
                }
                Ok(Ok(count)) if count > 0 => {}
                _ => return Outcome::Kept,
            }
        }
    }

    /// A body of unknown length is stored.
    fn fetched(self) -> Outcome {
        let asking = self.asking.as_deref_mut();
        if let Some(prefetch) = asking.and_then(Asking::take_prefetch) {
            prefetch.ends(PrefetchResult::Stored);
        }
        Outcome::Kept
    }

    /// The server's connection is not needed any more.
    pub(super) fn leave(&self, mut checkout: Checkout, may_reuse: bool) {
        let context = self.requester.context();
        checkout.count(context.metrics(), self.log.received, 0);
        let response = &self.scratch.response_head;
        let is_at_rest = response.body == ResponseBody::None
            && response.keep_alive
            && may_reuse
            && self.scratch.response.len() == response.head_bytes;
        if is_at_rest {
            checkout.upstream.expect_like(0);
            checkout.give_back(context.pool(), &self.destination.next_hop);
        }
    }

    /// The client, if there is one, gets what is stored.
    pub(super) async fn send_stored(&mut self, object: Arc<Object>, reuse: Reuse) -> Outcome {
        let Some(mut asking) = self.asking.take() else {
            return Outcome::Kept;
        };
        // Those who wait find it.
        asking.release();
        let Some(client) = self.requester.client() else {
            if let Some(prefetch) = asking.take_prefetch() {
                prefetch.ends(PrefetchResult::Stored);
            }
            return Outcome::Kept;
        };
        let now = client.context.worker.clock.now();
        let source = asking.source(object, reuse, now, self.destination.pace);
        self.log.cache = Some(source.result());
        let (passed, keep_alive) = cached::send(client, self.scratch, &source, self.log).await;
        Outcome::Answered { passed, keep_alive }
    }
}
