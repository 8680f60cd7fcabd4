//! One worker's view of a configured upstream: balancer, passive health, idle connections.
use super::http2::Http2Connections;
use super::idle::IdleConnections;
use crate::net::transport::Transport;
use crate::upstream::Upstream;
use crate::upstream::state::{ServerState, UpstreamState};
use carrick_logic::balance::{Balancer, PassiveHealth, ServerView};
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A worker's side of an upstream.
#[derive(Debug)]
pub struct Group {
    /// The shared side.
    pub state: Arc<UpstreamState>,
    balancer: RefCell<Balancer>,
    views: RefCell<Vec<ServerView>>,
    servers: Vec<RefCell<Server>>,
    /// Another configuration is in force: returned connections are closed, since this group is no longer tended.
    is_retired: Cell<bool>,
}

#[derive(Debug)]
struct Server {
    passive: PassiveHealth,
    idle: IdleConnections,
    http2: Rc<Http2Connections>,
    /// Those of its name, if it has one, as last looked up; `None`: not known.
    addresses: Option<Arc<[IpAddr]>>,
    /// When a request was to go by a connection that its client keeps.
    kept_at: Option<Instant>,
}

impl Server {
    /// Whether its name may still have this address.
    fn is_at(&self, address: IpAddr) -> bool {
        let known = self.addresses.as_ref();
        known.is_none_or(|known| known.contains(&address))
    }

    fn idle_count(&self) -> usize {
        self.idle.len() + self.http2.idle_count()
    }

    /// Closes some idle connections; what is under way on those of HTTP/2 goes on.
    fn leave(&mut self, is_left: impl Fn(IpAddr, &Transport) -> bool) {
        self.idle.leave(&is_left);
        self.http2.leave(is_left);
    }
}

/// Counts a request or tunnel as active on a server until dropped.
#[derive(Debug)]
pub struct Active(Arc<ServerState>);

impl Active {
    /// Counts one more.
    #[must_use]
    pub fn on(server: &Arc<ServerState>) -> Self {
        Self::counted_on(server).asked()
    }

    /// It has a connection now, which makes it a request.
    #[must_use]
    pub fn asked(self) -> Self {
        self.count_request();
        self
    }

    /// The same, of one that is used by reference.
    pub fn count_request(&self) {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes sent to and received from the server.
    pub fn count_bytes(&self, sent_bytes: u64, received_bytes: u64) {
        self.0.bytes_sent.fetch_add(sent_bytes, Ordering::Relaxed);
        (self.0.bytes_received).fetch_add(received_bytes, Ordering::Relaxed);
    }

    /// One that is, or will be, counted as a request by somebody else.
    #[must_use]
    pub fn counted_on(server: &Arc<ServerState>) -> Self {
        server.active.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(server))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Group {
    /// A worker's view of `state`; takes idle connections and marks of remaining servers from `previous`.
    #[must_use]
    pub fn new(state: Arc<UpstreamState>, seed: u64, previous: Option<&Self>) -> Self {
        let servers = state
            .servers
            .iter()
            .map(|server| {
                let before = previous.and_then(|group| {
                    let index = group
                        .state
                        .servers
                        .iter()
                        .position(|known| Arc::ptr_eq(known, server))?;
                    group.servers.get(index)
                });
                let mut fresh = Server {
                    passive: PassiveHealth::new(state.plan.failures_max),
                    idle: IdleConnections::default(),
                    http2: Rc::default(),
                    addresses: None,
                    kept_at: None,
                };
                if let Some(before) = before {
                    let mut before = before.borrow_mut();
                    let passive = before.passive.clone();
                    fresh.passive = passive.with_failures_max(state.plan.failures_max);
                    // Connections are of the same kind, and were trusted by the same rules.
                    if previous.is_some_and(|group| {
                        let (old, new) = (&group.state.plan, &state.plan);
                        old.send_proxy_protocol == new.send_proxy_protocol
                            && old.tls == new.tls
                            && old.http2 == new.http2
                    }) {
                        fresh.idle = std::mem::take(&mut before.idle);
                        fresh.http2 = std::mem::take(&mut before.http2);
                    }
                }
                RefCell::new(fresh)
            })
            .collect();
        let names: Vec<String> = state
            .servers
            .iter()
            .map(|server| server.address.to_string())
            .collect();
        let balancer =
            Balancer::new(state.plan.balance, seed).with_names(names.iter().map(String::as_bytes));
        Self {
            balancer: RefCell::new(balancer),
            views: RefCell::default(),
            servers,
            state,
            is_retired: Cell::new(false),
        }
    }

    /// Chooses a server that is not in `tried`. If passive marks exclude all others, they are ignored: a server that
    /// just failed is better than no answer.
    pub fn pick(&self, key: Option<&[u8]>, tried: &[usize], now: Instant) -> Option<usize> {
        if let ([only], true) = (self.state.servers.as_slice(), tried.is_empty()) {
            return only.is_healthy().then_some(0);
        }
        let is_left =
            |index: usize, server: &ServerState| server.is_healthy() && !tried.contains(&index);
        let is_up = |index: usize| {
            self.servers
                .get(index)
                .is_some_and(|mine| mine.borrow().passive.is_up(now))
        };
        let picked = self
            .pick_where(key, |index, server| is_left(index, server) && is_up(index))
            .or_else(|| self.pick_where(key, is_left))?;
        if let Some(server) = self.servers.get(picked) {
            server.borrow_mut().passive.chosen(now);
        }
        Some(picked)
    }

    /// Whether a healthy server is not among these.
    pub fn has_untried(&self, tried: &[usize]) -> bool {
        let mut servers = self.state.servers.iter().enumerate();
        servers.any(|(index, server)| server.is_healthy() && !tried.contains(&index))
    }

    fn pick_where(
        &self,
        key: Option<&[u8]>,
        eligible: impl Fn(usize, &ServerState) -> bool,
    ) -> Option<usize> {
        let mut views = self.views.borrow_mut();
        views.clear();
        views.extend(
            self.state
                .servers
                .iter()
                .zip(&self.state.plan.servers)
                .enumerate()
                .map(|(index, (server, plan))| ServerView {
                    weight: plan.weight,
                    active: server.active.load(Ordering::Relaxed),
                    eligible: eligible(index, server),
                }),
        );
        self.balancer.borrow_mut().pick(&views, key)
    }

    /// An idle connection to a server, if there is one.
    pub fn take_idle(&self, server: usize) -> Option<Upstream> {
        let mut server = self.servers.get(server)?.borrow_mut();
        server.idle.take(|transport| self.is_current(transport))
    }

    /// Whether a connection was made by the certificates and revocation lists in force, which may have been replaced since.
    #[must_use]
    pub fn is_current(&self, transport: &Transport) -> bool {
        let tls = self.state.plan.tls.as_ref();
        transport.made_by() == tls.map(|tls| tls.digest())
    }

    /// Keeps a connection for the next request.
    pub fn put_idle(&self, server: usize, upstream: Upstream, now: Instant) {
        // A connection that began with a PROXY header belongs to that client.
        if self.is_retired.get() || self.state.plan.send_proxy_protocol.is_some() {
            return;
        }
        if let Some(server) = self.servers.get(server) {
            let mut server = server.borrow_mut();
            if server.is_at(upstream.address.ip()) {
                server.idle.put(upstream, self.state.plan.keepalive, now);
            }
        }
    }

    /// Whether a further request may go to a server by a connection to this address that the client keeps.
    pub fn may_stay(&self, server: usize, address: IpAddr, now: Instant) -> bool {
        let (Some(mine), Some(shared)) = (self.servers.get(server), self.state.servers.get(server))
        else {
            return false;
        };
        let mut mine = mine.borrow_mut();
        mine.kept_at = Some(now);
        shared.is_healthy() && mine.is_at(address)
    }

    /// Whether a server has connections, or requests of any worker. A connection that a client keeps shows in neither between its requests,
    /// which are at most `age_max` apart.
    #[must_use]
    pub fn is_in_use(&self, server: usize, now: Instant, age_max: Duration) -> bool {
        let (Some(mine), Some(shared)) = (self.servers.get(server), self.state.servers.get(server))
        else {
            return false;
        };
        let mine = mine.borrow();
        mine.kept_at
            .is_some_and(|at| now.saturating_duration_since(at) < age_max)
            || shared.active.load(Ordering::Relaxed) > 0
            || mine.idle_count() > 0
    }

    /// Notes which addresses a server's name has now: connections to others get no further request. `None`: any may be right.
    pub fn now_at(&self, server: usize, addresses: Option<Arc<[IpAddr]>>) {
        let Some(server) = self.servers.get(server) else {
            return;
        };
        let mut server = server.borrow_mut();
        if let Some(addresses) = &addresses {
            server.leave(|ip, _| !addresses.contains(&ip));
        }
        server.addresses = addresses;
    }

    /// The connections of HTTP/2 to a server.
    pub fn http2(&self, server: usize) -> Option<Rc<Http2Connections>> {
        Some(Rc::clone(&self.servers.get(server)?.borrow().http2))
    }

    /// Notes that a server did not answer.
    pub fn failed(&self, server: usize, now: Instant) {
        if let (Some(mine), Some(shared)) =
            (self.servers.get(server), self.state.servers.get(server))
        {
            mine.borrow_mut().passive.failed(now);
            shared.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that a server answered.
    pub fn succeeded(&self, server: usize) {
        if let Some(server) = self.servers.get(server) {
            server.borrow_mut().passive.succeeded();
        }
    }

    /// Closes idle connections that are too old, not [current](Self::is_current), or were closed by the server, and all to
    /// a server that is down: when it is up again, it may know nothing of them.
    pub fn close_stale(&self, now: Instant, age_max: Duration) {
        for (server, state) in self.servers.iter().zip(&self.state.servers) {
            let mut server = server.borrow_mut();
            server.leave(|_, transport| !state.is_healthy() || !self.is_current(transport));
            server.idle.close_stale(now, age_max);
            (server.http2).close_stale(now, age_max, self.state.plan.keepalive);
        }
    }

    /// Closes idle connections, including ones returned later.
    pub fn retire(&self) {
        self.is_retired.set(true);
        while self.close_one() {}
        for server in &self.servers {
            server.borrow().http2.retire();
        }
    }

    /// Closes an idle connection; false if there is none.
    pub fn close_one(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| {
            let mut server = server.borrow_mut();
            server.idle.close_oldest() || server.http2.close_one()
        })
    }

    /// Idle connections, over all servers.
    #[must_use]
    pub fn idle_count(&self) -> usize {
        self.servers
            .iter()
            .map(|server| server.borrow().idle_count())
            .sum()
    }
}

#[cfg(test)]
mod tests;
