//! Gets two BPF programs, one for what comes in and one for what goes out, onto the network interfaces, keeps them there while
//! interfaces come and go, and takes them away.
//!
//! | way | kernels | what holds a program |
//! |---|---|---|
//! | [`AttachMode::Tcx`] | 6.6 and later | a BPF link: it goes with the process, unless it is pinned |
//! | [`AttachMode::Clsact`] | all | a tc filter: it stays; whose it is, is seen by its handle ([`clsact`]) |
//!
//! **Place.** Both programs come first on their hook. A program ends the hook for all behind it when it returns `TC_ACT_OK`
//! (`TCX_PASS`), as many do; a packet that passes the engine by in this way keeps sequence numbers that mean nothing at its other
//! end. And as the first one, the engine translates what the local sockets send before anybody else looks at it: programs behind
//! it see the numbers that are on the wire. In return, programs at ingress do not see what a splice sends on from there;
//! at egress they do.
//!
//! **What the programs must do.** Return `TC_ACT_UNSPEC` (`TCX_NEXT`) for what is none of their business, so that those behind
//! them see it. Their names begin with `carrick`; the kernel keeps 15 characters. A packet may meet them more than once: on a VLAN and on the
//! interface below it, on a bridge and on its ports if those were named. So a flow belongs to one interface (`skb->ifindex`),
//! and a packet with a VLAN tag beside it (`skb->vlan_present`) is not of the interface it is seen at. Packets of a macvlan or ipvlan have no
//! tag: the interface below one is left out ([`Unsupported::Carries`]).
//!
//! **Whose is what.** Nothing of others is replaced, moved or removed: no program, no filter, and no qdisc, not even the `clsact` that
//! was made here, because others may have put filters on it meanwhile; an empty one does nothing.
//!
//! **Privileges.** Attaching needs `CAP_NET_ADMIN`; seeing names of others' programs, `CAP_SYS_ADMIN`. See
//! [`docs/internals/packet-hooks.md`](../../../../docs/internals/packet-hooks.md) for what is left when they have been given up.

mod attachment;
mod changes;
pub(super) mod clsact;
pub mod doctor;
mod error;
mod filters;
mod foreign;
mod interface;
pub(super) mod pins;
mod route;
pub(super) mod tcx;

pub use attachment::Attachment;
#[cfg(test)]
pub use changes::Changed;
pub use changes::Changes;
pub use error::HookError;
pub use interface::{Interface, Interfaces, Unsupported, interfaces};
pub use route::interface_towards;

use attachment::Hook;
use clsact::Slot;
use pins::Pins;
use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;

/// Which hook of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// What comes in.
    Ingress,
    /// What goes out.
    Egress,
}

impl Direction {
    /// Both hooks.
    pub const BOTH: [Direction; 2] = [Direction::Ingress, Direction::Egress];
}

/// How a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// A BPF link.
    Tcx,
    /// A tc filter.
    Clsact,
}

/// Where a program comes among those on its hook when it is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HookPosition {
    /// Before all others.
    #[default]
    First,
    /// Behind all others.
    Last,
}

/// What is wanted of [`Hooks`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// On which interfaces.
    pub interfaces: Interfaces,
    /// `None`: by tcx where the kernel has it, else by clsact.
    pub way: Option<AttachMode>,
    /// Of the program for ingress.
    pub ingress: HookPosition,
    /// Of the program for egress.
    pub egress: HookPosition,
    /// A folder on a BPF file system, of this network namespace alone. It is made if its parent exists. The hooks are recorded there
    /// and outlive the process; the next one that is given the folder takes them over, without a packet passing by. Where the
    /// privilege to write there is given up, hooks of interfaces that appear later go with the process.
    pub folder: Option<PathBuf>,
}

/// Why a program is not on an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachFailure {
    /// The interface cannot carry it.
    Unsupported(Unsupported),
    /// A call failed.
    Failed(HookError),
    /// There is no interface of this name; it is waited for.
    NotThere,
}

/// An interface without the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedInterface {
    /// Its name.
    pub interface: String,
    /// Why.
    pub reason: AttachFailure,
}

/// What [`Hooks::refresh`] has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refreshed {
    /// The programs are there now.
    pub attached: Vec<Interface>,
    /// The programs are not there any more: the interface has vanished, became a port, or somebody took them away (then it is
    /// also in `attached`, if they could be put back).
    pub lost: Vec<Interface>,
}

/// Two programs on the interfaces of the network namespace in which it was made. Dropped, it takes them away; with a folder, it
/// leaves them.
#[derive(Debug)]
pub struct Hooks {
    settings: Settings,
    ingress: OwnedFd,
    egress: OwnedFd,
    /// The right to the handle of tc filters, taken with the first one.
    slot: Option<Slot>,
    pins: Option<Pins>,
    attached: BTreeMap<u32, Attachment>,
    refused: Vec<RefusedInterface>,
}

impl Hooks {
    /// Puts `ingress` and `egress`, programs of type `BPF_PROG_TYPE_SCHED_CLS`, on the interfaces that are wanted and can carry them.
    /// That some cannot is no error: [`Hooks::refused`] says why.
    ///
    /// # Errors
    /// The interfaces cannot be listed, the folder cannot be used, or privileges are missing for all of them.
    pub fn attach(
        ingress: BorrowedFd<'_>,
        egress: BorrowedFd<'_>,
        settings: Settings,
    ) -> Result<Hooks, HookError> {
        let copied = |error| HookError::new("fcntl(2)", "the programs' descriptors", &error);
        let pins = settings.folder.as_deref().map(Pins::open).transpose()?;
        if let Some(pins) = &pins {
            pins.check_namespace(&listed()?)?;
        }
        let mut hooks = Hooks {
            ingress: ingress.try_clone_to_owned().map_err(copied)?,
            egress: egress.try_clone_to_owned().map_err(copied)?,
            slot: None,
            pins,
            settings,
            attached: BTreeMap::new(),
            refused: Vec::new(),
        };
        hooks.refresh()?;
        if hooks.attached.is_empty()
            && let Some(error) = hooks.refused.iter().find_map(RefusedInterface::permission)
        {
            return Err(error.clone());
        }
        hooks.remove_unwanted_records()?;
        Ok(hooks)
    }

    /// Looks at the interfaces again: the programs go on new ones, if privileges allow, and those that vanished are forgotten.
    /// Programs that somebody took away are put back.
    ///
    /// # Errors
    /// The interfaces cannot be listed. What is wrong with one of them is in [`Hooks::refused`].
    pub fn refresh(&mut self) -> Result<Refreshed, HookError> {
        let here = listed()?;
        let mut refreshed = Refreshed::default();
        for index in self.attached.keys().copied().collect::<Vec<_>>() {
            if !self.is_kept(index, &here)
                && let Some(lost) = self.attached.remove(&index)
            {
                // The interface, or the hook, is gone; or nothing can be done about it, and then it is as if it were.
                let _ = lost.remove(self.pins.as_ref());
                refreshed.lost.push(lost.interface().clone());
            }
        }
        self.refused.clear();
        for interface in &here {
            if self.settings.interfaces.names(interface) && !self.has(interface.index) {
                let attached = match self.below(interface, &here) {
                    Some(lower) => {
                        let below = Unsupported::Above(lower.name.clone());
                        Err(AttachFailure::Unsupported(below))
                    }
                    None => self.attach_to(interface),
                };
                match attached {
                    Ok(attachment) => {
                        self.attached.insert(interface.index, attachment);
                        refreshed.attached.push(interface.clone());
                    }
                    Err(AttachFailure::Failed(error)) if error.is_vanished() => {}
                    Err(reason) => self.refuse(interface.name.clone(), reason),
                }
            }
        }
        if let Interfaces::Named(names) = &self.settings.interfaces {
            let missing: Vec<String> = names
                .iter()
                .filter(|name| here.iter().all(|interface| interface.name != **name))
                .cloned()
                .collect();
            for name in missing {
                self.refuse(name, AttachFailure::NotThere);
            }
        }
        let pins = self.pins.as_ref();
        let earlier = pins.map(Pins::programs_beside).unwrap_or_default();
        for attachment in self.attached.values_mut() {
            attachment.look_around(&earlier);
        }
        Ok(refreshed)
    }

    /// Whether the programs are on an interface, by its number.
    #[must_use]
    pub fn has(&self, index: u32) -> bool {
        self.attached.contains_key(&index)
    }

    /// The interfaces that have the programs, as of the last look.
    pub fn attached(&self) -> impl Iterator<Item = &Attachment> {
        self.attached.values()
    }

    /// The interfaces that do not, and why, as of the last look.
    #[must_use]
    pub fn refused(&self) -> &[RefusedInterface] {
        &self.refused
    }

    /// Whether an interface does not have them since its packets pass another one that does.
    #[must_use]
    pub fn is_layered(&self) -> bool {
        let is_above = |reason: &AttachFailure| {
            matches!(reason, AttachFailure::Unsupported(Unsupported::Above(_)))
        };
        self.refused.iter().any(|refused| is_above(&refused.reason))
    }

    /// Takes the programs away, also from the folder, and puts them on no interface any more.
    ///
    /// # Errors
    /// The first thing that could not be removed; the others are. With [`AttachMode::Clsact`], filters need `CAP_NET_ADMIN` to be removed.
    pub fn detach(&mut self) -> Result<(), HookError> {
        self.settings.interfaces = Interfaces::Named(Vec::new());
        let mut outcome = Ok(());
        for (_, attachment) in std::mem::take(&mut self.attached) {
            outcome = outcome.and(attachment.remove(self.pins.as_ref()));
        }
        outcome
    }

    /// Takes away what is recorded in a folder, with or without a `Hooks` of it ever made in this process, and returns how many
    /// hooks that were. The folder stays. That there is none is no error.
    ///
    /// # Errors
    /// A process that runs has the folder; it is not on a BPF file system; it holds something else under a name of ours; or
    /// privileges are missing.
    #[cfg(test)]
    pub fn remove_pinned(folder: &Path) -> Result<usize, HookError> {
        if !folder.exists() {
            return Ok(0);
        }
        let pins = Pins::open(folder)?;
        let entries = pins.entries()?;
        for entry in &entries {
            pins.remove(entry)?;
        }
        Ok(entries.len())
    }

    /// Whether an interface keeps the programs. One that went down does; so does one that has come below another one, since connections
    /// there may need them to their ends, but of the two only the older one.
    fn is_kept(&mut self, index: u32, here: &[Interface]) -> bool {
        let now = here.iter().find(|interface| interface.index == index);
        let (Some(now), Some(attachment)) = (now, self.attached.get_mut(&index)) else {
            return false;
        };
        attachment.rename(now);
        let stands = attachment.stands();
        let is_free = match now.unsupported(&self.settings.interfaces) {
            None | Some(Unsupported::Down) => {
                (self.below(now, here)).is_none_or(|lower| lower.index > index)
            }
            Some(unsupported) => unsupported.above().is_some_and(|above| {
                let mut others = self.attached().map(Attachment::interface);
                !others.any(|other| other.name == above && other.index < index)
            }),
        };
        self.settings.interfaces.names(now) && is_free && stands
    }

    /// An interface below this one that has the programs, which would translate its packets as well.
    fn below<'h>(&self, interface: &Interface, here: &'h [Interface]) -> Option<&'h Interface> {
        let mut lower = here.iter().filter(|lower| self.has(lower.index));
        lower.find(|lower| {
            let unsupported = lower.unsupported(&self.settings.interfaces);
            unsupported.is_some_and(|why| why.above() == Some(&interface.name))
        })
    }

    fn attach_to(&mut self, interface: &Interface) -> Result<Attachment, AttachFailure> {
        let recorded = match &self.pins {
            Some(pins) => match pins.entries() {
                Ok(entries) => entries,
                // Given up since the folder was opened.
                Err(error) if error.is_permission() => Vec::new(),
                Err(error) => return Err(AttachFailure::Failed(error)),
            },
            None => Vec::new(),
        };
        match interface.unsupported(&self.settings.interfaces) {
            // It had the programs before.
            Some(Unsupported::Down)
                if recorded.iter().any(|one| one.interface == interface.index) => {}
            None => {}
            Some(unsupported) => return Err(AttachFailure::Unsupported(unsupported)),
        }
        let way = self.way(interface);
        if way == AttachMode::Clsact && self.slot.is_none() {
            self.slot = Some(self.take_slot(&recorded).map_err(AttachFailure::Failed)?);
        }
        let ingress = self
            .hook(interface, Direction::Ingress, way, &recorded)
            .map_err(AttachFailure::Failed)?;
        match self.hook(interface, Direction::Egress, way, &recorded) {
            Ok(egress) => Ok(Attachment::new(interface.clone(), way, [ingress, egress])),
            Err(error) => {
                // One direction alone is worse than none.
                let _ = ingress.remove(interface, Direction::Ingress, self.pins.as_ref());
                Err(AttachFailure::Failed(error))
            }
        }
    }

    fn way(&self, interface: &Interface) -> AttachMode {
        match self.settings.way {
            Some(way) => way,
            None if tcx::is_there(interface.index) => AttachMode::Tcx,
            None => AttachMode::Clsact,
        }
    }

    /// The handle of the filters that are recorded, or a new one.
    fn take_slot(&self, recorded: &[pins::PinEntry]) -> Result<Slot, HookError> {
        match recorded.iter().find_map(|entry| entry.filter) {
            Some(record) => Slot::claim(record.handle).map_err(|error| {
                HookError::new(
                    "bind(2)",
                    format!("the tc filters {:08x}", record.handle),
                    &error,
                )
                .with_remedy("another process that runs has them: stop that one first")
            }),
            None => Slot::take(self.pins.is_some()),
        }
    }

    /// Puts the program of a direction on an interface, in place of the one that is recorded, if one is.
    fn hook(
        &self,
        interface: &Interface,
        direction: Direction,
        way: AttachMode,
        recorded: &[pins::PinEntry],
    ) -> Result<Hook, HookError> {
        let (program, place) = match direction {
            Direction::Ingress => (self.ingress.as_fd(), self.settings.ingress),
            Direction::Egress => (self.egress.as_fd(), self.settings.egress),
        };
        let calls = |call, error| HookError::new(call, on(&interface.name, direction), &error);
        let slot = self.slot.as_ref().filter(|_| way == AttachMode::Clsact);
        let record = self.pins.as_ref().map(|pins| {
            let handle = slot.map(|slot| slot.handle);
            (pins, pins.entry(interface.index, direction, handle))
        });
        if let Some((pins, wanted)) = &record {
            // Two hooks of ours on one interface would translate twice.
            for other in recorded {
                if (other.interface, other.direction) == (interface.index, direction)
                    && other != wanted
                {
                    pins.remove(other)?;
                }
            }
        }
        if let Some(slot) = slot {
            let filter = clsact::attach(program, interface, direction, place, slot)?;
            return keep(Hook::Filter(filter), record, program, interface);
        }
        if let Some((pins, wanted)) = &record
            && let Some((link, standing)) = pins.link(wanted)?
            && standing.interface == interface.index
        {
            tcx::replace(link.as_fd(), program).map_err(|error| calls("BPF_LINK_UPDATE", error))?;
            return Ok(Hook::Link(link, standing.link));
        }
        let link = tcx::attach(program, interface.index, direction, place)
            .map_err(|error| calls("BPF_LINK_CREATE", error))?;
        let standing =
            tcx::standing(link.as_fd()).map_err(|error| calls("BPF_OBJ_GET_INFO_BY_FD", error))?;
        let object = link.try_clone().map_err(|error| calls("fcntl(2)", error))?;
        keep(
            Hook::Link(link, standing.link),
            record,
            object.as_fd(),
            interface,
        )
    }

    /// Takes away what is recorded for interfaces that have vanished, are not wanted any more, or could not be taken over: one
    /// direction alone, or programs that nobody knows, are worse than none.
    fn remove_unwanted_records(&self) -> Result<(), HookError> {
        let Some(pins) = &self.pins else {
            return Ok(());
        };
        for entry in pins.entries()? {
            if !self.has(entry.interface) {
                pins.remove(&entry)?;
            }
        }
        Ok(())
    }

    fn refuse(&mut self, interface: String, reason: AttachFailure) {
        self.refused.push(RefusedInterface { interface, reason });
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        if self.pins.is_none() {
            for (_, attachment) in std::mem::take(&mut self.attached) {
                // Nobody is there to be told; `detach` tells.
                let _ = attachment.remove(None);
            }
        }
    }
}

/// Records a hook; takes it away again if that is not possible. Without the privilege to write into the folder, which may have been
/// given up, it goes with the process.
fn keep(
    hook: Hook,
    record: Option<(&Pins, pins::PinEntry)>,
    object: BorrowedFd<'_>,
    interface: &Interface,
) -> Result<Hook, HookError> {
    if let Some((pins, entry)) = record
        && let Err(error) = pins.keep(&entry, object)
        && !error.is_permission()
    {
        let _ = hook.remove(interface, entry.direction, None);
        return Err(error);
    }
    Ok(hook)
}

fn listed() -> Result<Vec<Interface>, HookError> {
    interfaces().map_err(|error| HookError::new("netlink RTM_GETLINK", "all interfaces", &error))
}

/// How errors name a hook.
fn on(name: &str, direction: Direction) -> String {
    format!("interface {name} ({direction})")
}

impl RefusedInterface {
    /// The error, if privileges were missing.
    fn permission(&self) -> Option<&HookError> {
        match &self.reason {
            AttachFailure::Failed(error) if error.is_permission() => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for RefusedInterface {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            AttachFailure::Unsupported(unsupported) => {
                write!(formatter, "interface {}: {unsupported}", self.interface)
            }
            AttachFailure::Failed(error) => error.fmt(formatter),
            AttachFailure::NotThere => write!(
                formatter,
                "interface {}: there is none of this name (it is taken up when it appears)",
                self.interface
            ),
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        })
    }
}

impl fmt::Display for AttachMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            AttachMode::Tcx => "tcx",
            AttachMode::Clsact => "clsact",
        })
    }
}

#[cfg(test)]
mod tests;
