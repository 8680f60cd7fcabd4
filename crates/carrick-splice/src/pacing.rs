//! Pacing: when spliced traffic waits for the worker's own work, and at what rate it may go (Rosu 2003,
//! kThread TCP Splice). The process and BPF programs share one control block.

mod block;
mod bucket;
mod check;
mod class;
mod pacer;
mod policy;
mod queue;
mod table;
mod throttle;
mod turn;

skeleton!("pacing.skel.rs");

use block::{Block, CLASSES, WORKERS};
pub use class::{
    ClassReport, ClassSettings, HOLD_MAX, NetworkRate, PaceError, Policy, RATE_MAX, RATE_MIN,
    Weight, WorkerReport,
};
pub use pacer::{Drain, Pacer};
use skeleton::types::{pace_class, pace_worker, pace_yield};
use std::fmt;
use std::mem::offset_of;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use table::{ClassTable, DIRECTIONS, Share};
pub use throttle::Throttle;
pub(crate) use turn::Turn;

/// The default interval between estimates, as in the paper.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// How one direction of a splice is paced: by which worker, class and bucket. The default: not at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PaceHandle(u64);

impl PaceHandle {
    /// Class and bucket in the control block, and the worker that has the splice.
    fn new(worker: u8, class: u8, bucket: Option<u32>) -> PaceHandle {
        let bucket = bucket.map_or(0, |bucket| u64::from(bucket) + 1);
        PaceHandle(u64::from(worker) | (u64::from(class) + 1) << 8 | bucket << 32)
    }

    /// Whether it is not paced.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// As in BPF programs (`pace_handle` of bpf/pacing/pacing.h).
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// Meaningless without one.
    fn class(self) -> u8 {
        ((self.0 >> 8) as u8).wrapping_sub(1)
    }

    fn bucket(self) -> Option<u32> {
        ((self.0 >> 32) as u32).checked_sub(1)
    }
}

/// Classes of splices, shared by all workers and engines of a process. A cheap handle.
#[derive(Clone)]
pub struct Pacing(Arc<Shared>);

struct Shared {
    block: Block,
    table: Mutex<ClassTable>,
    counts: [ClassCounts; CLASSES],
}

/// The process's counters of a class.
#[derive(Default)]
struct ClassCounts {
    bytes: AtomicU64,
    yields: AtomicU64,
    rate_waits: AtomicU64,
    waited_ns: AtomicU64,
    overdue: AtomicU64,
    credit: AtomicU64,
    unbounded: AtomicU64,
}

impl ClassCounts {
    /// Resets them.
    fn forget(&self) {
        let ClassCounts {
            bytes,
            yields,
            rate_waits,
            waited_ns,
            overdue,
            credit,
            unbounded,
        } = self;
        for count in [
            bytes, yields, rate_waits, waited_ns, overdue, credit, unbounded,
        ] {
            count.store(0, Relaxed);
        }
    }
}

impl fmt::Debug for Pacing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pacing({} classes)", self.settings().0.len())
    }
}

impl Pacing {
    /// Without classes. In a BPF map if possible (`CAP_BPF`), so that the kernel's engines are paced, too.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new() -> std::io::Result<Pacing> {
        Ok(Pacing(Arc::new(Shared {
            block: Block::new()?,
            table: Mutex::new(ClassTable::new(INTERVAL)),
            counts: std::array::from_fn(|_| ClassCounts::default()),
        })))
    }

    /// Whether these classes are valid: finds what [`configure`](Pacing::configure) would always refuse.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(classes: &[ClassSettings], interval: Duration) -> Result<(), PaceError> {
        check::classes(classes, interval)
    }

    /// Replaces the classes. Splices of a class that keeps its name follow, as far as they have had a rate of
    /// that kind (for their network, for themselves) from their beginning. Estimates are repeated every
    /// `interval`.
    ///
    /// What is wrong with them. Nothing has changed then.
    pub fn configure(
        &self,
        classes: &[ClassSettings],
        interval: Duration,
    ) -> Result<(), PaceError> {
        let Shared { block, counts, .. } = &*self.0;
        self.table().configure(block, counts, classes, interval)
    }

    /// The settings of all classes, and the interval.
    #[must_use]
    pub fn settings(&self) -> (Vec<ClassSettings>, Duration) {
        let table = self.table();
        (table.settings(), table.interval)
    }

    /// Paces one splice of a client of this address, in the worker of this number, until the result is
    /// dropped. `None` if there is no class of this name. (Takes a lock.)
    #[must_use]
    pub fn pace(&self, class: &str, client: IpAddr, worker: usize) -> Option<Paced> {
        // Workers beyond the limit share numbers; few machines have that many cores.
        let worker = (worker % WORKERS) as u8;
        let share = self.table().open(&self.0.block, class, client, worker)?;
        if share.is_unbounded {
            self.counts(share.class).unbounded.fetch_add(1, Relaxed);
        }
        Some(Paced {
            pacing: self.clone(),
            share,
        })
    }

    /// What all classes have done so far.
    #[must_use]
    pub fn classes(&self) -> Vec<ClassReport> {
        let table = self.table();
        let report = |(number, settings, splices, networks): (u8, &ClassSettings, u64, u64)| {
            let counts = self.counts(number);
            let kernel_bytes = self.0.block.class(number, offset_of!(pace_class, granted));
            let kernel_holds = self.0.block.class(number, offset_of!(pace_class, held));
            let kernel_bytes = kernel_bytes.load(Relaxed);
            ClassReport {
                settings: settings.clone(),
                splices,
                networks,
                bytes: counts.bytes.load(Relaxed) + kernel_bytes,
                kernel_bytes,
                yields: counts.yields.load(Relaxed),
                rate_waits: counts.rate_waits.load(Relaxed),
                kernel_holds: kernel_holds.load(Relaxed),
                waited: Duration::from_nanos(counts.waited_ns.load(Relaxed)),
                overdue: counts.overdue.load(Relaxed),
                credit: counts.credit.load(Relaxed),
                unbounded: counts.unbounded.load(Relaxed),
            }
        };
        table.users().into_iter().map(report).collect()
    }

    /// What a worker has done so far.
    #[must_use]
    pub fn worker(&self, worker: usize) -> WorkerReport {
        let of = |field| {
            let word = self.0.block.worker((worker % WORKERS) as u8, field);
            word.load(Acquire)
        };
        let time = |field| Duration::from_nanos(of(field));
        WorkerReport {
            is_runnable: of(offset_of!(pace_worker, runnable_since_ns)) != 0,
            runnable: time(offset_of!(pace_worker, runnable_ns)),
            forwarding: time(offset_of!(pace_worker, forwarding_ns)),
            local_requests: of(offset_of!(pace_worker, local_requests)),
            local_bytes: of(offset_of!(pace_worker, local_bytes)),
            spliced_requests: of(offset_of!(pace_worker, spliced_requests)),
            spliced_bytes: of(offset_of!(pace_worker, spliced_bytes)),
            kernel_bytes: of(offset_of!(pace_worker, kernel_bytes)),
            hits_p99: Some(time(offset_of!(pace_worker, hits_p99_ns))).filter(|p99| !p99.is_zero()),
        }
    }

    /// The heartbeat of a worker: without one for three seconds, the kernel does not pace its splices.
    pub fn beat(&self, worker: usize) {
        let beat = self
            .0
            .block
            .worker((worker % WORKERS) as u8, offset_of!(pace_worker, beat_ns));
        beat.store(crate::sys::clock::now_ns(), Release);
    }

    /// The map that the engines' programs are to use as their map `pace`.
    pub(crate) fn map(&self) -> Option<BorrowedFd<'_>> {
        self.0.block.map()
    }

    fn table(&self) -> MutexGuard<'_, ClassTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self, class: u8) -> &ClassCounts {
        &self.0.counts[usize::from(class) % CLASSES]
    }
}

/// One paced splice, or several of one client in turn. Dropped when it is over.
pub struct Paced {
    pacing: Pacing,
    share: Share,
}

impl fmt::Debug for Paced {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Paced")
            .field(&self.share.handles)
            .finish()
    }
}

impl Paced {
    /// The direction to the server.
    #[must_use]
    pub fn to_server(&self) -> PaceHandle {
        self.share.handles[0]
    }

    /// The direction to the client.
    #[must_use]
    pub fn to_client(&self) -> PaceHandle {
        self.share.handles[1]
    }

    /// Both: to the server, and to the client.
    #[must_use]
    pub fn both(&self) -> [PaceHandle; DIRECTIONS] {
        self.share.handles
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.pacing.table().close(&self.pacing.0.block, &self.share);
    }
}

/// The condition of the control block (`enum pace_yield`) that belongs to a policy.
fn condition_of(policy: Policy) -> u64 {
    let condition = match policy {
        Policy::Immediate => pace_yield::PACE_IMMEDIATE,
        Policy::Conservative => pace_yield::PACE_CONSERVATIVE,
        Policy::Proportional | Policy::Deadline { .. } => pace_yield::PACE_CREDIT,
    };
    u64::from(condition.0)
}

#[cfg(test)]
mod tests;
