//! A slow proxy: a real-time thread takes a share of the proxy's core away, in turns shorter than a millisecond.
//!
//! It spins at `SCHED_FIFO`, before which every ordinary program stands back. Interrupts, and packets that are worked on behind them,
//! go on all the same: a slow proxy's process is slow, its packets are not. What the spinner took is known exactly: only steps of the
//! clock so short that nothing else can have run in between are its own; the others are the proxy's packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::testbed::{cores, sys};

/// One turn of the spinner and what it leaves. To wake it costs some 20 µs of the core on a virtual machine: shorter periods would be
/// noticed, and longer ones as delays.
const PERIOD: Duration = Duration::from_millis(1);
/// The least share that can be left to the proxy. The kernel keeps real-time threads from more than 95 % of a core, a second at a time
/// (`sched_rt_runtime_us`; since Linux 6.12 the server of fair tasks): with this it never has to.
pub const SHARE_MIN: f64 = 0.1;
/// A longer step of the clock: an interrupt, or the hypervisor, had the core. The shortest interrupt takes more.
const STEP_MAX: Duration = Duration::from_micros(1);
/// Pauses between two looks at the clock: a core's other hardware thread, if it has one, gets on meanwhile.
const PAUSES: u32 = 4;
/// Steps that are looked at to see whether the clock can be read fast enough.
const STEPS_TRIED: usize = 1000;

/// Takes a share of a core away from all ordinary programs, until it is dropped.
#[derive(Debug)]
pub struct Slowdown {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    taken_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Slowdown {
    /// Leaves only `share` of a core, from [`SHARE_MIN`] to 1, to everything else.
    ///
    /// # Errors
    /// When the clock is too slow, or this process may not make a thread real-time (`CAP_SYS_NICE`; a cgroup without
    /// real-time bandwidth).
    pub fn start(core: usize, share: f64) -> Result<Self> {
        check_clock()?;
        let shared = Arc::new(Shared::default());
        let (report, result) = std::sync::mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(String::from("slowdown"))
            .spawn(move || {
                let ready = cores::pin_this_thread(&[core]).and_then(|()| {
                    sys::make_this_thread_real_time().context(
                        "no thread can be made real-time, which a slow proxy needs (CAP_SYS_NICE, and real-time bandwidth \
                         in this cgroup)",
                    )
                });
                let is_ready = ready.is_ok();
                // It fails only if the caller has ended.
                let _ = report.send(ready);
                if is_ready {
                    run(&of_thread, share);
                }
            })
            .context("cannot start a thread")?;
        // From here on, dropping it ends the thread.
        let slowdown = Self {
            shared,
            thread: Some(thread),
        };
        result.recv().context("the spinner did not start")??;
        Ok(slowdown)
    }

    /// How long it has had the core until now. Exact if asked on that very core, where it cannot spin at the same time.
    #[must_use]
    pub fn taken(&self) -> Duration {
        Duration::from_nanos(self.shared.taken_ns.load(Ordering::Acquire))
    }
}

impl Drop for Slowdown {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, share: f64) {
    let each = PERIOD.mul_f64(1.0 - share.clamp(SHARE_MIN, 1.0));
    let mut next = now();
    while !shared.is_over.load(Ordering::Acquire) {
        let had = spin(each);
        shared
            .taken_ns
            .fetch_add(had.as_nanos() as u64, Ordering::Release);
        next = next_turn(next, now());
        sleep_until(next);
    }
}

/// When the turn after the one of `last` begins; those that are over are left out.
fn next_turn(last: Duration, now: Duration) -> Duration {
    let over = now.saturating_sub(last).as_nanos() / PERIOD.as_nanos();
    last + PERIOD.saturating_mul(u32::try_from(over).unwrap_or(u32::MAX).saturating_add(1))
}

/// Spins for so long; how much of it this thread had the core.
fn spin(duration: Duration) -> Duration {
    let begun = Instant::now();
    let mut last = begun;
    let mut had = Duration::ZERO;
    while last - begun < duration {
        for _ in 0..PAUSES {
            std::hint::spin_loop();
        }
        let now = Instant::now();
        let step = now - last;
        if step < STEP_MAX {
            had += step;
        }
        last = now;
    }
    had
}

/// Whether steps of the clock are so short that interrupts can be told from them.
fn check_clock() -> Result<()> {
    let mut steps: Vec<Duration> = Vec::with_capacity(STEPS_TRIED);
    let mut last = Instant::now();
    for _ in 0..STEPS_TRIED {
        for _ in 0..PAUSES {
            std::hint::spin_loop();
        }
        let now = Instant::now();
        steps.push(now - last);
        last = now;
    }
    steps.sort_unstable();
    let median = steps[STEPS_TRIED / 2];
    if median * 2 > STEP_MAX {
        bail!(
            "a look at the clock takes {} ns here: too long for a slow proxy, whose spinner watches it",
            median.as_nanos()
        );
    }
    Ok(())
}

/// `CLOCK_MONOTONIC`.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    // It begins with the machine.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn sleep_until(moment: Duration) {
    let request = Timespec {
        tv_sec: moment.as_secs() as i64,
        tv_nsec: moment.subsec_nanos().into(),
    };
    // A signal that wakes it early makes one period shorter.
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &request);
}

#[cfg(test)]
mod tests;
