//! The network interfaces that the programs are on, and what changes around them.

use super::hooks::doctor::{Obstacle, obstacles};
use super::hooks::{AttachFailure, Changes, HookError, Hooks, Unsupported};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The names of the programs, truncated as the kernel does.
const OF_OTHER_CARRICKS: [&str; 2] = ["carrick_arrivin", "carrick_leaving"];

/// The shortest time between two searches for routes: each splice asks the kernel twice.
const REROUTE_EVERY: Duration = Duration::from_secs(1);

/// The first thing on this machine that keeps `auto` from using the engine.
fn in_the_way_of_auto() -> Option<Obstacle> {
    let found = obstacles();
    found.into_iter().find(|one| one.keeps_auto_off.is_some())
}

/// The hooks, kept on the interfaces as these come and go.
pub(super) struct Environment {
    hooks: Mutex<Hooks>,
    /// `None`: the kernel reports no changes, and they are not followed.
    changes: Option<Changes>,
    rerouting: Mutex<Rerouting>,
    generation: AtomicU32,
    is_layered: AtomicBool,
    /// What keeps `auto` from using the engine here.
    obstacle: Mutex<Option<Obstacle>>,
    /// The interfaces that the programs accept.
    known: MapHandle,
}

impl Environment {
    /// `changes` must be opened before the hooks are.
    pub(super) fn new(hooks: Hooks, changes: Option<Changes>, known: MapHandle) -> Environment {
        let environment = Environment {
            known,
            hooks: Mutex::new(hooks),
            changes,
            rerouting: Mutex::default(),
            generation: AtomicU32::new(0),
            is_layered: AtomicBool::default(),
            obstacle: Mutex::new(in_the_way_of_auto()),
        };
        environment.make_known();
        environment
    }

    /// Writes the interfaces into the programs' map. Fails once that is sealed.
    fn make_known(&self) {
        let hooks = self.hooks();
        let numbers = hooks.attached().map(|hook| hook.interface().index);
        for number in numbers {
            let number: u32 = number;
            let _ = (self.known).update(&number.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY);
        }
    }

    /// Seals the set of interfaces that the programs accept.
    pub(super) fn seal(&self) -> io::Result<()> {
        self.known.freeze().map_err(io::Error::other)
    }

    /// What keeps `auto` from using the engine here, as of the start or the latest change of interfaces.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        self.kept_obstacle().clone()
    }

    /// Why, in a word.
    pub(super) fn why_not_auto(&self) -> Option<crate::Reason> {
        self.kept_obstacle().as_ref()?.keeps_auto_off
    }

    fn kept_obstacle(&self) -> MutexGuard<'_, Option<Obstacle>> {
        self.obstacle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The descriptor that becomes readable with each change.
    pub(super) fn descriptor(&self) -> Option<OwnedFd> {
        let changes = self.changes.as_ref()?;
        changes.as_fd().try_clone_to_owned().ok()
    }

    /// Incremented when splices must check their routes.
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    /// Follows changes. If routes may have changed: in how long splices must check theirs, and this must be called
    /// again; at zero they must now.
    pub(super) fn follow(&self, now: Instant) -> Option<Duration> {
        let changed = self.changes.as_ref()?.take().unwrap_or_default();
        if changed.links || changed.filters {
            // A fault of one interface does not matter here; if they cannot be listed, the next change is
            // another try.
            let _ = self.hooks().refresh();
            self.is_layered.store(self.hooks().is_layered(), Release);
            self.make_known();
            self.look_for_obstacles();
        }
        let mut rerouting = self
            .rerouting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let wait = rerouting.after(changed.links || changed.routes, now);
        if wait == Some(Duration::ZERO) {
            self.generation.fetch_add(1, AcqRel);
        }
        wait
    }

    /// Whether there is an interface without the programs whose packets pass one that has them.
    pub(super) fn is_layered(&self) -> bool {
        self.is_layered.load(Acquire)
    }

    /// Whether the programs are on an interface, by its number.
    pub(super) fn is_on(&self, interface: u32) -> bool {
        self.hooks().has(interface)
    }

    /// Without privileges, netfilter rules cannot be read: earlier findings stay.
    fn look_for_obstacles(&self) {
        let found = in_the_way_of_auto();
        let mut kept = self.kept_obstacle();
        let is_seen = |one: &Obstacle| one.keeps_auto_off == Some(crate::Reason::PacketReversePath);
        if found.is_some() || kept.as_ref().is_none_or(is_seen) {
            *kept = found;
        }
    }

    /// Detaches the programs for good.
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

    /// The interfaces that they are not on, and why; except loopback, where they are not expected.
    pub(super) fn left_out(&self) -> Vec<String> {
        let hooks = self.hooks();
        let refused = hooks.refused().iter();
        refused
            .filter(|refused| refused.reason != AttachFailure::Unsupported(Unsupported::Loopback))
            .map(ToString::to_string)
            .collect()
    }

    /// Other programs on the same hooks.
    pub(super) fn foreign(&self) -> Vec<String> {
        let hooks = self.hooks();
        let foreign = hooks.attached().flat_map(|attachment| {
            let name = &attachment.interface().name;
            let foreign = attachment.foreign().iter();
            // Programs of other carrick processes, dead ones included, ignore each other's packets.
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

/// When splices search for their routes: after the first change at once, then at most every [`REROUTE_EVERY`].
#[derive(Default)]
struct Rerouting {
    /// Whether there was a change since the last search.
    is_due: bool,
    /// The earliest time of the next one.
    next: Option<Instant>,
}

impl Rerouting {
    /// In how long they do; at zero they do now.
    fn after(&mut self, is_changed: bool, now: Instant) -> Option<Duration> {
        self.is_due |= is_changed;
        if !self.is_due {
            return None;
        }
        let wait = self
            .next
            .map_or(Duration::ZERO, |next| next.saturating_duration_since(now));
        if wait.is_zero() {
            self.is_due = false;
            self.next = Some(now + REROUTE_EVERY);
        }
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changes_of_routes_are_one_search_a_second() {
        let (begin, mut rerouting) = (Instant::now(), Rerouting::default());
        let mut after = |is_changed, ms| {
            let now = begin + Duration::from_millis(ms);
            rerouting
                .after(is_changed, now)
                .map(|wait| wait.as_millis())
        };
        assert_eq!(after(false, 0), None);
        let searches: Vec<u64> = (0..=2500)
            .step_by(10)
            .filter(|ms| after(true, *ms) == Some(0))
            .collect();
        assert_eq!(searches, [0, 1000, 2000]);
        // The last change is not forgotten, and it is the last.
        assert_eq!(after(false, 2600), Some(400));
        assert_eq!(after(false, 3000), Some(0));
        assert_eq!(after(false, 4000), None);
        assert_eq!(after(true, 9000), Some(0));
    }
}
