//! The control thread's view of the program, and its own counters.
use crate::cache::Cache;
use crate::config::plan::Plan;
use crate::config::tls::FileCertificate;
use crate::engines::Engines;
use crate::privileges::Identity;
use crate::telemetry::access_log::LogState;
use crate::telemetry::control::ControlMetrics;
use crate::telemetry::metrics::{Histogram, HistogramTotal, WorkerMetrics};
use crate::upstream::state::UpstreamState;
use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};
use tokio::sync::Notify;

/// The configuration in force and what belongs to it.
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
    /// The engine's name in labels of metrics and in the configuration; `None` if this is not an engine but something that an engine uses.
    #[must_use]
    pub fn engine(&self) -> Option<&'static str> {
        self.name.strip_prefix("engine ")
    }
}

/// What is known of a certificate by ACME.
#[derive(Debug, Clone, Default)]
pub struct CertificateStatus {
    /// When its validity ends; `None`: there is none.
    pub not_after: Option<SystemTime>,
    /// When it is ordered, for the first time or again; `None`: now.
    pub next: Option<SystemTime>,
    /// How many attempts in a row failed.
    pub failures: u32,
    /// Why the last one did.
    pub error: Option<String>,
}

/// By name.
pub type Certificates = BTreeMap<String, CertificateStatus>;

/// Results of reloads.
#[derive(Debug, Clone, Default)]
pub struct Reloads {
    /// How many have begun.
    pub begun: u64,
    /// How many succeeded.
    pub ok: u64,
    /// How many failed.
    pub failed: u64,
    /// The last one; `None` if there was none.
    pub last: Option<ReloadResult>,
}

/// The result of a reload.
#[derive(Debug, Clone)]
pub struct ReloadResult {
    /// When.
    pub at: SystemTime,
    /// `None` if it succeeded.
    pub error: Option<NotReloaded>,
}

/// Why a reload failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// Nothing has changed.
    #[error("the new configuration was rejected and the previous one stays in force: {0}")]
    Refused(String),
    /// Everything has changed but this.
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
    /// Which engines can be used here.
    pub engines: ArcSwap<Vec<EngineStatus>>,
    /// The program's user and privileges.
    pub identity: Identity,
    /// The in-kernel engines, which report their splices.
    pub kernel: Engines,
    /// The cache, if there is one.
    pub cache: Option<Arc<Cache>>,
    /// The log thread's counters.
    pub log: Arc<LogState>,
    /// The control thread's counters.
    pub metrics: Arc<ControlMetrics>,
    /// Tells admin to close its listening socket: the next carrick has asked for the address.
    pub(super) admin_left: Notify,
    draining: AtomicBool,
    reloads: Mutex<Reloads>,
    certificates: Mutex<Certificates>,
    admin_address: Mutex<Option<SocketAddr>>,
}

impl ControlState {
    /// The state of a program that starts now.
    #[must_use]
    pub fn new(
        running: Running,
        cache: Option<Arc<Cache>>,
        workers: Vec<Arc<WorkerMetrics>>,
        engines: Vec<EngineStatus>,
        identity: Identity,
        kernel: Engines,
        log: Arc<LogState>,
    ) -> Self {
        Self {
            started: SystemTime::now(),
            started_at: Instant::now(),
            running: ArcSwap::from_pointee(running),
            workers,
            engines: ArcSwap::from_pointee(engines),
            identity,
            kernel,
            cache,
            log,
            metrics: Arc::default(),
            certificates: Mutex::default(),
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

    /// Replaces the status of an engine.
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

    /// Notes that a reload begins: the file is still to be read.
    pub fn reload_begins(&self) {
        lock(&self.reloads).begun += 1;
    }

    /// Notes the result of a reload.
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

    /// Certificates by ACME.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        lock(&self.certificates).clone()
    }

    /// Certificates of files that listeners show, each file once.
    #[must_use]
    pub fn file_certificates(&self) -> BTreeMap<PathBuf, FileCertificate> {
        let running = self.running.load();
        let listeners = running.plan.listeners.iter();
        let listeners = listeners.filter_map(|listener| listener.tls.as_ref());
        let certificates = listeners.flat_map(|tls| tls.in_force().certificates.clone());
        certificates.map(|one| (one.file.clone(), one)).collect()
    }

    pub(super) fn change_certificates(&self, change: impl FnOnce(&mut Certificates)) {
        change(&mut lock(&self.certificates));
    }

    /// Results of reloads. Counts and last result are consistent.
    #[must_use]
    pub fn reloads(&self) -> Reloads {
        lock(&self.reloads).clone()
    }

    /// The address that admin listens on, with the port that the kernel chose if the configuration has port 0.
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

/// These locks guard values that are replaced as a whole, so a panic elsewhere cannot leave them half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
