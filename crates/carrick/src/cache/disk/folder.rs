//! The folder, with all system calls that touch the medium. They wait for it, so only the pool's threads make them, except those
//! that are made [`AtOnce`](Patience::AtOnce).
use super::name::Name;
use super::room::Room;
use rustix::fs::{
    AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, ResolveFlags, fallocate, fdatasync,
    flock, fstat, fstatfs, fstatvfs, fsync, ftruncate, mkdirat, openat, openat2, renameat,
    unlinkat,
};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwrite, retry_on_intr};
use std::fmt;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The process that uses the folder holds a lock on this file.
const MARK: &str = "carrick-cache";

/// The folder of files that are not whole yet.
const UNFINISHED: &str = "unfinished";

/// The list of purges that came before all files were indexed.
pub(super) const PURGES: &str = "purges";

/// `statfs(2)`'s number of tmpfs.
const TMPFS_MAGIC: i64 = 0x0102_1994;

const FOLDER_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A system call that failed, on what, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} of {on}: {errno}")]
pub(super) struct CallError {
    pub(super) call: &'static str,
    pub(super) on: String,
    pub(super) errno: Errno,
}

/// Whether a call may wait for the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// It may: a thread of the pool calls.
    Waits,
    /// It fails with `EAGAIN` instead, if what it needs is not in the kernel's memory.
    AtOnce,
}

/// Inode numbers are multiplied by this, so that a difference in time never cancels one in inodes: odd, 2^64 by the golden ratio.
const INODE_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The state of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStatus {
    /// Its length.
    pub(super) bytes: u64,
    /// Inode and time of the last change in one number. The clock of file systems has steps of some milliseconds: a file that replaces
    /// another within one step has the same time, but another inode.
    pub(super) stamp: u64,
    /// Whether it is still in a folder.
    pub(super) has_name: bool,
}

/// The folder, which no other process uses.
pub(super) struct Folder {
    path: PathBuf,
    root: OwnedFd,
    /// Flags for reading at once; `None`: the file system cannot.
    at_once: Option<ReadWriteFlags>,
    /// Closing it releases the lock.
    _mark: OwnedFd,
    first_serial: u64,
    #[cfg(test)]
    pub(super) fuse: super::tests::Fuse,
}

impl Folder {
    /// Takes the folder, and creates what is missing in it.
    ///
    /// # Errors
    /// As text: it is not a folder, cannot be written, or another process has it.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let failed = |call: &str, error: Errno| match error {
            Errno::NOTDIR => format!("{shown} is not a directory"),
            Errno::ACCESS | Errno::PERM => format!(
                "{call}: cannot write {shown} ({error}); make the user that carrick runs as its owner (`chown`, or `CacheDirectory=` of systemd)"
            ),
            Errno::ROFS => format!("{shown} is on a file system that is mounted read-only"),
            Errno::NOENT => {
                format!("{shown} does not exist, and neither does its parent directory")
            }
            error => format!("{call} of {shown}: {error}"),
        };
        match rustix::fs::mkdir(path, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            // The folder may exist nevertheless.
            Err(error) if !path.exists() => return Err(failed("mkdir", error)),
            Err(_) => {}
        }
        let folder_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, folder_flags, Mode::empty())
            .map_err(|error| failed("open", error))?;
        let mark = openat(
            &root,
            MARK,
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            FILE_MODE,
        )
        .map_err(|error| failed("open", error))?;
        match try_lock(&mark) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(taken(path)),
            Err(error) => return Err(failed("flock", error)),
        }
        let start =
            next_start(&mark).map_err(|error| failed("writing the start's number", error))?;
        let folders = Name::folders().map(|number| format!("{number:02x}"));
        for name in folders.chain([UNFINISHED.to_owned()]) {
            match mkdirat(&root, &*name, FOLDER_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(failed("mkdir", error)),
            }
        }
        Ok(Self {
            path: path.to_owned(),
            at_once: at_once(&root, &mark),
            root,
            _mark: mark,
            first_serial: start << 32,
            #[cfg(test)]
            fuse: super::tests::Fuse::default(),
        })
    }

    /// Takes the lock of a folder that exists already, before this process is the user that may write to it. `None`: only
    /// [`open`](Self::open) can tell whether the folder is free.
    ///
    /// # Errors
    /// As text: another process has it.
    pub(super) fn lock(path: &Path) -> Result<Option<OwnedFd>, String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(mark) = rustix::fs::open(path.join(MARK), flags, Mode::empty()) else {
            return Ok(None);
        };
        match try_lock(&mark) {
            Ok(()) => Ok(Some(mark)),
            Err(Errno::WOULDBLOCK) => Err(taken(path)),
            // Such as on NFS, which locks only what may be written.
            Err(_) => Ok(None),
        }
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The first serial number of this process.
    pub(super) fn first_serial(&self) -> u64 {
        self.first_serial
    }

    /// Whether calls can be made [`AtOnce`](Patience::AtOnce): the file system must know what is in memory.
    pub(super) fn answers_at_once(&self) -> bool {
        self.at_once.is_some()
    }

    /// Creates a file that is not found yet.
    pub(super) fn create(&self, serial: u64) -> Result<OwnedFd, CallError> {
        let name = unfinished(serial);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        self.call("open", &name, || {
            openat(&self.root, &*name, flags, FILE_MODE)
        })
    }

    /// Gives a file its name: the next start finds it.
    pub(super) fn publish(&self, name: &Name) -> Result<(), CallError> {
        let (from, to) = (unfinished(name.serial), name.to_string());
        self.call("rename", &to, || {
            renameat(&self.root, &*from, &self.root, &*to)
        })
    }

    /// Removes a file that was never given a name.
    pub(super) fn discard(&self, serial: u64) {
        let name = unfinished(serial);
        // If that fails, the next start removes it.
        let _ = self.call("unlink", &name, || {
            unlinkat(&self.root, &*name, AtFlags::empty())
        });
    }

    /// Opens a file to read from it.
    pub(super) fn open_to_read(
        &self,
        name: &Name,
        patience: Patience,
    ) -> Result<OwnedFd, CallError> {
        let name = name.to_string();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // Updating the time of access could wait.
        let quiet_flags = flags | OFlags::NOATIME;
        if patience == Patience::AtOnce {
            let cached = ResolveFlags::CACHED;
            return self.call("openat2", &name, || {
                openat2(&self.root, &*name, quiet_flags, Mode::empty(), cached)
            });
        }
        self.call("open", &name, || {
            match openat(&self.root, &*name, quiet_flags, Mode::empty()) {
                // It belongs to another user.
                Err(Errno::PERM) => openat(&self.root, &*name, flags, Mode::empty()),
                other => other,
            }
        })
    }

    /// Opens a file to read and write.
    pub(super) fn open_file(&self, name: &Name) -> Result<OwnedFd, CallError> {
        let name = name.to_string();
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        self.call("open", &name, || {
            openat(&self.root, &*name, flags, Mode::empty())
        })
    }

    /// Removes a file, if it exists.
    pub(super) fn remove(&self, name: &Name) -> Result<(), CallError> {
        self.remove_text(&name.to_string())
    }

    /// Removes another file, if it exists.
    pub(super) fn remove_text(&self, name: &str) -> Result<(), CallError> {
        let removed = self.call("unlink", &name, || {
            unlinkat(&self.root, name, AtFlags::empty())
        });
        match removed {
            Err(error) if error.errno == Errno::NOENT => Ok(()),
            other => other,
        }
    }

    /// Makes sure that what was written to a file survives a loss of power.
    pub(super) fn sync_file(&self, file: &OwnedFd, on: &dyn fmt::Display) -> Result<(), CallError> {
        self.call("fdatasync", on, || fdatasync(file))
    }

    /// Makes sure that what was removed and renamed in the folder with this number survives a loss of power.
    pub(super) fn sync(&self, number: u8) -> Result<(), CallError> {
        let name = format!("{number:02x}");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = self.call("open", &name, || {
            openat(&self.root, &*name, flags, Mode::empty())
        })?;
        self.call("fsync", &name, || fsync(&folder))
    }

    /// Reserves room, so that the disk does not become full in the middle of a body. Does nothing if the file system cannot.
    pub(super) fn reserve(
        &self,
        file: &OwnedFd,
        on: u64,
        from: u64,
        bytes: u64,
    ) -> Result<(), CallError> {
        let reserved = self.call("fallocate", &unfinished(on), || {
            fallocate(file, FallocateFlags::KEEP_SIZE, from, bytes)
        });
        match reserved {
            Err(error) if matches!(error.errno, Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            other => other,
        }
    }

    /// Sets the length of a file, which has no body.
    pub(super) fn set_length(
        &self,
        file: &OwnedFd,
        on: &dyn fmt::Display,
        bytes: u64,
    ) -> Result<(), CallError> {
        self.call("ftruncate", on, || ftruncate(file, bytes))
    }

    /// Writes all of `bytes` at `at`.
    pub(super) fn write_at(
        &self,
        file: impl AsFd,
        on: &dyn fmt::Display,
        mut bytes: &[u8],
        mut at: u64,
    ) -> Result<(), CallError> {
        let file = file.as_fd();
        while !bytes.is_empty() {
            #[cfg(test)]
            let bytes_now = self.fuse.part_of(bytes);
            #[cfg(not(test))]
            let bytes_now = bytes;
            let mut written = self.call("pwrite", on, || pwrite(file, bytes_now, at))?;
            if written == 0 {
                written = self.call("pwrite", on, || Err(Errno::IO))?;
            }
            bytes = bytes.get(written..).unwrap_or_default();
            at += written as u64;
        }
        Ok(())
    }

    /// Reads at `at` until `buffer` is full or the file ends; returns how many bytes.
    pub(super) fn read_at(
        &self,
        file: impl AsFd,
        on: &dyn fmt::Display,
        buffer: &mut [u8],
        mut at: u64,
    ) -> Result<usize, CallError> {
        let file = file.as_fd();
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.call("pread", on, || pread(file, &mut *rest, at))? {
                0 => break,
                read => {
                    filled += read;
                    at += read as u64;
                }
            }
        }
        Ok(filled)
    }

    /// Reads the first bytes of a file into `head`, and the next into `body`; returns how many. At once, these can be fewer than there
    /// are, if the rest is not in memory.
    pub(super) fn read_first(
        &self,
        file: &OwnedFd,
        on: &dyn fmt::Display,
        (head, body): (&mut [u8], &mut [u8]),
        patience: Patience,
    ) -> Result<usize, CallError> {
        if patience == Patience::AtOnce {
            return self.call("preadv2", on, || {
                let mut places = [IoSliceMut::new(head), IoSliceMut::new(body)];
                preadv2(file, &mut places, 0, self.at_once.ok_or(Errno::AGAIN)?)
            });
        }
        let of_head = self.read_at(file, on, head, 0)?;
        let of_body = self.read_at(file, on, body, head.len() as u64)?;
        Ok(of_head + of_body)
    }

    /// The state of an open file. Does not wait on a file system that [answers at once](Self::answers_at_once).
    pub(super) fn status_of(
        &self,
        file: impl AsFd,
        on: &dyn fmt::Display,
    ) -> Result<FileStatus, CallError> {
        let status = self.call("fstat", on, || fstat(&file))?;
        let seconds = u64::try_from(status.st_mtime).unwrap_or(0);
        Ok(FileStatus {
            bytes: u64::try_from(status.st_size).unwrap_or(0),
            stamp: seconds
                .wrapping_mul(1_000_000_000)
                .wrapping_add(status.st_mtime_nsec)
                .wrapping_add(status.st_ino.wrapping_mul(INODE_STEP)),
            has_name: status.st_nlink > 0,
        })
    }

    /// The room of the file system.
    pub(super) fn room(&self) -> Result<Room, CallError> {
        let status = self.call("fstatvfs", &".", || fstatvfs(&self.root))?;
        Ok(Room::of(&status))
    }

    /// The names in the folder with this number, or (`None`) the foreign ones in the folder above.
    pub(super) fn list(&self, number: Option<u8>) -> Result<Vec<String>, CallError> {
        let name = number.map_or_else(|| ".".to_owned(), |number| format!("{number:02x}"));
        let names = self.names_in(&name)?;
        let is_ours = |name: &str| {
            number.is_none()
                && (matches!(name, MARK | UNFINISHED | PURGES)
                    || u8::from_str_radix(name, 16)
                        .is_ok_and(|number| format!("{number:02x}") == name))
        };
        Ok(names.into_iter().filter(|name| !is_ours(name)).collect())
    }

    /// Removes files that earlier processes did not finish; returns how many.
    pub(super) fn remove_unfinished(&self) -> Result<u64, CallError> {
        let mut removed = 0;
        for name in self.names_in(UNFINISHED)? {
            let serial = u64::from_str_radix(&name, 16);
            if serial.is_ok_and(|serial| serial < self.first_serial) {
                self.remove_text(&format!("{UNFINISHED}/{name}"))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Adds a line to the list of purges. It is on the medium when this returns.
    pub(super) fn note_purge(&self, line: &[u8]) -> Result<(), CallError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = self.call("open", &PURGES, || {
            openat(&self.root, PURGES, flags, FILE_MODE)
        })?;
        let at = self.status_of(&file, &PURGES)?.bytes;
        self.write_at(&file, &PURGES, line, at)?;
        self.call("fsync", &PURGES, || fsync(&file))?;
        self.call("fsync", &".", || fsync(&self.root))
    }

    /// The list of purges.
    pub(super) fn purges(&self) -> Result<Vec<u8>, CallError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match self.call("open", &PURGES, || {
            openat(&self.root, PURGES, flags, Mode::empty())
        }) {
            Err(error) if error.errno == Errno::NOENT => return Ok(Vec::new()),
            other => other?,
        };
        let bytes = self.status_of(&file, &PURGES)?.bytes;
        let mut text = vec![0; usize::try_from(bytes).unwrap_or(0)];
        let read = self.read_at(&file, &PURGES, &mut text, 0)?;
        text.truncate(read);
        Ok(text)
    }

    fn names_in(&self, folder: &str) -> Result<Vec<String>, CallError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = self.call("open", &folder, || {
            openat(&self.root, folder, flags, Mode::empty())
        })?;
        let listed = self.call("getdents", &folder, || rustix::fs::Dir::read_from(&opened))?;
        let mut names = Vec::new();
        for entry in listed {
            let entry = entry.map_err(|errno| CallError {
                call: "getdents",
                on: folder.to_owned(),
                errno,
            })?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    fn call<T>(
        &self,
        call: &'static str,
        on: &dyn fmt::Display,
        mut of: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, CallError> {
        #[cfg(test)]
        let burnt = self.fuse.burn(call);
        #[cfg(not(test))]
        let burnt = Ok(());
        burnt
            .and_then(|()| retry_on_intr(&mut of))
            .map_err(|errno| CallError {
                call,
                on: self.path.join(on.to_string()).display().to_string(),
                errno,
            })
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the folder {}", self.path.display())
    }
}

fn unfinished(serial: u64) -> String {
    format!("{UNFINISHED}/{serial:016x}")
}

/// Flags for reading without waiting; `None`: that is impossible. It requires `openat2(2)` (Linux 5.12, and no filter of system calls),
/// and a file system that knows when it would wait: network file systems do not. tmpfs never waits.
fn at_once(root: &OwnedFd, mark: &OwnedFd) -> Option<ReadWriteFlags> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let cached = ResolveFlags::CACHED;
    match retry_on_intr(|| openat2(root, MARK, flags, Mode::empty(), cached)) {
        Ok(_) | Err(Errno::AGAIN) => {}
        Err(_) => return None,
    }
    let mut byte = [0; 1];
    let mut places = [IoSliceMut::new(&mut byte)];
    match retry_on_intr(|| preadv2(mark, &mut places, 0, ReadWriteFlags::NOWAIT)) {
        Ok(_) | Err(Errno::AGAIN) => Some(ReadWriteFlags::NOWAIT),
        Err(_) => {
            let is_in_memory = fstatfs(mark).is_ok_and(|status| status.f_type == TMPFS_MAGIC);
            is_in_memory.then(ReadWriteFlags::empty)
        }
    }
}

fn try_lock(mark: &OwnedFd) -> Result<(), Errno> {
    retry_on_intr(|| flock(mark, FlockOperation::NonBlockingLockExclusive))
}

fn taken(path: &Path) -> String {
    format!(
        "another carrick uses {}; each needs a folder of its own",
        path.display()
    )
}

/// Counts starts: this one's number is larger than all before, even if the clock was set back. If the file was lost, the number comes
/// from the clock.
fn next_start(mark: &OwnedFd) -> Result<u64, Errno> {
    let mut text = [0; 32];
    let read = retry_on_intr(|| pread(mark, &mut text, 0))?;
    let before = std::str::from_utf8(text.get(..read).unwrap_or_default())
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .unwrap_or(0);
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let start = u64::from(before)
        .saturating_add(1)
        .max(seconds & 0xffff_ffff);
    let line = format!("{start:<31}\n");
    retry_on_intr(|| pwrite(mark, line.as_bytes(), 0))?;
    retry_on_intr(|| fsync(mark))?;
    Ok(start)
}
