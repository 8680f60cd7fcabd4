//! One memory file for all long bodies. No page of it is ever written a second time.
//!
//! `sendfile(2)` gives the socket the file's own pages, not a copy. They stay in the socket's queue until the client has
//! acknowledged them, long after the call has returned, and whoever wrote to such a page in the meantime would change
//! what goes over the wire. So nobody does: each body gets the next addresses, which are written once, and when it is
//! gone its pages are cut out of the file (`fallocate(2)`, `FALLOC_FL_PUNCH_HOLE`). A page that a socket still refers to
//! leaves the file and lives on until the socket lets go of it. Should the kernel fail to cut, that costs memory and nobody's
//! bytes, as the addresses are not used again. The file is sparse; at ten gigabytes a second its addresses last for 29 years.
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ranges begin and end at multiples of this: what can be cut out.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Whether the kernel puts pages of memory files together to huge ones.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// `bytes` rounded up to pages.
pub(super) fn in_pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES)
}

/// The file.
#[derive(Debug)]
pub(super) struct Arena {
    file: OwnedFd,
    next: AtomicU64,
}

impl Arena {
    /// Makes the file. It belongs to this process alone and cannot be shrunk.
    ///
    /// # Errors
    /// Those of `memfd_create(2)`: a kernel without it, a filter for system calls, no descriptors left. `Unsupported`, with
    /// the reason, where such a file would not do.
    pub(super) fn new() -> io::Result<Self> {
        if let Some(why) = objection() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let file = memfd_create(
            "carrick-cache",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self {
            file,
            next: AtomicU64::new(0),
        })
    }

    /// The next addresses: where a range of `bytes`, a multiple of a page, begins. No memory is taken before it is written.
    pub(super) fn range(&self, bytes: u64) -> u64 {
        debug_assert!(bytes.is_multiple_of(PAGE_BYTES));
        self.next.fetch_add(bytes, Relaxed)
    }

    /// Writes all of `bytes` at `at`.
    ///
    /// # Errors
    /// Those of `pwrite(2)`: no memory, or the process's limit for the size of files (`RLIMIT_FSIZE`).
    pub(super) fn write_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = retry_on_intr(|| pwrite(&self.file, bytes, at))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
            at += written as u64;
        }
        Ok(())
    }

    /// Fills `buffer` from `at`. Only bytes that were written are to be asked for.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub(super) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        read_at(&self.file, buffer, at)
    }

    /// Gives the memory of a range back, whose addresses nobody uses any more.
    pub(super) fn punch(&self, start: u64, bytes: u64) {
        let cut = retry_on_intr(|| {
            fallocate(
                &self.file,
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                start,
                bytes,
            )
        });
        debug_assert!(matches!(cut, Ok(()) | Err(Errno::NOMEM)), "{cut:?}");
    }

    /// Bytes of memory that the file has.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub(super) fn memory_bytes(&self) -> io::Result<u64> {
        let status = rustix::fs::fstat(&self.file)?;
        Ok(u64::try_from(status.st_blocks).unwrap_or(0) * 512)
    }
}

/// Fills `buffer` from `at` of a file.
pub(super) fn read_at(file: impl AsFd, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let read = retry_on_intr(|| pread(&file, &mut *buffer, at))?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[read..];
        at += read as u64;
    }
    Ok(())
}

/// What on this machine is in the way.
fn objection() -> Option<String> {
    // A write beyond the limit is answered by a signal that ends the process.
    if getrlimit(Resource::Fsize).current.is_some() {
        return Some("the size of files is limited (RLIMIT_FSIZE)".to_owned());
    }
    let setting = std::fs::read_to_string(HUGE_PAGES).ok()?;
    objection_to_huge_pages(&setting)
}

/// A hole in a huge page is filled with zeros (`truncate_inode_partial_folio`), also in the queue of a socket that refers to
/// it. `advise` is about memory that is mapped, which this file never is.
fn objection_to_huge_pages(setting: &str) -> Option<String> {
    ["[always]", "[within_size]", "[force]"]
        .into_iter()
        .find(|chosen| setting.contains(chosen))
        .map(|chosen| format!("{HUGE_PAGES} is {chosen}"))
}

impl AsFd for Arena {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, PAGE_BYTES, in_pages, objection_to_huge_pages};

    #[test]
    fn what_is_punched_takes_no_memory_and_its_addresses_are_not_used_again() {
        let arena = Arena::new().unwrap();
        let bytes = in_pages(100_000);
        assert_eq!(bytes, 25 * PAGE_BYTES);
        let first = arena.range(bytes);
        let second = arena.range(bytes);
        assert_eq!(second, first + bytes);
        arena.write_at(&vec![7; 100_000], first).unwrap();
        arena.write_at(&vec![8; 100_000], second).unwrap();
        assert_eq!(arena.memory_bytes().unwrap(), 2 * bytes);
        arena.punch(first, bytes);
        assert_eq!(arena.memory_bytes().unwrap(), bytes);
        assert!(arena.range(PAGE_BYTES) >= second + bytes);
        let mut read = vec![0; 100_000];
        arena.read_at(&mut read, second).unwrap();
        assert!(read.iter().all(|&byte| byte == 8));
        arena.punch(second, bytes);
        assert_eq!(arena.memory_bytes().unwrap(), 0);
    }

    #[test]
    fn huge_pages_are_an_objection() {
        let setting = |chosen: &str| {
            "always within_size advise never deny force".replace(chosen, &format!("[{chosen}]"))
        };
        for chosen in ["always", "within_size", "force"] {
            let why = objection_to_huge_pages(&setting(chosen)).unwrap();
            assert!(why.ends_with(&format!("is [{chosen}]")), "{why}");
        }
        for chosen in ["advise", "never", "deny"] {
            assert_eq!(objection_to_huge_pages(&setting(chosen)), None);
        }
    }
}
