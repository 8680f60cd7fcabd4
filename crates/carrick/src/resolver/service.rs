//! The control thread's side: answers workers' questions; concurrent questions for a name share one look-up.
use super::cache::NameCache;
use super::name_servers::{Found, NameServers};
use super::{Answer, DnsOptions, Request, ResolveError, Resolver};
use crate::telemetry::{ControlMetrics, LookupResult};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

/// Most questions waiting for the control thread.
const QUEUE_MAX: usize = 1024;

/// Most concurrent look-ups. Each uses two sockets.
const LOOKUPS_MAX: usize = 256;

/// Most questions waiting for look-ups.
const WAITING_MAX: usize = 16 * 1024;

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
    lookups: JoinSet<Found>,
    names: HashMap<Id, Box<str>>,
    waiting: HashMap<Box<str>, Vec<oneshot::Sender<Answer>>>,
    waiting_count: usize,
    metrics: Arc<ControlMetrics>,
}

impl Service {
    /// Must be called within a runtime.
    pub fn new(options: &DnsOptions, metrics: Arc<ControlMetrics>) -> Self {
        Self {
            name_servers: name_servers(options),
            cache: NameCache::new(options.names_max),
            lookups: JoinSet::new(),
            names: HashMap::new(),
            waiting: HashMap::new(),
            waiting_count: 0,
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
                request = requests.recv() => match request {
                    Some(request) => self.answer(request),
                    None => return,
                },
                Some(ended) = self.lookups.join_next_with_id() => self.ended(ended),
                Some(options) = changes.recv() => self.change(&options),
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
    }

    fn answer(&mut self, request: Request) {
        let Request { name, reply } = request;
        if let Some(answer) = self.cache.get(&name, Instant::now()) {
            self.metrics.dns_hits.add(1);
            // The requester may have given up, here and below.
            let _ = reply.send(answer.clone());
            return;
        }
        let is_under_way = self.waiting.contains_key(&name);
        let has_room =
            self.waiting_count < WAITING_MAX && (is_under_way || self.lookups.len() < LOOKUPS_MAX);
        let (true, Some(name_servers)) = (has_room, &self.name_servers) else {
            self.metrics.dns_refused.fetch_add(1, Relaxed);
            let _ = reply.send(Answer {
                addresses: Err(ResolveError::Busy),
                valid_until: Instant::now(),
            });
            return;
        };
        if is_under_way {
            self.metrics.dns_joined.add(1);
        } else {
            let name_servers = Arc::clone(name_servers);
            let asked = name.clone();
            let task = self
                .lookups
                .spawn(async move { name_servers.look_up(&asked).await });
            self.names.insert(task.id(), name.clone());
        }
        self.waiting.entry(name).or_default().push(reply);
        self.waiting_count += 1;
    }

    fn ended(&mut self, ended: Result<(Id, Found), JoinError>) {
        let (id, found) = match ended {
            Ok(ended) => ended,
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
        self.metrics.dns_lookups(result_of(&found)).add(1);
        let Some(name) = self.names.remove(&id) else {
            return;
        };
        let now = Instant::now();
        let answer = Answer {
            addresses: found.addresses,
            valid_until: now + found.keep,
        };
        let waiting = self.waiting.remove(&name).unwrap_or_default();
        self.waiting_count -= waiting.len();
        for reply in waiting {
            let _ = reply.send(answer.clone());
        }
        let valid_until = answer.valid_until;
        self.cache.insert(&name, answer, valid_until, now);
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
