//! A *generation*: the programs and maps of one process, in a folder of their own on a BPF file system, where
//! they outlive the process. Each process starts a new one, and attends to those that dead processes have
//! left ([`adoption`](super::adoption)).
//!
//! | name in the folder | is |
//! |---|---|
//! | `hook-…` | a program on an interface ([`hooks`](super::hooks)) |
//! | `flows`, `splices` | the maps |
//! | `command` | the program that is asked about local sockets |
//! | `pulse` | when something happened last; the same in all versions |

use super::hooks::HookError;
use super::hooks::clsact::Slot;
use super::hooks::pins::{self, PinEntry, Pins};
use super::hooks::tcx::{self, quietly};
use super::skeleton::types::{flow, packet_pulse};
use super::{SpliceTable, state};
use crate::sys::clock::now_ns;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Program};
use rustix::fs::FlockOperation;
use std::fmt;
use std::fs;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FLOWS: &str = "flows";
const SPLICES: &str = "splices";
const COMMAND: &str = "command";
const PULSE: &str = "pulse";
/// In the order in which they are pinned.
const OBJECTS: [&str; 4] = [FLOWS, SPLICES, COMMAND, PULSE];
/// Maps that only programs write.
const READ_ONLY: [&str; 2] = [FLOWS, SPLICES];

/// linux/bpf.h: `BPF_F_RDONLY`.
const FOR_READING: u32 = 1 << 3;

/// Each has programs on each interface, which holds 64; and each program costs one more look-up per packet.
pub(super) const GENERATIONS_MAX: usize = 16;

/// How long another process may take to change the set of generations.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_LOOK: Duration = Duration::from_millis(5);

/// The folder of all generations.
#[derive(Debug)]
pub(super) struct Base {
    folder: PathBuf,
    descriptor: OwnedFd,
    /// The inode of this network namespace.
    namespace: u64,
}

/// A lock on the set of generations, held while it lives.
pub(super) struct BaseLock<'b>(&'b Base);

/// The name of a generation: the inode of its network namespace, its number there, and how its maps are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    namespace: u64,
    number: u32,
    layout: u32,
}

impl Base {
    /// Opens the folder, creating it if missing.
    pub(super) fn open(folder: &Path) -> Result<Base, HookError> {
        pins::make(folder)?;
        Base::look(folder)
    }

    /// Opens an existing folder.
    pub(super) fn look(folder: &Path) -> Result<Base, HookError> {
        Ok(Base {
            folder: folder.to_owned(),
            descriptor: pins::open(folder)?,
            namespace: pins::namespace()?,
        })
    }

    /// Locks the set of generations. Waits for another holder, which takes milliseconds.
    pub(super) fn lock(&self) -> Result<BaseLock<'_>, HookError> {
        self.lock_within(LOCK_WAIT)
    }

    /// Likewise, but waits no longer than this.
    pub(super) fn lock_within(&self, wait: Duration) -> Result<BaseLock<'_>, HookError> {
        let begun = Instant::now();
        loop {
            match rustix::fs::flock(&self.descriptor, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(BaseLock(self)),
                Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < wait => {
                    std::thread::sleep(LOCK_LOOK);
                }
                Err(error) => {
                    let folder = self.folder.display().to_string();
                    return Err(HookError::new("flock(2)", folder, &error.into()));
                }
            }
        }
    }

    /// The generations of this network namespace.
    pub(super) fn generations(&self) -> Result<Vec<(Name, PathBuf)>, HookError> {
        let mut found = self.all()?;
        found.retain(|(name, _)| name.namespace == self.namespace);
        found.sort_unstable_by_key(|(name, _)| name.number);
        Ok(found)
    }

    /// Removes generations of other network namespaces that cannot be used any more: their processes are
    /// dead, and all their interfaces are gone. Returns their folders.
    pub(super) fn remove_strays(&self) -> Result<Vec<PathBuf>, HookError> {
        let mut removed = Vec::new();
        for (name, path) in self.all()? {
            if name.namespace == self.namespace {
                continue;
            }
            // Skips what cannot be opened or removed.
            let Ok(mut generation) = Generation::open(&path) else {
                continue;
            };
            if generation.has_no_hook()
                && generation.lock().unwrap_or(false)
                && generation.remove().is_ok()
            {
                removed.push(path);
            }
        }
        Ok(removed)
    }

    /// All generations. Other files are ignored.
    fn all(&self) -> Result<Vec<(Name, PathBuf)>, HookError> {
        let failed =
            |error| HookError::new("readdir(3)", self.folder.display().to_string(), &error);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if let Some(name) = name.to_str().and_then(Name::parse) {
                found.push((name, entry.path()));
            }
        }
        Ok(found)
    }
}

impl BaseLock<'_> {
    /// The folder for a new generation.
    pub(super) fn vacant(&self) -> Result<PathBuf, HookError> {
        let Base {
            folder, namespace, ..
        } = self.0;
        let there = self.0.generations()?;
        if there.len() >= GENERATIONS_MAX {
            return Err(HookError::wrong(
                "the check",
                folder.display().to_string(),
                format!(
                    "tunnels of {GENERATIONS_MAX} earlier processes go on there, which is the limit"
                ),
                "`carrick clean` ends those that no process looks after",
            ));
        }
        let name = Name {
            namespace: *namespace,
            number: there
                .last()
                .map_or(1, |(last, _)| last.number.wrapping_add(1)),
            layout: layout(),
        };
        Ok(folder.join(name.to_string()))
    }
}

impl Drop for BaseLock<'_> {
    fn drop(&mut self) {
        // Cannot fail: it is locked.
        let _ = rustix::fs::flock(&self.0.descriptor, FlockOperation::Unlock);
    }
}

impl Name {
    fn parse(text: &str) -> Option<Name> {
        let mut words = text.split('-');
        let name = Name {
            namespace: words.next()?.parse().ok()?,
            number: words.next()?.parse().ok()?,
            layout: u32::from_str_radix(words.next()?, 16).ok()?,
        };
        (name.to_string() == text).then_some(name)
    }

    /// Whether this version of carrick can read its maps.
    pub(super) fn is_legible(&self) -> bool {
        self.layout == layout()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name {
            namespace,
            number,
            layout,
        } = self;
        write!(formatter, "{namespace}-{number}-{layout:08x}")
    }
}

/// A fingerprint (FNV-1a) of the part of the maps' layout that other processes read.
fn layout() -> u32 {
    state::LAYOUT.iter().fold(0x811c_9dc5, |hash, number| {
        (hash ^ (*number as u32)).wrapping_mul(0x0100_0193)
    })
}

/// Pins the objects of a generation in its folder.
pub(super) fn keep(
    folder: &Path,
    [flows, splices, command, pulse]: [BorrowedFd<'_>; 4],
) -> Result<(), HookError> {
    let failed = |call, path: &Path, error: io::Error| {
        HookError::new(call, path.display().to_string(), &error)
    };
    for (name, object) in OBJECTS.into_iter().zip([flows, splices, command, pulse]) {
        let path = folder.join(name);
        tcx::pin(object, &path).map_err(|error| failed("BPF_OBJ_PIN", &path, error))?;
        // The pin grants no more access to a map than the process has.
        if READ_ONLY.contains(&name) {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o400))
                .map_err(|error| failed("chmod(2)", &path, error))?;
        }
    }
    Ok(())
}

/// A generation of another process.
#[derive(Debug)]
pub(super) struct Generation {
    pins: Pins,
    /// Kept open, so that they can be detached without privileges.
    links: Vec<OwnedFd>,
    /// Holding them means owning its tc filters.
    slots: Vec<Slot>,
    /// `None`: the process died at its start, before there was one.
    pulse: Option<MapHandle>,
}

impl Generation {
    /// Opens it, locked for changes if no running process owns it: see [`lock`](Generation::lock).
    pub(super) fn open(folder: &Path) -> Result<Generation, HookError> {
        let pins = Pins::look(folder)?;
        let mut links = Vec::new();
        for entry in pins.entries()? {
            if let Some((link, _)) = pins.link(&entry)? {
                links.push(link);
            }
        }
        let pulse = open_map(
            &folder.join(PULSE),
            (MapType::Array, 4, size_of::<packet_pulse>()),
            0,
        );
        Ok(Generation {
            pins,
            links,
            slots: Vec::new(),
            pulse: pulse.ok(),
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.pins.folder()
    }

    /// Locks it for changes, while this lives. False if a running process owns it.
    pub(super) fn lock(&mut self) -> Result<bool, HookError> {
        if !self.pins.lock()? {
            return Ok(false);
        }
        let entries = self.pins.entries().unwrap_or_default();
        for record in entries.iter().filter_map(|entry| entry.filter) {
            // One for both directions and all interfaces.
            self.slots.extend(Slot::claim(record.handle));
        }
        Ok(true)
    }

    /// Its maps; an error if they are not of the expected kind.
    pub(super) fn table(&self) -> Result<SpliceTable, String> {
        let path = |name| self.folder().join(name);
        let flows = (MapType::Hash, size_of::<flow>(), 4);
        let flows = open_map(&path(FLOWS), flows, FOR_READING)?;
        let splices = (MapType::Array, 4, state::BYTES);
        let splices = open_map(&path(SPLICES), splices, FOR_READING)?;
        let command = quietly(|| Program::fd_from_pinned_path(path(COMMAND)))
            .map_err(|error| format!("{}: {error}", path(COMMAND).display()))?;
        let places_max = splices.max_entries();
        Ok(SpliceTable::of_others(flows, splices, command, places_max))
    }

    /// Whether all objects are there, of which the last one is the same in all versions: that of a process that died at its start lacks
    /// some, and has no splices.
    pub(super) fn is_begun(&self) -> bool {
        // Without privileges it may be out of sight.
        self.folder().join(PULSE).try_exists().unwrap_or(true)
    }

    /// Records that a process attends to it.
    pub(super) fn attend(&self) {
        if let Some(pulse) = &self.pulse {
            attend(pulse);
        }
    }

    /// Time since a packet was forwarded, or a process attended to it.
    pub(super) fn silence(&self) -> Option<Duration> {
        let pulse = self.pulse.as_ref()?.lookup(&[0; 4], MapFlags::ANY).ok()??;
        let forwarded = state::u64_at(&pulse, offset_of!(packet_pulse, forwarded_ns));
        let attended = state::u64_at(&pulse, offset_of!(packet_pulse, attended_ns));
        Some(Duration::from_nanos(
            now_ns().saturating_sub(forwarded.max(attended)),
        ))
    }

    /// Whether its programs are on no interface: these are gone, or it was detached.
    pub(super) fn has_no_hook(&self) -> bool {
        // Whether a tc filter exists is not visible from here.
        let is_off = |entry: &PinEntry| {
            let link = self.pins.link(entry);
            matches!(link, Ok(Some((_, standing))) if standing.interface == 0)
        };
        self.pins
            .entries()
            .is_ok_and(|entries| entries.iter().all(is_off))
    }

    /// How many hooks it has.
    pub(super) fn hooks(&self) -> usize {
        self.pins.entries().map_or(0, |entries| entries.len())
    }

    /// Removes it, with all its splices. Requires [`lock`](Generation::lock).
    ///
    /// Without privileges, its programs are detached, but names in the folder and tc filters may stay.
    pub(super) fn remove(&mut self) -> Result<(), HookError> {
        // The filters are found by their handles, which takes no access to the folder.
        self.slots.clear();
        for link in &self.links {
            // Its interface may be gone, and the hook with it.
            let _ = tcx::detach(link.as_fd());
        }
        let entries = self.pins.entries()?;
        let mut outcome = Ok(());
        for entry in &entries {
            // Removes the others, too, if one cannot be removed.
            outcome = outcome.and(self.pins.remove(entry));
        }
        outcome.and(remove_objects(self.folder()))
    }
}

/// Removes the pins of a generation, and its folder. Other files stay, and the folder with them.
pub(super) fn remove_objects(folder: &Path) -> Result<(), HookError> {
    let names = OBJECTS.iter().map(|name| folder.join(name));
    let removed = |path: &Path, call, outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(HookError::new(call, path.display().to_string(), &error))
        }
        _ => Ok(()),
    };
    let mut outcome = Ok(());
    for path in names {
        outcome = outcome.and(removed(&path, "unlink(2)", fs::remove_file(&path)));
    }
    outcome.and_then(|()| removed(folder, "rmdir(2)", fs::remove_dir(folder)))
}

/// Opens a map of this type, with these sizes of keys and values, with flags (`BPF_F_RDONLY`, or none).
fn open_map(
    path: &Path,
    (kind, key_bytes, value_bytes): (MapType, usize, usize),
    flags: u32,
) -> Result<MapHandle, String> {
    let map = quietly(|| MapHandle::from_pinned_path_with_file_flags(path, flags))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let is_it = map.map_type() == kind
        && map.key_size() as usize == key_bytes
        && map.value_size() as usize == value_bytes;
    if is_it {
        Ok(map)
    } else {
        Err(format!(
            "{} is not the map that has this name",
            path.display()
        ))
    }
}

/// Records in a pulse that a process attends to the splices.
pub(super) fn attend(pulse: &MapHandle) {
    let Ok(Some(mut value)) = pulse.lookup(&[0; 4], MapFlags::ANY) else {
        return;
    };
    let at = offset_of!(packet_pulse, attended_ns);
    state::put(&mut value, at, &now_ns().to_ne_bytes());
    // The kernel may record a forwarded packet at the same time; if that is lost, it does so again a second
    // later.
    let _ = pulse.update(&[0; 4], &value, MapFlags::ANY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_are_written() {
        let name = Name {
            namespace: 4_026_531_840,
            number: 7,
            layout: 0xab,
        };
        assert_eq!(name.to_string(), "4026531840-7-000000ab");
        assert_eq!(Name::parse("4026531840-7-000000ab"), Some(name));
        for other in [
            "4026531840-7-ab",
            "4026531840-7",
            "a-7-000000ab",
            "4026531840-07-000000ab",
            "",
        ] {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
