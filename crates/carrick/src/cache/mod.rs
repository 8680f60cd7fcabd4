//! The HTTP cache: what all workers have stored, and who is asking for what. What may be kept and sent is decided by
//! `carrick_logic::cache`; requests get here by [`crate::proxy`].
pub mod flights;
pub mod passes;
pub mod purge;
pub mod shared;
pub mod siblings;
pub mod store;

use crate::config::plan::CachePlan;
use arc_swap::ArcSwapOption;
use flights::Flights;
use passes::Passes;
use shared::Shared;
use siblings::Siblings;
use std::sync::Arc;
use store::{Limits, Store};

/// The cache of a process.
#[derive(Debug)]
pub struct Cache {
    /// What is stored.
    pub store: Arc<Store>,
    /// What is being asked for.
    pub flights: Arc<Flights>,
    /// What was not stored lately.
    pub passes: Passes,
    /// How much may be stored.
    pub bytes_max: u64,
    /// Who else is asked; swapped at reload.
    pub siblings: ArcSwapOption<Siblings>,
    /// The second level; swapped at reload.
    pub shared: ArcSwapOption<Shared>,
}

impl Cache {
    /// An empty one.
    #[must_use]
    pub fn new(plan: &CachePlan) -> Self {
        Self {
            store: Arc::new(Store::new(Limits {
                bytes: plan.memory_bytes,
                objects: plan.objects as u64,
                object_bytes_max: plan.object_bytes_max,
            })),
            flights: Arc::default(),
            passes: Passes::default(),
            bytes_max: plan.memory_bytes,
            siblings: ArcSwapOption::new(Siblings::for_plan(plan, None)),
            shared: ArcSwapOption::new(plan.shared.as_ref().and_then(Shared::start)),
        }
    }

    /// Takes up what a reload can change.
    pub fn follow(&self, plan: Option<&CachePlan>) {
        let before = self.siblings.load();
        let siblings = plan.and_then(|plan| Siblings::for_plan(plan, before.as_deref()));
        self.siblings.store(siblings);
        let before = self.shared.load();
        let shared = plan.and_then(|plan| plan.shared.as_ref());
        if before.as_deref().map(Shared::plan) != shared {
            self.shared.store(shared.and_then(Shared::start));
        }
    }
}
