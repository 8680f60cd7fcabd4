//! Requests that the kernel has forwarded unseen (`requests = "kernel"`): they are counted and logged by what the kernel tells.
//!
//! The kernel tells of a request when it comes. How its response was is known when the next one comes, or when nothing has moved for a
//! while, or when the connections are parted: only then it is counted. Times are from one request to the next, at most.
use super::access_log::{AccessLog, Record};
use super::metrics::{Job, WorkerMetrics};
use carrick_splice::requests::{Events, RequestEvent};
use carrick_splice::{PacketService, ResponseWatch};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A response that has not moved for so long is taken to be whole.
const QUIET: Duration = Duration::from_secs(1);

/// The status of a response whose first line is not known.
const STATUS_UNKNOWN: u16 = 0;

/// Whose requests they are: known to the worker that has bound the connections.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The client's address, as in the access log.
    pub client: SocketAddr,
    /// The job of its listener.
    pub job: Job,
    /// The upstream's name.
    pub upstream: Option<String>,
    /// The server.
    pub server: SocketAddr,
    /// Where an intercepted client wanted to go.
    pub destination: Option<SocketAddr>,
    /// What the kernel notes of its responses.
    pub watch: ResponseWatch,
}

/// Clients whose requests the kernel may forward now, by the place of their splices.
#[derive(Debug, Default)]
pub struct Forwarded(Mutex<HashMap<u32, Stay>>);

#[derive(Debug)]
struct Stay {
    guest: Guest,
    open: Option<Open>,
    /// The connections are parted: what had been sent by then, and the latest response's status.
    gone: Option<(u64, Option<u16>)>,
}

/// A request whose response is not known to be whole.
#[derive(Debug)]
struct Open {
    event: RequestEvent,
    begun: Instant,
    sent_bytes: u64,
    moved: Instant,
}

/// As long as it exists, requests of a client are told of under its name.
#[derive(Debug)]
pub struct Named {
    forwarded: Arc<Forwarded>,
    place: u32,
    watch: ResponseWatch,
}

impl Forwarded {
    fn stays(&self) -> MutexGuard<'_, HashMap<u32, Stay>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, requests by the splice at `place` are this client's.
    #[must_use]
    pub fn name(self: &Arc<Self>, place: u32, guest: Guest) -> Named {
        let watch = guest.watch.clone();
        let stay = Stay {
            guest,
            open: None,
            gone: None,
        };
        self.stays().insert(place, stay);
        Named {
            forwarded: Arc::clone(self),
            place,
            watch,
        }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let gone = (self.watch.sent_bytes(), self.watch.status());
        if let Some(stay) = self.forwarded.stays().get_mut(&self.place) {
            stay.gone = Some(gone);
        }
    }
}

/// Reads what the kernel tells. One for all workers.
#[derive(Debug)]
pub struct Reader {
    events: Events,
    forwarded: Arc<Forwarded>,
}

impl Reader {
    /// `None` if there is nothing to read: the packet engine is not loaded.
    #[must_use]
    pub fn new(packet: &PacketService, forwarded: &Arc<Forwarded>) -> Option<Self> {
        match packet.request_events() {
            Ok(events) => Some(Self {
                events: events?,
                forwarded: Arc::clone(forwarded),
            }),
            Err(error) => {
                tracing::warn!(
                    "requests that the kernel forwards are neither counted nor logged: reading its events: {error}"
                );
                None
            }
        }
    }

    /// Counts and logs what has come to an end. To be called several times a second.
    pub fn read(&mut self, metrics: &WorkerMetrics, log: &AccessLog) {
        let mut stays = self.forwarded.stays();
        if stays.is_empty() {
            return;
        }
        // Whoever is gone by now has told of all before.
        let gone: Vec<u32> = (stays.iter())
            .filter(|(_, stay)| stay.gone.is_some())
            .map(|(place, _)| *place)
            .collect();
        let Ok(events) = self.events.take() else {
            return;
        };
        for event in events {
            let Some(stay) = stays.get_mut(&event.place) else {
                continue;
            };
            let (sent_bytes, status) = (event.sent_bytes, event.status_before);
            stay.end(sent_bytes, status, metrics, log);
            stay.open = Some(Open::new(event));
        }
        for place in gone {
            if let Some(mut stay) = stays.remove(&place)
                && let Some((sent_bytes, status)) = stay.gone
            {
                stay.end(sent_bytes, status, metrics, log);
            }
        }
        for stay in stays.values_mut() {
            let (sent_bytes, status) = (stay.guest.watch.sent_bytes(), stay.guest.watch.status());
            if stay.is_quiet(sent_bytes) {
                stay.end(sent_bytes, status, metrics, log);
            }
        }
    }
}

impl Open {
    fn new(event: RequestEvent) -> Self {
        let now = Instant::now();
        Self {
            sent_bytes: event.sent_bytes,
            event,
            begun: now,
            moved: now,
        }
    }
}

impl Stay {
    /// Whether a response has come, and nothing has moved for a while.
    fn is_quiet(&mut self, sent_bytes: u64) -> bool {
        let Some(open) = &mut self.open else {
            return false;
        };
        if open.sent_bytes != sent_bytes {
            (open.sent_bytes, open.moved) = (sent_bytes, Instant::now());
        }
        sent_bytes > open.event.sent_bytes && open.moved.elapsed() >= QUIET
    }

    /// The request that was told of last is answered.
    fn end(
        &mut self,
        sent_bytes: u64,
        status: Option<u16>,
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
        let guest = &self.guest;
        let status = status.unwrap_or(STATUS_UNKNOWN);
        let bytes = sent_bytes.saturating_sub(event.sent_bytes);
        let counters = metrics.job(guest.job);
        for _ in 0..event.stands_for {
            counters.requests.count(status);
        }
        let bytes_of_all = bytes.saturating_mul(event.stands_for.into());
        metrics.client_bytes_sent.add(bytes_of_all);
        metrics.upstream_bytes_received.add(bytes_of_all);
        if !log.is_on() {
            return;
        }
        log.write(&Record {
            client: guest.client.ip(),
            client_port: guest.client.port(),
            user: None,
            method: event.method.as_bytes(),
            target: &event.target,
            version: "HTTP/1.1",
            status,
            bytes_received: 0,
            bytes_sent: bytes,
            referer: b"",
            user_agent: b"",
            job: guest.job,
            upstream: guest.upstream.as_deref(),
            server: Some(guest.server),
            destination: guest.destination,
            engine: Some("packet"),
            connect: None,
            first_byte: None,
            total: moved.duration_since(begun),
            reused: true,
            paths: None,
            ended: if bytes == 0 {
                "upstream_closed"
            } else {
                "complete"
            },
        });
    }
}
