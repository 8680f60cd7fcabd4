//! Counts and logs requests that the kernel forwards without the process (`requests = "kernel"`), from the kernel's reports.
//!
//! The kernel reports a request when it arrives. The request is counted when its response is known: when the next
//! request arrives, when the response is complete and nothing has moved for a while, or when the connections are
//! separated. Logged times end with the next request at the latest.
use super::access_log::{AccessLog, Record};
use super::metrics::WorkerMetrics;
use crate::telemetry::job::Job;
use carrick_splice::requests::{Events, RequestEvent};
use carrick_splice::{PacketService, ResponseWatch, ToldResponse};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// A complete response is counted when nothing has moved for this long.
const QUIET: Duration = Duration::from_secs(1);

/// How an incomplete response ended if the cause is unknown.
const CLOSED: &str = "upstream_closed";

/// How a request ended that is asked again: it is logged and counted then.
pub const ASKED_AGAIN: &str = "asked_again";

/// The status of a response whose status line is unknown.
const STATUS_UNKNOWN: u16 = 0;

/// What counts a server's requests.
pub trait ServerCounters: std::fmt::Debug + Send + Sync {
    /// Counts requests that the kernel has forwarded, and bytes of their responses.
    fn count_forwarded(&self, requests: u64, bytes: u64);
}

/// A client whose connection is kernel-forwarded, as its worker knows it.
#[derive(Debug, Clone)]
pub struct ForwardedClient {
    /// The client's address, as in the access log.
    pub client: SocketAddr,
    /// The job of its listener.
    pub job: Job,
    /// The upstream's name.
    pub upstream: Option<String>,
    /// The server.
    pub server: SocketAddr,
    /// The original destination of an intercepted client.
    pub destination: Option<SocketAddr>,
    /// The server's counters.
    pub counters: Option<Arc<dyn ServerCounters>>,
    /// Where the kernel notes the client's responses.
    pub watch: ResponseWatch,
}

/// Passes clients whose requests the kernel may forward from the workers to the [`ForwardedReader`].
#[derive(Debug, Default)]
pub struct Forwarded {
    changes: Mutex<Changes>,
    /// All names have ended.
    all_ended: Notify,
}

/// What has happened since the last read.
#[derive(Debug, Default)]
struct Changes {
    named: Vec<(u64, ForwardedClient)>,
    /// Ended names, with the state of the latest response, and how it ended unless complete.
    gone: Vec<(u64, ToldResponse, Option<&'static str>)>,
    /// Number of names given so far.
    names: u64,
    /// Of these, the ones that exist.
    current: u64,
    /// There is no reader: discard everything.
    is_unread: bool,
}

/// While this exists, the kernel reports a client's requests under its name.
#[derive(Debug)]
pub struct ReportedName {
    forwarded: Arc<Forwarded>,
    name: u64,
    watch: ResponseWatch,
    /// How the latest response ended, unless complete.
    pub ended: Option<&'static str>,
}

impl Forwarded {
    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A unique name for a client, for as long as the kernel has its connections.
    #[must_use]
    pub fn name(self: &Arc<Self>, client: ForwardedClient) -> ReportedName {
        let watch = client.watch.clone();
        let mut changes = self.changes();
        changes.names += 1;
        changes.current += 1;
        let name = changes.names;
        if !changes.is_unread {
            changes.named.push((name, client));
        }
        ReportedName {
            forwarded: Arc::clone(self),
            name,
            watch,
            ended: None,
        }
    }

    /// Called when the reader ends.
    fn stop(&self) {
        let mut changes = self.changes();
        *changes = Changes {
            names: changes.names,
            current: changes.current,
            is_unread: true,
            ..Changes::default()
        };
    }

    /// Waits until no client has a name: all that the reader has to know is there.
    pub async fn all_ended(&self) {
        while self.changes().current > 0 {
            self.all_ended.notified().await;
        }
    }
}

impl ReportedName {
    /// Unique for the life of the process.
    #[must_use]
    pub fn name(&self) -> u64 {
        self.name
    }
}

impl Drop for ReportedName {
    fn drop(&mut self) {
        let told = self.watch.told();
        let mut changes = self.forwarded.changes();
        if !changes.is_unread {
            changes.gone.push((self.name, told, self.ended));
        }
        changes.current -= 1;
        if changes.current == 0 {
            self.forwarded.all_ended.notify_one();
        }
    }
}

/// Reads the kernel's reports. One for all workers.
#[derive(Debug)]
pub struct ForwardedReader {
    packet: PacketService,
    /// With what notifies of them; `None` until the engine is loaded.
    events: Option<(Events, Rc<AsyncFd<OwnedFd>>)>,
    forwarded: Arc<Forwarded>,
    clients: HashMap<u64, ClientState>,
}

/// A client whose requests the kernel may forward.
#[derive(Debug)]
struct ClientState {
    client: ForwardedClient,
    open: Option<Open>,
    /// The state of the latest response before the latest events were read.
    told: Option<ToldResponse>,
}

/// A request whose response may be incomplete.
#[derive(Debug)]
struct Open {
    event: RequestEvent,
    begun: Instant,
    end: u64,
    moved: Instant,
}

impl ForwardedReader {
    /// Reads reports about the clients in `forwarded`.
    #[must_use]
    pub fn new(packet: PacketService, forwarded: Arc<Forwarded>) -> Self {
        Self {
            packet,
            events: None,
            forwarded,
            clients: HashMap::new(),
        }
    }

    /// The order matters. Response states first: a state belongs to the open request unless an event of that client follows. Then ended
    /// clients, all of whose events the kernel has already reported. Then events, then names: a client is named before the kernel reports
    /// on it, so every event finds its name. then events; a state without a later event of the same client belongs to that client's open
    /// request. Clients that ended before the events were read have no further events.
    pub fn read(&mut self, metrics: &WorkerMetrics, log: &AccessLog) {
        for client_state in self.clients.values_mut() {
            client_state.told = client_state
                .open
                .as_ref()
                .map(|_| client_state.client.watch.told());
        }
        let gone = std::mem::take(&mut self.forwarded.changes().gone);
        let events = self.take_events();
        let named = std::mem::take(&mut self.forwarded.changes().named);
        let named = named
            .into_iter()
            .map(|(name, client)| (name, ClientState::new(client)));
        self.clients.extend(named);
        for event in events {
            if let Some(client_state) = self.clients.get_mut(&event.name) {
                client_state.end((event.end_before, event.status_before), None, metrics, log);
                client_state.open = Some(Open::new(event));
                client_state.told = None;
            }
        }
        for (name, told, ended) in gone {
            if let Some(mut client_state) = self.clients.remove(&name) {
                let ended = ended.or(told.is_partial.then_some(CLOSED));
                client_state.end((told.end, told.status), ended, metrics, log);
            }
        }
        for client_state in self.clients.values_mut() {
            if let Some(told) = client_state.told.take()
                && (client_state.open.as_mut())
                    .is_some_and(|open| open.is_over(told, Instant::now()))
            {
                client_state.end((told.end, told.status), None, metrics, log);
            }
        }
    }

    /// Readable when [`read`](Self::read) is due at once; `None` until the engine is loaded.
    #[must_use]
    pub fn notifications(&self) -> Option<Rc<AsyncFd<OwnedFd>>> {
        let (_, notifications) = self.events.as_ref()?;
        Some(Rc::clone(notifications))
    }

    fn open_events(&self) -> io::Result<Option<(Events, Rc<AsyncFd<OwnedFd>>)>> {
        let Some(events) = self.packet.request_events()? else {
            return Ok(None);
        };
        let notifications = Rc::new(events.notifications()?);
        Ok(Some((events, notifications)))
    }

    fn take_events(&mut self) -> Vec<RequestEvent> {
        if self.events.is_none() && !self.forwarded.changes().is_unread {
            self.events = self.open_events().unwrap_or_else(|error| {
                self.forwarded.stop();
                tracing::warn!(
                    "requests that the kernel forwards will not be counted or logged, because its events cannot be read: {error}"
                );
                None
            });
        }
        let taken = self.events.as_mut().map(|(events, _)| events.take());
        taken
            .transpose()
            .map(Option::unwrap_or_default)
            .unwrap_or_else(|error| {
                tracing::debug!("cannot read the kernel's events of requests: {error}");
                Vec::new()
            })
    }
}

impl Drop for ForwardedReader {
    fn drop(&mut self) {
        self.forwarded.stop();
    }
}

impl Open {
    fn new(event: RequestEvent) -> Self {
        let now = Instant::now();
        Self {
            end: event.sent_bytes,
            event,
            begun: now,
            moved: now,
        }
    }

    /// Whether another request has followed, or the response is complete and nothing has moved for a while.
    fn is_over(&mut self, told: ToldResponse, now: Instant) -> bool {
        if self.end != told.end {
            (self.end, self.moved) = (told.end, now);
        }
        told.is_over || (told.is_whole && now.duration_since(self.moved) >= QUIET)
    }
}

impl ClientState {
    fn new(client: ForwardedClient) -> Self {
        Self {
            client,
            open: None,
            told: None,
        }
    }

    /// Ends the latest request: it is answered, or will not be.
    fn end(
        &mut self,
        (end, status): (u64, Option<u16>),
        ended: Option<&'static str>,
        metrics: &WorkerMetrics,
        log: &AccessLog,
    ) {
        let Some(Open {
            event,
            begun,
            moved,
            ..
        }) = self.open.take()
        else {
            return;
        };
        if ended == Some(ASKED_AGAIN) {
            return;
        }
        let client = &self.client;
        let status = status.unwrap_or(STATUS_UNKNOWN);
        let bytes = end.saturating_sub(event.sent_bytes);
        let counters = metrics.job(client.job);
        for _ in 0..event.stands_for {
            counters.requests.count(status);
        }
        let bytes_of_all = bytes.saturating_mul(event.stands_for.into());
        metrics.client_bytes_sent.add(bytes_of_all);
        metrics.upstream_bytes_received.add(bytes_of_all);
        if let Some(server) = &client.counters {
            server.count_forwarded(event.stands_for.into(), bytes_of_all);
        }
        if !log.is_on() {
            return;
        }
        log.write(&Record {
            client: client.client.ip(),
            client_port: client.client.port(),
            user: None,
            method: event.method.as_bytes(),
            target: &event.target,
            version: "HTTP/1.1",
            status,
            bytes_received: 0,
            bytes_sent: bytes,
            referer: b"",
            user_agent: b"",
            job: client.job,
            upstream: client.upstream.as_deref(),
            server: Some(client.server),
            tls: None,
            destination: client.destination,
            engine: Some("packet"),
            connect: None,
            first_byte: None,
            total: moved.duration_since(begun),
            reused: true,
            server_version: None,
            paths: None,
            cache: None,
            // The side that closed first is unknown.
            ended: ended.unwrap_or(if bytes == 0 { CLOSED } else { "complete" }),
        });
    }
}

#[cfg(test)]
mod tests;
