//! The network interfaces that the programs are on, and what changes around them.

use super::hooks::{Changes, Hooks};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Mutex, PoisonError};

/// The hooks, kept on the interfaces while these come and go.
pub(super) struct Surroundings {
    hooks: Mutex<Hooks>,
    /// `None`: the kernel tells nothing, and what changes is not followed.
    changes: Option<Changes>,
    generation: AtomicU32,
}

impl Surroundings {
    /// `changes` was opened before the hooks were.
    pub(super) fn new(hooks: Hooks, changes: Option<Changes>) -> Surroundings {
        Surroundings {
            hooks: Mutex::new(hooks),
            changes,
            generation: AtomicU32::new(0),
        }
    }

    /// What becomes readable with each change.
    pub(super) fn descriptor(&self) -> Option<OwnedFd> {
        let changes = self.changes.as_ref()?;
        changes.as_fd().try_clone_to_owned().ok()
    }

    /// Grows when packets may have to go another way than before.
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    /// Follows what has changed. True if packets may have to go another way.
    pub(super) fn follow(&self) -> bool {
        let changed = match self.changes.as_ref().map(Changes::take) {
            Some(Ok(changed)) => changed,
            Some(Err(_)) | None => return false,
        };
        if changed.links || changed.filters {
            let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
            // What is wrong with one interface is its own affair; without a list of them, the next change is another try.
            let _ = hooks.refresh();
        }
        let is_another_way = changed.links || changed.routes;
        if is_another_way {
            self.generation.fetch_add(1, AcqRel);
        }
        is_another_way
    }

    /// The names of the interfaces that the programs are on.
    pub(super) fn interfaces(&self) -> Vec<String> {
        let hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        hooks
            .attached()
            .map(|attachment| attachment.interface().name.clone())
            .collect()
    }
}
