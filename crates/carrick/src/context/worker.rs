//! A running worker, as its sessions have it.
use super::idle::IdleSessions;
use super::live::WorkerLive;
use super::tunnels::TunnelList;
use crate::cache::Cache;
use crate::net::admission::Admission;
use crate::net::clock::Clock;
use crate::net::scratch::ScratchPool;
use crate::net::tracking::Tracking;
use crate::net::transport::Network;
use crate::path_history::PathHistory;
use crate::resolver::WorkerResolver;
use crate::syn_defer::DeferredSyns;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::forwarded::Forwarded;
use crate::telemetry::metrics::WorkerMetrics;
use crate::upstream::origins::Origins;
use carrick_splice::ktls::KtlsService;
use carrick_splice::tcp_tuning::TcpTuning;
use carrick_splice::{Drain, Pacer, Splicer};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// After serving its own requests for this long, a worker forwards some of what has waited since it began.
const FORWARD_AFTER: Duration = Duration::from_millis(20);

/// A running worker, shared by its sessions. What a function needs of it is in one of its parts.
pub struct Worker {
    /// Its number, from 0.
    pub number: usize,
    /// The splice service of this thread.
    pub splicer: Splicer,
    /// TLS by the kernel.
    pub ktls: KtlsService,
    /// Its part in pacing what it splices.
    pub pacer: Pacer,
    /// Connections to servers.
    pub connector: Connector,
    /// What is stored.
    pub store: WorkerStore,
    /// What is counted and logged.
    pub telemetry: Telemetry,
    /// Its sessions, and their end.
    pub sessions: Sessions,
    /// Its tunnels.
    pub tunnels: Rc<TunnelList>,
    /// Buffers for requests under way.
    pub scratch: Rc<ScratchPool>,
    /// The time of day.
    pub clock: Clock,
}

/// What connections to servers are opened with, and which of them are idle.
pub struct Connector {
    /// Where they are opened.
    pub network: Network,
    /// Name resolution.
    pub resolver: WorkerResolver,
    /// Limits on connections.
    pub admission: Arc<Admission>,
    /// Gives connections their TCP profiles.
    pub tcp_tuning: TcpTuning,
    /// Idle connections of the forward jobs, by destination.
    pub origins: Origins,
    /// Deferred SYNs, and the connections to servers that were opened for them.
    pub deferred_syns: DeferredSyns,
    /// Whether a firewall of this machine tracks connections.
    pub tracking: Tracking,
    /// Counts connections that are opened, fail, and are closed.
    pub metrics: Arc<WorkerMetrics>,
    pub(crate) live: RefCell<Rc<WorkerLive>>,
}

/// The store, as a worker uses it.
#[derive(Default)]
pub struct WorkerStore {
    /// What all workers have stored, if there is a cache.
    pub cache: Option<Arc<Cache>>,
    /// How many objects are being prefetched.
    pub prefetches: Cell<usize>,
}

/// What is counted, logged and measured.
pub struct Telemetry {
    /// Counters.
    pub metrics: Arc<WorkerMetrics>,
    /// Access log.
    pub log: AccessLog,
    /// Clients whose requests the kernel may forward.
    pub forwarded: Arc<Forwarded>,
    /// Whether to split connections.
    pub path_history: Arc<PathHistory>,
    /// Cloned for each connection whose acknowledgement is awaited.
    pub acknowledgements: Rc<()>,
}

/// The sessions of a worker, and how they are told to end.
#[derive(Default)]
pub struct Sessions {
    pub(crate) idle: IdleSessions,
    /// Those that are to tell their clients at once that there is a drain.
    pub(crate) told: IdleSessions,
    /// Their connections, so that the end of a drain reaches them.
    pub(crate) clients: RefCell<Slab<Weak<TcpStream>>>,
    pub(crate) draining: Cell<bool>,
    pub(crate) dismiss_idle: Cell<bool>,
    pub(crate) cut_off: Cell<bool>,
    pub(crate) cut_off_now: Notify,
    pub(crate) session_ended: Notify,
}

impl Worker {
    /// The plan in force.
    #[must_use]
    pub fn live(&self) -> Rc<WorkerLive> {
        self.connector.live()
    }

    /// Its counters.
    #[must_use]
    pub fn metrics(&self) -> &Arc<WorkerMetrics> {
        &self.telemetry.metrics
    }

    /// Waits until a peer has what was sent to it before the other end of its connection failed, unless it takes nothing,
    /// or the drain's time is over: then its connection may be reset.
    pub async fn deliver(&self, to: &TcpStream) {
        tokio::select! {
            () = self.splicer.deliver(to) => {}
            () = self.sessions.wait_for_cut_off() => {}
        }
    }

    /// If the worker has had work of its own for long, what is spliced gets its turn: some of what waited when that began.
    pub fn forward_if_late(&self) {
        if self.pacer.is_waited_for() && self.pacer.holds_back_for() > FORWARD_AFTER {
            self.pacer.forward(Drain::BeforeActive);
        }
    }
}

impl Connector {
    /// The plan in force.
    #[must_use]
    pub fn live(&self) -> Rc<WorkerLive> {
        Rc::clone(&self.live.borrow())
    }

    /// Closes at most `count` idle connections to servers.
    pub fn close_idle(&self, count: usize) {
        let live = self.live();
        for _ in 0..count {
            let is_closed =
                self.origins.close_one() || live.groups.iter().any(|group| group.close_one());
            if !is_closed {
                return;
            }
        }
    }
}

impl Sessions {
    /// Whether clients are to be told that their connection will be closed.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Whether the drain's time is over, and clients were reset.
    #[must_use]
    pub fn has_cut_off(&self) -> bool {
        self.cut_off.get()
    }

    /// Returns when the drain's time is over.
    pub async fn wait_for_cut_off(&self) {
        let now = self.cut_off_now.notified();
        if !self.has_cut_off() {
            now.await;
        }
    }

    /// From now on, clients are to be told that their connection will be closed.
    pub fn drain(&self) {
        self.draining.set(true);
        self.told.wake_all();
    }

    /// Waits for `ready`; `None`: a drain has begun, unless the client `is_told`.
    pub async fn wait_while_serving<F: Future + Unpin>(
        &self,
        ready: F,
        is_told: bool,
    ) -> Option<F::Output> {
        let has_begun = || !is_told && self.is_draining();
        self.told.wait(ready, has_begun).await
    }

    /// Waits for `ready` as an idle session; `None`: idle clients are to be closed now.
    pub async fn wait_idle<F: Future + Unpin>(&self, ready: F) -> Option<F::Output> {
        self.idle.wait(ready, || self.dismiss_idle.get()).await
    }
}

/// Counts a session while it lives.
pub struct SessionGuard {
    worker: Rc<Worker>,
    key: usize,
}

impl SessionGuard {
    /// One that begins now.
    #[must_use]
    pub fn new(worker: &Rc<Worker>, client: &Rc<TcpStream>) -> Self {
        worker.metrics().connections_accepted.add(1);
        Self {
            worker: Rc::clone(worker),
            key: worker
                .sessions
                .clients
                .borrow_mut()
                .insert(Rc::downgrade(client)),
        }
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        drop(
            self.worker
                .sessions
                .clients
                .borrow_mut()
                .try_remove(self.key),
        );
        self.worker.metrics().connections_closed.add(1);
        self.worker.sessions.session_ended.notify_one();
    }
}
