//! Admits an accepted connection: reads the PROXY header if one is expected, checks access, and starts the listener's job.
use crate::accept::tls;
use crate::config::plan::Mode;
use crate::config::tls::HTTP2_ALPN;
use crate::connect::tcp_profile;
use crate::context::client::Client;
use crate::context::live::WorkerLive;
use crate::context::original;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::context::worker::Worker;
use crate::http::{http2, session};
use crate::net::admission::Admitted;
use crate::net::deadline::{Deadline, now};
use crate::net::io::read_some;
use crate::net::transport::Transport;
use crate::reply::Reply;
use crate::syn_defer::Kept;
use crate::tcp::{by_name, link};
use crate::telemetry::metrics::Limit;
use carrick_logic::proxy_protocol::{self, Endpoints, Header};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::net::TcpStream;

/// Serves a client's connection to its end, at first under the configuration `live`.
pub async fn serve(
    worker: Rc<Worker>,
    live: Rc<WorkerLive>,
    stream: Rc<TcpStream>,
    peer: SocketAddr,
    listener: SocketAddr,
    kept: Option<Kept>,
    admitted: Rc<Admitted>,
) {
    let Some(listener) = live.listener(listener) else {
        return;
    };
    let transport = Transport::Tcp(Rc::clone(&stream));
    let mut client = Client::new(worker, live, listener, (transport, peer));
    client.downstream.kept.set(kept.map(Box::new));
    client.downstream.admitted = Some(Rc::clone(&admitted));
    let is_far = matches!(client.context.listener.mode, Mode::Link(_));
    if is_far {
        link::keep_alive(&stream);
    }
    // The session becomes the only owner, so that a tunnel can take the connection.
    drop(stream);
    let service = &client.context.worker.connector.tcp_tuning;
    tcp_profile::accepted(
        service,
        &client.context.listener,
        &client.downstream.transport,
    );
    let mut first = Vec::new();
    // One for all that precedes what is served.
    let mut deadline = Deadline::after(client.context.live.plan().timeouts.head);
    if client.context.listener.proxy_protocol {
        match read_proxy_header(&mut client, &mut deadline).await {
            Some((endpoints, rest)) => {
                if let Some(endpoints) = endpoints {
                    client.context.address = endpoints.source;
                    client.context.destination = Some(Box::new(endpoints.destination));
                }
                first = rest;
            }
            None => return,
        }
        let client_ip = (!client.context.is_trusted_proxy()).then(|| client.context.address.ip());
        if admitted.count_for(client_ip).is_err() {
            let limits = &client.context.metrics().limits;
            return limits.reached(Limit::ConnectionsPerClient);
        }
    }
    // The clients behind a trusted proxy are checked request by request.
    let is_known = !client.context.is_trusted_proxy();
    if is_known
        && !client
            .context
            .listener
            .access
            .allows_client(client.context.address.ip())
    {
        // An HTTP client gets the reason; other connections are closed. A stranger is not worth a TLS handshake.
        if !client.context.listener.mode.is_blind() && client.context.listener.tls.is_none() {
            session::refuse_client(&mut client).await;
        } else {
            let refusals = &client.context.metrics().refusals;
            refusals.count("client_not_allowed");
        }
        return;
    }
    // Connections at the far end of a link are never intercepted.
    if client.context.listener.interception.is_some() && !is_far {
        match original::destination(&client.context.listener, &client.downstream.transport) {
            Some(destination) => {
                client.context.metrics().intercepted.add(1);
                client.context.original = Some(destination);
            }
            None => return refuse_not_intercepted(client).await,
        }
    }
    if client.context.listener.tls.is_some() {
        if client.context.listener.routes_by_name().next().is_some() {
            match Box::pin(by_name::pass_on(client, first, &mut deadline)).await {
                Some(kept) => (client, first) = kept,
                None => return,
            }
        }
        // Boxed: a handshake is large, and soon over.
        let begun = std::mem::take(&mut first);
        if !Box::pin(tls::shake_hands(&mut client, begun, &mut deadline)).await {
            return;
        }
    }
    match client.context.listener.mode {
        Mode::Forward(_) | Mode::Switch(_) => {
            let tls = client.downstream.transport.tls();
            let begun = match tls.is_some_and(|tls| tls.speaks(HTTP2_ALPN)) {
                true => Some((client, first, now())),
                false => session::run(client, first).await,
            };
            if let Some((client, first, begun)) = begun {
                // Boxed: what each client of HTTP/1 would have room for otherwise.
                Box::pin(http2::serve(client, first, begun)).await;
            }
        }
        Mode::Tunnel(_) | Mode::Split(_) => by_name::run_listener(client, first, deadline).await,
        // Boxed: few connections are link connections.
        Mode::Link(_) => Box::pin(link::serve(client)).await,
    }
}

/// Reads the PROXY header. Returns what it says, and the bytes after it.
pub(crate) async fn read_proxy_header(
    client: &mut Client,
    deadline: &mut Deadline,
) -> Option<(Option<Endpoints>, Vec<u8>)> {
    let (context, downstream) = (&client.context, &mut client.downstream);
    let mut buffer = Vec::with_capacity(proxy_protocol::HEADER_BYTES_MAX);
    loop {
        match downstream
            .timer
            .until(deadline, read_some(&downstream.transport, &mut buffer))
            .await
        {
            Ok(Ok(count)) if count > 0 => {}
            Ok(_) => return None,
            Err(_) => {
                context.metrics().limits.reached(Limit::HeadTimeout);
                return None;
            }
        }
        match proxy_protocol::read(&buffer) {
            Ok(Header::Complete(length, endpoints)) => {
                return Some((endpoints, buffer.split_off(length.min(buffer.len()))));
            }
            Ok(Header::Partial) if buffer.len() < buffer.capacity() => {}
            Ok(Header::Partial) => {
                refuse_header(context, "the PROXY header is too long");
                return None;
            }
            Err(reason) => {
                refuse_header(context, reason);
                return None;
            }
        }
    }
}

fn refuse_header(context: &RequestContext, reason: &str) {
    context.metrics().refusals.count("proxy_protocol");
    tracing::debug!(
        "{}: PROXY header from {}: {reason}",
        context.listener.address,
        context.address
    );
}

/// Refuses a client that connected to the listener itself: carrick would connect to itself in a loop.
async fn refuse_not_intercepted(mut client: Client) {
    const LABEL: &str = "not_intercepted";
    const WHY: &str = "This is a transparent proxy: it serves intercepted connections to other addresses, and none to its own. \
        Connect to the server itself.";
    tracing::debug!(
        "{}: {} was not intercepted, but connected to the listener itself",
        client.context.listener.address,
        client.context.address
    );
    if client.context.listener.mode.is_blind() {
        client.context.metrics().refusals.count(LABEL);
        let mut log = RequestLog::begin();
        (log.status, log.ended) = (403, LABEL);
        let target = client.context.listener.address.to_string();
        log.finish_tunnel(&client.context, target.as_bytes(), "TCP");
        client.downstream.transport.reset_on_close();
        return;
    }
    session::refuse(&mut client, &Reply::new(403, LABEL, WHY)).await;
}
