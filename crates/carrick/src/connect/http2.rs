//! Gets a stream of HTTP/2 to a server: on a connection that is there, or on a new one.
use super::open::{CheckoutRequest, handshake};
use crate::config::plan::ServerHttp2;
use crate::config::tls::{HTTP1_ALPN, HTTP2_ALPN};
use crate::connect::tls;
use crate::context::destination::NextHop;
use crate::context::request_context::RequestContext;
use crate::net::deadline::now;
use crate::net::io::write_all;
use crate::net::transport::Transport;
use crate::net::transport::http2::server::{Ended, ServerConnection, ServerStream};
use crate::net::transport::tls::HandshakeError;
use crate::telemetry::metrics::{Limit, WorkerMetrics};
use crate::upstream::group::Group;
use crate::upstream::http2::{Access, Http2Connections};
use crate::upstream::{Unreachable, Upstream};
use rustls::{AlertDescription as Alert, Error};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{timeout, timeout_at};

/// How long another connection may take, if the request can go by one that is open, where it may have to wait.
const ANOTHER_WITHIN: Duration = Duration::from_secs(1);

/// One of the servers of an upstream.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The upstream.
    pub group: &'a Group,
    /// The same, as a destination.
    pub next_hop: &'a NextHop,
    /// The server's index.
    pub server: usize,
}

/// A new connection.
enum Opened {
    Http2(Rc<ServerConnection>),
    /// The server has chosen this.
    Http1(Upstream),
}

impl CheckoutRequest<'_> {
    /// Gets a stream; or a connection of HTTP/1.1, if the server chooses that and may, or takes WebSockets no other way.
    ///
    /// # Errors
    /// See [`Unreachable`]. No byte of the request has been sent.
    pub(super) async fn http2(&mut self, place: Place<'_>) -> Result<Upstream, Unreachable> {
        let may_be_http1 = place.group.state.plan.http2 == ServerHttp2::Auto;
        let shared = (place.group.http2(place.server)).ok_or(Unreachable::NoServer)?;
        if self.websocket && may_be_http1 && shared.takes_no_websockets() {
            return self.http1_for_websocket(place).await;
        }
        let upstream = self.find(place).await?;
        let stream = upstream.transport.server_stream();
        match stream.map(ServerStream::connection) {
            Some(connection) if self.websocket && !connection.takes_websockets() => {
                let address = upstream.address;
                drop(upstream);
                match may_be_http1 {
                    true => self.http1_for_websocket(place).await,
                    false => Err(Unreachable::NoWebSocket(address)),
                }
            }
            _ => Ok(upstream),
        }
    }

    /// A connection of HTTP/1.1, for a WebSocket.
    async fn http1_for_websocket(&mut self, place: Place<'_>) -> Result<Upstream, Unreachable> {
        let state = &place.group.state;
        let server = (state.servers.get(place.server)).ok_or(Unreachable::NoServer)?;
        let mut preamble = self.preamble(state.plan.send_proxy_protocol);
        let mut tls = handshake(place.next_hop, Some(place.server), &mut preamble);
        if let Some(tls) = &mut tls {
            tls.is_http1 = true;
        }
        match self.dial(&server.address, None, tls).await {
            // It speaks HTTP/2 only: that is nothing against it.
            Ok(upstream)
                if (upstream.transport.tls()).is_some_and(|tls| !tls.speaks(HTTP1_ALPN)) =>
            {
                Err(Unreachable::NoWebSocket(upstream.address))
            }
            Err(Unreachable::Tls {
                address,
                error: HandshakeError::Tls(Error::AlertReceived(Alert::NoApplicationProtocol)),
            }) => Err(Unreachable::NoWebSocket(address)),
            dialled => dialled,
        }
    }

    async fn find(&mut self, place: Place<'_>) -> Result<Upstream, Unreachable> {
        let context = self.context;
        let (plan, metrics) = (&place.group.state.plan, context.metrics());
        let shared = (place.group.http2(place.server)).ok_or(Unreachable::NoServer)?;
        let deadline = now() + context.live.plan().timeouts.connect;
        // What has a client's address, or names it, is of no use to another.
        if context.source().is_some() || plan.send_proxy_protocol.is_some() {
            let opened = self.open(place, deadline).await?;
            return match opened {
                Opened::Http1(upstream) => Ok(upstream),
                Opened::Http2(connection) => {
                    shared.note_websockets(&connection);
                    let stream = stream_of(&connection, metrics);
                    connection.end();
                    stream
                }
            };
        }
        loop {
            if let Some(upstream) = self.shared_stream(place, &shared, self.content_bytes) {
                return Ok(upstream);
            }
            if self.reuse
                && let Some(upstream) = place.group.take_idle(place.server)
            {
                return Ok(self.reused(upstream));
            }
            if !(self.reuse && shared.has_room()) {
                match self.another(place, &shared, deadline).await? {
                    Some(upstream) => return Ok(upstream),
                    None => continue,
                }
            }
            let another = self.another(place, &shared, deadline);
            let failed = match timeout(ANOTHER_WITHIN, another).await {
                Ok(Ok(Some(upstream))) => return Ok(upstream),
                Ok(Ok(None)) => continue,
                Ok(Err(failed)) => Some(failed),
                Err(_) => (now() >= deadline).then_some(Unreachable::TimedOut(None)),
            };
            // Rather a connection without room for content than none.
            if let Some(upstream) = self.shared_stream(place, &shared, 0) {
                return Ok(upstream);
            }
            if let Some(failed) = failed {
                return Err(failed);
            }
        }
    }

    /// Opens a connection; `None`: another request has opened one. If this is given up, so is the attempt, and another makes one.
    async fn another(
        &mut self,
        place: Place<'_>,
        shared: &Http2Connections,
        deadline: Instant,
    ) -> Result<Option<Upstream>, Unreachable> {
        let own = match shared.access() {
            Access::Wait(waiting) if self.reuse => {
                let waited = timeout_at(deadline.into(), waiting.wait()).await;
                waited
                    .map_err(|_| Unreachable::TimedOut(None))?
                    .map_err(Unreachable::Shared)?;
                return Ok(None);
            }
            Access::Wait(_) => None,
            Access::Open(own) => Some(own),
        };
        let (result, told) = match self.open(place, deadline).await {
            Ok(Opened::Http2(connection)) => {
                // The first stream is its own.
                let stream = stream_of(&connection, self.context.metrics());
                shared.put(connection);
                (stream, Ok(()))
            }
            Ok(Opened::Http1(upstream)) => {
                shared.speaks_http1();
                (Ok(upstream), Ok(()))
            }
            Err(unreachable) => {
                let unreachable = Arc::new(unreachable);
                let own = Unreachable::Shared(Arc::clone(&unreachable));
                (Err(own), Err(unreachable))
            }
        };
        if let Some(own) = own {
            own.done(told);
        }
        result.map(Some)
    }

    /// A stream on an open connection, if that is acceptable, with room for so much content.
    fn shared_stream(
        &self,
        place: Place<'_>,
        shared: &Http2Connections,
        content_bytes: u32,
    ) -> Option<Upstream> {
        if !self.reuse {
            return None;
        }
        let stream = shared.stream(content_bytes, |one| place.group.is_current(one))?;
        let mut upstream = as_upstream(stream, self.context.metrics());
        upstream.reused = true;
        Some(self.reused(upstream))
    }

    /// Opens a connection.
    async fn open(&mut self, place: Place<'_>, deadline: Instant) -> Result<Opened, Unreachable> {
        let state = &place.group.state;
        let server = (state.servers.get(place.server)).ok_or(Unreachable::NoServer)?;
        let mut preamble = self.preamble(state.plan.send_proxy_protocol);
        let tls = handshake(place.next_hop, Some(place.server), &mut preamble);
        let upstream = self.dial(&server.address, None, tls).await?;
        if let Some(tls) = upstream.transport.tls()
            && !tls.speaks(HTTP2_ALPN)
        {
            return match state.plan.http2 {
            ServerHttp2::Auto => Ok(Opened::Http1(upstream)),
            ServerHttp2::Always | ServerHttp2::Never => Err(Unreachable::Http2 {
                address: upstream.address,
                why: "the server has not chosen HTTP/2 in the TLS handshake; with `http2 = \"auto\"` HTTP/1.1 is spoken then".to_owned(),
            }),
        };
        }
        let address = upstream.address;
        let begun = timeout_at(
            deadline.into(),
            begin(self.context, place, upstream, &preamble),
        )
        .await;
        begun.unwrap_or_else(|_| {
            self.context.metrics().limits.reached(Limit::ConnectTimeout);
            Err(Unreachable::Http2TimedOut(address))
        })
    }
}

fn stream_of(
    connection: &Rc<ServerConnection>,
    metrics: &WorkerMetrics,
) -> Result<Upstream, Unreachable> {
    let stream = connection.stream(0);
    let stream = stream.ok_or(Unreachable::NoServer)?;
    Ok(as_upstream(stream, metrics))
}

fn as_upstream(stream: Rc<ServerStream>, metrics: &WorkerMetrics) -> Upstream {
    metrics.upstream_http2_requests.add(1);
    let address = stream.connection().address();
    // The window of HTTP/2 limits what waits unread.
    Upstream::new(Transport::Http2Server(stream), address, 0)
}

/// Begins HTTP/2 on a new connection.
async fn begin(
    context: &RequestContext,
    place: Place<'_>,
    mut upstream: Upstream,
    preamble: &[u8],
) -> Result<Opened, Unreachable> {
    let address = upstream.address;
    let failed = |why: String| Unreachable::Http2 { address, why };
    let lost = |error: std::io::Error| failed(error.to_string());
    write_all(&upstream.transport, preamble)
        .await
        .map_err(lost)?;
    // The connection is counted, and has its descriptor, as long as it is driven.
    let held = (upstream.counted.take(), upstream.place.take());
    let transport = upstream.transport.take();
    let limits = context.live.plan().limits.head();
    let metrics = Arc::clone(context.metrics());
    let when_full = move || metrics.limits.reached(Limit::Http2Unsent);
    let begun = ServerConnection::begin(transport, address, limits, when_full).await;
    let (connection, framing) = begun.map_err(|error| failed(error.to_string()))?;
    context.metrics().upstream_http2_connections.add(1);
    let (driven, metrics) = (Rc::clone(&connection), Arc::clone(context.metrics()));
    tokio::task::spawn_local(async move {
        let ended = driven.drive(framing).await;
        drop(held);
        match ended {
            Ended::Flooded => metrics.limits.reached(Limit::Http2Flood),
            Ended::Malformed(_) => {}
            _ => {
                tracing::debug!("HTTP/2 with the server {address}: {ended}");
                return;
            }
        }
        tracing::warn!("HTTP/2 with the server {address}: {ended}");
    });
    let opened = connection.opened().await;
    opened.map_err(|ended| {
        let tls = place.next_hop.tls(Some(place.server));
        let refusal = connection.transport().tls().and_then(|tls| tls.refusal());
        match (tls, refusal, ended) {
            (Some((of, server)), Some(refusal), _) => {
                tls::failed((of, server), address, refusal.into(), context.metrics())
            }
            (None, _, Ended::NotHttp2 | Ended::Closed) => failed(
                "the server does not speak HTTP/2 without TLS; remove `http2` from its upstream, or use another port".to_owned(),
            ),
            (_, _, ended) => failed(ended.to_string()),
        }
    })?;
    Ok(Opened::Http2(connection))
}
