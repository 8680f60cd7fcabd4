//! Resolves names: workers ask, the control thread answers from its cache, the hosts file, or the name servers.
//!
//! A worker's [`WorkerResolver`] has a cache of its own, so that a name in use costs no lock and no message.
mod cache;
mod name;
mod name_servers;
mod service;

pub(crate) use service::{Service, resolver};

use crate::telemetry::ControlMetrics;
use crate::telemetry::metrics::WorkerMetrics;
use cache::NameCache;
use carrick_logic::access::network_of_client;
use name::Host;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// How names are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsOptions {
    /// Name servers; empty: those of `/etc/resolv.conf`, and its search domains for the configuration's names of one label.
    pub servers: Vec<SocketAddr>,
    /// Whether `/etc/hosts` is consulted first.
    pub hosts: bool,
    /// Limit on a whole look-up.
    pub timeout: Duration,
    /// Most names in the cache.
    pub names_max: usize,
}

impl DnsOptions {
    /// As the system is configured.
    #[must_use]
    pub fn system(names_max: usize) -> Self {
        Self {
            servers: Vec::new(),
            hosts: true,
            timeout: Duration::from_secs(5),
            names_max,
        }
    }
}

/// Why a name has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// It is not a valid name.
    #[error("this is not a host name")]
    Invalid,
    /// The name servers say that it does not exist.
    #[error("there is no such name")]
    NoSuchName,
    /// It has neither A nor AAAA records.
    #[error("the name exists, but has no address")]
    NoAddress,
    /// The name servers refused, failed, or cannot be reached.
    #[error("the name servers failed to answer for this name")]
    ServerFailure,
    /// No answer came.
    #[error("the name servers did not answer in time")]
    Timeout,
    /// A limit on look-ups is reached, or carrick is ending.
    #[error("too many names are being resolved")]
    Busy,
}

impl ResolveError {
    /// The status of the response to a client whose request needed the name.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::NoSuchName | Self::NoAddress | Self::ServerFailure => 502,
            Self::Busy => 503,
            Self::Timeout => 504,
        }
    }
}

/// Who named what is to be resolved: clients share slots of their own, and cannot take those of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamedBy {
    /// The configuration: servers, health checks, parents, certificate authorities.
    #[default]
    Configuration,
    /// A client of this network.
    Client(IpAddr),
}

impl NamedBy {
    /// The client with this address.
    #[must_use]
    pub fn client(address: IpAddr) -> Self {
        Self::Client(network_of_client(address))
    }
}

/// The addresses of a name, at least one, or why there are none.
type Addresses = Result<Arc<[IpAddr]>, ResolveError>;

/// An answer and how long it may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    addresses: Addresses,
    valid_until: Instant,
}

#[derive(Debug)]
struct Request {
    name: Box<str>,
    named_by: NamedBy,
    reply: oneshot::Sender<Answer>,
}

/// Asks the control thread; cheap to clone.
#[derive(Debug, Clone)]
pub struct Resolver {
    queue: mpsc::Sender<Request>,
    metrics: Arc<ControlMetrics>,
}

impl Resolver {
    /// The addresses of `name` of the configuration, at least one. An address literal yields itself.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub async fn resolve(&self, name: &str) -> Result<Arc<[IpAddr]>, ResolveError> {
        match Host::parse(name, NamedBy::Configuration)? {
            Host::Addresses(addresses) => Ok(addresses),
            Host::Name(name) => {
                let answer = self.ask(&name, NamedBy::Configuration).await?;
                answer.addresses
            }
        }
    }

    /// `name` must be in normal form.
    async fn ask(&self, name: &str, named_by: NamedBy) -> Result<Answer, ResolveError> {
        let (reply, answer) = oneshot::channel();
        let request = Request {
            name: name.into(),
            named_by,
            reply,
        };
        let is_full = named_by != NamedBy::Configuration
            && self.queue.capacity() <= service::QUEUE_OF_CONFIGURATION;
        if is_full || self.queue.try_send(request).is_err() {
            self.metrics.dns_refused.fetch_add(1, Relaxed);
            return Err(ResolveError::Busy);
        }
        answer.await.map_err(|_| ResolveError::Busy)
    }
}

/// A worker's own resolver: answers from a cache that no other thread uses, else asks the control thread.
#[derive(Debug)]
pub struct WorkerResolver {
    resolver: Resolver,
    cache: RefCell<NameCache<Answer>>,
    /// How often it was emptied: answers to questions from before are not kept.
    forgotten: Cell<u64>,
    metrics: Arc<WorkerMetrics>,
}

impl WorkerResolver {
    /// With a cache of at most `names_max` names.
    #[must_use]
    pub fn new(resolver: Resolver, names_max: usize, metrics: Arc<WorkerMetrics>) -> Self {
        Self {
            resolver,
            cache: RefCell::new(NameCache::new(names_max)),
            forgotten: Cell::new(0),
            metrics,
        }
    }

    /// The addresses of `name`, at least one. An address literal yields itself.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub async fn resolve(
        &self,
        name: &str,
        named_by: NamedBy,
    ) -> Result<Arc<[IpAddr]>, ResolveError> {
        let name: Cow<'_, str> = match Host::parse(name, named_by)? {
            Host::Addresses(addresses) => return Ok(addresses),
            Host::Name(name) => name,
        };
        if let Some(addresses) = self.cached(&name) {
            self.metrics.dns_hits.add(1);
            return addresses;
        }
        self.metrics.dns_misses.add(1);
        let forgotten = self.forgotten.get();
        let answer = self.resolver.ask(&name, named_by).await?;
        let addresses = answer.addresses.clone();
        if self.forgotten.get() == forgotten {
            let valid_until = answer.valid_until;
            let mut cache = self.cache.borrow_mut();
            cache.insert(&name, answer, valid_until, Instant::now());
            self.metrics.dns_evicted.add(cache.take_evicted());
        }
        addresses
    }

    /// Empties the cache: the control thread has read its sources again.
    pub fn forget(&self) {
        self.cache.borrow_mut().clear();
        self.forgotten.set(self.forgotten.get() + 1);
    }

    fn cached(&self, name: &str) -> Option<Addresses> {
        let mut cache = self.cache.borrow_mut();
        cache
            .get(name, Instant::now())
            .map(|answer| answer.addresses.clone())
    }
}

#[cfg(test)]
mod tests;
