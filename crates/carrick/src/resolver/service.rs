//! The control thread's side: answers workers' questions; concurrent questions for a name share one look-up.
use super::cache::NameCache;
use super::name_servers::{Found, KEEP_FAILURE, NameServers};
use super::{Answer, DnsOptions, NamedBy, Request, ResolveError, Resolver};
use crate::telemetry::{ControlMetrics, LookupResult};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

/// Most questions waiting for the control thread.
const QUEUE_MAX: usize = 1024;

/// So many of them only names of the configuration can have.
pub(super) const QUEUE_OF_CONFIGURATION: usize = QUEUE_MAX / 4;

/// Most concurrent look-ups. Each uses two sockets.
const LOOKUPS_MAX: usize = 256;

/// Most of them for names that clients gave.
const LOOKUPS_OF_CLIENTS_MAX: usize = LOOKUPS_MAX / 4 * 3;

/// Most questions waiting for look-ups.
const WAITING_MAX: usize = 16 * 1024;

/// Most of them for names that clients gave.
const WAITING_OF_CLIENTS_MAX: usize = WAITING_MAX / 4 * 3;

/// How long the last addresses of a name of the configuration are used while name servers fail (RFC 8767 section 5 has days; the
/// addresses of servers that are still there are meant).
const STALE_MAX: Duration = Duration::from_secs(3600);

/// A resolver, and the queue of its questions for a [`Service`].
pub(crate) fn resolver(metrics: Arc<ControlMetrics>) -> (Resolver, Questions) {
    let (queue, requests) = mpsc::channel(QUEUE_MAX);
    (Resolver { queue, metrics }, Questions(requests))
}

/// Questions from resolvers.
#[derive(Debug)]
pub(crate) struct Questions(mpsc::Receiver<Request>);

/// Answers questions until dropped.
pub(crate) struct Service {
    name_servers: Option<Arc<NameServers>>,
    cache: NameCache<Answer>,
    /// The last addresses of names of the configuration.
    last_good: NameCache<LastGood>,
    tasks: JoinSet<Found>,
    names: HashMap<Id, Box<str>>,
    lookups: HashMap<Box<str>, LookUp>,
    metrics: Arc<ControlMetrics>,
}

/// Addresses that are used while name servers fail.
struct LastGood {
    addresses: Arc<[IpAddr]>,
    /// They have failed since: nobody waits for them any more.
    is_needed: bool,
}

impl LastGood {
    /// To be asked for again soon.
    fn answer(&self) -> Answer {
        Answer {
            addresses: Ok(Arc::clone(&self.addresses)),
            valid_until: Instant::now() + KEEP_FAILURE,
        }
    }
}

/// A look-up under way.
struct LookUp {
    /// For whom it began.
    named_by: NamedBy,
    /// Whether the configuration has its name.
    is_configured: bool,
    /// Whether its answer is kept: not if the sources have changed since.
    is_kept: bool,
    task: AbortHandle,
    waiting: Vec<(NamedBy, oneshot::Sender<Answer>)>,
}

impl LookUp {
    /// Whether its answer is waited for. Removes those who gave up only as far as needed, so that asking often is cheap.
    fn is_awaited(&mut self) -> bool {
        while self
            .waiting
            .pop_if(|(_, reply)| reply.is_closed())
            .is_some()
        {}
        !self.waiting.is_empty()
    }
}

impl Service {
    /// Must be called within a runtime.
    pub fn new(options: &DnsOptions, metrics: Arc<ControlMetrics>) -> Self {
        Self {
            name_servers: name_servers(options),
            cache: NameCache::new(options.names_max),
            last_good: NameCache::new(options.names_max),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            lookups: HashMap::new(),
            metrics,
        }
    }

    /// Answers questions until all resolvers are gone; `changes` brings new options, which empty the cache.
    pub async fn run(
        mut self,
        questions: Questions,
        mut changes: mpsc::UnboundedReceiver<DnsOptions>,
    ) {
        let Questions(mut requests) = questions;
        loop {
            tokio::select! {
                // Workers that know of a change get no answer from before it.
                biased;
                Some(options) = changes.recv() => self.change(&options),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                request = requests.recv() => match request {
                    Some(request) => self.answer(request),
                    None => return,
                },
            }
            self.metrics
                .dns_names
                .store(self.cache.len() as u64, Relaxed);
            self.metrics
                .dns_under_way
                .store(self.lookups.len() as u64, Relaxed);
        }
    }

    fn change(&mut self, options: &DnsOptions) {
        self.name_servers = name_servers(options);
        self.cache = NameCache::new(options.names_max);
        for lookup in self.lookups.values_mut() {
            lookup.is_kept = false;
        }
    }

    fn answer(&mut self, request: Request) {
        let Request {
            name,
            named_by,
            reply,
        } = request;
        if let Some(answer) = self.cache.get(&name, Instant::now()) {
            self.metrics.dns_hits.add(1);
            // The requester may have given up, here and below.
            let _ = reply.send(answer.clone());
            return;
        }
        let is_configured = named_by == NamedBy::Configuration;
        let stale = (self.last_good.get(&name, Instant::now()))
            .filter(|last| is_configured && last.is_needed)
            .map(LastGood::answer);
        let reply = match stale {
            // A look-up begins nevertheless, for those who ask next.
            Some(stale) => {
                let _ = reply.send(stale);
                None
            }
            None => Some(reply),
        };
        let has_room = self.has_room(&name, named_by) || {
            self.cancel_unawaited();
            self.has_room(&name, named_by)
        };
        let (true, Some(name_servers)) = (has_room, &self.name_servers) else {
            self.metrics.dns_refused.fetch_add(1, Relaxed);
            let refused = Answer {
                addresses: Err(ResolveError::Busy),
                valid_until: Instant::now(),
            };
            let _ = reply.map(|reply| reply.send(refused));
            return;
        };
        if let Some(lookup) = self.lookups.get_mut(&name) {
            lookup.is_configured |= is_configured;
            if let Some(reply) = reply {
                self.metrics.dns_joined.add(1);
                lookup.waiting.push((named_by, reply));
            }
            return;
        }
        let name_servers = Arc::clone(name_servers);
        let asked = name.clone();
        let task = self
            .tasks
            .spawn(async move { name_servers.look_up(&asked).await });
        self.names.insert(task.id(), name.clone());
        let lookup = LookUp {
            named_by,
            is_configured,
            is_kept: true,
            task,
            waiting: reply.map(|reply| (named_by, reply)).into_iter().collect(),
        };
        self.lookups.insert(name, lookup);
    }

    /// Whether one more may wait for this name. A client can have as many look-ups, and as many that wait for them, as
    /// are left for clients then: one gets half, and however many there are, none takes them all.
    fn has_room(&self, name: &str, named_by: NamedBy) -> bool {
        let waiting: usize = self.lookups.values().map(|one| one.waiting.len()).sum();
        let is_under_way = self.lookups.contains_key(name);
        let all = self.lookups.len();
        let count = |is_counted: &dyn Fn(NamedBy) -> bool| {
            let counted = |one: &&LookUp| is_counted(one.named_by);
            self.lookups.values().filter(counted).count()
        };
        if named_by == NamedBy::Configuration {
            return waiting < WAITING_MAX && (is_under_way || all < LOOKUPS_MAX);
        }
        let of_clients = count(&|named_by| named_by != NamedBy::Configuration);
        let left = LOOKUPS_OF_CLIENTS_MAX.saturating_sub(of_clients);
        let own = (self.lookups.values().flat_map(|one| &one.waiting))
            .filter(|(other, _)| *other == named_by);
        own.count() < WAITING_OF_CLIENTS_MAX.saturating_sub(waiting)
            && (is_under_way || all < LOOKUPS_MAX && count(&|other| other == named_by) < left)
    }

    fn cancel_unawaited(&mut self) {
        let names = &mut self.names;
        self.lookups.retain(|_, lookup| {
            let is_awaited = lookup.is_awaited();
            if !is_awaited {
                names.remove(&lookup.task.id());
                lookup.task.abort();
            }
            is_awaited
        });
    }

    fn ended(&mut self, ended: Result<(Id, Found), JoinError>) {
        let (id, found) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_cancelled() => return,
            Err(error) => {
                tracing::error!("a name look-up failed unexpectedly: {error}");
                (
                    error.id(),
                    Found {
                        addresses: Err(ResolveError::ServerFailure),
                        keep: Duration::ZERO,
                    },
                )
            }
        };
        let Some(lookup) =
            (self.names.remove(&id)).and_then(|name| self.lookups.remove_entry(&name))
        else {
            return;
        };
        let (name, lookup) = lookup;
        self.metrics.dns_lookups(result_of(&found)).add(1);
        let now = Instant::now();
        let mut answer = Answer {
            addresses: found.addresses,
            valid_until: match lookup.is_kept {
                true => now + found.keep,
                false => now,
            },
        };
        if lookup.is_kept {
            answer = self.with_last_good(&name, lookup.is_configured, answer, now);
        }
        for (_, reply) in lookup.waiting {
            let _ = reply.send(answer.clone());
        }
        let valid_until = answer.valid_until;
        self.cache.insert(&name, answer, valid_until, now);
    }

    /// Keeps addresses of the configuration's names, and has them in place of a failure of name servers, which says nothing of them.
    fn with_last_good(
        &mut self,
        name: &str,
        is_configured: bool,
        answer: Answer,
        now: Instant,
    ) -> Answer {
        let was_needed = (self.last_good.get(name, now)).is_some_and(|last| last.is_needed);
        match &answer.addresses {
            Ok(_) if !is_configured => answer,
            Ok(addresses) => {
                if was_needed {
                    tracing::info!("name servers answer for {name} again");
                }
                let last = LastGood {
                    addresses: Arc::clone(addresses),
                    is_needed: false,
                };
                self.last_good.insert(name, last, now + STALE_MAX, now);
                answer
            }
            Err(ResolveError::ServerFailure | ResolveError::Timeout) => {
                let Some(last) = self.last_good.get_mut(name, now) else {
                    return answer;
                };
                if !was_needed {
                    let minutes = STALE_MAX.as_secs() / 60;
                    tracing::warn!(
                        "name servers fail for {name}: its last addresses stay in use, for {minutes} minutes at most"
                    );
                }
                last.is_needed = true;
                last.answer()
            }
            Err(_) => {
                self.last_good.remove(name);
                answer
            }
        }
    }
}

fn name_servers(options: &DnsOptions) -> Option<Arc<NameServers>> {
    match NameServers::new(options) {
        Ok(name_servers) => Some(Arc::new(name_servers)),
        Err(error) => {
            tracing::error!("cannot set up the resolver, so names cannot be resolved: {error}");
            None
        }
    }
}

fn result_of(found: &Found) -> LookupResult {
    match &found.addresses {
        Ok(_) => LookupResult::Found,
        Err(ResolveError::NoSuchName) => LookupResult::NoSuchName,
        Err(ResolveError::NoAddress) => LookupResult::NoAddress,
        Err(ResolveError::Timeout) => LookupResult::Timeout,
        Err(ResolveError::ServerFailure | ResolveError::Invalid | ResolveError::Busy) => {
            LookupResult::ServerFailure
        }
    }
}
