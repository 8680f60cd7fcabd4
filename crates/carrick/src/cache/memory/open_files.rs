//! Which objects in memory have open files of the disk's as their bodies.
use super::Object;
use crate::cache::disk::open_files_max;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The objects, bounded by the descriptors that the process may have.
#[derive(Debug)]
pub(super) struct OpenFiles {
    /// The one that was opened first is at the front.
    objects: Mutex<VecDeque<Weak<Object>>>,
    max: u64,
}

impl OpenFiles {
    pub(super) fn new() -> Self {
        Self {
            objects: Mutex::default(),
            max: open_files_max(),
        }
    }

    #[cfg(test)]
    pub(super) fn limit(&mut self, max: u64) {
        self.max = max;
    }

    /// Adds an object. Returns the one to close for it, if there are too many.
    pub(super) fn add(&self, object: &Arc<Object>) -> Option<Arc<Object>> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.push_back(Arc::downgrade(object));
        while objects.len() as u64 > self.max.max(1) {
            // Closed ones are only counted until here.
            if let Some(object) = objects.pop_front().and_then(|object| object.upgrade()) {
                return Some(object);
            }
        }
        None
    }
}
