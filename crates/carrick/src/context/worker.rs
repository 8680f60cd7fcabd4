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
use crate::path_history::Learned;
use crate::resolver::WorkerResolver;
use crate::syn_defer::Handshakes;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::forwarded::Forwarded;
use crate::telemetry::metrics::WorkerMetrics;
use carrick_splice::tcp_tuning::LegService;
use carrick_splice::{Drain, Pacer, Splicer};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// So long a worker serves its own requests before it lets go some of what has waited since it began to.
const FORWARD_AFTER: Duration = Duration::from_millis(20);

/// A running worker, shared by its sessions.
pub struct Worker {
    /// Its number, from 0.
    pub number: usize,
    /// The splice service of this thread.
    pub splicer: Splicer,
    /// Asks leg profiles of connections.
    pub legs: LegService,
    /// Its part in pacing what it splices.
    pub pacer: Pacer,
    /// Counters.
    pub metrics: Arc<WorkerMetrics>,
    /// Clients whose requests the kernel may forward.
    pub forwarded: Arc<Forwarded>,
    /// Whether to split connections.
    pub learned: Arc<Learned>,
    /// Cloned for each connection whose acknowledgement is awaited.
    pub settling: Rc<()>,
    /// Access log.
    pub log: AccessLog,
    /// Where connections to servers are opened.
    pub network: Network,
    /// Name resolution.
    pub resolver: WorkerResolver,
    /// What all workers have stored, if there is a cache.
    pub cache: Option<Arc<Cache>>,
    /// Buffers for requests under way.
    pub scratch: Rc<ScratchPool>,
    /// The time of day.
    pub clock: Clock,
    /// Its tunnels.
    pub tunnels: Rc<TunnelList>,
    /// Idle sessions.
    pub idle: IdleSessions,
    /// Idle connections of the forward jobs, by destination.
    pub origins: crate::upstream::origins::Origins,
    /// Limits on connections.
    pub admission: Arc<Admission>,
    /// Deferred SYNs.
    pub handshakes: Handshakes,
    /// Whether a firewall of this machine tracks connections.
    pub tracking: Tracking,
    /// How many objects are being fetched ahead.
    pub fetching_ahead: Cell<usize>,
    pub(crate) live: RefCell<Rc<WorkerLive>>,
    pub(crate) draining: Cell<bool>,
    pub(crate) dismiss_idle: Cell<bool>,
    /// The connections of the sessions, so that the end of a drain reaches them.
    pub(crate) clients: RefCell<Slab<Weak<TcpStream>>>,
    pub(crate) cut_off: Cell<bool>,
    pub(crate) cut_off_now: Notify,
    pub(crate) session_ended: Notify,
}

impl Worker {
    /// The plan in force.
    #[must_use]
    pub fn live(&self) -> Rc<WorkerLive> {
        Rc::clone(&self.live.borrow())
    }

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

    /// If the worker has had work of its own for long, what is spliced gets its turn: some of what waited when that began.
    pub fn forward_if_late(&self) {
        if self.pacer.is_waited_for() && self.pacer.holds_back_for() > FORWARD_AFTER {
            self.pacer.forward(Drain::BeforeActive);
        }
    }

    /// Closes so many idle connections to servers, if there are as many.
    pub fn close_idle_upstreams(&self, count: usize) {
        let live = self.live();
        for _ in 0..count {
            let is_closed =
                self.origins.close_one() || live.groups.iter().any(|group| group.close_one());
            if !is_closed {
                return;
            }
        }
    }

    /// Whether idle clients are to be closed now.
    #[must_use]
    pub fn dismisses_idle(&self) -> bool {
        self.dismiss_idle.get()
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
        worker.metrics.connections_accepted.add(1);
        Self {
            worker: Rc::clone(worker),
            key: worker.clients.borrow_mut().insert(Rc::downgrade(client)),
        }
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        drop(self.worker.clients.borrow_mut().try_remove(self.key));
        self.worker.metrics.connections_closed.add(1);
        self.worker.session_ended.notify_one();
    }
}
