//! The clock that the BPF programs read.

/// `CLOCK_MONOTONIC`, the clock of BPF programs (`bpf_ktime_get_ns`).
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
