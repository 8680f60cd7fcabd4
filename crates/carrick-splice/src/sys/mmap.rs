//! A BPF array map, mapped into this process and shared with the BPF programs.

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The whole map, which must have been made with `BPF_F_MMAPABLE`.
#[derive(Debug)]
pub(crate) struct Mmap {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is shared with the kernel anyway; it is only touched through atomics, and the mapping stays until the
// owner is dropped.
#[expect(unsafe_code, reason = "a pointer to shared memory")]
unsafe impl Send for Mmap {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a pointer to shared memory")]
unsafe impl Sync for Mmap {}

impl Mmap {
    /// Maps the first `bytes` of a map.
    #[expect(unsafe_code, reason = "mmap")]
    pub(crate) fn map(map: BorrowedFd<'_>, bytes: usize) -> std::io::Result<Mmap> {
        // SAFETY: a new shared mapping at an address of the kernel's choice; it aliases nothing of ours.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                map,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(Mmap { start, bytes })
    }

    /// Private zeroed memory, where the kernel cannot share a map.
    #[expect(unsafe_code, reason = "mmap")]
    pub(crate) fn anonymous(bytes: usize) -> std::io::Result<Mmap> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `map`.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
        let start = NonNull::new(start.cast()).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(Mmap { start, bytes })
    }

    /// The eight bytes at `offset`.
    #[expect(unsafe_code, reason = "a field in shared memory")]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= self.bytes && offset.is_multiple_of(8));
        // SAFETY: inside the mapping, aligned as its type in C is, and only accessed through atomics.
        unsafe { self.start.add(offset).cast().as_ref() }
    }

    /// The four bytes at `offset`.
    #[expect(unsafe_code, reason = "a field in shared memory")]
    pub(crate) fn half_word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.bytes && offset.is_multiple_of(4));
        // SAFETY: as in `word`.
        unsafe { self.start.add(offset).cast().as_ref() }
    }

    /// Appends `bytes` bytes at `offset` to `to`.
    #[expect(unsafe_code, reason = "bytes in shared memory")]
    pub(crate) fn read(&self, offset: usize, bytes: usize, to: &mut Vec<u8>) {
        assert!(offset + bytes <= self.bytes);
        to.extend((offset..offset + bytes).map(|at| {
            // SAFETY: as in `word`.
            let byte: &AtomicU8 = unsafe { self.start.add(at).cast().as_ref() };
            byte.load(Ordering::Relaxed)
        }));
    }
}

impl Drop for Mmap {
    #[expect(unsafe_code, reason = "munmap")]
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made, whole; nothing borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
