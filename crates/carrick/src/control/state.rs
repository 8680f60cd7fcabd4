//! What the control thread knows of the program, and what it counts itself.
use crate::cache::Cache;
use crate::config::plan::Plan;
use crate::engines::Engines;
use crate::privileges::Standing;
use crate::telemetry::access_log::LogState;
use crate::telemetry::control::ControlMetrics;
use crate::telemetry::metrics::{Histogram, HistogramTotal, WorkerMetrics};
use crate::upstream::state::UpstreamState;
use arc_swap::ArcSwap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};
use tokio::sync::Notify;

/// The configuration in use and what belongs to it.
#[derive(Debug, Clone)]
pub struct Running {
    /// As configured.
    pub plan: Arc<Plan>,
    /// In the order of `plan.upstreams`.
    pub upstreams: Vec<Arc<UpstreamState>>,
}

/// Whether an engine can be used here.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EngineStatus {
    /// Its name.
    pub name: &'static str,
    /// Whether it is usable.
    pub usable: bool,
    /// Why not, or a detail worth knowing; may be empty.
    pub reason: String,
}

impl EngineStatus {
    /// The engine's name in labels of metrics, and in the configuration; `None`: this is what an engine can make use of.
    #[must_use]
    pub fn engine(&self) -> Option<&'static str> {
        self.name.strip_prefix("engine ")
    }
}

/// How reloads went.
#[derive(Debug, Clone, Default)]
pub struct Reloads {
    /// How many succeeded.
    pub ok: u64,
    /// How many failed.
    pub failed: u64,
    /// How the last one went; `None`: there was none.
    pub last: Option<ReloadResult>,
}

/// How the last reload went.
#[derive(Debug, Clone)]
pub struct ReloadResult {
    /// When.
    pub at: SystemTime,
    /// `None`: it succeeded.
    pub error: Option<NotReloaded>,
}

/// Why a reload failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// It changed nothing.
    #[error("the new configuration was rejected and the previous one stays in force: {0}")]
    Refused(String),
    /// It changed all but this.
    #[error("the new configuration is in force, but only in part: {0}")]
    InPart(String),
}

/// Shared by the control thread and the program's main part.
#[derive(Debug)]
pub struct ControlState {
    /// When the program started.
    pub started: SystemTime,
    /// The same, for durations.
    pub started_at: Instant,
    /// Swapped at reload, by [`ControlHandle::apply`](super::ControlHandle::apply).
    pub running: ArcSwap<Running>,
    /// One per worker thread.
    pub workers: Vec<Arc<WorkerMetrics>>,
    /// What can be used here.
    pub engines: ArcSwap<Vec<EngineStatus>>,
    /// Who the program is.
    pub standing: Standing,
    /// The kernel's engines, which tell of the splices that they have.
    pub kernel: Engines,
    /// What is stored, if there is a cache.
    pub cache: Option<Arc<Cache>>,
    /// What the log thread counts.
    pub log: Arc<LogState>,
    /// What the control thread counts.
    pub metrics: Arc<ControlMetrics>,
    /// Tells admin to close its listening socket: the next carrick has asked for the address.
    pub(super) admin_left: Notify,
    draining: AtomicBool,
    reloads: Mutex<Reloads>,
    admin_address: Mutex<Option<SocketAddr>>,
}

impl ControlState {
    /// A program that starts now.
    #[must_use]
    pub fn new(
        running: Running,
        cache: Option<Arc<Cache>>,
        workers: Vec<Arc<WorkerMetrics>>,
        engines: Vec<EngineStatus>,
        standing: Standing,
        kernel: Engines,
        log: Arc<LogState>,
    ) -> Self {
        Self {
            started: SystemTime::now(),
            started_at: Instant::now(),
            running: ArcSwap::from_pointee(running),
            workers,
            engines: ArcSwap::from_pointee(engines),
            standing,
            kernel,
            cache,
            log,
            metrics: Arc::default(),
            admin_left: Notify::new(),
            draining: AtomicBool::new(false),
            reloads: Mutex::default(),
            admin_address: Mutex::new(None),
        }
    }

    /// From now on `/health` answers 503.
    pub fn set_draining(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Whether the program is about to end.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Changes what is known of an engine.
    pub fn set_engine(&self, status: EngineStatus) {
        self.engines.rcu(|engines| {
            let mut engines = Vec::clone(engines);
            for engine in engines
                .iter_mut()
                .filter(|engine| engine.name == status.name)
            {
                engine.clone_from(&status);
            }
            engines
        });
    }

    /// Notes how a reload went.
    pub fn reloaded(&self, result: Result<(), NotReloaded>) {
        let mut reloads = lock(&self.reloads);
        match result {
            Ok(()) => reloads.ok += 1,
            Err(_) => reloads.failed += 1,
        }
        reloads.last = Some(ReloadResult {
            at: SystemTime::now(),
            error: result.err(),
        });
    }

    /// How reloads went: whoever sees one more in the counts sees how that one went.
    #[must_use]
    pub fn reloads(&self) -> Reloads {
        lock(&self.reloads).clone()
    }

    /// Where admin listens now; tells the port where the configuration leaves it to the kernel.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        *lock(&self.admin_address)
    }

    pub(super) fn set_admin_address(&self, address: Option<SocketAddr>) {
        *lock(&self.admin_address) = address;
    }

    /// A number summed over all workers.
    pub fn sum(&self, number: impl Fn(&WorkerMetrics) -> u64) -> u64 {
        self.workers.iter().map(|worker| number(worker)).sum()
    }

    /// A histogram summed over all workers.
    pub fn total(&self, histogram: impl Fn(&WorkerMetrics) -> &Histogram) -> HistogramTotal {
        let mut total = HistogramTotal::default();
        for worker in &self.workers {
            histogram(worker).add_to(&mut total);
        }
        total
    }
}

/// These locks guard plain values that are replaced whole, so a panic elsewhere cannot have left them half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
