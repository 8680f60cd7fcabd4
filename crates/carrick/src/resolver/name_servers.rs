//! One look-up: hosts file, then name servers, A and AAAA in parallel.
use super::{Addresses, DnsOptions, ResolveError};
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Answers are kept for at least this long, whatever their TTL: a name with TTL 0 would be looked up for every request.
pub(super) const KEEP_MIN: Duration = Duration::from_secs(1);
/// Answers are kept for at most this long.
pub(super) const KEEP_MAX: Duration = Duration::from_secs(3600);
/// Bounds for names that do not exist or have no address (their TTL: RFC 2308 section 5).
pub(super) const KEEP_NEGATIVE: (Duration, Duration) =
    (Duration::from_secs(5), Duration::from_secs(30));
/// Failures are kept only so that a burst of requests does not cause a burst of look-ups.
pub(super) const KEEP_FAILURE: Duration = Duration::from_secs(1);
/// The hosts file is read at start and at reload; workers notice a change within this time.
const KEEP_HOSTS: Duration = Duration::from_secs(5);
/// If one family's look-up fails, the other's addresses are used for this time.
const KEEP_PARTIAL: Duration = Duration::from_secs(10);
/// How long one family waits for the other (RFC 8305 section 3). In tests, some of which have real time, both are to come.
pub(super) const OTHER_FAMILY_WAIT: Duration =
    Duration::from_millis(if cfg!(test) { 5000 } else { 300 });
/// Addresses of one family that are kept of a name. A connection tries six; more tell whether a server still has its address.
const ADDRESSES_MAX: usize = 256;
/// Attempts per question.
const TRIES: u32 = 3;

/// The result of a look-up, and how long it is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub addresses: Addresses,
    pub keep: Duration,
}

impl Found {
    fn failure(error: ResolveError) -> Self {
        Self {
            addresses: Err(error),
            keep: KEEP_FAILURE,
        }
    }
}

/// The hosts file and name servers as configured at one moment.
pub(super) struct NameServers {
    resolver: TokioResolver,
    hosts: Option<Hosts>,
    search: Vec<Name>,
    timeout: Duration,
}

impl NameServers {
    /// Reads the system's files. Must be called within the runtime that will do the look-ups.
    ///
    /// # Errors
    /// No resolver can be built from this configuration.
    pub fn new(options: &DnsOptions) -> Result<Self, NetError> {
        let (config, mut resolver_options) = if options.servers.is_empty() {
            system_config()
        } else {
            (config_for(&options.servers), ResolverOpts::default())
        };
        let mut search = config.search().to_vec();
        if search.is_empty() {
            search.extend(config.domain().cloned());
        }
        // The cache and the hosts file of this module are used instead: the library would ask name servers for a family
        // that is missing in the hosts file, and could take the two families of one name from two search domains.
        resolver_options.cache_size = 0;
        resolver_options.use_hosts_file = ResolveHosts::Never;
        resolver_options.timeout = resolver_options.timeout.min(options.timeout / TRIES);
        resolver_options.attempts = TRIES as usize - 1;
        let mut builder =
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = resolver_options;
        let hosts = options.hosts.then(|| {
            Hosts::from_system().unwrap_or_else(|error| {
                tracing::warn!("cannot read the hosts file: {error}");
                Hosts::default()
            })
        });
        Ok(Self {
            resolver: builder.build()?,
            hosts,
            search,
            timeout: options.timeout,
        })
    }

    /// Replaces the hosts file and the search domains.
    #[cfg(test)]
    pub fn with(mut self, hosts: &str, search: &[&str]) -> Self {
        let mut read = Hosts::default();
        read.read_hosts_conf(hosts.as_bytes()).unwrap();
        self.hosts = Some(read);
        self.search = search
            .iter()
            .map(|domain| Name::from_ascii(domain).unwrap())
            .collect();
        self
    }

    /// Looks up a name in normal form.
    pub async fn look_up(&self, name: &str) -> Found {
        match tokio::time::timeout(self.timeout, self.search(name)).await {
            Ok(found) => found,
            Err(_) => Found::failure(ResolveError::Timeout),
        }
    }

    /// Names with a dot, inside or at the end, are absolute, whatever `ndots` says: a proxy's answer must not depend on its
    /// own domain.
    async fn search(&self, name: &str) -> Found {
        let is_relative = !name.contains('.');
        let Ok(mut name) = Name::from_ascii(name) else {
            return Found::failure(ResolveError::Invalid);
        };
        name.set_fqdn(true);
        if let Some(found) = self.in_hosts(&name) {
            return found;
        }
        let mut failure = None;
        if is_relative {
            let mut relative = name.clone();
            relative.set_fqdn(false);
            for domain in &self.search {
                let Ok(mut candidate) = relative.clone().append_domain(domain) else {
                    continue;
                };
                candidate.set_fqdn(true);
                let found = self.in_hosts(&candidate);
                let found = if let Some(found) = found {
                    found
                } else {
                    self.both_families(&candidate).await
                };
                match found.addresses {
                    Ok(_) => return found,
                    Err(ResolveError::NoSuchName | ResolveError::NoAddress) => {}
                    Err(_) => failure = Some(found),
                }
            }
        }
        let found = self.both_families(&name).await;
        match (&found.addresses, failure) {
            // If a candidate's look-up failed, it is unknown whether the name exists.
            (Err(_), Some(failure)) => failure,
            _ => found,
        }
    }

    fn in_hosts(&self, name: &Name) -> Option<Found> {
        let hosts = self.hosts.as_ref()?;
        let mut addresses = Vec::new();
        for family in [RecordType::A, RecordType::AAAA] {
            if let Some(lookup) = hosts.lookup_static_host(&Query::query(name.clone(), family)) {
                addresses.extend(
                    lookup
                        .answers()
                        .iter()
                        .filter_map(|record| record.data.ip_addr()),
                );
            }
        }
        (!addresses.is_empty()).then(|| Found {
            addresses: Ok(addresses.into()),
            keep: KEEP_HOSTS,
        })
    }

    async fn both_families(&self, name: &Name) -> Found {
        let mut ipv4 = std::pin::pin!(self.one_family(name, RecordType::A));
        let mut ipv6 = std::pin::pin!(self.one_family(name, RecordType::AAAA));
        tokio::select! {
            first = &mut ipv4 => join(first, ipv6).await,
            first = &mut ipv6 => join(first, ipv4).await,
        }
    }

    async fn one_family(&self, name: &Name, family: RecordType) -> Found {
        let lookup = match self.resolver.lookup(name.clone(), family).await {
            Ok(lookup) => lookup,
            Err(error) => return failed(&error),
        };
        let addresses: Vec<IpAddr> = lookup
            .answers()
            .iter()
            .filter_map(|record| record.data.ip_addr())
            .take(ADDRESSES_MAX)
            .collect();
        if addresses.is_empty() {
            // An alias to a name without such records.
            return Found {
                addresses: Err(ResolveError::NoAddress),
                keep: KEEP_NEGATIVE.0,
            };
        }
        let ttl = lookup
            .valid_until()
            .saturating_duration_since(Instant::now());
        Found {
            addresses: Ok(addresses.into()),
            keep: ttl.clamp(KEEP_MIN, KEEP_MAX),
        }
    }
}

pub(super) async fn join(first: Found, second: impl Future<Output = Found>) -> Found {
    if first.addresses.is_err() {
        return combine(first, second.await);
    }
    match tokio::time::timeout(OTHER_FAMILY_WAIT, second).await {
        Ok(second) => combine(first, second),
        Err(_) => Found {
            keep: first.keep.min(KEEP_PARTIAL),
            ..first
        },
    }
}

/// Combines the answers of both families.
fn combine(first: Found, second: Found) -> Found {
    use ResolveError::{NoAddress, NoSuchName};
    match (&first.addresses, &second.addresses) {
        (Ok(a), Ok(b)) => {
            let addresses = a.iter().chain(b.iter()).copied().collect();
            Found {
                addresses: Ok(addresses),
                keep: first.keep.min(second.keep),
            }
        }
        (Ok(_), Err(NoAddress | NoSuchName)) => first,
        (Err(NoAddress | NoSuchName), Ok(_)) => second,
        (Ok(_), Err(_)) => Found {
            keep: first.keep.min(KEEP_PARTIAL),
            ..first
        },
        (Err(_), Ok(_)) => Found {
            keep: second.keep.min(KEEP_PARTIAL),
            ..second
        },
        (Err(NoSuchName), Err(_)) => first,
        (Err(_), Err(NoSuchName)) => second,
        // One family's failure leaves open whether there are addresses.
        (Err(NoAddress), Err(_)) => second,
        (Err(_), Err(_)) => first,
    }
}

fn failed(error: &NetError) -> Found {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            let missing = if none.response_code == ResponseCode::NXDomain {
                ResolveError::NoSuchName
            } else {
                ResolveError::NoAddress
            };
            let (least, most) = KEEP_NEGATIVE;
            let ttl = none
                .negative_ttl
                .map_or(least, |seconds| Duration::from_secs(u64::from(seconds)));
            Found {
                addresses: Err(missing),
                keep: ttl.clamp(least, most),
            }
        }
        NetError::Timeout => Found::failure(ResolveError::Timeout),
        _ => Found::failure(ResolveError::ServerFailure),
    }
}

fn config_for(servers: &[SocketAddr]) -> ResolverConfig {
    let servers = servers.iter().map(|server| {
        let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
        for connection in &mut connections {
            connection.port = server.port();
        }
        NameServerConfig::new(server.ip(), true, connections)
    });
    ResolverConfig::from_name_servers(servers.collect())
}

/// Without a usable `/etc/resolv.conf` the name server is on this machine, as in resolv.conf(5).
fn system_config() -> (ResolverConfig, ResolverOpts) {
    let text = std::fs::read("/etc/resolv.conf").map_err(NetError::from);
    let read = text.and_then(|bytes| resolv_conf(&String::from_utf8_lossy(&bytes)));
    read.unwrap_or_else(|error| {
        tracing::warn!("cannot use /etc/resolv.conf: {error}; using the name server 127.0.0.1");
        (
            config_for(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 53))]),
            ResolverOpts::default(),
        )
    })
}

/// Reads the text of resolv.conf(5). Search domains that are no names are left out: the library would refuse the whole file.
pub(super) fn resolv_conf(text: &str) -> Result<(ResolverConfig, ResolverOpts), NetError> {
    let mut usable = String::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(key @ ("search" | "domain")) => {
                usable += key;
                for domain in words.take_while(|word| !word.starts_with(['#', ';'])) {
                    match Name::from_str_relaxed(domain) {
                        Ok(_) => usable.extend([" ", domain]),
                        Err(error) => tracing::warn!(
                            "the search domain \"{domain}\" in /etc/resolv.conf is left out: {error}"
                        ),
                    }
                }
            }
            _ => usable += line,
        }
        usable.push('\n');
    }
    system_conf::parse_resolv_conf(usable)
}
