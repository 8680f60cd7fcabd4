//! An answer's body on its way into the store. It goes there at the speed of the origin; clients read along at theirs, and need not stay.
use super::parts::PendingBody;
use crate::cache::memory::{BodyWriter, FillError, Object};
use crate::cache::shared::Ticket;
use crate::config::plan::CachePlan;
use crate::context::destination::NextHop;
use crate::context::request_context::RequestContext;
use crate::http::prefetch::Prefetch;
use crate::net::deadline::{Timer, now};
use crate::net::scratch::Scratch;
use crate::telemetry::metrics::PrefetchResult;
use crate::upstream::checkout::Checkout;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What comes at least within the idle time-out of a body that nobody reads, or it is given up: it holds a connection.
const UNREAD_BYTES_MIN: u64 = 64 << 10;

/// A body that nobody reads.
#[derive(Default)]
pub struct UnreadBody {
    /// When it was looked at last, and the bytes that had come by then.
    looked: Option<(Instant, u64)>,
}

impl UnreadBody {
    /// Whether it comes too slowly, now that these bytes have come in all; looked at every `limit`.
    pub fn is_too_slow(&mut self, bytes: u64, limit: Duration) -> bool {
        let (at, before) = *self.looked.get_or_insert((now(), bytes));
        if now() - at < limit {
            return false;
        }
        self.looked = Some((now(), bytes));
        bytes - before < UNREAD_BYTES_MIN
    }
}

/// What is being filled, and from where.
pub struct Fill {
    /// The store's end.
    pub writer: BodyWriter,
    /// What is filled.
    pub object: Arc<Object>,
    /// What becomes of it when it has come, or has broken off.
    pub keep: Box<PendingBody>,
    /// The origin's end.
    pub checkout: Checkout,
    /// Where that leads.
    pub next_hop: NextHop,
    /// The length of the body.
    pub length: u64,
    /// Whether the connection can be used again behind the body.
    pub is_kept: bool,
    /// The right to write it to the shared cache.
    pub ticket: Option<Ticket>,
    /// It is a prefetch.
    pub prefetch: Option<Prefetch>,
    /// It replaces what is stored, or fetches ahead: it goes on without readers.
    pub is_for_store: bool,
    /// Set when it breaks off because of the server.
    pub server_failed: Rc<Cell<bool>>,
}

/// How the body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// The server closed, reset, or was silent for too long.
    ServerFailed,
    /// Nobody is there to read the rest, or there is no room for it.
    GivenUp,
}

impl Fill {
    /// Takes what is in `scratch` already; the rest comes by itself.
    pub fn begin(mut self, context: &RequestContext, scratch: &Scratch) {
        let head_bytes = scratch.response_head.head_bytes;
        let here = scratch.response.get(head_bytes..).unwrap_or_default();
        let bytes = here
            .len()
            .min(usize::try_from(self.length).unwrap_or(usize::MAX));
        // No request asked for what follows the body.
        self.is_kept &= bytes == here.len();
        if self
            .writer
            .append(here.get(..bytes).unwrap_or_default())
            .is_err()
        {
            return;
        }
        let left_bytes = self.length - bytes as u64;
        if left_bytes == 0 && !self.keep.is_part() {
            self.end(context);
            return;
        }
        let context = context.clone();
        tokio::task::spawn_local(async move {
            let end = self.run(&context, left_bytes).await;
            if end == End::Whole {
                let (keep, object) = self.end(&context);
                keep.end(&object).await;
            } else {
                if end == End::ServerFailed {
                    self.server_failed.set(true);
                    self.checkout.failed_alive(&self.next_hop);
                }
                let received_bytes = self.writer.written_bytes();
                (self.checkout).count(context.metrics(), 0, received_bytes);
                self.keep.cut(self.writer, &self.object).await;
            }
        });
    }

    async fn run(&mut self, context: &RequestContext, mut left_bytes: u64) -> End {
        let idle = context.live.plan().timeouts.idle;
        let mut timer = Timer::default();
        let mut buffer = Vec::new();
        let mut unread = UnreadBody::default();
        while left_bytes > 0 {
            let stream = &self.checkout.upstream.transport;
            let received = {
                let receiving = pin!(self.writer.receive(stream, &mut buffer));
                timer.within(idle, receiving).await
            };
            let count = match received {
                Ok(Ok(count)) if count > 0 => count,
                Ok(Err(FillError::TooLong | FillError::NotTaken(_))) => return End::GivenUp,
                Ok(Ok(_) | Err(FillError::Connection(_))) | Err(_) => return End::ServerFailed,
            };
            left_bytes -= count as u64;
            let room = poll_fn(|cx| self.writer.poll_room(cx));
            if timer.within(idle, room).await.is_err() {
                return End::GivenUp;
            }
            if self.object.is_read() {
                unread = UnreadBody::default();
                continue;
            }
            let is_slow = left_bytes > 0 && unread.is_too_slow(self.length - left_bytes, idle);
            let is_wanted = self.is_for_store
                || !self.is_too_far(context.live.plan().cache.as_ref(), left_bytes);
            if is_slow || !is_wanted {
                context.metrics().cache.fills_given_up.add(1);
                return End::GivenUp;
            }
        }
        End::Whole
    }

    /// Whether too much is missing to fetch it without readers.
    fn is_too_far(&self, plan: Option<&CachePlan>, left_bytes: u64) -> bool {
        let Some(plan) = plan else {
            return true;
        };
        let have = self.length - left_bytes;
        left_bytes > 0 && plan.quick_abort.bytes_to_fetch(have, Some(self.length)) == 0
    }

    fn end(self, context: &RequestContext) -> (Box<PendingBody>, Arc<Object>) {
        let Self {
            writer,
            object,
            keep,
            mut checkout,
            next_hop,
            length,
            is_kept,
            ticket,
            prefetch,
            ..
        } = self;
        if writer.finish() {
            if let Some(ticket) = ticket
                && !keep.is_purged(&object)
            {
                ticket.keep(&object, context.worker.clock.now());
            }
            if let Some(prefetch) = prefetch {
                prefetch.ends(PrefetchResult::Stored);
            }
        }
        checkout.count(context.metrics(), 0, length);
        if is_kept {
            checkout.upstream.expect_like(length);
            checkout.give_back(context.pool(), &next_hop);
        }
        (keep, object)
    }
}
