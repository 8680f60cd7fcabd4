//! A calibrated spinner: uses a known share of a core, to check the meter of busy time against.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// One turn of work and rest.
const PERIOD: Duration = Duration::from_millis(10);

/// Works for `share` of each period, for as long as asked; returns the CPU time that the kernel accounted to this
/// thread, in nanosecond resolution (`CLOCK_THREAD_CPUTIME_ID`).
#[must_use]
pub fn spin(share: f64, duration: Duration) -> Duration {
    let start = Instant::now();
    let used_before = thread_cpu();
    let mut next = start;
    while start.elapsed() < duration {
        let quota = PERIOD.mul_f64(share.clamp(0.0, 1.0));
        let turn = thread_cpu();
        while thread_cpu().saturating_sub(turn) < quota {
            std::hint::spin_loop();
        }
        next += PERIOD;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    thread_cpu().saturating_sub(used_before)
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // A thread's CPU time is never negative.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
