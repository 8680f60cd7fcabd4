//! Current state of upstreams: health, active requests, counters. Shared by all workers and the control thread; servers
//! that stay keep it across a reload.
use crate::config::plan::{ServerAddress, UpstreamPlan};
use crate::telemetry::forwarded::ServerCounters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// An upstream and the state of its servers, in the order of its plan.
#[derive(Debug)]
pub struct UpstreamState {
    /// As configured.
    pub plan: Arc<UpstreamPlan>,
    /// One for each of `plan.servers`.
    pub servers: Vec<Arc<ServerState>>,
}

/// One server; the same for all workers.
#[derive(Debug)]
pub struct ServerState {
    /// Its address.
    pub address: ServerAddress,
    /// The address as text, `host:port`, for logs and metrics.
    pub label: Box<str>,
    /// The result of active health checks; true without checks.
    healthy: AtomicBool,
    times_down: AtomicU32,
    /// Active requests and tunnels.
    pub active: AtomicU32,
    /// Requests sent and tunnels opened.
    pub requests: AtomicU64,
    /// Failed connections, and missing responses.
    pub failures: AtomicU64,
    /// Body and tunnel bytes received from it.
    pub bytes_received: AtomicU64,
    /// Body and tunnel bytes sent to it.
    pub bytes_sent: AtomicU64,
}

impl ServerCounters for ServerState {
    fn count_forwarded(&self, requests: u64, bytes: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl ServerState {
    /// A new server, considered healthy.
    #[must_use]
    pub fn new(address: ServerAddress) -> Self {
        let label = match &address {
            ServerAddress::Ip(address) => address.to_string(),
            ServerAddress::Name { host, port } => format!("{host}:{port}"),
        };
        Self {
            address,
            label: label.into(),
            healthy: AtomicBool::new(true),
            times_down: AtomicU32::new(0),
            active: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            bytes_received: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
        }
    }

    /// Whether the active health checks allow its use.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// Notes the result of active health checks.
    pub fn set_healthy(&self, is_healthy: bool) {
        if self.healthy.swap(is_healthy, Ordering::Relaxed) && !is_healthy {
            self.times_down.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often it was down: it may know nothing of connections from before.
    #[must_use]
    pub fn times_down(&self) -> u32 {
        self.times_down.load(Ordering::Relaxed)
    }
}

impl UpstreamState {
    /// Builds the states for a plan; servers that `previous` has under the same upstream name and address keep theirs.
    #[must_use]
    pub fn for_plan(plans: &[Arc<UpstreamPlan>], previous: &[Arc<Self>]) -> Vec<Arc<Self>> {
        plans
            .iter()
            .map(|plan| {
                let before = previous.iter().find(|state| state.plan.name == plan.name);
                let servers = plan
                    .servers
                    .iter()
                    .map(|server| {
                        before
                            .and_then(|state| {
                                state
                                    .servers
                                    .iter()
                                    .find(|known| known.address == server.address)
                            })
                            .cloned()
                            .unwrap_or_else(|| Arc::new(ServerState::new(server.address.clone())))
                    })
                    .collect();
                Arc::new(Self {
                    plan: Arc::clone(plan),
                    servers,
                })
            })
            .collect()
    }
}
