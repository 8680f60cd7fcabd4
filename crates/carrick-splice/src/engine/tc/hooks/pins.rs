//! The folder on a BPF file system in which hooks outlive the process: `hook-3-ingress` is a link, and
//! `hook-3-ingress-ca228000-4026531840` the record of a tc filter with that handle in that network namespace (the file is its
//! program).

use super::{Direction, HookError, Interface, clsact, tcx};
use nix::unistd::{Uid, setfsuid};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// linux/magic.h
const BPF_FS_MAGIC: u32 = 0xcafe_4a11;
/// Who may write there decides what runs on the hooks.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Of the calling thread.
const NAMESPACE: &str = "/proc/thread-self/ns/net";
/// A name for a moment.
const NEW: &str = "hook-new";

/// An open folder, which nobody else has meanwhile.
#[derive(Debug)]
pub(in crate::engine::tc) struct Pins {
    folder: PathBuf,
    /// The inode of the network namespace.
    namespace: u64,
    /// The lock goes with the process.
    lock: OwnedFd,
}

/// What a file in the folder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine::tc) struct PinEntry {
    pub(super) interface: u32,
    pub(super) direction: Direction,
    /// `None`: the file is a link.
    pub(in crate::engine::tc) filter: Option<Record>,
}

/// Where a tc filter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::tc) struct Record {
    pub(in crate::engine::tc) handle: u32,
    /// The inode of its network namespace.
    pub(super) namespace: u64,
}

impl PinEntry {
    pub(super) fn name(&self) -> String {
        let PinEntry {
            interface,
            direction,
            filter,
        } = self;
        match filter {
            None => format!("hook-{interface}-{direction}"),
            Some(Record { handle, namespace }) => {
                format!("hook-{interface}-{direction}-{handle:08x}-{namespace}")
            }
        }
    }

    pub(super) fn parse(name: &str) -> Option<PinEntry> {
        let mut words = name.strip_prefix("hook-")?.split('-');
        let interface = words.next()?.parse().ok()?;
        let direction = match words.next()? {
            "ingress" => Direction::Ingress,
            "egress" => Direction::Egress,
            _ => return None,
        };
        let filter = match words.next() {
            Some(handle) => Some(Record {
                handle: u32::from_str_radix(handle, 16).ok()?,
                namespace: words.next()?.parse().ok()?,
            }),
            None => None,
        };
        let entry = PinEntry {
            interface,
            direction,
            filter,
        };
        (entry.name() == name).then_some(entry)
    }
}

impl Pins {
    /// Opens the folder, after making it where it is missing, for this process alone.
    pub(super) fn open(folder: &Path) -> Result<Pins, HookError> {
        make(folder)?;
        let pins = Pins::look(folder)?;
        if pins.lock()? {
            return Ok(pins);
        }
        Err(HookError::wrong(
            "flock(2)",
            file(folder),
            "another process that runs has it",
            "stop that one first, or give each a folder of its own",
        ))
    }

    /// Opens a folder that is there, without the right to change it.
    pub(in crate::engine::tc) fn look(folder: &Path) -> Result<Pins, HookError> {
        Ok(Pins {
            folder: folder.to_owned(),
            namespace: namespace()?,
            lock: open(folder)?,
        })
    }

    /// Takes the right to change it, for as long as this lives. False if a process that runs has it.
    pub(in crate::engine::tc) fn lock(&self) -> Result<bool, HookError> {
        match rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // Of a process that was killed just then; if it is a link, it is on a hook. See `remove` for why it is opened.
                let new = self.folder.join(NEW);
                let _link = tcx::open_pinned(&new);
                match remove(&new) {
                    // Whoever opened the folder may have given up the privilege to write there since then.
                    Err(error) if !error.is_permission() => Err(error),
                    _ => Ok(true),
                }
            }
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(HookError::new(
                "flock(2)",
                file(&self.folder),
                &error.into(),
            )),
        }
    }

    /// Where it is.
    pub(in crate::engine::tc) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name for a hook, by a filter with a handle, or by a link.
    pub(super) fn entry(
        &self,
        interface: u32,
        direction: Direction,
        handle: Option<u32>,
    ) -> PinEntry {
        PinEntry {
            interface,
            direction,
            filter: handle.map(|handle| Record {
                handle,
                namespace: self.namespace,
            }),
        }
    }

    /// What is recorded. Files of other names are left alone.
    pub(in crate::engine::tc) fn entries(&self) -> Result<Vec<PinEntry>, HookError> {
        let failed = |error| HookError::new("readdir(3)", file(&self.folder), &error);
        let mut entries = Vec::new();
        for found in fs::read_dir(&self.folder).map_err(failed)? {
            let name = found.map_err(failed)?.file_name();
            entries.extend(name.to_str().and_then(PinEntry::parse));
        }
        Ok(entries)
    }

    /// The numbers of the programs in the folders beside this one: of carricks before. What cannot be read is left out.
    pub(super) fn programs_beside(&self) -> Vec<u32> {
        let beside = self.folder.parent().and_then(|all| fs::read_dir(all).ok());
        let paths = beside.into_iter().flatten().flatten().map(|one| one.path());
        let others = paths.filter(|path| *path != self.folder);
        let pins = others.filter_map(|path| Pins::look(&path).ok());
        pins.flat_map(|pins| {
            let entries = pins.entries().unwrap_or_default();
            let links = entries.iter().filter_map(|entry| pins.link(entry).ok()?);
            links
                .map(|(_, standing)| standing.program)
                .collect::<Vec<_>>()
        })
        .collect()
    }

    /// Refuses a folder that holds hooks of another network namespace: numbers of interfaces mean something else there.
    pub(super) fn check_namespace(&self, here: &[Interface]) -> Result<(), HookError> {
        for entry in self.entries()? {
            self.check_filter(&entry)?;
            let Some((_, standing)) = self.link(&entry)? else {
                continue;
            };
            let path = self.path(&entry);
            let is_gone = standing.interface == 0;
            let is_here = here.iter().any(|one| one.index == standing.interface)
                && tcx::on_hook(standing.interface, standing.direction)
                    .map_err(|error| HookError::new("BPF_PROG_QUERY", file(&path), &error))?
                    .iter()
                    .any(|program| program.link == standing.link);
            if !is_gone && !is_here {
                return Err(elsewhere(&path));
            }
        }
        Ok(())
    }

    /// Refuses a filter of another network namespace.
    fn check_filter(&self, entry: &PinEntry) -> Result<(), HookError> {
        match entry.filter {
            Some(record) if record.namespace != self.namespace => Err(elsewhere(&self.path(entry))),
            _ => Ok(()),
        }
    }

    /// The link of an entry; `None` if that is a filter, or there is no such file.
    pub(in crate::engine::tc) fn link(
        &self,
        entry: &PinEntry,
    ) -> Result<Option<(OwnedFd, tcx::Standing)>, HookError> {
        let path = self.path(entry);
        if entry.filter.is_some() || !path.exists() {
            return Ok(None);
        }
        let failed = |error| HookError::new("BPF_OBJ_GET", file(&path), &error);
        if let Some(link) = tcx::open_pinned(&path).map_err(failed)? {
            let standing = tcx::standing(link.as_fd()).map_err(failed)?;
            let is_it = standing.interface == entry.interface || standing.interface == 0;
            if is_it && standing.direction == entry.direction {
                return Ok(Some((link, standing)));
            }
        }
        Err(HookError::wrong(
            "BPF_OBJ_GET",
            file(&path),
            "what has this name is not the hook that carrick gives this name",
            "remove it if nobody needs it, or use another folder",
        ))
    }

    /// Gives a link, or the program of a filter, the name of `entry`, in place of what had it.
    pub(super) fn keep(&self, entry: &PinEntry, object: BorrowedFd<'_>) -> Result<(), HookError> {
        let (new, path) = (self.folder.join(NEW), self.path(entry));
        tcx::pin(object, &new)
            .map_err(|error| HookError::new("BPF_OBJ_PIN", file(&path), &error))?;
        fs::rename(&new, &path).map_err(|error| HookError::new("rename(2)", file(&path), &error))
    }

    /// Removes a hook and its record.
    pub(in crate::engine::tc) fn remove(&self, entry: &PinEntry) -> Result<(), HookError> {
        // Foreign files of the name are refused. A link goes at once when its last descriptor is closed, but some time later when
        // its last name is removed (`bpf_link_put`): so the descriptor outlives the name.
        let _link = self.link(entry)?;
        self.check_filter(entry)?;
        if let Some(record) = entry.filter {
            clsact::detach_all(entry.interface, entry.direction, record.handle)?;
        }
        remove(&self.path(entry))
    }

    fn path(&self, entry: &PinEntry) -> PathBuf {
        self.folder.join(entry.name())
    }
}

/// The inode of this network namespace.
pub(in crate::engine::tc) fn namespace() -> Result<u64, HookError> {
    fs::metadata(NAMESPACE)
        .map(|about| about.ino())
        .map_err(|error| HookError::new("stat(2)", NAMESPACE, &error))
}

/// Makes a folder where it is missing. What is not on a BPF file system is not made.
pub(in crate::engine::tc) fn make(folder: &Path) -> Result<(), HookError> {
    if folder.exists() {
        return Ok(());
    }
    let parent = folder.parent().unwrap_or(folder);
    check_file_system(parent)?;
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(HookError::new("mkdir(2)", file(folder), &error))
        }
        _ => Ok(()),
    }
}

/// While it lives, a root's thread may do to files what the owner of a folder may: the folder can be another user's, and what is
/// in it is no way to other files. Capabilities that are not about files stay.
#[derive(Debug)]
pub(in crate::engine::tc) struct OwnersRights {
    before: Uid,
}

impl OwnersRights {
    pub(in crate::engine::tc) fn of(folder: &Path) -> Result<OwnersRights, HookError> {
        let about = fs::metadata(folder)
            .map_err(|error| HookError::new("stat(2)", file(folder), &error))?;
        let before = file_user();
        if before.is_root() {
            setfsuid(Uid::from_raw(about.uid()));
        }
        Ok(OwnersRights { before })
    }
}

impl Drop for OwnersRights {
    fn drop(&mut self) {
        setfsuid(self.before);
    }
}

/// By whose rights this thread uses files. No user has the number -1, so nothing changes (setfsuid(2)).
fn file_user() -> Uid {
    const NOBODY: Uid = Uid::from_raw(u32::MAX);
    match setfsuid(NOBODY) {
        // A filter forbids the call, as that of our systemd unit does: so these are no other rights than the process's.
        NOBODY => Uid::effective(),
        user => user,
    }
}

/// Opens a folder on a BPF file system into which nobody else may write.
pub(in crate::engine::tc) fn open(folder: &Path) -> Result<OwnedFd, HookError> {
    let failed = |call, error: io::Error| HookError::new(call, file(folder), &error);
    check_file_system(folder)?;
    let about = fs::metadata(folder).map_err(|error| failed("stat(2)", error))?;
    let own = file_user().as_raw();
    if about.mode() & WRITABLE_BY_OTHERS != 0 || (about.uid() != own && about.uid() != 0) {
        return Err(HookError::wrong(
            "the check",
            file(folder),
            "somebody else may write into it, and so decide what runs on the hooks",
            format!("chown {own} and chmod 700, or another folder"),
        ));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::empty()).map_err(|error| failed("open(2)", error.into()))
}

fn elsewhere(path: &Path) -> HookError {
    HookError::wrong(
        "the check",
        file(path),
        "it belongs to an interface of another network namespace",
        "give each network namespace a folder of its own; if that one is gone, remove the file",
    )
}

/// How errors name a file.
fn file(path: &Path) -> String {
    path.display().to_string()
}

fn remove(path: &Path) -> Result<(), HookError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(HookError::new("unlink(2)", file(path), &error))
        }
        _ => Ok(()),
    }
}

/// Whether objects can be pinned below a directory; or why not.
pub(super) fn check_file_system(directory: &Path) -> Result<(), HookError> {
    let about = rustix::fs::statfs(directory)
        .map_err(|error| HookError::new("statfs(2)", file(directory), &error.into()))?;
    if about.f_type as u32 == BPF_FS_MAGIC {
        return Ok(());
    }
    let remedy = match mounted() {
        Some(at) => format!("a BPF file system is at {at}: choose a folder there"),
        None => "none is mounted: mount -t bpf bpf /sys/fs/bpf".to_owned(),
    };
    Err(HookError::wrong(
        "the check",
        file(directory),
        "it is not on a BPF file system",
        remedy,
    ))
}

/// Where a BPF file system is mounted, if one is.
pub(super) fn mounted() -> Option<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    text.lines().find_map(|line| {
        // proc(5): optional fields end with " - ", the file system's type follows.
        let (before, after) = line.split_once(" - ")?;
        let at = before.split(' ').nth(4)?;
        (after.split(' ').next() == Some("bpf")).then(|| at.to_owned())
    })
}
