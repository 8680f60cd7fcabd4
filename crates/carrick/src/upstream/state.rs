//! Upstreams as they are now: what is up, what is under way, what was counted. Shared by all workers and the control
//! thread, and kept over a reload for servers that stay.
use crate::config::plan::{ServerAddress, UpstreamPlan};
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
    /// Where it is.
    pub address: ServerAddress,
    /// The same as text, `host:port`, for logs and metrics.
    pub label: Box<str>,
    /// What the active health check says; true without checks.
    pub healthy: AtomicBool,
    /// Requests and tunnels under way.
    pub active: AtomicU32,
    /// Requests sent and tunnels opened.
    pub requests: AtomicU64,
    /// Connections that failed, and responses that did not come.
    pub failures: AtomicU64,
    /// Body and tunnel bytes that came from it.
    pub bytes_received: AtomicU64,
    /// Body and tunnel bytes that went to it.
    pub bytes_sent: AtomicU64,
}

impl ServerState {
    /// A server that nothing is known of, taken to be healthy.
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
            active: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            bytes_received: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
        }
    }

    /// Whether the active health check lets it be used.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }
}

impl UpstreamState {
    /// Makes the states for a plan; servers that `previous` knows under the same upstream name and address keep theirs.
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
