//! A client, as those see it who serve it.
use super::kernel_forward::KernelForward;
use super::live::WorkerLive;
use super::worker::{Connector, Worker};
use crate::config::plan::{ListenerPlan, Mode};
use crate::net::admission::Admitted;
use crate::net::deadline::Timer;
use crate::net::transport::Transport;
use crate::net::unread::Unread;
use crate::syn_defer::Kept;
use crate::telemetry::metrics::WorkerMetrics;
use carrick_splice::Paced;
use carrick_splice::tcp::UnreadLimit;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// A client's connection with what belongs to it.
pub struct Client {
    /// The worker that serves it.
    pub worker: Rc<Worker>,
    /// The configuration in force when its present request began.
    pub live: Rc<WorkerLive>,
    /// The listener that it came in by.
    pub listener: Arc<ListenerPlan>,
    /// The connection; [`Absent`](Transport::Absent): something is fetched for the store on the client's behalf, or its SYN is deferred.
    pub transport: Transport,
    /// The address of the sender of requests: of the connection, or of the PROXY header.
    pub address: SocketAddr,
    /// The client of the present request, if a trusted proxy has named it; see [`who`](Client::who).
    pub stated: Option<SocketAddr>,
    /// Its place among those that are let in.
    pub admitted: Option<Rc<Admitted>>,
    /// Where it wanted to go, if it was intercepted.
    pub original: Option<SocketAddr>,
    /// The connection's timer.
    pub timer: Timer,
    /// The server's connection whose responses the kernel forwards to it.
    pub kernel_forward: KernelForward,
    /// What it has of the class by which it is paced; see [`paced`](Client::paced).
    pub kept_pace: KeptPace,
    /// Whether the kernel may keep the end of an answer back, for the next one to go with it; see [`push_held`](Client::push_held).
    pub holds: Cell<bool>,
    /// Whether the connection is to end with the present request: its listener is no longer configured.
    pub is_last: bool,
    /// The server's connection that stood before the client's did.
    pub kept: Cell<Option<Kept>>,
    /// What of the client may wait to be read; see [`limit_unread`](Client::limit_unread).
    pub unread: Cell<Unread>,
}

impl Client {
    /// For what is fetched while this client is served, or has gone.
    #[must_use]
    pub fn background(&self) -> Self {
        let (worker, live) = (Rc::clone(&self.worker), Rc::clone(&self.live));
        let listener = Arc::clone(&self.listener);
        Self {
            stated: self.stated,
            ..Self::without_connection(worker, live, listener, (self.address, self.original))
        }
    }

    /// For one who has no connection yet: its SYN is held.
    #[must_use]
    pub fn waiting(
        worker: &Rc<Worker>,
        live: Rc<WorkerLive>,
        listener: Arc<ListenerPlan>,
        [address, server]: [SocketAddr; 2],
    ) -> Self {
        Self::without_connection(Rc::clone(worker), live, listener, (address, Some(server)))
    }

    fn without_connection(
        worker: Rc<Worker>,
        live: Rc<WorkerLive>,
        listener: Arc<ListenerPlan>,
        (address, original): (SocketAddr, Option<SocketAddr>),
    ) -> Self {
        Self {
            original,
            is_last: true,
            ..Self::new(worker, live, listener, (Transport::Absent, address))
        }
    }

    /// For a connection that was accepted.
    #[must_use]
    pub fn new(
        worker: Rc<Worker>,
        live: Rc<WorkerLive>,
        listener: Arc<ListenerPlan>,
        (transport, address): (Transport, SocketAddr),
    ) -> Self {
        let unread = Unread::new(live.plan().limits.unread);
        Self {
            worker,
            live,
            listener,
            transport,
            address,
            stated: None,
            admitted: None,
            original: None,
            timer: Timer::default(),
            kernel_forward: KernelForward::default(),
            kept_pace: KeptPace::default(),
            holds: Cell::new(false),
            is_last: false,
            kept: Cell::default(),
            unread: Cell::new(unread),
        }
    }

    /// Its worker's counters.
    #[must_use]
    pub fn metrics(&self) -> &Arc<WorkerMetrics> {
        self.worker.metrics()
    }

    /// Limits what the kernel holds of bytes of the client that nobody has read: once for a connection, before much of it is relayed.
    pub fn limit_unread(&self) -> UnreadLimit {
        let mut unread = self.unread.get();
        let limit = unread.begin(&self.transport);
        self.unread.set(unread);
        limit
    }

    /// What the kernel has kept back of answers goes out now. To be called before whatever may have to be waited for.
    pub fn push_held(&self) {
        if self.holds.replace(false) {
            self.transport.push();
        }
    }

    /// The client of the present request, as far as it is known: for access, limits, balancing, pacing and the log.
    #[must_use]
    pub fn who(&self) -> SocketAddr {
        self.stated.unwrap_or(self.address)
    }

    /// Whether the sender is a proxy that is believed what it says of clients.
    #[must_use]
    pub fn is_trusted_proxy(&self) -> bool {
        self.listener.trusted.contain(self.address.ip())
    }

    /// The address that connections to servers are to have; `None`: this machine's.
    #[must_use]
    pub fn source(&self) -> Option<IpAddr> {
        let interception = self.listener.interception.as_ref();
        interception
            .filter(|interception| interception.keeps_client)
            .map(|_| self.address.ip())
    }

    /// Where its connections to servers return to.
    #[must_use]
    pub fn pool(&self) -> Pool<'_> {
        Pool {
            connector: &self.worker.connector,
            source: self.source(),
        }
    }

    /// The port that goes with it, for connections that stand for the client's own: so a server sees the same two ends as without carrick, and
    /// none of the client's connections that go there end to end can be mistaken for one of these. Where connections are tracked, a client's
    /// that is here as well would be mistaken for it: then `None`, too.
    #[must_use]
    pub fn source_port(&self) -> Option<u16> {
        let is_alone = match self.listener.mode {
            Mode::Split(_) | Mode::Tunnel(_) => !self.worker.connector.tracking.is_on(),
            Mode::Link(_) => true,
            _ => false,
        };
        self.source()
            .filter(|_| is_alone)
            .map(|_| self.address.port())
    }
}

/// Where a client's connections to servers return to. Those that have the client's address serve that client alone.
#[derive(Clone, Copy)]
pub struct Pool<'a> {
    pub(crate) connector: &'a Connector,
    pub(crate) source: Option<IpAddr>,
}

/// What follows a request.
pub enum Next {
    /// Another request may come.
    Request,
    /// The connection is closed at once.
    Close,
    /// The connection is closed so that what was just sent arrives.
    CloseGently,
    /// The connection is reset, so that the client notices that the response is not whole.
    Reset,
}

/// What a client has of a class. Dropped with the class, the configuration, or the client.
#[derive(Default)]
pub struct KeptPace(pub(super) Option<Box<(usize, Paced)>>);
