//! The HTTP cache: what all workers have stored, in memory and on disk, and who is asking for what. What may be kept and sent is decided by
//! `carrick_logic::cache`; requests get here by [`crate::proxy`].
pub mod disk;
pub mod flights;
pub mod passes;
pub mod purge;
pub mod store;

use crate::config::plan::CachePlan;
use disk::Disk;
use flights::Flights;
use passes::Passes;
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
            passes: Passes::default(),
            bytes_max: plan.memory_bytes,
        }
    }
}
