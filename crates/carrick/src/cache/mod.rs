//! The HTTP cache: what all workers have stored, and who is asking for what. What may be kept and sent is decided by
//! `carrick_logic::cache`; requests get here by [`crate::proxy`].
pub mod flights;
pub mod passes;
pub mod purge;
pub mod purges;
pub mod store;

use crate::config::plan::CachePlan;
use flights::Flights;
use passes::Passes;
use purge::Chosen;
use purges::{Moment, Purges};
use std::sync::Arc;
use store::{Limits, Object, Purge, Store};

/// The cache of a process.
#[derive(Debug)]
pub struct Cache {
    /// What is stored.
    pub store: Arc<Store>,
    /// What is being asked for.
    pub flights: Arc<Flights>,
    /// What was not stored lately.
    pub passes: Passes,
    /// What was purged lately.
    pub purges: Purges,
    /// How much may be stored.
    pub bytes_max: u64,
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
            purges: Purges::default(),
            bytes_max: plan.memory_bytes,
        }
    }
    /// Takes objects out, or has them validated; returns how many. Answers that are under way are meant as well.
    pub fn purge(&self, chosen: &Chosen, how: Purge) -> u64 {
        self.purges.note(chosen, how);
        chosen.purge(&self.store, how)
    }

    /// Does to an object that has just been stored what was done to others like it since the origin was asked for it.
    pub fn catch_up(&self, asked: Moment, object: &Arc<Object>) {
        if let Some(how) = self.purges.since(asked, object) {
            self.store.purge_one(object, how);
        }
    }
}
