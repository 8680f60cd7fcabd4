//! The shared cache: a Redis or Valkey that several processes use. Workers ask it for what is not in memory, and give it what they have
//! stored. A thread of its own talks to the server.
//!
//! It never makes a request fail: a record that does not come within `timeout`, finds the queue full, or does not decode is a miss.
//!
//! ```text
//! PREFIX:generation        8 random bytes, replaced at each purge of more than one URL. Records of other generations are ignored.
//! PREFIX:HASH-OF-URL       a hash, which a purge of the URL deletes. A hash of the whole key, or of the variant, numbers its fields:
//!                          `m00` to `m3f` have responses that do not vary, or the names of the fields that others vary with;
//!                          `v00` to `v3f` have those others. A record replaces that of another key or variant.
//! ```
mod names;
mod order;
mod owed;
#[cfg(feature = "shared-cache")]
mod server;
#[cfg(test)]
mod tests;
#[cfg(feature = "shared-cache")]
mod thread;

pub use names::Names;
pub use owed::Owed;

use crate::cache::memory::Object;
use crate::config::plan::SharedPlan;
use carrick_logic::balance::PassiveHealth;
use carrick_logic::cache::{Record, Recorded, UnixTime, read_record, write_varies};
use order::{Field, GetReply, Order};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Queued orders, at most.
const ORDERS_MAX: usize = 1024;

/// Bytes of queued records, at most.
const QUEUED_BYTES_MAX: u64 = 64 << 20;

/// How long a purge waits.
const PURGE_WAIT: Duration = Duration::from_secs(2);

/// The shared cache, as all workers have it.
#[derive(Debug)]
pub struct Shared {
    plan: SharedPlan,
    orders: mpsc::Sender<Order>,
    state: Arc<SharedState>,
}

/// The state of the server, and counters.
#[derive(Debug)]
pub struct SharedState {
    counters: [AtomicU64; SharedCacheEvent::ALL.len()],
    queued_bytes: AtomicU64,
    /// What is to be deleted before the server is asked again, as it may be from before a write.
    owed: Arc<Owed>,
    health: Mutex<Health>,
}

#[derive(Debug)]
struct Health {
    passive: PassiveHealth,
    is_left_out: bool,
}

carrick_logic::named! {
    /// What was done with the shared cache.
    pub enum SharedCacheEvent with name {
        /// A request found a record that it could use.
        Hit = "hit",
        /// A request found none.
        Miss = "miss",
        /// A request found something else than a record.
        Garbage = "garbage",
        /// The server did not answer a request, or answered with an error.
        Failed = "failed",
        /// A response was written.
        Written = "written",
        /// A response was not written, as too much was queued.
        Dropped = "dropped",
        /// The server did not accept a response.
        NotWritten = "not_written",
    }
}

/// The right to write the response to a request. It has the generation from before the origin was asked.
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    names: Names,
    generation: u64,
}

/// What the server answered.
#[derive(Debug)]
pub struct SharedRecord {
    bytes: Option<Vec<u8>>,
    /// For what the request stores.
    pub ticket: Ticket,
}

impl Shared {
    /// Starts using the server, which need not be reachable yet, and where `owed` is deleted first. `None`: carrick was built without this
    /// feature, or the system starts no more threads, which is logged.
    #[must_use]
    #[cfg_attr(not(feature = "shared-cache"), expect(unused_variables))]
    pub fn start(plan: &SharedPlan, owed: &Arc<Owed>) -> Option<Arc<Self>> {
        let (orders, received) = mpsc::channel(ORDERS_MAX);
        let state = Arc::new(SharedState::new(Arc::clone(owed)));
        #[cfg(feature = "shared-cache")]
        if let Err(error) = thread::start(plan.clone(), received, Arc::clone(&state)) {
            tracing::error!("cannot use the shared cache: {error}");
            return None;
        }
        cfg!(feature = "shared-cache").then(|| {
            Arc::new(Self {
                plan: plan.clone(),
                orders,
                state,
            })
        })
    }

    /// As configured.
    #[must_use]
    pub fn plan(&self) -> &SharedPlan {
        &self.plan
    }

    /// The state of the server, and counters.
    #[must_use]
    pub fn state(&self) -> &SharedState {
        &self.state
    }

    /// Asks for the response with these names; `None`: the server cannot be asked now.
    pub async fn find(self: &Arc<Self>, names: Names) -> Option<SharedRecord> {
        let field = names.main();
        let got = self.get(&names, field).await?;
        Some(SharedRecord {
            bytes: got.value,
            ticket: Ticket {
                shared: Arc::clone(self),
                names,
                generation: got.generation,
            },
        })
    }

    async fn get(&self, names: &Names, field: Field) -> Option<GetReply> {
        if !self.state.may_be_asked(Instant::now()) {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        let order = Order::Get {
            key: names.url(),
            field,
            reply,
        };
        if self.orders.try_send(order).is_err() {
            self.state.count(SharedCacheEvent::Failed);
            return None;
        }
        match tokio::time::timeout(self.plan.timeout, answer).await {
            Ok(Ok(got)) => Some(got),
            // The thread has noted why.
            Ok(Err(_)) => None,
            Err(_) => {
                self.state.failed("it did not answer in time");
                None
            }
        }
    }

    /// Deletes what is stored for a URL. Does not wait. If it fails, it is made good before the server is asked again.
    pub fn forget(&self, names: &Names) {
        let key = names.url();
        if (self.orders.try_send(Order::Forget { key, reply: None })).is_err() {
            self.state.count(SharedCacheEvent::Dropped);
            // What is queued may write the URL again after it was deleted: with the old generation.
            self.state.owed.add(None);
        }
    }

    /// Deletes what is stored for a URL, as keys have it; `None`: for all URLs. Waits until it is done.
    ///
    /// # Errors
    /// Why records may still be there.
    pub async fn purge(&self, url: Option<&[u8]>) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        let order = match url {
            Some(url) => Order::Forget {
                key: Names::of_url(&self.plan.prefix, url),
                reply: Some(reply),
            },
            None => Order::Renew { reply },
        };
        if self.orders.try_send(order).is_err() {
            return Err("too much is waiting for it".to_owned());
        }
        match tokio::time::timeout(PURGE_WAIT, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err("it does not answer".to_owned()),
        }
    }
}

impl SharedRecord {
    /// The record for a request, if there is one. May ask once more: for the fields that responses vary with, `variant` returns the
    /// variant of the request.
    pub async fn record<T>(
        &mut self,
        variant: impl FnOnce(&[u8]) -> carrick_logic::cache::Variant,
        mut with: impl FnMut(Record<'_>) -> Option<T>,
    ) -> Option<T> {
        let Self { bytes, ticket } = self;
        let state = Arc::clone(&ticket.shared.state);
        let Some(first) = bytes.take() else {
            state.count(SharedCacheEvent::Miss);
            return None;
        };
        let (second, wanted) = match ticket.read(&first) {
            Some(Recorded::Response(record)) => return told(&state, with(*record)),
            None => {
                state.count(SharedCacheEvent::Garbage);
                return None;
            }
            Some(Recorded::Varies(names)) => {
                let wanted = variant(names);
                let field = ticket.names.variant(&wanted);
                (ticket.shared.get(&ticket.names, field).await?.value, wanted)
            }
        };
        let used = match second.as_deref().map(|bytes| ticket.read(bytes)) {
            Some(Some(Recorded::Response(record))) if record.variant == wanted => with(*record),
            Some(None) => {
                state.count(SharedCacheEvent::Garbage);
                return None;
            }
            // There is another variant, or none.
            Some(Some(_)) | None => None,
        };
        told(&state, used)
    }
}

fn told<T>(state: &SharedState, used: Option<T>) -> Option<T> {
    state.count(if used.is_some() {
        SharedCacheEvent::Hit
    } else {
        SharedCacheEvent::Miss
    });
    used
}

impl Ticket {
    fn read<'b>(&self, bytes: &'b [u8]) -> Option<Recorded<'b>> {
        read_record(bytes, self.names.key(), self.generation)
    }

    /// Has this object written, if it is whole, not too large, and can be used later. Does not wait.
    pub fn keep(&self, object: &Arc<Object>, now: UnixTime) {
        let (body, meta) = (object.body(), object.meta());
        let ttl_s = lasts_s(&meta, now);
        let bytes = match body.total_bytes() {
            Some(bytes) if body.is_whole() && bytes <= self.shared.plan.object_bytes_max => bytes,
            _ => return,
        };
        // Reading a body that is not in memory would wait for the disk.
        if ttl_s == 0 || body.fetch(0, bytes).is_some() {
            return;
        }
        let state = &self.shared.state;
        if state.queued_bytes.fetch_add(bytes, Relaxed) + bytes > QUEUED_BYTES_MAX {
            state.queued_bytes.fetch_sub(bytes, Relaxed);
            state.count(SharedCacheEvent::Dropped);
            return;
        }
        let order = self.records(object).map(|fields| Order::Put {
            key: self.names.url(),
            fields,
            ttl_s,
            bytes,
        });
        let is_sent = order.is_some_and(|order| self.shared.orders.try_send(order).is_ok());
        if !is_sent {
            state.queued_bytes.fetch_sub(bytes, Relaxed);
            state.count(SharedCacheEvent::Dropped);
        }
    }

    /// The fields to write for an object; `None`: it cannot be written.
    fn records(&self, object: &Arc<Object>) -> Option<Vec<(Field, Vec<u8>)>> {
        let stored = object.body();
        let total = usize::try_from(stored.total_bytes()?).ok()?;
        let mut body = vec![0; total];
        let mut at = 0;
        while at < total {
            let count = (stored.read_at(body.get_mut(at..)?, at as u64)).ok()?;
            if count == 0 {
                return None;
            }
            at += count;
        }
        let (variant, key) = (object.variant(), self.names.key());
        let record = Record {
            variant: variant.clone(),
            meta: object.meta(),
            head: object.head(),
            body: &body,
        };
        let record = record.write(key, self.generation)?;
        if variant.names().is_empty() {
            return Some(vec![(self.names.main(), record)]);
        }
        let varies = write_varies(key, variant.names(), self.generation)?;
        Some(vec![
            (self.names.main(), varies),
            (self.names.variant(variant), record),
        ])
    }
}

/// For how many seconds a response can be used: fresh, or stale where that is allowed.
fn lasts_s(meta: &carrick_logic::cache::Meta, now: UnixTime) -> u32 {
    if meta.always_validate {
        return 0;
    }
    let stale_s = meta.stale_while_revalidate_s.max(meta.stale_if_error_s);
    let lasts_s = meta.ttl_s(now).saturating_add(i64::from(stale_s));
    u32::try_from(lasts_s.max(0)).unwrap_or(u32::MAX)
}

impl SharedState {
    fn new(owed: Arc<Owed>) -> Self {
        Self {
            counters: Default::default(),
            queued_bytes: AtomicU64::new(0),
            owed,
            health: Mutex::new(Health {
                // A silent server costs its time-out once, and then only at trials.
                passive: PassiveHealth::new(1),
                is_left_out: false,
            }),
        }
    }

    /// How often that was done.
    #[must_use]
    pub fn counted(&self, event: SharedCacheEvent) -> u64 {
        // As long as the enum: the index exists.
        self.counters[event as usize].load(Relaxed)
    }

    /// Whether the server failed, and is left out at present.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        self.lock().is_left_out
    }

    fn count(&self, event: SharedCacheEvent) {
        self.counters[event as usize].fetch_add(1, Relaxed);
    }

    /// Whether the server may be asked. If it was left out, this is a trial.
    fn may_be_asked(&self, now: Instant) -> bool {
        let mut health = self.lock();
        let is_up = health.passive.is_up(now);
        if is_up {
            health.passive.chosen(now);
        }
        is_up
    }

    /// Notes that the server did not answer.
    fn failed(&self, why: &str) {
        self.count(SharedCacheEvent::Failed);
        self.leave_out(why);
    }

    fn leave_out(&self, why: &str) {
        let mut health = self.lock();
        health.passive.failed(Instant::now());
        if !std::mem::replace(&mut health.is_left_out, true) {
            tracing::warn!("the shared cache failed and is not used for a while: {why}");
        }
    }

    /// Notes that the server answered.
    #[cfg(feature = "shared-cache")]
    fn succeeded(&self) {
        let mut health = self.lock();
        health.passive.succeeded();
        if std::mem::replace(&mut health.is_left_out, false) {
            tracing::info!("the shared cache answers again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        // No code under the lock can leave the state half changed.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
