//! Which bodies of objects in memory are open files of the disk's.
use super::object::Body;
use crate::cache::disk::open_files_max;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The bodies, bounded by the descriptors that the process may have.
#[derive(Debug)]
pub(super) struct OpenFiles {
    /// The one that was opened first is at the front.
    bodies: Mutex<VecDeque<Weak<Body>>>,
    max: u64,
}

impl OpenFiles {
    pub(super) fn new() -> Self {
        Self {
            bodies: Mutex::default(),
            max: open_files_max(),
        }
    }

    #[cfg(test)]
    pub(super) fn limit(&mut self, max: u64) {
        self.max = max;
    }

    /// Adds a body. Returns the one to close for it, if there are too many.
    pub(super) fn add(&self, body: &Arc<Body>) -> Option<Arc<Body>> {
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.push_back(Arc::downgrade(body));
        while bodies.len() as u64 > self.max.max(1) {
            // Closed ones are only counted until here.
            if let Some(body) = bodies.pop_front().and_then(|body| body.upgrade()) {
                return Some(body);
            }
        }
        None
    }
}
