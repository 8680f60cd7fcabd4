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
use crate::resolver::NamedBy;
use crate::telemetry::metrics::Limit;
use crate::upstream::{Unreachable, Upstream};
use carrick_logic::access::Access;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Who needs a connection, and which are acceptable.
pub struct CheckoutRequest<'a> {
    /// Of the request.
    pub context: &'a RequestContext,
    /// The client's connection, if one waits for the response.
    pub downstream: Option<&'a Downstream>,
    /// Gets the times, and where the connection leads.
    pub log: &'a mut RequestLog,
    /// The bytes that are hashed to choose a server.
    pub key: Option<&'a [u8]>,
    /// Whether an idle connection is acceptable.
    pub reuse: bool,
    /// The largest segments that the server may send, in bytes as in TCP's option MSS; only for connections that are not reused.
    pub segment_bytes: Option<u32>,
    /// Whether the request asks for a WebSocket.
    pub websocket: bool,
    /// How long the request's body is, or more.
    pub content_bytes: u32,
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

impl CheckoutRequest<'_> {
    /// Opens a connection to `server`, to an address that `access` allows.
    pub(super) async fn dial(
        &mut self,
        server: &ServerAddress,
        access: Option<&Access>,
        tls: Option<Handshake>,
    ) -> Result<Upstream, Unreachable> {
        let begun = now();
        let context = self.context;
        let limit: Duration = context.live.plan().timeouts.connect;
        let connector = &context.worker.connector;
        let terms = Terms {
            source: context.source(),
            source_port: context.source_port(),
            mark: context.source_mark(),
            segment_bytes: self.segment_bytes,
            hop_limit: None,
            itself: self.itself(access),
            profiles: ServerProfiles::of(&connector.tcp_tuning, &context.listener),
            tls,
            // Destination rules are for what clients name.
            named_by: access.map_or(NamedBy::Configuration, |_| {
                NamedBy::client(context.who().ip())
            }),
        };
        // Boxed: most requests find an open connection.
        let result = Box::pin(dial(connector, server, access, terms, limit)).await;
        if matches!(
            result,
            Err(Unreachable::TimedOut(_) | Unreachable::TlsTimedOut(_))
        ) {
            let limits = &context.metrics().limits;
            limits.reached(Limit::ConnectTimeout);
        }
        // Only successful attempts have a connect time.
        if result.is_ok() {
            let connect = &mut self.log.connect;
            *connect = Some(connect.unwrap_or_default() + (now() - begun));
        }
        result
    }

    /// The address that the client connected to: a server there would be carrick itself, in a loop. Intercepted clients
    /// connected to their server; and a client that names its destination can cause only as many rounds as it names.
    fn itself(&self, access: Option<&Access>) -> Option<SocketAddr> {
        if self.context.original.is_some() || access.is_some() {
            return None;
        }
        // Fails only if the connection is gone.
        let own = self.downstream?.transport.local_addr()?;
        Some(SocketAddr::new(own.ip().to_canonical(), own.port()))
    }

    /// What goes first on a new connection.
    pub(super) fn preamble(&self, version: Option<ProxyVersion>) -> Vec<u8> {
        let own = || self.downstream?.transport.local_addr();
        version.map_or_else(Vec::new, |version| {
            self.context.proxy_header(version, own())
        })
    }

    /// Counts an open connection as used again.
    pub(super) fn reused(&self, upstream: Upstream) -> Upstream {
        let metrics = self.context.metrics();
        metrics.upstream_connections_reused.add(1);
        upstream
    }
}
