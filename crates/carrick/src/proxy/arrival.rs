//! A client's arrival: the PROXY header where one is expected, who may come in, and which job the connection gets.
use super::bound::Binding;
use super::pace::KeptPace;
use super::{original, session, tunnel};
use crate::config::plan::{ListenerPlan, Mode};
use crate::telemetry::metrics::Limit;
use crate::worker::Worker;
use crate::worker::deadline::{Deadline, Timer};
use crate::worker::io::read_some;
use crate::worker::live::WorkerLive;
use carrick_logic::proxy_protocol::{self, Header};
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
    /// Whether the connection is to end with the present request: its listener is no longer configured.
    pub is_last: bool,
    /// Whether there is no connection: something is fetched for the store, in the client's name.
    pub is_errand: bool,
}

impl Client {
    /// For what is fetched while this client is served, or has gone.
    #[must_use]
    pub fn errand(&self) -> Self {
        Self {
            worker: Rc::clone(&self.worker),
            live: Rc::clone(&self.live),
            listener: Arc::clone(&self.listener),
            stream: self.worker.nobody(),
            address: self.address,
            original: self.original,
            timer: Timer::default(),
            binding: Binding::default(),
            kept_pace: KeptPace::default(),
            is_last: true,
            is_errand: true,
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
}

/// Serves a client's connection to its end.
pub async fn serve(
    worker: Rc<Worker>,
    stream: Rc<TcpStream>,
    peer: SocketAddr,
    listener: SocketAddr,
) {
    let live = worker.live();
    let Some(listener) = live.listener(listener) else {
        return;
    };
    let mut client = Client {
        worker,
        live,
        listener,
        stream,
        address: peer,
        original: None,
        timer: Timer::default(),
        binding: Binding::default(),
        kept_pace: KeptPace::default(),
        is_last: false,
        is_errand: false,
    };
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
        if !matches!(client.listener.mode, Mode::Tunnel(_)) {
            session::refuse_client(&mut client).await;
        }
        return;
    }
    if client.listener.interception.is_some() {
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
        Mode::Tunnel(_) => tunnel::run_listener(client, first).await,
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
