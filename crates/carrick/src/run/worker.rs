//! A worker: one thread with its own runtime, listeners, buffers, pools and counters; the data path shares nothing.
//!
//! It *serves* until it is told to drain. Then it stops listening, finishes open requests (responses say `Connection: close`), closes idle
//! clients after a grace period, and ends with its last session or when the drain time is over.

use crate::cache::Cache;
use crate::config::plan::ServerAddress;
use crate::context::live::Orders;
use crate::context::live::WorkerLive;
use crate::context::worker::{Connector, Sessions, Telemetry, Worker, WorkerStore};
use crate::engines::Engines;
use crate::http::stream_tasks;
use crate::net::admission::Admission;
use crate::net::clock::Clock;
use crate::net::memory;
use crate::net::transport::Network;
use crate::resolver::{NamedBy, WorkerResolver};
use crate::tcp::link;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::forwarded::ForwardedReader;
use crate::telemetry::metrics::{Limit, WorkerMetrics};
use carrick_splice::{Pacer, Splicer};
use rustix::net::{Shutdown, shutdown};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::accept::listen::{self, Accepting, Bound};

/// How long idle clients may still send a request after a drain began, so that one already in flight is answered.
const DRAIN_GRACE_MAX: Duration = Duration::from_secs(1);

/// How long sessions whose clients were reset at the end of a drain may take to write their log lines.
pub const CUT_OFF_MAX: Duration = Duration::from_secs(1);

/// How often a worker flushes its log buffer.
const FLUSH_EVERY: Duration = Duration::from_millis(250);

/// The worker that reads what the kernel reports of forwarded requests.
const READER: usize = 0;

/// How often a worker asks its cache for the addresses of servers that have names.
const FOLLOW_NAMES_EVERY: Duration = Duration::from_secs(1);

/// The parts of a worker; built on the main thread, moved to its own.
pub struct WorkerParts {
    /// Its number, from 0.
    pub number: usize,
    /// Sockets for the listeners of the first plan, bound before start-up is reported complete.
    pub listeners: Bound,
    /// The configuration in force, and changes to it.
    pub orders: watch::Receiver<Orders>,
    /// Its counters.
    pub metrics: Arc<WorkerMetrics>,
    /// Its writer of the access log.
    pub log: AccessLog,
    /// Its resolver.
    pub resolver: WorkerResolver,
    /// Admission of clients, shared by all workers.
    pub admission: Arc<Admission>,
    /// The kernel engines, as far as they are loaded.
    pub engines: Engines,
    /// The cache, shared by all workers.
    pub cache: Option<Arc<Cache>>,
}

/// Runs a worker on this thread until it has drained; calls `started` once it accepts.
///
/// # Errors
/// The runtime cannot be created (epoll, eventfd), or a listener cannot be registered.
pub fn run(parts: WorkerParts, started: impl FnOnce()) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(Pacer::on_thread_park)
        .on_thread_unpark(Pacer::on_thread_unpark)
        .build_local(Default::default())?;
    runtime.block_on(serve(parts, started))
}

async fn serve(mut parts: WorkerParts, started: impl FnOnce()) -> std::io::Result<()> {
    let first = parts.orders.borrow_and_update().clone();
    let limits = carrick_splice::PoolLimits {
        pipes_max: first.live.plan.limits.pipes,
        ..Default::default()
    };
    let packet = parts.engines.packet.clone();
    let worker = Rc::new(Worker {
        number: parts.number,
        splicer: Splicer::with_engines(
            limits,
            Arc::clone(&parts.metrics.splice),
            parts.engines.socket,
            parts.engines.packet,
        ),
        ktls: parts.engines.ktls,
        pacer: Pacer::new(parts.engines.pacing, parts.number),
        connector: Connector {
            network: Network::Kernel,
            resolver: parts.resolver,
            admission: parts.admission,
            tcp_tuning: parts.engines.tcp_tuning,
            origins: Default::default(),
            deferred_syns: parts.engines.deferred_syns,
            tracking: Default::default(),
            metrics: Arc::clone(&parts.metrics),
            live: RefCell::new(Rc::new(WorkerLive::new(
                Arc::clone(&first.live),
                parts.number,
                None,
            ))),
        },
        store: WorkerStore {
            cache: parts.cache,
            ..WorkerStore::default()
        },
        telemetry: Telemetry {
            metrics: parts.metrics,
            log: parts.log,
            forwarded: parts.engines.forwarded,
            path_history: parts.engines.path_history,
            acknowledgements: Rc::default(),
        },
        sessions: Sessions {
            draining: Cell::new(first.draining),
            ..Sessions::default()
        },
        tunnels: Rc::default(),
        scratch: Rc::default(),
        clock: Clock::default(),
    });
    // One reader serves all listeners.
    let forwarded = (parts.number == READER).then(|| {
        let reader = ForwardedReader::new(packet, Arc::clone(&worker.telemetry.forwarded));
        Rc::new(RefCell::new(reader))
    });
    worker.splicer.set_pacer(worker.pacer.clone());
    let pacer = worker.pacer.clone();
    let keeping_pace = tokio::task::spawn_local(async move { pacer.keep().await });
    let keeping_house = keep_house(Rc::clone(&worker), forwarded.clone());
    let housekeeping = tokio::task::spawn_local(keeping_house);
    let following_names = tokio::task::spawn_local(follow_names(Rc::clone(&worker)));
    let mut accepting = HashMap::new();
    listen::adjust(
        &worker,
        &mut accepting,
        &worker.live(),
        &mut parts.listeners,
    )?;
    let reader = worker.connector.deferred_syns.reader(worker.number)?;
    let deciding = reader.map(|reader| {
        let deciding = crate::accept::syn_defer::run(Rc::clone(&worker), reader);
        tokio::task::spawn_local(deciding)
    });
    link::fill_all(&worker);
    started();
    while !worker.sessions.draining.get() {
        if parts.orders.changed().await.is_err() {
            break;
        }
        let orders = parts.orders.borrow_and_update().clone();
        if orders.draining {
            worker.sessions.drain();
        }
        if orders.live.generation != worker.live().live.generation {
            let before = worker.live();
            let next = WorkerLive::new(Arc::clone(&orders.live), worker.number, Some(&before));
            worker.connector.live.replace(Rc::new(next));
            worker.connector.origins.clear();
            worker.connector.resolver.forget();
            link::fill_all(&worker);
            let result = listen::adjust(&worker, &mut accepting, &before, &mut Bound::new());
            // The engine that reports them may be new.
            read_forwarded(&worker.telemetry, forwarded.as_deref());
            let followers = &orders.live.followers;
            followers.has_followed(worker.number, result.map_err(|error| error.to_string()));
        }
    }
    if let Some(deciding) = deciding {
        // SYNs are no longer deferred from here on.
        deciding.abort();
    }
    drain(&worker, accepting, &mut parts.orders).await;
    housekeeping.abort();
    following_names.abort();
    keeping_pace.abort();
    // Log lines of the last clients.
    read_forwarded(&worker.telemetry, forwarded.as_deref());
    worker.telemetry.log.flush();
    worker.metrics().liveness.end();
    Ok(())
}

/// Stops listening and lets sessions finish, for at most the plan's drain time.
async fn drain(
    worker: &Rc<Worker>,
    accepting: HashMap<SocketAddr, Accepting>,
    orders: &mut watch::Receiver<Orders>,
) {
    let limit = worker.live().plan().timeouts.drain;
    // Part of the drain's time, so that it does not prolong a short drain.
    let handshakes = listen::HANDSHAKE_MAX.min(limit / 20);
    let closing: Vec<_> = accepting
        .into_values()
        .map(|accepting| accepting.stop(handshakes, &worker.live()))
        .collect();
    let everybody_gone = async {
        for listener in closing {
            // Fails only by a panic, which the runtime has reported.
            let _ = listener.await;
        }
        // One with the client's address would keep the client from its server, which it reaches past carrick now.
        let deferred_syns = &worker.connector.deferred_syns;
        deferred_syns.expire(Instant::now(), Duration::ZERO);
        while !worker.sessions.clients.borrow().is_empty() {
            worker.sessions.session_ended.notified().await;
        }
        // What the kernel has forwarded for other workers' last clients is reported here.
        if worker.number == READER {
            worker.telemetry.forwarded.all_ended().await;
        }
    };
    let dismissal = async {
        tokio::time::sleep(DRAIN_GRACE_MAX.min(limit / 2)).await;
        worker.sessions.dismiss_idle.set(true);
        worker.sessions.idle.wake_all();
        std::future::pending::<()>().await;
    };
    tokio::pin!(everybody_gone);
    tokio::select! {
        () = &mut everybody_gone => return,
        () = dismissal => {}
        () = tokio::time::sleep(limit) => {
            let sessions = worker.sessions.clients.borrow().len();
            if sessions > 0 {
                worker.metrics().limits.reached(Limit::Drain);
                tracing::warn!(worker = worker.number, sessions, "drain time is over: resetting the remaining connections (raise [timeouts] drain to give them longer)");
            }
        }
        _ = orders.wait_for(|orders| orders.cut_off) => {}
    }
    // Before a client that is reset here leaves its slot to one that waits on a worker where the drain has not ended yet.
    worker.connector.admission.close();
    reset_clients(&worker.sessions);
    // Sessions see the reset as a client's, and write their log line.
    let _ = tokio::time::timeout(CUT_OFF_MAX, everybody_gone).await;
}

/// Resets the remaining clients, so that none takes a truncated response for a complete one.
fn reset_clients(sessions: &Sessions) {
    sessions.cut_off.set(true);
    // Tunnels keep their sockets elsewhere.
    sessions.cut_off_now.notify_waiters();
    let clients = sessions.clients.borrow();
    for client in clients.iter().filter_map(|(_, client)| client.upgrade()) {
        cut_off(&client);
    }
}

fn cut_off(client: &TcpStream) {
    // tcp_disconnect() in the kernel resets an established connection and wakes its waiters.
    let Err(error) = rustix::net::connect_unspec(client) else {
        return;
    };
    // It refuses where it encrypts (`tls_disconnect`, net/tls/tls_main.c). The session finds both directions closed
    // instead, and then closes the connection, which resets it. The FIN before that deceives no client of TLS: `close_notify` is
    // missing.
    tracing::debug!("cannot reset a client's connection at once: connect AF_UNSPEC: {error}");
    let _ = carrick_splice::tcp::reset_on_close(client);
    let _ = shutdown(client, Shutdown::Both);
}

/// Periodic work: flushes log lines, closes idle upstream connections that have expired.
async fn keep_house(worker: Rc<Worker>, forwarded: Option<Rc<RefCell<ForwardedReader>>>) {
    let mut ticks = tokio::time::interval(FLUSH_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut count = 0_u32;
    let mut session_peak = memory::SessionPeak::default();
    let mut stalled_bytes = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = reports_are_due(forwarded.as_deref()) => {
                read_forwarded(&worker.telemetry, forwarded.as_deref());
                continue;
            }
        }
        worker.metrics().liveness.show();
        read_forwarded(&worker.telemetry, forwarded.as_deref());
        worker.telemetry.log.flush();
        worker
            .connector
            .close_idle(worker.connector.admission.upstreams_waited_for());
        count = count.wrapping_add(1);
        if count.is_multiple_of(4) {
            close_stale_upstreams(&worker);
            worker.scratch.tidy();
            stream_tasks::tidy();
            stalled_bytes = end_stalled(&worker, stalled_bytes);
            link::keep_up(&worker);
            let sessions = worker.sessions.clients.borrow().len();
            if session_peak.has_fallen(sessions + stream_tasks::count()) {
                memory::give_back();
            }
        }
    }
}

/// Keeps the addresses of servers in use up to date: a connection that stays busy is never looked up again. A failed
/// look-up changes nothing for the connections there are.
async fn follow_names(worker: Rc<Worker>) {
    loop {
        tokio::time::sleep(FOLLOW_NAMES_EVERY).await;
        let live = worker.live();
        let (now, age_max) = (Instant::now(), live.plan().timeouts.idle);
        for group in &live.groups {
            for (server, state) in group.state.servers.iter().enumerate() {
                let ServerAddress::Name { host, .. } = &state.address else {
                    continue;
                };
                let addresses = match group.is_in_use(server, now, age_max) {
                    true => {
                        let resolver = &worker.connector.resolver;
                        resolver.resolve(host, NamedBy::Configuration).await.ok()
                    }
                    false => None,
                };
                group.now_at(server, addresses);
            }
        }
    }
}

/// Waits until the kernel has no room for many more reports of forwarded requests, which may be long before the next tick.
async fn reports_are_due(reader: Option<&RefCell<ForwardedReader>>) {
    let notifications = reader.and_then(|reader| reader.borrow().notifications());
    if let Some(notifications) = notifications
        && let Ok(mut ready) = notifications.readable().await
    {
        return ready.clear_ready();
    }
    std::future::pending().await
}

fn read_forwarded(telemetry: &Telemetry, reader: Option<&RefCell<ForwardedReader>>) {
    if let Some(reader) = reader {
        reader.borrow_mut().read(&telemetry.metrics, &telemetry.log);
    }
}

/// If stalled transfers hold too much kernel memory, ends those stalled the longest. `before` is the previous sample.
fn end_stalled(worker: &Worker, before: u64) -> u64 {
    let stalled = worker.splicer.stalled(Instant::now());
    let limit = worker.live().plan().limits.stalled;
    let excess = (worker.connector.admission).note_stalled(before, stalled.bytes, limit);
    if excess > 0 {
        let ended = worker.splicer.end_stalled(excess);
        for _ in 0..ended {
            worker.metrics().limits.reached(Limit::Stalled);
        }
        if worker.connector.admission.tells_stalled(Instant::now()) {
            tracing::warn!(
                "peers that do not read hold more kernel memory than [limits] stalled = {limit} allows: ending the transfers that have stalled longest"
            );
        }
    }
    stalled.bytes
}

fn close_stale_upstreams(worker: &Worker) {
    let live = worker.live();
    let (now, age_max) = (Instant::now(), live.plan().timeouts.idle);
    worker.connector.origins.close_stale(now, age_max);
    let mut idle = worker.connector.origins.idle_count();
    for group in &live.groups {
        group.close_stale(now, age_max);
        idle += group.idle_count();
    }
    // Sampled: idle connections change with every request, and `unconnected` needs the exact number.
    let (idle, known) = (idle as u64, worker.metrics().upstream_connections_idle());
    worker
        .metrics()
        .upstream_idle_added
        .add(idle.saturating_sub(known));
    worker
        .metrics()
        .upstream_idle_removed
        .add(known.saturating_sub(idle));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendFlags, send};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_connection_that_the_kernel_encrypts_is_cut_off_as_well() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (client, _) = listener.accept().await.unwrap();
        if let Err(why) = carrick_splice::ktls::attach(&client) {
            carrick_test::lacks!("{why}");
            return;
        }
        assert!(send(&client, b"x", SendFlags::NOSIGNAL).is_ok());
        cut_off(&client);
        assert!(send(&client, b"x", SendFlags::NOSIGNAL).is_err());
    }
}
