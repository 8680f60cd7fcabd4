//! What the control thread knows of the program, and what it counts itself.
use crate::config::plan::Plan;
use crate::telemetry::metrics::{Counter, WorkerMetrics};
use crate::upstreams::UpstreamState;
use arc_swap::ArcSwap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// The configuration in use and what belongs to it.
#[derive(Debug, Clone)]
pub struct Running {
    /// As configured.
    pub plan: Arc<Plan>,
    /// In the order of `plan.upstreams`.
    pub upstreams: Vec<Arc<UpstreamState>>,
}

/// Whether an engine can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineStatus {
    /// Its name.
    pub name: &'static str,
    /// Whether it is usable.
    pub usable: bool,
    /// Why not, or what it is limited to; may be empty.
    pub reason: String,
}

/// How the last reload went.
#[derive(Debug, Clone)]
pub struct ReloadResult {
    /// When.
    pub at: SystemTime,
    /// `None`: it succeeded; else why the old configuration was kept.
    pub error: Option<String>,
}

/// Shared by the control thread and the program's main part.
#[derive(Debug)]
pub struct ControlState {
    /// When the program started.
    pub started: SystemTime,
    /// The same, for durations.
    pub started_at: Instant,
    /// Swapped at reload.
    pub running: ArcSwap<Running>,
    /// One per worker thread.
    pub workers: Vec<Arc<WorkerMetrics>>,
    /// What can be used here.
    pub engines: Vec<EngineStatus>,
    /// What the control and log threads count.
    pub metrics: Arc<ControlMetrics>,
    draining: AtomicBool,
    reloads_ok: AtomicU64,
    reloads_failed: AtomicU64,
    last_reload: Mutex<Option<ReloadResult>>,
}

impl ControlState {
    /// A program that starts now.
    #[must_use]
    pub fn new(
        running: Running,
        workers: Vec<Arc<WorkerMetrics>>,
        engines: Vec<EngineStatus>,
    ) -> Self {
        Self {
            started: SystemTime::now(),
            started_at: Instant::now(),
            running: ArcSwap::from_pointee(running),
            workers,
            engines,
            metrics: Arc::default(),
            draining: AtomicBool::new(false),
            reloads_ok: AtomicU64::new(0),
            reloads_failed: AtomicU64::new(0),
            last_reload: Mutex::new(None),
        }
    }

    /// From now on `/health` answers 503.
    pub fn set_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the program is about to end.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Notes how a reload went.
    pub fn reloaded(&self, result: Result<(), String>) {
        let counter = if result.is_ok() {
            &self.reloads_ok
        } else {
            &self.reloads_failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut last = self
            .last_reload
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *last = Some(ReloadResult {
            at: SystemTime::now(),
            error: result.err(),
        });
    }

    /// Reloads that succeeded, and that failed.
    #[must_use]
    pub fn reloads(&self) -> (u64, u64) {
        (
            self.reloads_ok.load(Ordering::Relaxed),
            self.reloads_failed.load(Ordering::Relaxed),
        )
    }

    /// How the last reload went; `None`: there was none.
    #[must_use]
    pub fn last_reload(&self) -> Option<ReloadResult> {
        self.last_reload
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

/// What the control thread counts; it is the only writer.
#[derive(Debug, Default)]
pub struct ControlMetrics {
    /// Look-ups answered from the shared cache.
    pub dns_hits: Counter,
    /// Look-ups that went to name servers or the hosts file.
    pub dns_lookups: Counter,
    /// Look-ups that joined one already under way.
    pub dns_joined: Counter,
}
