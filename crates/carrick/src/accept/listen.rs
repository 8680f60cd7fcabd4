//! Listening sockets: binding, accepting, and following changes of the configuration.
use crate::accept::arrival;
use crate::config::plan::{Interception, ListenerPlan, Plan};
use crate::connect::tcp_profile;
use crate::context::live::{Live, WorkerLive};
use crate::context::worker::{Connector, SessionGuard, Worker};
use crate::net::admission::{Admitted, Full, UpstreamPlace};
use crate::net::bind::{FREE_WAIT, bind_when_free, choose_families};
use crate::privileges::GivenUp;
use crate::syn_defer::{DeferredSyns, Kept};
use crate::telemetry::metrics::Limit;
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Length of the accept queue; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// How long accepting pauses when a limit is reached.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the kernel keeps a connection without a request in the queue; then it is accepted anyway (`TCP_DEFER_ACCEPT`, tcp(7)).
const DEFER_SECONDS: u32 = 1;
const DEFER_MAX: Duration = Duration::from_secs(DEFER_SECONDS as u64);

/// How long handshakes in progress may take to complete when a listener closes: a round trip to distant clients.
pub const HANDSHAKE_MAX: Duration = Duration::from_millis(250);

/// A listener that a worker accepts on.
pub struct Accepting {
    stop: oneshot::Sender<Stop>,
    task: JoinHandle<()>,
    /// For changes by a reload.
    socket: Rc<TcpListener>,
}

/// How a listener is to close.
struct Stop {
    /// How long handshakes in progress may take to complete.
    handshakes: Duration,
    /// The configuration under which the last clients are served.
    live: Rc<WorkerLive>,
}

impl Accepting {
    /// Stops accepting. Clients in the queue, and those whose handshake completes within `handshakes`, are accepted, and
    /// served under `live`. The task ends when the socket is closed.
    pub fn stop(self, handshakes: Duration, live: &Rc<WorkerLive>) -> JoinHandle<()> {
        let live = Rc::clone(live);
        // Fails if the task has already ended.
        let _ = self.stop.send(Stop { handshakes, live });
        self.task
    }
}

/// Binds a listening socket that the workers share by `SO_REUSEPORT`. Accepted sockets inherit `TCP_NODELAY` and
/// `SO_OOBINLINE`, and, if the listener is transparent, `IP_TRANSPARENT` and the mark of its packets.
///
/// # Errors
/// Names the failed call and the address, and gives advice.
pub fn bind(listener: &ListenerPlan) -> io::Result<std::net::TcpListener> {
    bind_at(listener, listener.address)
}

/// Like [`bind`], at `address` instead of the listener's, whose port may be 0.
fn bind_at(listener: &ListenerPlan, address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = bind_socket(address, Sharing::Workers)?;
    let takes = |interception: &&Interception| !interception.ports.is_empty();
    if let Some(interception) = listener.interception.as_ref().filter(takes) {
        let kernel = SockRef::from(&socket);
        let is_v4 = address.is_ipv4();
        let set = if is_v4 {
            kernel.set_ip_transparent_v4(true)
        } else {
            kernel.set_ip_transparent_v6(true)
        };
        let set = set.and_then(|()| kernel.set_mark(interception.mark));
        set.map_err(|error| {
            let option = if is_v4 { "IP_TRANSPARENT" } else { "IPV6_TRANSPARENT" };
            io::Error::new(
                error.kind(),
                format!("cannot listen on {}: setsockopt {option}, SO_MARK: {error} (`transparent` needs CAP_NET_ADMIN)", address),
            )
        })?;
    }
    Ok(socket)
}

/// Which other sockets may have the same address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// Every socket of this user with `SO_REUSEPORT`: other workers', but also another carrick's.
    Workers,
    /// None.
    Exclusive,
}

fn bind_socket(address: SocketAddr, sharing: Sharing) -> io::Result<std::net::TcpListener> {
    let made = || -> Result<Socket, (&'static str, io::Error)> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )
        .map_err(|e| ("socket", e))?;
        choose_families(&socket, address).map_err(|e| ("setsockopt IPV6_V6ONLY", e))?;
        socket
            .set_reuse_address(true)
            .map_err(|e| ("setsockopt SO_REUSEADDR", e))?;
        socket
            .set_reuse_port(sharing == Sharing::Workers)
            .map_err(|e| ("setsockopt SO_REUSEPORT", e))?;
        socket
            .set_tcp_nodelay(true)
            .map_err(|e| ("setsockopt TCP_NODELAY", e))?;
        // Urgent bytes are read like others (RFC 6093); otherwise `recv(2)` would skip them.
        socket
            .set_out_of_band_inline(true)
            .map_err(|e| ("setsockopt SO_OOBINLINE", e))?;
        socket
            .set_nonblocking(true)
            .map_err(|e| ("fcntl O_NONBLOCK", e))?;
        socket.bind(&address.into()).map_err(|e| ("bind", e))?;
        socket.listen(BACKLOG).map_err(|e| ("listen", e))?;
        Ok(socket)
    };
    made().map(Into::into).map_err(|(call, error)| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "another program listens there: choose another address, or stop it (`ss -ltnp` shows it); if it is this carrick's own `[admin]`, move that by a reload first",
            io::ErrorKind::PermissionDenied => "ports below 1024 need CAP_NET_BIND_SERVICE: start carrick as root or by its systemd unit, or run `setcap cap_net_bind_service+ep` on its program",
            io::ErrorKind::AddrNotAvailable => "no interface of this machine has that address",
            _ => "see the system's message",
        };
        io::Error::new(error.kind(), format!("cannot listen on {address}: {call}: {error} ({advice})"))
    })
}

/// One worker's listening sockets, by the address in the configuration.
pub type Bound = HashMap<SocketAddr, std::net::TcpListener>;

/// Binds every listener of a plan once per worker. Port 0 becomes the same free port for all workers.
///
/// # Errors
/// See [`bind`].
pub fn bind_all(plan: &Plan) -> io::Result<Vec<Bound>> {
    let mut workers: Vec<Bound> = (0..plan.workers).map(|_| Bound::new()).collect();
    let give_up_at = Instant::now() + FREE_WAIT;
    for listener in &plan.listeners {
        let mut address = listener.address;
        // `SO_REUSEPORT` would silently share the clients between two carricks, so the address must be free first. A
        // draining carrick keeps it for `HANDSHAKE_MAX`.
        drop(bind_when_free(give_up_at, || {
            bind_socket(address, Sharing::Exclusive)
        })?);
        for bound in &mut workers {
            let socket = bind_at(listener, address)?;
            address = socket.local_addr()?;
            bound.insert(listener.address, socket);
        }
    }
    Ok(workers)
}

/// Whether a reload can open the listeners that `before` does not have.
///
/// # Errors
/// It cannot; says why.
pub fn check_reload(before: &Plan, after: &Plan, given_up: &GivenUp) -> Result<(), String> {
    for listener in &after.listeners {
        let mut known = before.listeners.iter().map(|known| known.address);
        if known.any(|known| known == listener.address) {
            continue;
        }
        let mut ports = before.listeners.iter().map(|known| known.address.port());
        let is_own = ports.any(|port| port == listener.address.port());
        let is_free = match is_own {
            true => Ok(()),
            // As at the start.
            false => bind_when_free(Instant::now() + FREE_WAIT, || {
                bind_socket(listener.address, Sharing::Exclusive).map(drop)
            }),
        };
        is_free.and_then(|()| bind(listener)).map_err(|error| {
            let is_in_use = error.kind() == io::ErrorKind::AddrInUse;
            if is_in_use && is_own && given_up.changed_user() {
                format!(
                    "cannot listen on {}: carrick's own socket with this port is in the way; it was opened as another user, at the start: restart carrick",
                    listener.address
                )
            } else {
                given_up.explain(&error)
            }
        })?;
    }
    Ok(())
}

/// Starts accepting on new listeners and stops on removed ones, whose last clients are served as `before`.
///
/// # Errors
/// What some listeners failed with; the others accept.
pub fn adjust(
    worker: &Rc<Worker>,
    accepting: &mut HashMap<SocketAddr, Accepting>,
    before: &Rc<WorkerLive>,
    bound: &mut Bound,
) -> io::Result<()> {
    let live = worker.live();
    let gone = accepting.extract_if(|address, _| live.listener(*address).is_none());
    for (_, accepting) in gone {
        accepting.stop(HANDSHAKE_MAX, before);
    }
    let mut errors = Vec::new();
    for listener in &live.plan().listeners {
        let address = listener.address;
        if let Some(known) = accepting.get(&address) {
            // Also with another mode: no other socket could have the address, if another user opened this one.
            set_options(worker, listener, &*known.socket);
            let old = before.listener(address);
            let old = old.as_deref().and_then(tcp_profile::of_all_clients);
            let Some(old) = old.filter(|old| Some(*old) != tcp_profile::of_all_clients(listener))
            else {
                continue;
            };
            // What only the old profile sets, the socket keeps.
            match known
                .socket
                .local_addr()
                .and_then(|at| bind_at(listener, at))
            {
                Ok(socket) => drop(bound.insert(address, socket)),
                Err(error) => {
                    let (name, kind) = (&old.name, error.kind());
                    errors.push(format!("{address} keeps settings of the TCP profile \"{name}\" until a restart: no other socket can be opened there ({kind})"));
                    continue;
                }
            }
        }
        match accept_on(worker, listener, bound.remove(&address)) {
            Ok(started) => {
                if let Some(replaced) = accepting.insert(address, started) {
                    tokio::task::spawn_local(close_replaced(Rc::clone(worker), replaced));
                }
            }
            Err(error) => errors.push(error.to_string()),
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(io::Error::other(errors.join("; ")))
}

/// Stops accepting on a socket that another replaces, once the kernel keeps no connection without a request any more.
async fn close_replaced(worker: Rc<Worker>, replaced: Accepting) {
    let _ = carrick_splice::tcp::defer_accept(&replaced.socket, 0);
    tokio::time::sleep(DEFER_MAX + HANDSHAKE_MAX).await;
    replaced.stop(HANDSHAKE_MAX, &worker.live());
}

fn accept_on(
    worker: &Rc<Worker>,
    listener: &ListenerPlan,
    socket: Option<std::net::TcpListener>,
) -> io::Result<Accepting> {
    let socket = socket.map_or_else(|| bind(listener), Ok)?;
    set_options(worker, listener, &socket);
    let socket = Rc::new(TcpListener::from_std(socket)?);
    let (stop, stopped) = oneshot::channel();
    let accept = accept_until(
        Rc::clone(worker),
        Rc::clone(&socket),
        listener.address,
        stopped,
    );
    let task = tokio::task::spawn_local(accept);
    Ok(Accepting { stop, task, socket })
}

/// Sets what a reload may change.
fn set_options(worker: &Worker, listener: &ListenerPlan, socket: &impl AsFd) {
    let deferred = if client_speaks_first(listener) {
        DEFER_SECONDS
    } else {
        0
    };
    // An optimization: without it the first request costs one more wake-up.
    let _ = carrick_splice::tcp::defer_accept(socket, deferred);
    limit_unsent(socket, &worker.live().live);
    tcp_profile::listening(&worker.connector.tcp_tuning, listener, socket);
}

/// Clients' connections inherit the limit.
fn limit_unsent(socket: &impl AsFd, live: &Live) {
    let bytes = live.plan.limits.unsent;
    if let Err(error) = carrick_splice::tcp::limit_unsent(socket, bytes) {
        tracing::debug!("[limits] unsent: {error}");
    }
}

/// HTTP clients speak first, so a connection without a request need not be accepted yet. In a tunnel or a split
/// connection, the server may speak first.
fn client_speaks_first(listener: &ListenerPlan) -> bool {
    !listener.mode.is_blind()
}

/// Accepts until told to stop. Closing a listening socket resets connections that are in the queue or in the handshake,
/// so new handshakes are refused first, those in progress are awaited, and all are accepted, as far as descriptors allow.
async fn accept_until(
    worker: Rc<Worker>,
    socket: Rc<TcpListener>,
    address: SocketAddr,
    stopped: oneshot::Receiver<Stop>,
) {
    let stop = tokio::select! {
        biased;
        stopped = stopped => stopped,
        () = accept_all(&worker, &socket, address, None) => return,
    };
    let Ok(Stop { handshakes, live }) = stop else {
        return;
    };
    if handshakes.is_zero() {
        return;
    }
    if let Err(error) = refuse_handshakes(&socket) {
        tracing::debug!("closing {address}: {error}");
    }
    let rest = accept_all(&worker, &socket, address, Some(&live));
    let _ = tokio::time::timeout(handshakes, rest).await;
}

/// Refuses new handshakes. A filter is exact, but newer kernels require `CAP_NET_ADMIN` for a filter on a TCP socket.
fn refuse_handshakes(socket: &TcpListener) -> io::Result<()> {
    match SockRef::from(socket).attach_filter(&WITHOUT_SYN) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            carrick_splice::tcp::set_hops_min(socket, HOPS_MIN_UNMET)
        }
        result => result,
    }
}

/// No common system starts with as many hops, and each router decrements it.
const HOPS_MIN_UNMET: u8 = 255;

/// A classic BPF program over TCP segments: drops those with SYN and without ACK, passes all others. A client whose SYN
/// is dropped retransmits it a second later; then another listener answers, or it is refused.
const WITHOUT_SYN: [SockFilter; 5] = {
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    [
        SockFilter::new(LOAD, 0, 0, FLAGS_AT),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(IF_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
};

/// Accepts forever. If the listener is `closing`, also whom there is no room for, and those whose handshake was in
/// progress; they are served under that configuration.
async fn accept_all(
    worker: &Rc<Worker>,
    socket: &TcpListener,
    address: SocketAddr,
    closing: Option<&Rc<WorkerLive>>,
) {
    loop {
        let descriptor = room_or_descriptor(&worker.connector, closing.is_some()).await;
        match socket.accept().await {
            Ok((client, peer)) => {
                if closing.is_some() {
                    // Inherited from the listening socket. If this fails, the connection times out.
                    let _ = carrick_splice::tcp::set_hops_min(&client, 0);
                }
                let live = closing.map_or_else(|| worker.live(), Rc::clone);
                admit(worker, live, (client, peer), address, descriptor);
            }
            Err(error) if is_shortage(&error) => {
                worker.metrics().limits.reached(Limit::Descriptors);
                if worker.connector.admission.tells_shortage(Instant::now()) {
                    tracing::error!(
                        "accept on {address}: {error}: new clients wait until descriptors are free; raise the limit (`LimitNOFILE=`, `ulimit -n`) or lower [limits] connections"
                    );
                }
                tokio::time::sleep(PAUSE).await;
            }
            // Errors of the new connection, not of the listener (accept(2), "Error handling").
            Err(error) => tracing::debug!("accept on {address}: {error}"),
        }
    }
}

/// Waits while the limit of `limits.connections` is reached. If the listener is closing, a descriptor that nobody needs
/// is enough: it is returned.
async fn room_or_descriptor(
    Connector {
        admission, metrics, ..
    }: &Connector,
    is_closing: bool,
) -> Option<UpstreamPlace> {
    if admission.has_room() {
        return None;
    }
    metrics.limits.reached(Limit::Connections);
    while !admission.has_room() {
        if is_closing && let Some(descriptor) = admission.take_for_waiting() {
            return Some(descriptor);
        }
        tokio::time::sleep(PAUSE).await;
    }
    None
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Serves a client once it is admitted. Until then it has `descriptor`.
fn admit(
    worker: &Rc<Worker>,
    live: Rc<WorkerLive>,
    (client, peer): (TcpStream, SocketAddr),
    address: SocketAddr,
    descriptor: Option<UpstreamPlace>,
) {
    // A client that connected by IPv4 to `[::]` is an IPv4 client.
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let mut kept = kept_for(&worker.connector.deferred_syns, &client, peer);
    // Behind a balancer or a trusted proxy, the client is known only after the header.
    let known = live
        .listener(address)
        .is_some_and(|listener| !listener.proxy_protocol && !listener.trusted.contain(peer.ip()));
    let known = known.then(|| peer.ip());
    // A client whose SYN was deferred is admitted already.
    let admitted = match kept.as_mut().and_then(|kept| kept.admitted.take()) {
        Some(admitted) => Ok(admitted),
        None => worker.connector.admission.admit(known),
    };
    if matches!(admitted, Err(Full::PerClient)) {
        worker.metrics().limits.reached(Limit::ConnectionsPerClient);
        return;
    }
    let client = Rc::new(client);
    let guard = SessionGuard::new(worker, &client);
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let admitted = match admitted {
            Ok(admitted) => Some(admitted),
            // Boxed: few clients wait here.
            Err(_) => Box::pin(admit_later(&worker, known)).await,
        };
        drop(descriptor);
        if let Some(admitted) = admitted.map(Rc::new) {
            // Boxed: with a splitter's state it is large.
            let counted = Rc::clone(&admitted);
            Box::pin(arrival::serve(
                worker, live, client, peer, address, kept, counted,
            ))
            .await;
        }
        drop(guard);
    });
}

/// Waits for a slot that another worker has since taken, or that a client has whom the listener's close does not wait for.
/// `None`: the drain's time is over, or this client has reached its limit.
async fn admit_later(worker: &Worker, client: Option<IpAddr>) -> Option<Admitted> {
    let admitted = tokio::select! {
        admitted = worker.connector.admission.admit_later(client) => admitted.ok(),
        () = worker.sessions.wait_for_cut_off() => return None,
    };
    if admitted.is_none() {
        worker.metrics().limits.reached(Limit::ConnectionsPerClient);
    }
    admitted
}

/// The server connection that was kept for a client whose SYN was deferred.
fn kept_for(deferred_syns: &DeferredSyns, client: &TcpStream, peer: SocketAddr) -> Option<Kept> {
    if !deferred_syns.are_deferred() {
        return None;
    }
    // Fails only if the connection is gone.
    let local = client.local_addr().ok()?;
    let server = SocketAddr::new(local.ip().to_canonical(), local.port());
    deferred_syns.take(peer, server)
}
