//! A client's arrival: the PROXY header where one is expected, who may come in, and which job the connection gets.
use super::bound::Binding;
use super::pace::KeptPace;
use super::{legs, link, original, session, tunnel};
use crate::config::plan::{ListenerPlan, Mode};
use crate::handshakes::Kept;
use crate::telemetry::metrics::Limit;
use crate::worker::Worker;
use crate::worker::deadline::{Deadline, Timer};
use crate::worker::io::read_some;
use crate::worker::live::WorkerLive;
use carrick_logic::proxy_protocol::{self, Header};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpStream;

/// A client's connection with what belongs to it.
pub struct Client {
    /// The worker that serves it.
    pub worker: Rc<Worker>,
    /// The configuration in force when its present request began.
    pub live: Rc<WorkerLive>,
    /// The listener that it came in by.
    pub listener: Arc<ListenerPlan>,
    /// The connection.
    pub stream: Rc<TcpStream>,
    /// The client's address: of the connection, or of the PROXY header.
    pub address: SocketAddr,
    /// Where it wanted to go, if it was intercepted.
    pub original: Option<SocketAddr>,
    /// The connection's timer.
    pub timer: Timer,
    /// The server's connection whose responses the kernel forwards to it.
    pub binding: Binding,
    /// What it has of the class by which it is paced; see [`paced`](Client::paced).
    pub kept_pace: KeptPace,
    /// Whether the kernel may keep the end of an answer back, for the next one to go with it; see [`push_held`](Client::push_held).
    pub holds: Cell<bool>,
    /// Whether the connection is to end with the present request: its listener is no longer configured.
    pub is_last: bool,
    /// Whether there is no connection: something is fetched for the store, in the client's name.
    pub is_errand: bool,
    /// The server's connection that stood before the client's did.
    pub kept: Cell<Option<Kept>>,
}

impl Client {
    /// For what is fetched while this client is served, or has gone.
    #[must_use]
    pub fn errand(&self) -> Self {
        let (worker, live) = (Rc::clone(&self.worker), Rc::clone(&self.live));
        let listener = Arc::clone(&self.listener);
        Self::without_connection(worker, live, listener, (self.address, self.original))
    }

    /// For one who has no connection yet: its SYN is held.
    #[must_use]
    pub fn waiting(
        worker: &Rc<Worker>,
        live: Rc<WorkerLive>,
        listener: Arc<ListenerPlan>,
        [address, server]: [SocketAddr; 2],
    ) -> Self {
        Self::without_connection(Rc::clone(worker), live, listener, (address, Some(server)))
    }

    fn without_connection(
        worker: Rc<Worker>,
        live: Rc<WorkerLive>,
        listener: Arc<ListenerPlan>,
        (address, original): (SocketAddr, Option<SocketAddr>),
    ) -> Self {
        let stream = worker.nobody();
        Self {
            original,
            is_last: true,
            is_errand: true,
            ..Self::new(worker, live, listener, (stream, address))
        }
    }

    fn new(
        worker: Rc<Worker>,
        live: Rc<WorkerLive>,
        listener: Arc<ListenerPlan>,
        (stream, address): (Rc<TcpStream>, SocketAddr),
    ) -> Self {
        Self {
            worker,
            live,
            listener,
            stream,
            address,
            original: None,
            timer: Timer::default(),
            binding: Binding::default(),
            kept_pace: KeptPace::default(),
            holds: Cell::new(false),
            is_last: false,
            is_errand: false,
            kept: Cell::default(),
        }
    }

    /// What the kernel has kept back of answers goes out now. To be called before whatever may have to be waited for.
    pub fn push_held(&self) {
        if self.holds.replace(false) {
            // To set it, though it is set, pushes (tcp_sock_set_nodelay()). If it fails, the connection is broken, which is seen soon.
            let _ = carrick_splice::tcp::set_nodelay(&self.stream);
        }
    }

    /// The address that connections to servers are to have; `None`: this machine's.
    #[must_use]
    pub fn source(&self) -> Option<IpAddr> {
        let interception = self.listener.interception.as_ref();
        interception
            .filter(|interception| interception.keeps_client)
            .map(|_| self.address.ip())
    }

    /// The port that goes with it, for connections that stand for the client's own: so a server sees the same two ends as without carrick, and
    /// none of the client's connections that go there end to end can be mistaken for one of these. Where connections are tracked, a client's
    /// that is here as well would be mistaken for it: then `None`, too.
    #[must_use]
    pub fn source_port(&self) -> Option<u16> {
        let is_alone = match self.listener.mode {
            Mode::Split(_) | Mode::Tunnel(_) => !self.worker.tracking.is_on(),
            Mode::Link(_) => true,
            _ => false,
        };
        self.source()
            .filter(|_| is_alone)
            .map(|_| self.address.port())
    }
}

/// Serves a client's connection to its end.
pub async fn serve(
    worker: Rc<Worker>,
    stream: Rc<TcpStream>,
    peer: SocketAddr,
    listener: SocketAddr,
    kept: Option<Kept>,
) {
    let live = worker.live();
    let Some(listener) = live.listener(listener) else {
        return;
    };
    let mut client = Client::new(worker, live, listener, (stream, peer));
    client.kept.set(kept);
    let is_far = matches!(client.listener.mode, Mode::Link(_));
    if is_far {
        link::keep_alive(&client.stream);
    }
    legs::accepted(&client);
    let mut first = Vec::new();
    if client.listener.proxy_protocol {
        match read_proxy_header(&mut client).await {
            Some((address, rest)) => {
                client.address = address;
                first = rest;
            }
            None => return,
        }
    }
    if !client.listener.access.allows_client(client.address.ip()) {
        client.worker.metrics.refusals.count("client_not_allowed");
        // An HTTP client is told why; others see the connection closed.
        if !client.listener.mode.is_blind() {
            session::refuse_client(&mut client).await;
        }
        return;
    }
    // Nothing is led to the far end of a link.
    if client.listener.interception.is_some() && !is_far {
        match original::destination(&client) {
            Some(destination) => {
                client.worker.metrics.intercepted.add(1);
                client.original = Some(destination);
            }
            None => return original::refuse(client).await,
        }
    }
    match client.listener.mode {
        Mode::Forward(_) | Mode::Switch(_) => session::run(client, first).await,
        Mode::Tunnel(_) | Mode::Split(_) => tunnel::run_listener(client, first).await,
        // Boxed: few connections are those of a link.
        Mode::Link(_) => Box::pin(link::serve(client)).await,
    }
}

/// Reads the PROXY header; the client's address, and what came after the header.
async fn read_proxy_header(client: &mut Client) -> Option<(SocketAddr, Vec<u8>)> {
    let mut buffer = Vec::with_capacity(proxy_protocol::HEADER_BYTES_MAX);
    let limit = client.live.plan().timeouts.head;
    let mut deadline = Deadline::after(limit);
    loop {
        match client
            .timer
            .until(&mut deadline, read_some(&client.stream, &mut buffer))
            .await
        {
            Ok(Ok(count)) if count > 0 => {}
            Ok(_) => return None,
            Err(_) => {
                client.worker.metrics.limits.reached(Limit::HeadTimeout);
                return None;
            }
        }
        match proxy_protocol::read(&buffer) {
            Ok(Header::Complete(length, endpoints)) => {
                let address = endpoints.map_or(client.address, |endpoints| endpoints.source);
                return Some((address, buffer.split_off(length.min(buffer.len()))));
            }
            Ok(Header::Partial) if buffer.len() < buffer.capacity() => {}
            Ok(Header::Partial) => {
                refuse_header(client, "the PROXY header is too long");
                return None;
            }
            Err(reason) => {
                refuse_header(client, reason);
                return None;
            }
        }
    }
}

fn refuse_header(client: &Client, reason: &str) {
    client.worker.metrics.refusals.count("proxy_protocol");
    tracing::debug!(
        "{}: PROXY header from {}: {reason}",
        client.listener.address,
        client.address
    );
}
