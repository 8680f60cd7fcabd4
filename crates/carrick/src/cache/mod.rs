//! The HTTP cache: what all workers have stored, in memory and on disk, and who is asking for what. What may be kept and sent is decided by
//! `carrick_logic::cache`; requests get here by [`crate::http`].
pub mod disk;
pub mod flights;
mod index;
pub mod key;
pub mod lately;
pub mod ledger;
pub mod memory;
pub mod peers;
pub mod purge;
pub mod purges;
pub mod shared;

use crate::config::plan::CachePlan;
use arc_swap::ArcSwapOption;
use disk::{Disk, Ticket};
use flights::Flights;
use lately::Lately;
use ledger::Limits;
use memory::{Object, Store};
use peers::CachePeers;
use purge::{Pattern, Purge};
use purges::{Moment, Purges};
use shared::Shared;
use std::sync::Arc;
use tokio::sync::oneshot;

/// So long a resource is remembered whose answer was not stored; as Varnish's "hit for miss".
const PASS_SECONDS: u64 = 120;

/// So long a stored page is not read again for what it embeds.
const PAGE_SECONDS: u64 = 30;

/// Who asks so long after it was fetched ahead is not counted as one to whom that was of use.
const AHEAD_SECONDS: u64 = 600;

/// The cache of a process.
#[derive(Debug)]
pub struct Cache {
    /// What is stored.
    pub store: Arc<Store>,
    /// What is being asked for.
    pub flights: Arc<Flights>,
    /// What was not stored lately: nobody waits for somebody else's answer to it.
    pub passes: Lately,
    /// Pages whose objects were fetched ahead lately.
    pub pages: Lately,
    /// What was fetched ahead, and not asked for by a client yet.
    pub ahead: Lately,
    /// What was purged lately.
    pub purges: Purges,
    /// How much may be stored.
    pub bytes_max: u64,
    /// Who else is asked; swapped at reload.
    pub cache_peers: ArcSwapOption<CachePeers>,
    /// The second level; swapped at reload.
    pub shared: ArcSwapOption<Shared>,
}

impl Cache {
    /// With nothing in memory, and with this disk.
    #[must_use]
    pub fn new(plan: &CachePlan, disk: Option<Arc<Disk>>) -> Self {
        let limits = Limits {
            bytes: plan.memory_bytes,
            objects: plan.objects as u64,
            object_bytes_max: plan.object_bytes_max,
        };
        Self {
            store: Arc::new(Store::with_disk(limits, disk)),
            flights: Arc::default(),
            passes: Lately::new(PASS_SECONDS),
            pages: Lately::new(PAGE_SECONDS),
            ahead: Lately::new(AHEAD_SECONDS),
            purges: Purges::default(),
            bytes_max: plan.memory_bytes,
            cache_peers: ArcSwapOption::new(CachePeers::for_plan(plan, None)),
            shared: ArcSwapOption::new(plan.shared.as_ref().and_then(Shared::start)),
        }
    }

    /// Takes up what a reload can change.
    pub fn follow(&self, plan: Option<&CachePlan>) {
        let before = self.cache_peers.load();
        let cache_peers = plan.and_then(|plan| CachePeers::for_plan(plan, before.as_deref()));
        self.cache_peers.store(cache_peers);
        let before = self.shared.load();
        let shared = plan.and_then(|plan| plan.shared.as_ref());
        if before.as_deref().map(Shared::plan) != shared {
            self.shared.store(shared.and_then(Shared::start));
        }
    }

    /// Takes objects out, or has them validated; returns how many. Answers that are under way are meant as well. With a disk, it has been
    /// done there, too, when the second part has come.
    pub fn purge(&self, which: &Pattern, how: Purge) -> (u64, Option<oneshot::Receiver<()>>) {
        self.purges.note(which, how);
        let (ticket, over) = self.store.disk().map(Ticket::new).unzip();
        let count = self.store.purge(which, how, ticket.as_ref());
        (count, over)
    }

    /// Does to an object that has just been stored what was done to others like it since the origin was asked for it.
    pub fn catch_up(&self, asked: Moment, object: &Arc<Object>) {
        if let Some(how) = self.purges.since(asked, object) {
            self.store.purge_one(object, how);
        }
    }
}
