//! Whether bytes of a file are in the page cache, so that to send them waits for no medium.
use std::os::fd::{AsFd, AsRawFd};

/// Pages of the page cache.
const PAGE_BYTES: u64 = 4096;

/// The call's number, which `libc` does not have for all machines: the same on all of them (but Alpha).
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat`
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether all of these bytes are; `None` where the kernel does not say (before Linux 6.5, or by a filter of system calls).
#[expect(unsafe_code, reason = "cachestat(2) has no safe wrapper")]
pub(super) fn is_resident(file: impl AsFd, from: u64, bytes: u64) -> Option<bool> {
    if bytes == 0 {
        return Some(true);
    }
    let range = Range {
        offset: from,
        bytes,
    };
    let mut counts = Counts::default();
    // SAFETY: both structures are the kernel's, live through the call, and the kernel writes to the second alone.
    let result = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_fd().as_raw_fd(),
            &raw const range,
            &raw mut counts,
            0,
        )
    };
    if result != 0 {
        return None;
    }
    let pages = (from + bytes).div_ceil(PAGE_BYTES) - from / PAGE_BYTES;
    Some(counts.cached >= pages)
}
