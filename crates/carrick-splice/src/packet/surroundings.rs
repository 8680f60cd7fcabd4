//! The network interfaces that the programs are on, and what changes around them.

use super::hooks::{Changes, HookError, Hooks, Reason, Unsupported};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names of the programs, as long as the kernel keeps them.
const OF_OTHER_CARRICKS: [&str; 2] = ["carrick_arrivin", "carrick_leaving"];

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
            // What is wrong with one interface is its own affair; without a list of them, the next change is another try.
            let _ = self.hooks().refresh();
        }
        let is_another_way = changed.links || changed.routes;
        if is_another_way {
            self.generation.fetch_add(1, AcqRel);
        }
        is_another_way
    }

    /// Takes the programs away for good.
    pub(super) fn detach(&self) -> Result<(), HookError> {
        self.hooks().detach()
    }

    /// The interfaces that the programs are on, and how.
    pub(super) fn interfaces(&self) -> Vec<String> {
        let hooks = self.hooks();
        let names = hooks
            .attached()
            .map(|attachment| format!("{} ({})", attachment.interface().name, attachment.way()));
        names.collect()
    }

    /// The interfaces that they are not on, and why; but for loopback, where nobody expects them.
    pub(super) fn left_out(&self) -> Vec<String> {
        let hooks = self.hooks();
        let refused = hooks.refused().iter();
        refused
            .filter(|refused| refused.reason != Reason::Unsupported(Unsupported::Loopback))
            .map(ToString::to_string)
            .collect()
    }

    /// What others have on the same hooks.
    pub(super) fn foreign(&self) -> Vec<String> {
        let hooks = self.hooks();
        let foreign = hooks.attached().flat_map(|attachment| {
            let name = &attachment.interface().name;
            let foreign = attachment.foreign().iter();
            // Other carricks, and what those that are gone have left: they know of each other.
            let foreign = foreign.filter(|foreign| {
                !OF_OTHER_CARRICKS
                    .iter()
                    .any(|name| foreign.name.starts_with(name))
            });
            foreign.map(move |foreign| format!("{name}, {foreign}"))
        });
        foreign.collect()
    }

    fn hooks(&self) -> MutexGuard<'_, Hooks> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
