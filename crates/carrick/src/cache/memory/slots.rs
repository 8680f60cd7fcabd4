//! Memory that can be lent to the kernel, in slots of one chunk each.
//!
//! A connection that got pages by `vmsplice(2)` refers to them until its peer has acknowledged the bytes; if the receiver is on this
//! machine, until it has read them. The kernel does not say when. Therefore, a slot is written once, and `MADV_DONTNEED` frees one that was
//! lent: its address gets new pages, and the kernel keeps the old ones as long as a connection refers to them.
use super::chunk::CHUNK_BYTES;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slots that are mapped at once: 4 MB. They are never unmapped, so that they do not become many mappings.
const REGION_SLOTS: usize = 64;

/// Free slots that keep their pages, at most: 16 MB.
const KEPT_MAX: usize = 256;

/// A byte of a slot, which may not be written yet.
pub(super) type Cell = UnsafeCell<MaybeUninit<u8>>;

/// [`CHUNK_BYTES`] at a page boundary.
pub(super) struct Slot {
    start: Start,
    was_lent: AtomicBool,
}

/// Where a slot begins.
#[derive(Clone, Copy)]
struct Start(NonNull<Cell>);

#[expect(unsafe_code, reason = "a pointer says nothing about who uses it")]
// SAFETY: the slot belongs to whoever has its `Start`, in whatever thread. The cells do not move and are never unmapped.
unsafe impl Send for Start {}

#[expect(unsafe_code, reason = "as above")]
// SAFETY: it only gives out cells, which say themselves that they are shared.
unsafe impl Sync for Start {}

/// The slots that are not in use.
struct Free {
    with_pages: Vec<Start>,
    without: Vec<Start>,
}

static FREE: Mutex<Free> = Mutex::new(Free {
    with_pages: Vec::new(),
    without: Vec::new(),
});

impl Slot {
    /// An unused slot; `None`: there is no memory.
    pub(super) fn take() -> Option<Self> {
        let with_pages = free().with_pages.pop();
        let start = match with_pages {
            Some(start) => start,
            None => {
                let without = free().without.pop();
                let start = without.or_else(map_region)?;
                // All at once is cheaper than a fault for each page. If it fails (before Linux 5.14), there are faults.
                let _ = start.advise(Advice::LinuxPopulateWrite);
                start
            }
        };
        Some(Self {
            start,
            was_lent: AtomicBool::new(false),
        })
    }

    /// Its bytes.
    pub(super) fn cells(&self) -> &[Cell] {
        #[expect(unsafe_code, reason = "the memory is not from Rust's allocator")]
        // SAFETY: so many cells are mapped from there on, for ever, and belong to this slot; `MaybeUninit` needs no value.
        unsafe {
            slice::from_raw_parts(self.start.0.as_ptr(), CHUNK_BYTES)
        }
    }

    /// Notes that the kernel may refer to its pages from now on.
    pub(super) fn lend(&self) {
        self.was_lent.store(true, Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let start = self.start;
        if !*self.was_lent.get_mut() {
            let mut free = free();
            if free.with_pages.len() < KEPT_MAX {
                free.with_pages.push(start);
                return;
            }
        }
        // A slot whose pages cannot be exchanged is not used again.
        if start.advise(Advice::LinuxDontNeed).is_ok() {
            free().without.push(start);
        }
    }
}

impl Start {
    fn advise(self, advice: Advice) -> rustix::io::Result<()> {
        #[expect(unsafe_code, reason = "`LinuxDontNeed` makes the bytes 0")]
        // SAFETY: the pages are those of a slot in which nothing is, or nothing any more.
        unsafe {
            madvise(self.0.as_ptr().cast::<c_void>(), CHUNK_BYTES, advice)
        }
    }
}

/// Maps a region, and returns its first slot.
fn map_region() -> Option<Start> {
    #[expect(unsafe_code, reason = "mapping over other memory would be unsafe")]
    // SAFETY: the kernel chooses a free place.
    let region = unsafe {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        mmap_anonymous(null_mut(), REGION_SLOTS * CHUNK_BYTES, protection, flags)
    };
    let region = NonNull::new(region.ok()?.cast::<Cell>())?;
    let slot = |number: usize| {
        #[expect(unsafe_code, reason = "arithmetic with pointers")]
        // SAFETY: it is inside the region.
        Start(unsafe { region.add(number * CHUNK_BYTES) })
    };
    // A part of a huge page cannot be exchanged while the kernel refers to it.
    #[expect(unsafe_code, reason = "`madvise` takes a pointer")]
    // SAFETY: nothing is in the region.
    let _ = unsafe {
        let all = region.as_ptr().cast::<c_void>();
        madvise(all, REGION_SLOTS * CHUNK_BYTES, Advice::LinuxNoHugepage)
    };
    free().without.extend((1..REGION_SLOTS).rev().map(slot));
    Some(slot(0))
}

fn free() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
