//! The HTTP cache, which all workers share: stored responses in memory and on disk, and requests under way. `carrick_logic::cache` decides
//! what may be stored and sent; [`crate::http`] uses it.
pub mod disk;
pub mod flights;
mod index;
pub mod key;
pub mod ledger;
pub mod memory;
pub mod peers;
pub mod purge;
pub mod purges;
pub mod recent_keys;
pub mod shared;

use crate::config::plan::{CachePlan, Plan};
use arc_swap::ArcSwapOption;
use disk::{Disk, PurgeTicket};
use flights::Flights;
use ledger::Limits;
use memory::{Object, Store};
use peers::CachePeers;
use purge::{Pattern, Purge};
use purges::{PurgeEpoch, Purges};
use recent_keys::RecentKeys;
use shared::{Owed, Shared};
use std::sync::Arc;
use tokio::sync::oneshot;

/// How long a resource is remembered whose response was not stored, as with Varnish's "hit for miss".
const PASS_SECONDS: u64 = 120;

/// How long a stored page is not parsed again for what it embeds.
const PAGE_SECONDS: u64 = 30;

/// How long a prefetched resource is remembered. Later requests for it do not count as served by the prefetch.
const PREFETCHED_SECONDS: u64 = 600;

/// The cache of a process.
#[derive(Debug)]
pub struct Cache {
    /// The stored responses.
    pub store: Arc<Store>,
    /// Resources that the origin is being asked for.
    pub flights: Arc<Flights>,
    /// Resources whose last response was not stored: requests for them do not wait for each other.
    pub passes: RecentKeys,
    /// Pages whose objects were prefetched lately.
    pub pages: RecentKeys,
    /// Resources that were prefetched, and that clients have not requested yet.
    pub prefetched: RecentKeys,
    /// Recent purges.
    pub purges: Purges,
    /// Bytes that may be stored in memory.
    pub bytes_max: u64,
    /// The cache peers; swapped at reload.
    pub cache_peers: ArcSwapOption<CachePeers>,
    /// The shared cache; swapped at reload.
    pub shared: ArcSwapOption<Shared>,
    /// What the shared cache has to delete, whichever it is.
    owed: Arc<Owed>,
}

impl Cache {
    /// A cache with empty memory and this disk.
    #[must_use]
    pub fn new(plan: &CachePlan, disk: Option<Arc<Disk>>) -> Self {
        let limits = Limits {
            bytes: plan.memory_bytes,
            objects: plan.objects as u64,
            object_bytes_max: plan.object_bytes_max,
        };
        let owed = Arc::default();
        let shared = plan.shared.as_ref();
        Self {
            store: Arc::new(Store::with_disk(limits, disk)),
            flights: Arc::default(),
            passes: RecentKeys::new(PASS_SECONDS),
            pages: RecentKeys::new(PAGE_SECONDS),
            prefetched: RecentKeys::new(PREFETCHED_SECONDS),
            purges: Purges::default(),
            bytes_max: plan.memory_bytes,
            cache_peers: ArcSwapOption::new(CachePeers::for_plan(plan, None)),
            shared: ArcSwapOption::new(shared.and_then(|plan| Shared::start(plan, &owed))),
            owed,
        }
    }

    /// Applies what a reload has changed, once no worker has the plan `before`.
    pub fn follow(&self, plan: &Plan, before: &Plan) {
        let keeps_rules = plan.keeps_rules_of(before);
        let plan = plan.cache.as_ref();
        let before = self.cache_peers.load();
        let cache_peers = plan.and_then(|plan| CachePeers::for_plan(plan, before.as_deref()));
        self.cache_peers.store(cache_peers);
        let before = self.shared.load();
        let shared = plan.and_then(|plan| plan.shared.as_ref());
        if before.as_deref().map(Shared::plan) != shared {
            let shared = shared.and_then(|plan| Shared::start(plan, &self.owed));
            self.shared.store(shared);
        }
        if !keeps_rules {
            // Until a reload brings the rules back, nothing invalidates what is stored by them. First in the shared cache, so that nothing
            // comes back from there; if there is none, in the next one.
            self.owed.add(None);
            self.purge(&Pattern::All, Purge::Outdate);
        }
    }

    /// Purges objects; returns how many. Responses that are under way are purged as well. With a disk, the receiver completes when the
    /// purge is on the medium.
    pub fn purge(&self, which: &Pattern, how: Purge) -> (u64, Option<oneshot::Receiver<()>>) {
        self.purges.note(which, how);
        let (ticket, over) = self.store.disk().map(PurgeTicket::new).unzip();
        let count = self.store.purge(which, how, ticket.as_ref());
        (count, over)
    }

    /// Removes what is stored under a key, as an unsafe request has changed it (RFC 9111 section 4.4); returns how many. Responses that
    /// are under way are removed as well. Does not force the medium, as anybody can cause it.
    pub fn invalidate(&self, key: &[u8]) -> u64 {
        (self.purges).note_invalidation(self.store.key(key).hash());
        self.store.purge(&Pattern::key(key), Purge::Remove, None)
    }

    /// Applies purges since `asked`, when the origin was asked, to an object that was just stored; whether there were any.
    pub fn catch_up(&self, asked: PurgeEpoch, object: &Arc<Object>) -> bool {
        let how = self.purges.since(asked, object);
        if let Some(how) = how {
            self.store.purge_one(object, how);
        }
        how.is_some()
    }
}
