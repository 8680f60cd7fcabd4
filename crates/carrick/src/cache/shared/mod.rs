//! The cache's second level: a Redis or Valkey that several processes share. Workers ask it for what is not in memory, and
//! leave to it what they have stored; one thread of its own talks with the server.
//!
//! Nothing fails of it: what does not come within `timeout`, is too much for the queue, or does not decode, is as if it were
//! not there.
//!
//! ```text
//! PREFIX:generation        8 bytes, drawn anew at each purge of more than one URL. A record of another one is none.
//! PREFIX:HASH-OF-URL       a hash, which a purge of the URL deletes. Its fields, numbered by a hash of the whole key,
//!                          and of the variant: `m00` to `m3f` responses that do not vary, or what others vary with;
//!                          `v00` to `v3f` those others. What is of another key or variant is written over.
//! ```
mod names;
mod order;
#[cfg(feature = "shared-cache")]
mod server;
#[cfg(test)]
mod tests;
#[cfg(feature = "shared-cache")]
mod thread;

pub use names::Names;

use crate::cache::memory::Object;
use crate::config::plan::SharedPlan;
use carrick_logic::balance::PassiveHealth;
use carrick_logic::cache::{Record, Recorded, UnixTime, read_record, write_varies};
use order::{Field, Got, Order};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Orders that wait for the thread at most.
const ORDERS_MAX: usize = 1024;

/// Bytes of records that wait to be written at most.
const QUEUED_BYTES_MAX: u64 = 64 << 20;

/// How long somebody who purges waits.
const PURGE_WAIT: Duration = Duration::from_secs(2);

/// The second level, as all threads have it.
#[derive(Debug)]
pub struct Shared {
    plan: SharedPlan,
    orders: mpsc::Sender<Order>,
    state: Arc<State>,
}

/// What is known of the server, and was counted.
#[derive(Debug)]
pub struct State {
    counters: [AtomicU64; Did::ALL.len()],
    queued_bytes: AtomicU64,
    health: Mutex<Health>,
}

#[derive(Debug)]
struct Health {
    passive: PassiveHealth,
    is_left_out: bool,
}

/// What was done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// A request found a record that it could use.
    Hit,
    /// A request found none.
    Miss,
    /// A request found something that is no record of what it asked for.
    Garbage,
    /// The server did not answer a request, or answered with an error.
    Failed,
    /// A response was written.
    Written,
    /// A response was not written: too much was waiting already.
    Dropped,
    /// The server did not take a response.
    NotWritten,
}

impl Did {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Hit,
        Self::Miss,
        Self::Garbage,
        Self::Failed,
        Self::Written,
        Self::Dropped,
        Self::NotWritten,
    ];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Garbage => "garbage",
            Self::Failed => "failed",
            Self::Written => "written",
            Self::Dropped => "dropped",
            Self::NotWritten => "not_written",
        }
    }
}

/// The right to write what a request stores: it has seen which generation there is, before it asked the origin.
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    names: Names,
    generation: u64,
}

/// What the server said to a question.
#[derive(Debug)]
pub struct Found {
    bytes: Option<Vec<u8>>,
    /// To go on with.
    pub ticket: Ticket,
}

impl Shared {
    /// Begins to use the server, which need not be there yet. `None`: this carrick was built without it, or the system lets
    /// no further thread start, which is logged.
    #[must_use]
    #[cfg_attr(not(feature = "shared-cache"), expect(unused_variables))]
    pub fn start(plan: &SharedPlan) -> Option<Arc<Self>> {
        let (orders, received) = mpsc::channel(ORDERS_MAX);
        let state = Arc::new(State::new());
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

    /// What is known and was counted.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Asks for what is stored under these names; `None`: it cannot be asked now.
    pub async fn find(self: &Arc<Self>, names: Names) -> Option<Found> {
        let field = names.main();
        let got = self.get(&names, field).await?;
        Some(Found {
            bytes: got.value,
            ticket: Ticket {
                shared: Arc::clone(self),
                names,
                generation: got.generation,
            },
        })
    }

    async fn get(&self, names: &Names, field: Field) -> Option<Got> {
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
            self.state.count(Did::Failed);
            return None;
        }
        match tokio::time::timeout(self.plan.timeout, answer).await {
            Ok(Ok(got)) => Some(got),
            // The thread has told why.
            Ok(Err(_)) => None,
            Err(_) => {
                self.state.failed("it did not answer in time");
                None
            }
        }
    }

    /// What is stored for this URL is not right any more. Does not wait.
    pub fn forget(&self, names: &Names) {
        let key = names.url();
        if (self.orders.try_send(Order::Forget { key, reply: None })).is_err() {
            self.state.count(Did::Dropped);
        }
    }

    /// Deletes what there is for a URL, as keys have it; `None`: all that there is is out of use. Waits until it is done.
    ///
    /// # Errors
    /// Why it may still be there.
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

impl Found {
    /// The record that answers a request whose variant `variant` names, if there is one. May ask once more.
    pub async fn record<T>(
        &mut self,
        variant: impl FnOnce(&[u8]) -> carrick_logic::cache::Variant,
        mut with: impl FnMut(Record<'_>) -> Option<T>,
    ) -> Option<T> {
        let Self { bytes, ticket } = self;
        let state = Arc::clone(&ticket.shared.state);
        let Some(first) = bytes.take() else {
            state.count(Did::Miss);
            return None;
        };
        let (second, wanted) = match ticket.read(&first) {
            Some(Recorded::Response(record)) => return told(&state, with(*record)),
            None => {
                state.count(Did::Garbage);
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
                state.count(Did::Garbage);
                return None;
            }
            // Another variant has its place, or there is none.
            Some(Some(_)) | None => None,
        };
        told(&state, used)
    }
}

fn told<T>(state: &State, used: Option<T>) -> Option<T> {
    state.count(if used.is_some() { Did::Hit } else { Did::Miss });
    used
}

impl Ticket {
    fn read<'b>(&self, bytes: &'b [u8]) -> Option<Recorded<'b>> {
        read_record(bytes, self.names.key(), self.generation)
    }

    /// Has this object written, if it is whole, not too large, and of use for longer than now. Does not wait.
    pub fn keep(&self, object: &Object, now: UnixTime) {
        let (body, meta) = (object.body(), object.meta());
        let ttl_s = lasts_s(meta, now);
        let bytes = match body.total_bytes() {
            Some(bytes) if body.is_whole() && bytes <= self.shared.plan.object_bytes_max => bytes,
            _ => return,
        };
        // To read it would be to wait for the disk.
        if ttl_s == 0 || body.fetch(0, bytes).is_some() {
            return;
        }
        let state = &self.shared.state;
        if state.queued_bytes.fetch_add(bytes, Relaxed) + bytes > QUEUED_BYTES_MAX {
            state.queued_bytes.fetch_sub(bytes, Relaxed);
            state.count(Did::Dropped);
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
            state.count(Did::Dropped);
        }
    }

    /// What is written for an object; `None`: it cannot be.
    fn records(&self, object: &Object) -> Option<Vec<(Field, Vec<u8>)>> {
        let total = usize::try_from(object.body().total_bytes()?).ok()?;
        let mut body = vec![0; total];
        let mut at = 0;
        while at < total {
            let count = (object.body().read_at(body.get_mut(at..)?, at as u64)).ok()?;
            if count == 0 {
                return None;
            }
            at += count;
        }
        let (variant, key) = (object.variant(), self.names.key());
        let record = Record {
            variant: variant.clone(),
            meta: object.meta().clone(),
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

/// Seconds for which it can be of use: fresh, or out of date where that is allowed.
fn lasts_s(meta: &carrick_logic::cache::Meta, now: UnixTime) -> u32 {
    if meta.always_validate {
        return 0;
    }
    let stale_s = meta.stale_while_revalidate_s.max(meta.stale_if_error_s);
    let lasts_s = meta.ttl_s(now).saturating_add(i64::from(stale_s));
    u32::try_from(lasts_s.max(0)).unwrap_or(u32::MAX)
}

impl State {
    fn new() -> Self {
        Self {
            counters: Default::default(),
            queued_bytes: AtomicU64::new(0),
            health: Mutex::new(Health {
                // It costs its time-out once, and then only at trials.
                passive: PassiveHealth::new(1),
                is_left_out: false,
            }),
        }
    }

    /// How often that was done.
    #[must_use]
    pub fn counted(&self, did: Did) -> u64 {
        // As long as the enum: the index exists.
        self.counters[did as usize].load(Relaxed)
    }

    /// Whether the server is left out at present, since it failed.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        self.lock().is_left_out
    }

    fn count(&self, did: Did) {
        self.counters[did as usize].fetch_add(1, Relaxed);
    }

    /// Whether it may be asked; if it was left out, this is its trial.
    fn may_be_asked(&self, now: Instant) -> bool {
        let mut health = self.lock();
        let is_up = health.passive.is_up(now);
        if is_up {
            health.passive.chosen(now);
        }
        is_up
    }

    /// It did not answer.
    fn failed(&self, why: &str) {
        self.count(Did::Failed);
        self.leave_out(why);
    }

    fn leave_out(&self, why: &str) {
        let mut health = self.lock();
        health.passive.failed(Instant::now());
        if !std::mem::replace(&mut health.is_left_out, true) {
            tracing::warn!("the shared cache failed and is not used for a while: {why}");
        }
    }

    /// It answered.
    #[cfg(feature = "shared-cache")]
    fn succeeded(&self) {
        let mut health = self.lock();
        health.passive.succeeded();
        if std::mem::replace(&mut health.is_left_out, false) {
            tracing::info!("the shared cache answers again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        // Nothing that is done under the lock can leave the state half changed.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
