//! An interface that has both programs.

use super::clsact;
use super::foreign::{self, Foreign};
use super::pins::Pins;
use super::tcx;
use super::{AttachMode, Direction, HookError, Interface};
use std::os::fd::{AsFd, OwnedFd};

/// An interface that has both programs.
#[derive(Debug)]
pub struct Attachment {
    interface: Interface,
    way: AttachMode,
    /// Ingress, egress.
    hooks: [Hook; 2],
    foreign: Vec<Foreign>,
}

/// A program on a hook.
#[derive(Debug)]
pub(super) enum Hook {
    /// With the link's number.
    Link(OwnedFd, u32),
    Filter(clsact::Attached),
}

impl Attachment {
    pub(super) fn new(interface: Interface, way: AttachMode, hooks: [Hook; 2]) -> Attachment {
        Attachment {
            interface,
            way,
            hooks,
            foreign: Vec::new(),
        }
    }

    /// The interface, as of the last look.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// How the programs are attached.
    #[must_use]
    pub fn way(&self) -> AttachMode {
        self.way
    }

    /// What others have on the same hooks, as of the last look at which privileges allowed one (`CAP_NET_ADMIN`). Worth a
    /// warning.
    #[must_use]
    pub fn foreign(&self) -> &[Foreign] {
        &self.foreign
    }

    pub(super) fn rename(&mut self, now: &Interface) {
        self.interface.clone_from(now);
    }

    /// Whether both programs are still there. What cannot be told counts as there.
    pub(super) fn stands(&self) -> bool {
        self.hooks.iter().all(|hook| match hook {
            Hook::Link(link, _) => tcx::standing(link.as_fd())
                .map_or(true, |standing| standing.interface == self.interface.index),
            Hook::Filter(filter) => filter.stands().unwrap_or(true),
        })
    }

    /// Looks whether others are on the same hooks, but for carricks before, whose programs these are.
    pub(super) fn look_around(&mut self, earlier: &[u32]) {
        let hooks = &self.hooks;
        let found = foreign::look(
            self.interface.index,
            &self.interface.name,
            |program| {
                hooks
                    .iter()
                    .any(|hook| matches!(hook, Hook::Link(_, link) if *link == program.link))
            },
            |filter| {
                clsact::is_ours(filter)
                    && hooks.iter().any(
                        |hook| matches!(hook, Hook::Filter(own) if own.handle == filter.handle),
                    )
            },
        );
        if let Ok(mut found) = found {
            let is_earlier = |program| earlier.contains(&program);
            found.retain(|foreign| !foreign.program.is_some_and(is_earlier));
            self.foreign = found;
        }
    }

    /// Takes both programs away.
    pub(super) fn remove(&self, pins: Option<&Pins>) -> Result<(), HookError> {
        let [ingress, egress] = &self.hooks;
        let first = ingress.detach(&self.interface, Direction::Ingress, pins);
        first.and(egress.detach(&self.interface, Direction::Egress, pins))
    }
}

impl Hook {
    /// Takes the program away.
    pub(super) fn remove(
        self,
        interface: &Interface,
        direction: Direction,
        pins: Option<&Pins>,
    ) -> Result<(), HookError> {
        self.detach(interface, direction, pins)
    }

    /// Takes the program away. Where its record cannot be removed (privileges were given up), it is gone all the same.
    fn detach(
        &self,
        interface: &Interface,
        direction: Direction,
        pins: Option<&Pins>,
    ) -> Result<(), HookError> {
        let handle = match self {
            Hook::Link(..) => None,
            Hook::Filter(filter) => Some(filter.handle),
        };
        match (self, pins) {
            (hook, Some(pins)) => {
                if let Hook::Link(link, _) = hook {
                    // It may be gone already, with its interface.
                    let _ = tcx::detach(link.as_fd());
                }
                pins.remove(&pins.entry(interface.index, direction, handle))
            }
            (Hook::Filter(filter), None) => filter.detach(&interface.name),
            (Hook::Link(..), None) => Ok(()),
        }
    }
}
