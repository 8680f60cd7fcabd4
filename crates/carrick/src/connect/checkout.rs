//! Gets a connection for one request: an idle one, or a new one to a server that has not been tried yet.
use super::http2::Place;
use super::open::{CheckoutRequest, handshake};
use crate::config::plan::{ServerAddress, ServerHttp2};
use crate::context::destination::NextHop;
use crate::context::original;
use crate::context::request_context::Pool;
use crate::net::deadline::now;
use crate::net::transport::http2::server::ServerStream;
use crate::telemetry::metrics::{Limit, WorkerMetrics};
use crate::upstream::checkout::Checkout;
use crate::upstream::group::{Active, Group};
use crate::upstream::idle::{is_quiet, is_silent};
use crate::upstream::reuse::{AtRest, Disarmed};
use crate::upstream::state::ServerState;
use crate::upstream::{Counted, Unreachable, Upstream};
use carrick_logic::access::Access;
use h2::Reason;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::net::TcpStream;

impl CheckoutRequest<'_> {
    /// Gets a connection. Unreachable servers are added to `tried`, and another one is tried, at most `attempts`.
    ///
    /// # Errors
    /// The last reason. No byte of the request has been sent.
    pub async fn checkout(
        mut self,
        next_hop: &NextHop,
        tried: &mut Vec<usize>,
    ) -> Result<Checkout, Unreachable> {
        let result = self.take_or_open(next_hop, tried).await;
        match &result {
            Ok(checkout) => self.log.took(&checkout.upstream),
            // Without any, the one that was asked before says more.
            Err(unreachable) => self.log.server = unreachable.address().or(self.log.server),
        }
        result
    }

    async fn take_or_open(
        &mut self,
        next_hop: &NextHop,
        tried: &mut Vec<usize>,
    ) -> Result<Checkout, Unreachable> {
        let context = self.context;
        let (connector, metrics) = (&context.worker.connector, context.metrics());
        match next_hop {
            NextHop::Origin {
                server,
                key,
                parent,
                ..
            } => {
                let access = (!parent).then_some(&context.listener.access);
                let idle = if self.reuse {
                    (connector.origins).take(key, |transport| next_hop.is_current(transport))
                } else {
                    None
                };
                let idle = idle.filter(|upstream| {
                    // Another listener, with other rules, may have opened it.
                    access.is_none_or(|access| access.check_address(upstream.address.ip()).is_ok())
                });
                let upstream = match idle {
                    Some(upstream) => self.reused(upstream),
                    None => match self.take_kept(server, access) {
                        Some(upstream) => upstream,
                        None => {
                            let tls = handshake(next_hop, None, &mut Vec::new());
                            self.dial(server, access, tls).await?
                        }
                    },
                };
                Ok(Checkout::alone(upstream))
            }
            NextHop::Group { group, index } => {
                self.log.upstream = Some(*index);
                let attempts = context.live.plan().limits.attempts as usize;
                let mut last = Unreachable::NoServer;
                loop {
                    let Some(server) = group.pick(self.key, tried, now()) else {
                        return Err(last);
                    };
                    let Some(state) = group.state.servers.get(server) else {
                        return Err(last);
                    };
                    // While it connects, too, or a server that does not answer looks idle.
                    let active = Active::counted_on(state);
                    let place = Place {
                        group,
                        next_hop,
                        server,
                    };
                    let upstream = match group.state.plan.http2 {
                        ServerHttp2::Never => self.http1(place).await,
                        ServerHttp2::Auto | ServerHttp2::Always => {
                            // Boxed: what few requests need should not make every session larger.
                            Box::pin(self.http2(place))
                                .await
                                .map(|upstream| (upstream, Vec::new()))
                        }
                    };
                    match upstream {
                        Ok((upstream, preamble)) => {
                            return Ok(Checkout {
                                upstream,
                                server: Some(server),
                                preamble,
                                splice: None,
                                expects_long: false,
                                active: Some(active.asked()),
                            });
                        }
                        Err(unreachable) => {
                            if unreachable.is_final() {
                                return Err(unreachable);
                            }
                            // A local shortage says nothing about the server.
                            if !unreachable.is_ours() {
                                group.failed(server, now());
                            }
                            tracing::debug!(upstream = %group.state.plan.name, "{unreachable}");
                            tried.push(server);
                            if tried.len() >= attempts {
                                if group.has_untried(tried) {
                                    metrics.limits.reached(Limit::Attempts);
                                }
                                return Err(unreachable);
                            }
                            metrics.retries.add(1);
                            last = unreachable;
                        }
                    }
                }
            }
        }
    }

    /// A connection of HTTP/1.1 to a server of an upstream, and what is to be sent first on it.
    async fn http1(&mut self, place: Place<'_>) -> Result<(Upstream, Vec<u8>), Unreachable> {
        let Place {
            group,
            next_hop,
            server,
        } = place;
        let context = self.context;
        let state = (group.state.servers.get(server)).ok_or(Unreachable::NoServer)?;
        let idle = match (self.reuse, context.source()) {
            (true, None) => group.take_idle(server),
            // Connections with a client's address belong to that client.
            (true, Some(_)) => {
                let key = own_key(context.source(), group, state);
                let origins = &context.worker.connector.origins;
                let idle = origins.take(&key, |transport| next_hop.is_current(transport));
                idle.filter(|upstream| group.may_stay(server, upstream.address.ip(), now()))
            }
            (false, _) => None,
        };
        if let Some(upstream) = idle {
            return Ok((self.reused(upstream), Vec::new()));
        }
        let mut preamble = self.preamble(group.state.plan.send_proxy_protocol);
        let tls = handshake(next_hop, Some(server), &mut preamble);
        let upstream = self.dial(&state.address, None, tls).await?;
        Ok((upstream, preamble))
    }

    /// The connection that was opened before the client was accepted, if it leads to this server and access still allows it.
    fn take_kept(&mut self, server: &ServerAddress, access: Option<&Access>) -> Option<Upstream> {
        let context = self.context;
        let mut kept = self.downstream?.kept.take()?;
        let address = context.original?;
        let is_allowed = access.is_none_or(|access| access.check_address(address.ip()).is_ok());
        if *server != ServerAddress::Ip(address) || !is_allowed {
            return None;
        }
        self.log.connect = Some(kept.connecting);
        let place = kept.upstream_place.take();
        let stream = TcpStream::from_std(kept.into_stream()?).ok()?;
        let unread_bytes = context.live.plan().limits.unread;
        let mut upstream = Upstream::new(stream, address, unread_bytes);
        upstream.counted = Some(Counted::on(context.metrics()));
        upstream.place = place;
        Some(upstream)
    }
}

impl Checkout {
    /// A connection to a server that is in no group.
    #[must_use]
    pub fn alone(upstream: Upstream) -> Self {
        Self {
            upstream,
            server: None,
            preamble: Vec::new(),
            splice: None,
            expects_long: false,
            active: None,
        }
    }

    /// Which server of its upstream it leads to, if there is one, and at which address.
    #[must_use]
    pub fn place(&self) -> (Option<usize>, IpAddr) {
        (self.server, self.upstream.address.ip())
    }

    /// The server has nothing to do for now: it does not count as in use. What comes next is not the connection's first request.
    pub fn rest(&mut self) {
        self.active = None;
        self.upstream.reused = true;
        self.preamble.clear();
    }

    /// The server gets a request again.
    pub fn resume(&mut self, next_hop: &NextHop) {
        self.upstream.is_at_rest = false;
        self.active = next_hop.server(self.server).map(Active::on);
    }

    /// The same, of one that the kernel has forwarded and reports.
    pub fn resume_forwarded(&mut self, next_hop: &NextHop) {
        self.active = next_hop.server(self.server).map(Active::counted_on);
    }

    /// Whether neither data nor an end has arrived since the last response. One system call.
    pub fn is_silent(&self) -> bool {
        is_silent(&self.upstream.transport)
    }

    /// Counts bytes sent to and received from the server.
    pub fn count(&self, metrics: &WorkerMetrics, sent_bytes: u64, received_bytes: u64) {
        metrics.upstream_bytes_sent.add(sent_bytes);
        metrics.upstream_bytes_received.add(received_bytes);
        if let Some(active) = &self.active {
            active.count_bytes(sent_bytes, received_bytes);
        }
    }

    /// Keeps the connection for another request, after a response that the process has relayed to the end stated in its head.
    pub fn give_back(self, pool: Pool<'_>, next_hop: &NextHop) {
        self.give_back_after(false, pool, next_hop);
    }

    /// The same; `is_acknowledged`: the server is known to have acknowledged all of the request, and is not asked again.
    pub fn give_back_after(mut self, is_acknowledged: bool, pool: Pool<'_>, next_hop: &NextHop) {
        if self.come_to_rest(is_acknowledged) {
            self.put_back(pool, next_hop);
        }
    }

    /// Closes the connection after such a response, because the server expects no other request.
    pub fn close(mut self) {
        self.upstream.is_at_rest = self.come_to_rest(false);
    }

    /// Whether the connection [may be reused](AtRest), or reset.
    fn come_to_rest(&mut self, is_acknowledged: bool) -> bool {
        // First the kernel returns the connection, with no bytes in flight that the process does not know of.
        let Some(mut splice) = self.splice.take() else {
            let known = is_acknowledged.then_some(0);
            return self.at_rest_with(Disarmed::Done, known).may_be_reused();
        };
        let disarmed = splice.disarm().into();
        self.at_rest(disarmed).may_be_reused()
    }

    /// The state of the connection after such a response.
    pub fn at_rest(&self, disarmed: Disarmed) -> AtRest {
        self.at_rest_with(disarmed, None)
    }

    /// `unacknowledged_bytes`: if they are known.
    fn at_rest_with(&self, disarmed: Disarmed, unacknowledged_bytes: Option<u64>) -> AtRest {
        let stream = &self.upstream.transport;
        AtRest {
            disarmed,
            is_over: true,
            is_exact: true,
            has_server_ended: false,
            unacknowledged_bytes: unacknowledged_bytes.or_else(|| stream.unacknowledged_bytes()),
            is_quiet: is_quiet(stream),
        }
    }

    /// Puts a connection that [may be reused](AtRest) into the idle pool, if there is room, or gives a pinned one back to its client;
    /// otherwise resets it.
    pub fn put_back(mut self, pool: Pool<'_>, next_hop: &NextHop) {
        let Pool {
            connector,
            source,
            pinned,
        } = pool;
        if self.upstream.transport.server_stream().is_some() {
            // A stream carries one request; its connection is shared already.
            return;
        }
        self.upstream.is_at_rest = true;
        if connector.admission.upstreams_waited_for() > 0 {
            // Another request is waiting for its descriptor.
            return;
        }
        if !next_hop.is_current(&self.upstream.transport) {
            return;
        }
        if self.upstream.is_pinned {
            if let Some(pinned) = pinned {
                pinned.put(self, next_hop);
            }
            return;
        }
        let now = now();
        match (next_hop, self.server) {
            (NextHop::Group { group, .. }, Some(server)) => {
                let own = source.and(group.state.servers.get(server));
                match own {
                    Some(state)
                        if group.state.plan.keepalive > 0
                            && group.may_stay(server, self.upstream.address.ip(), now) =>
                    {
                        let key = own_key(source, group, state);
                        connector.origins.put(&key, self.upstream, now);
                    }
                    Some(_) => {}
                    None => group.put_idle(server, self.upstream, now),
                }
            }
            (NextHop::Origin { key, .. }, _) => connector.origins.put(key, self.upstream, now),
            (NextHop::Group { .. }, None) => {}
        }
    }

    /// Notes that the server answered.
    pub fn answered(&self, next_hop: &NextHop) {
        if let (NextHop::Group { group, .. }, Some(server)) = (next_hop, self.server) {
            group.succeeded(server);
        }
    }

    /// Whether a failure may be one of a connection that had died before, which proves nothing.
    #[must_use]
    pub fn may_be_stale(&self) -> bool {
        let stream = self.upstream.transport.server_stream();
        self.upstream.reused && stream.is_none_or(ServerStream::has_lost_connection)
    }

    /// The code with which the server has reset the request's stream of HTTP/2 before the end of the response.
    #[must_use]
    pub fn reset_code(&self) -> Option<Reason> {
        let stream = self.upstream.transport.server_stream();
        stream.and_then(ServerStream::reset_code)
    }

    /// Notes that the server did not answer, unless [that proves nothing](Self::may_be_stale).
    pub fn failed(&self, next_hop: &NextHop) {
        if !self.may_be_stale() {
            self.failed_alive(next_hop);
        }
    }

    /// Notes that the server has not answered in time: one that has acknowledged the request is alive.
    pub fn timed_out(&self, next_hop: &NextHop) {
        match self.upstream.transport.unacknowledged_bytes() == Some(0) {
            true => self.failed_alive(next_hop),
            false => self.failed(next_hop),
        }
    }

    /// Notes that the server has taken a request, and has not answered, or not to the end, unless it has cancelled it: servers of gRPC do
    /// so when a call's deadline is over, which the client has set.
    pub fn failed_alive(&self, next_hop: &NextHop) {
        if self.reset_code() == Some(Reason::CANCEL) {
            return;
        }
        if let (NextHop::Group { group, .. }, Some(server)) = (next_hop, self.server) {
            group.failed(server, now());
        }
    }
}

/// The key of idle connections to a server that use the client's address. With TLS, no other was opened by the same rules; since the server
/// was down, none.
fn own_key(source: Option<IpAddr>, group: &Group, server: &ServerState) -> Box<[u8]> {
    let (address, times) = (&server.address, server.times_down());
    let name = match &group.state.plan.tls {
        Some(tls) => format!("server {address} {times} by {:p}", Arc::as_ptr(tls)),
        None => format!("server {address} {times}"),
    };
    original::idle_key(source, &name)
}
