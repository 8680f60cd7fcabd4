//! Names to addresses: workers ask, the control thread answers from its cache, the hosts file, or the name servers.
use crate::telemetry::metrics::WorkerMetrics;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How names are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsOptions {
    /// Name servers; empty: those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// Whether `/etc/hosts` is asked first.
    pub hosts: bool,
    /// Limit on a whole look-up.
    pub timeout: Duration,
    /// Most names in the cache.
    pub names_max: usize,
}

/// Why a name has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// For a client: 400 where the name is its own.
    #[error("this is not a host name")]
    Invalid,
    /// For a client: 502.
    #[error("no such name")]
    NoSuchName,
    /// For a client: 502.
    #[error("the name exists, but has no address")]
    NoAddress,
    /// For a client: 502.
    #[error("the name servers failed to answer this")]
    ServerFailure,
    /// For a client: 504.
    #[error("the name servers did not answer in time")]
    Timeout,
    /// For a client: 503.
    #[error("too many names are being resolved")]
    Busy,
}

impl ResolveError {
    /// The status for a client whose request needed the name.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::NoSuchName | Self::NoAddress | Self::ServerFailure => 502,
            Self::Timeout => 504,
            Self::Busy => 503,
        }
    }
}

/// Asks the control thread; cheap to clone.
#[derive(Debug, Clone)]
pub struct Resolver {}

impl Resolver {
    /// The addresses of `name`, at least one. Address literals answer themselves.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub async fn resolve(&self, name: &str) -> Result<Arc<[IpAddr]>, ResolveError> {
        let _ = name;
        Err(ResolveError::Busy)
    }
}

/// A worker's own resolver: answers from a cache that nobody else touches, else asks the control thread.
#[derive(Debug)]
pub struct WorkerResolver {
    resolver: Resolver,
}

impl WorkerResolver {
    /// With a cache of at most `names_max` names.
    #[must_use]
    pub fn new(resolver: Resolver, names_max: usize, metrics: Arc<WorkerMetrics>) -> Self {
        let _ = (names_max, metrics);
        Self { resolver }
    }

    /// The addresses of `name`, at least one.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub async fn resolve(&self, name: &str) -> Result<Arc<[IpAddr]>, ResolveError> {
        self.resolver.resolve(name).await
    }
}
