//! Opening a connection for a request: how, and what goes first on it.
use super::dial::{Terms, dial};
use super::tls::Handshake;
use crate::config::plan::{ProxyVersion, ServerAddress};
use crate::connect::tcp_profile::ServerProfiles;
use crate::context::destination::NextHop;
use crate::context::downstream::Downstream;
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::net::deadline::now;
use crate::telemetry::metrics::WorkerMetrics;
use crate::upstream::{Unreachable, Upstream};
use carrick_logic::access::Access;
use carrick_logic::proxy_protocol::{self, Endpoints};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Requirements for a checkout.
#[derive(Debug, Clone, Copy)]
pub struct CheckoutOptions<'a> {
    /// The bytes that are hashed to choose a server.
    pub key: Option<&'a [u8]>,
    /// Whether an idle connection is acceptable.
    pub reuse: bool,
    /// The largest segments that the server may send, in bytes as in TCP's option MSS; only for connections that are not reused.
    pub segment_bytes: Option<u32>,
    /// Whether the request asks for a WebSocket.
    pub websocket: bool,
}

/// The handshake with a new connection's server, if it speaks TLS: it sends the preamble.
pub(super) fn handshake(
    next_hop: &NextHop,
    server: Option<usize>,
    preamble: &mut Vec<u8>,
) -> Option<Handshake> {
    let (tls, server) = next_hop.tls(server)?;
    Some(Handshake {
        tls: Arc::clone(tls),
        server,
        preamble: std::mem::take(preamble),
        is_http1: false,
    })
}

pub(super) fn reused(metrics: &WorkerMetrics, upstream: Upstream) -> Upstream {
    metrics.upstream_connections_reused.add(1);
    upstream
}

pub(super) async fn timed_dial(
    context: &RequestContext,
    downstream: Option<&Downstream>,
    (server, access, tls): (&ServerAddress, Option<&Access>, Option<Handshake>),
    wanted: &CheckoutOptions<'_>,
    log: &mut RequestLog,
) -> Result<Upstream, Unreachable> {
    let begun = now();
    let limit: Duration = context.live.plan().timeouts.connect;
    let connector = &context.worker.connector;
    let terms = Terms {
        source: context.source(),
        source_port: context.source_port(),
        mark: context.source_mark(),
        segment_bytes: wanted.segment_bytes,
        itself: itself(context, downstream, access),
        profiles: ServerProfiles::of(&connector.tcp_tuning, &context.listener),
        tls,
    };
    // Boxed: most requests find an open connection.
    let result = Box::pin(dial(connector, server, access, terms, limit)).await;
    if matches!(
        result,
        Err(Unreachable::TimedOut | Unreachable::TlsTimedOut(_))
    ) {
        context
            .metrics()
            .limits
            .reached(crate::telemetry::metrics::Limit::ConnectTimeout);
    }
    // Only successful attempts have a connect time.
    if result.is_ok() {
        log.connect = Some(log.connect.unwrap_or_default() + (now() - begun));
    }
    result
}

/// The address that the client connected to: a server there would be carrick itself, in a loop. Intercepted clients
/// connected to their server; and a client that names its destination can cause only as many rounds as it names.
fn itself(
    context: &RequestContext,
    downstream: Option<&Downstream>,
    access: Option<&Access>,
) -> Option<SocketAddr> {
    if context.original.is_some() || access.is_some() {
        return None;
    }
    // Fails only if the connection is gone.
    let own = downstream?.transport.local_addr()?;
    Some(SocketAddr::new(own.ip().to_canonical(), own.port()))
}

pub(super) fn preamble(
    context: &RequestContext,
    downstream: Option<&Downstream>,
    version: Option<ProxyVersion>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let (Some(version), Some(downstream)) = (version, downstream)
        && let Some(destination) = downstream.transport.local_addr()
    {
        let endpoints = Endpoints {
            source: context.who(),
            destination,
        };
        proxy_protocol::write(&mut bytes, &endpoints, version == ProxyVersion::V1);
    }
    bytes
}
