//! What a request is decided, fetched and logged by. It needs no connection of the client's.
use super::live::WorkerLive;
use super::pinned::Pinned;
use super::worker::{Connector, Worker};
use crate::config::plan::{ListenerPlan, Mode, ProxyVersion};
use crate::net::transport::tls::Agreed;
use crate::telemetry::metrics::WorkerMetrics;
use carrick_logic::http1::Scheme;
use carrick_logic::proxy_protocol::{self, Endpoints};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// Who asks, where, and under which configuration. A client has one that its requests change; a copy serves for what is fetched in the
/// background, while the client is served or after it has gone; and one is made for a client whose SYN is deferred.
#[derive(Clone)]
pub struct RequestContext {
    /// The worker that serves the client.
    pub worker: Rc<Worker>,
    /// The configuration in force when the present request began.
    pub live: Rc<WorkerLive>,
    /// The listener that the client came in by.
    pub listener: Arc<ListenerPlan>,
    /// The address of the sender of requests: of the connection, or of the PROXY header.
    pub address: SocketAddr,
    /// Where it connected to, by the PROXY header. Boxed: few clients have one.
    pub destination: Option<Box<SocketAddr>>,
    /// The client of the present request, if a trusted proxy has named it; see [`who`](RequestContext::who).
    pub stated: Option<SocketAddr>,
    /// What TLS has agreed with it; `None`: it speaks plainly.
    pub tls: Option<Rc<Agreed>>,
    /// Whether it speaks HTTP/2.
    pub is_http2: bool,
    /// Where the client wanted to go, if it was intercepted.
    pub original: Option<SocketAddr>,
    /// The server's connection that is the client's alone.
    pub pinned: Pinned,
}

impl RequestContext {
    /// For a sender of requests that was not intercepted.
    #[must_use]
    pub fn new(
        worker: Rc<Worker>,
        live: Rc<WorkerLive>,
        listener: Arc<ListenerPlan>,
        address: SocketAddr,
    ) -> Self {
        Self {
            worker,
            live,
            listener,
            address,
            destination: None,
            stated: None,
            tls: None,
            is_http2: false,
            original: None,
            pinned: Pinned::default(),
        }
    }

    /// The worker's counters.
    #[must_use]
    pub fn metrics(&self) -> &Arc<WorkerMetrics> {
        self.worker.metrics()
    }

    /// The scheme of what is asked for here. Clients of a forward proxy name the scheme; TLS is between them and the proxy.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        match (&self.tls, &self.listener.mode) {
            (Some(_), Mode::Switch(_)) => Scheme::Https,
            _ => Scheme::Http,
        }
    }

    /// The subject of the client's certificate, which was verified.
    #[must_use]
    pub fn client_subject(&self) -> Option<&str> {
        self.tls.as_ref()?.client_subject.as_deref()
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
        self.source_mark().map(|_| self.address.ip())
    }

    /// The PROXY header for a server, if the client has connected to `own`. A server that expects one gets one without a client,
    /// too, or if the client has gone.
    #[must_use]
    pub fn proxy_header(&self, version: ProxyVersion, own: Option<SocketAddr>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let is_version_1 = version == ProxyVersion::V1;
        match own {
            Some(own) => {
                let endpoints = Endpoints {
                    source: self.who(),
                    destination: self.destination.as_deref().copied().unwrap_or(own),
                };
                proxy_protocol::write(&mut bytes, &endpoints, is_version_1);
            }
            None => proxy_protocol::write_local(&mut bytes, is_version_1),
        }
        bytes
    }

    /// The mark of connections with the client's address.
    #[must_use]
    pub fn source_mark(&self) -> Option<u32> {
        let interception = self.listener.interception.as_ref();
        interception
            .filter(|interception| interception.keeps_client)
            .map(|interception| interception.mark)
    }

    /// Where connections to servers return to.
    #[must_use]
    pub fn pool(&self) -> Pool<'_> {
        Pool {
            connector: &self.worker.connector,
            source: self.source(),
            pinned: self.may_pin().then_some(&self.pinned),
        }
    }

    /// Whether a server's connection that a request has authenticated may stay with the connection that the request came by: what comes
    /// by that of a trusted proxy may be another client's.
    #[must_use]
    pub fn may_pin(&self) -> bool {
        !self.is_trusted_proxy()
    }

    /// The port that goes with [`source`](RequestContext::source), for connections that stand for the client's own: so a server sees the same
    /// two ends as without carrick, and none of the client's connections that go there end to end can be mistaken for one of these. `None` also
    /// where connections are tracked, since a client's connection through this machine would be mistaken for it.
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
    pub(crate) pinned: Option<&'a Pinned>,
}
