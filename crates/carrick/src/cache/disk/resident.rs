//! Whether bytes of a file are in the page cache, so that sending them does not wait for the medium.
use std::os::fd::{AsFd, AsRawFd};

/// A page of the page cache.
const PAGE_BYTES: u64 = 4096;

/// The call's number, which `libc` does not define for all machines. It is the same on all except Alpha.
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

/// Whether all of these bytes are there; `None`: the kernel does not say (before Linux 6.5, or because of a filter of system calls).
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
    // SAFETY: both structures have the kernel's layout and live through the call; the kernel only writes to the second.
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
